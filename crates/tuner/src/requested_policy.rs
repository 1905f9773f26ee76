//! Which page policy options and commands request.
//!
//! Options configure one policy. memcached's `slabs automove` turns page moves off (0), on (1) or eager (2), and
//! sets window and ratio of memcached's automover. Those count where the configured policy has them.

use slabwise_policy::PagePolicy;

/// What `slabs automove` sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AutomoveSettings {
    /// 0: pages never move; 1: as the configured policy says; 2: a page for each class that evicts.
    pub level: u32,
    /// Seconds that a decision looks back.
    pub window_seconds: u32,
    /// A page moves when the youngest tail's age is below this part of the oldest's.
    pub age_ratio: f64,
}

impl AutomoveSettings {
    /// What page policies call the option that is [`AutomoveSettings::window_seconds`].
    pub const WINDOW_OPTION: &str = "window_len";
    /// What page policies call the option that is [`AutomoveSettings::age_ratio`].
    pub const RATIO_OPTION: &str = "age_ratio";
}

/// The policy that options configured, and the settings last looked at.
#[derive(Debug)]
pub struct RequestedPolicy {
    /// `None` where pages never move.
    configured: Option<PagePolicy>,
    is_automover: bool,
    seen: Option<AutomoveSettings>,
}

impl RequestedPolicy {
    /// What is requested where options configured this policy; `None`: pages never move, whatever commands say.
    pub fn new(configured: Option<PagePolicy>) -> RequestedPolicy {
        let has = |policy: &PagePolicy| policy.value(AutomoveSettings::WINDOW_OPTION).is_some();
        let is_automover = configured.as_ref().is_some_and(has);
        RequestedPolicy { configured, is_automover, seen: None }
    }

    /// The policy that is requested under these settings.
    pub fn policy(&self, settings: AutomoveSettings) -> PagePolicy {
        let Some(configured) = &self.configured else { return PagePolicy::none() };
        match settings.level {
            0 => PagePolicy::none(),
            1 => {
                let mut policy = configured.clone();
                if self.is_automover {
                    let AutomoveSettings { window_seconds, age_ratio, .. } = settings;
                    set(&mut policy, AutomoveSettings::WINDOW_OPTION, window_seconds);
                    set(&mut policy, AutomoveSettings::RATIO_OPTION, age_ratio);
                }
                policy
            }
            _ => PagePolicy::named("eager").expect("it is registered"),
        }
    }

    /// The policy to put in force, if these settings request another than the last did.
    pub fn change(&mut self, settings: AutomoveSettings) -> Option<PagePolicy> {
        let is_seen = self.seen.is_some_and(|seen| match self.is_automover {
            true => seen == settings,
            false => seen.level == settings.level,
        });
        self.seen = Some(settings);
        (!is_seen).then(|| self.policy(settings))
    }
}

/// Sets an option of memcached's automover. A command may give a ratio outside the option's limits, as in memcached.
fn set(policy: &mut PagePolicy, option: &str, value: impl ToString) {
    let set = policy.set_beyond_limits(option, value);
    set.expect("an automover has both options, and takes any number");
}

#[cfg(test)]
mod tests {
    use super::{AutomoveSettings, RequestedPolicy};
    use slabwise_policy::PagePolicy;

    const SETTINGS: AutomoveSettings =
        AutomoveSettings { level: 1, window_seconds: 10, age_ratio: 0.8 };

    fn requested(text: &str) -> RequestedPolicy {
        RequestedPolicy::new(Some(PagePolicy::parse(text).expect("it is well written")))
    }

    #[test]
    fn levels_choose_among_no_moves_the_configured_policy_and_eager_moves() {
        let requested = requested("lama");
        let name = |level| requested.policy(AutomoveSettings { level, ..SETTINGS }).name();
        assert_eq!([0, 1, 2].map(name), ["none", "lama", "eager"]);
        let never = RequestedPolicy::new(None);
        let name = |level| never.policy(AutomoveSettings { level, ..SETTINGS }).name();
        assert_eq!([0, 1, 2].map(name), ["none"; 3]);
    }

    #[test]
    fn window_and_ratio_reach_the_automover_even_outside_the_option_s_limits() {
        let settings = AutomoveSettings { window_seconds: 1_800, age_ratio: 1.5, ..SETTINGS };
        let policy = requested("automove").policy(settings);
        assert_eq!(policy.value("window_len").as_deref(), Some("1800"));
        assert_eq!(policy.value("age_ratio").as_deref(), Some("1.5"));
    }

    #[test]
    fn a_policy_is_put_in_force_once_and_again_when_what_it_goes_by_changes() {
        let ratio = AutomoveSettings { age_ratio: 0.5, ..SETTINGS };
        let mut automove = requested("automove");
        let names = [SETTINGS, SETTINGS, ratio, ratio]
            .map(|settings| automove.change(settings).map(|policy| policy.name()));
        assert_eq!(names, [Some("automove"), None, Some("automove"), None]);
        let mut lama = requested("lama");
        assert!(lama.change(SETTINGS).is_some());
        assert!(lama.change(ratio).is_none(), "it has no ratio");
        let off = lama.change(AutomoveSettings { level: 0, ..ratio });
        assert_eq!(off.map(|policy| policy.name()), Some("none"));
    }
}
