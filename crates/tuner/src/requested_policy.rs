//! The page policy that the options of the server and the command `slabs automove` request.
//!
//! The options of the server configure one policy. memcached's command `slabs automove` sets a level: 0 turns page
//! moves off, 1 selects the configured policy, 2 selects the policy `eager`. The command also sets the window and the
//! ratio of memcached's automover. These two settings have an effect only if the configured policy has options for
//! them.

use slabwise_policy::PagePolicy;

/// The settings of `slabs automove`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AutomoveSettings {
    /// 0: pages never move; 1: the configured policy moves pages; 2: each class that evicts receives a page.
    pub level: u32,
    /// The length of the window over which tail ages are averaged, in seconds.
    pub window_seconds: u32,
    /// A page moves if the youngest tail age divided by the oldest is below this ratio.
    pub age_ratio: f64,
}

impl AutomoveSettings {
    /// The name of the option of page policies that [`AutomoveSettings::window_seconds`] sets.
    pub const WINDOW_OPTION: &str = "window_len";
    /// The name of the option of page policies that [`AutomoveSettings::age_ratio`] sets.
    pub const RATIO_OPTION: &str = "age_ratio";
}

/// The configured policy and the last settings of `slabs automove`.
#[derive(Debug)]
pub struct RequestedPolicy {
    /// The configured policy; `None` if pages never move.
    configured: Option<PagePolicy>,
    /// True if the configured policy has the options that the settings set.
    has_automove_options: bool,
    /// The last settings; `None` before the first call of [`RequestedPolicy::change`].
    last: Option<AutomoveSettings>,
}

impl RequestedPolicy {
    /// Starts with the configured policy. With `None` pages never move, even if a command sets level 1 or 2.
    pub fn new(configured: Option<PagePolicy>) -> RequestedPolicy {
        let has = |policy: &PagePolicy| policy.value(AutomoveSettings::WINDOW_OPTION).is_some();
        let has_automove_options = configured.as_ref().is_some_and(has);
        RequestedPolicy { configured, has_automove_options, last: None }
    }

    /// Returns the policy that these settings request.
    pub fn policy(&self, settings: AutomoveSettings) -> PagePolicy {
        let Some(configured) = &self.configured else { return PagePolicy::none() };
        match settings.level {
            0 => PagePolicy::none(),
            1 => {
                let mut policy = configured.clone();
                if self.has_automove_options {
                    let AutomoveSettings { window_seconds, age_ratio, .. } = settings;
                    set(&mut policy, AutomoveSettings::WINDOW_OPTION, window_seconds);
                    set(&mut policy, AutomoveSettings::RATIO_OPTION, age_ratio);
                }
                policy
            }
            _ => PagePolicy::named("eager").expect("there is a policy of the name eager"),
        }
    }

    /// Returns the policy that these settings request; `None` if it is the policy that the last settings requested.
    pub fn change(&mut self, settings: AutomoveSettings) -> Option<PagePolicy> {
        let is_unchanged = self.last.is_some_and(|last| match self.has_automove_options {
            true => last == settings,
            false => last.level == settings.level,
        });
        self.last = Some(settings);
        (!is_unchanged).then(|| self.policy(settings))
    }
}

/// Sets an option of memcached's automover. As in memcached, the command accepts values outside the limits of the
/// option.
fn set(policy: &mut PagePolicy, option: &str, value: impl ToString) {
    let set = policy.set_beyond_limits(option, value);
    set.expect("memcached's automover has both options and accepts any number");
}

#[cfg(test)]
mod tests {
    use super::{AutomoveSettings, RequestedPolicy};
    use slabwise_policy::PagePolicy;

    const SETTINGS: AutomoveSettings =
        AutomoveSettings { level: 1, window_seconds: 10, age_ratio: 0.8 };

    fn requested(text: &str) -> RequestedPolicy {
        RequestedPolicy::new(Some(PagePolicy::parse(text).expect("the text is valid")))
    }

    #[test]
    fn the_level_selects_none_the_configured_policy_or_eager() {
        let requested = requested("lama");
        let name = |level| requested.policy(AutomoveSettings { level, ..SETTINGS }).name();
        assert_eq!([0, 1, 2].map(name), ["none", "lama", "eager"]);
        let never = RequestedPolicy::new(None);
        let name = |level| never.policy(AutomoveSettings { level, ..SETTINGS }).name();
        assert_eq!([0, 1, 2].map(name), ["none"; 3]);
    }

    #[test]
    fn the_command_sets_window_and_ratio_even_beyond_their_limits() {
        let settings = AutomoveSettings { window_seconds: 1_800, age_ratio: 1.5, ..SETTINGS };
        let policy = requested("automove").policy(settings);
        assert_eq!(policy.value("window_len").as_deref(), Some("1800"));
        assert_eq!(policy.value("age_ratio").as_deref(), Some("1.5"));
    }

    #[test]
    fn the_policy_changes_only_if_its_settings_change() {
        let ratio = AutomoveSettings { age_ratio: 0.5, ..SETTINGS };
        let mut automove = requested("automove");
        let names = [SETTINGS, SETTINGS, ratio, ratio]
            .map(|settings| automove.change(settings).map(|policy| policy.name()));
        assert_eq!(names, [Some("automove"), None, Some("automove"), None]);
        let mut lama = requested("lama");
        assert!(lama.change(SETTINGS).is_some());
        assert!(lama.change(ratio).is_none(), "the policy lama has no option age_ratio");
        let off = lama.change(AutomoveSettings { level: 0, ..ratio });
        assert_eq!(off.map(|policy| policy.name()), Some("none"));
    }
}
