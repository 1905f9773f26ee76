//! The table of all page policies, and [`PagePolicy`], which creates a policy by its name.

use crate::options::{
    BadOption, FORMER_NAMES, Limits, OptionInfo, PolicyOption, PolicyOptionError,
};
use crate::page;
use crate::page::tail_age::{Quantity, TailAge};
use crate::page::twemcache::{Pick, Twemcache};
use crate::policy::{Inputs, Policy, Trigger};
use crate::{Plan, Snapshot};
use slabwise_base::Random;

type Make = fn() -> Box<dyn Policy>;

/// The name and the constructor of every policy, in the order in which help lists them.
const POLICIES: &[(&str, Make)] = &[
    ("none", || Box::new(page::none::NoMoves)),
    ("automove_classic", || Box::<page::automove_classic::AutomoveClassic>::default()),
    ("automove", || Box::<page::automove::Automove>::default()),
    ("eager", || Box::<page::eager::Eager>::default()),
    ("twemcache_random", || Box::new(Twemcache::with_pick(Pick::Random))),
    ("twemcache_lra", || Box::new(Twemcache::with_pick(Pick::LeastRecentlyAccessed))),
    ("psa", || Box::<page::psa::Psa>::default()),
    ("cost_partition", || Box::<page::cost_partition::CostPartition>::default()),
    ("tail_age", || Box::new(TailAge::balancing(Quantity::Age))),
    ("space_time", || Box::new(TailAge::balancing(Quantity::SpaceTime))),
    ("cost_per_byte", || Box::<page::cost_per_byte::CostPerByte>::default()),
    ("reserved_cost", || Box::<page::reserved_cost::ReservedCost>::default()),
    ("cliffhanger", || Box::<page::cliffhanger::Cliffhanger>::default()),
    ("dynacache", || Box::<page::dynacache::Dynacache>::default()),
    ("lama", || Box::<page::lama::Lama>::default()),
    ("marginal", || Box::<page::marginal::Marginal>::default()),
];

/// A page policy with its options and its state.
#[derive(Clone, Debug)]
pub struct PagePolicy {
    name: &'static str,
    policy: Box<dyn Policy>,
}

impl PagePolicy {
    /// The names that [`PagePolicy::named`] accepts.
    pub const NAMES: [&str; POLICIES.len()] = {
        let mut names = [""; POLICIES.len()];
        let mut index = 0;
        while index < names.len() {
            names[index] = POLICIES[index].0;
            index += 1;
        }
        names
    };

    /// Creates the policy `none`, which never moves a page.
    pub fn none() -> PagePolicy {
        PagePolicy { name: PagePolicy::NAMES[0], policy: Box::new(page::none::NoMoves) }
    }

    /// Creates the policy of this name with its default options; returns `None` for an unknown name.
    pub fn named(name: &str) -> Option<PagePolicy> {
        let (name, make) = POLICIES.iter().copied().find(|&(known, _)| known == name)?;
        Some(PagePolicy { name, policy: make() })
    }

    /// Creates a policy from a text like `psa:misses=1000000`: the policy's name, then `:option=value` for each option.
    pub fn parse(text: &str) -> Result<PagePolicy, PolicyOptionError> {
        let mut words = text.split(':');
        let name = words.next().unwrap_or_default();
        let no_value = |word: &str| BadOption::NoValue { option: word.to_string() };
        let option = |word| str::split_once(word, '=').ok_or_else(|| no_value(word));
        PagePolicy::with_options(name, &words.map(option).collect::<Result<Vec<_>, _>>()?)
    }

    /// Creates the policy of this name. `options` has names and values of options; the other options keep their
    /// defaults. If an option is given twice, the last value is used.
    pub fn with_options(
        name: &str,
        options: &[(&str, &str)],
    ) -> Result<PagePolicy, PolicyOptionError> {
        let mut policy = PagePolicy::named(name).ok_or_else(|| {
            let known = PagePolicy::NAMES.join(", ");
            BadOption::UnknownPolicy { name: name.to_string(), known }
        })?;
        for &(option, value) in options {
            policy.set(option, value)?;
        }
        Ok(policy)
    }

    /// Returns the options of the policy of this name; `None` for an unknown name.
    pub fn options(name: &str) -> Option<Vec<OptionInfo>> {
        let mut policy = PagePolicy::named(name)?.policy;
        Some(policy.options().into_iter().map(|option| option.info).collect())
    }

    /// Returns the current name of an option, given a former name; `None` if the name is not a former name.
    pub fn current_name(former: &str) -> Option<&'static str> {
        FORMER_NAMES.iter().find(|(name, _)| *name == former).map(|&(_, current)| current)
    }

    /// Returns the name of the policy, as in [`PagePolicy::NAMES`].
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the current value of this option; `None` if the policy does not have the option.
    pub fn value(&self, option: &str) -> Option<String> {
        let option = PagePolicy::current_name(option).unwrap_or(option);
        let mut policy = self.policy.clone();
        let found = policy.options().into_iter().find(|known| known.info.name == option)?;
        Some(found.info.default)
    }

    /// Sets an option; returns an error if the option is unknown or the value is outside its limits.
    pub fn set(&mut self, option: &str, value: &str) -> Result<(), PolicyOptionError> {
        Ok(self.set_within(Limits::Enforced, option, value)?)
    }

    /// Sets an option to any number, even a number outside the limits of the option.
    pub fn set_beyond_limits(
        &mut self,
        option: &str,
        value: impl ToString,
    ) -> Result<(), PolicyOptionError> {
        Ok(self.set_within(Limits::Waived, option, &value.to_string())?)
    }

    fn set_within(&mut self, limits: Limits, option: &str, value: &str) -> Result<(), BadOption> {
        let policy = self.name;
        let option = PagePolicy::current_name(option).unwrap_or(option);
        let options = self.policy.options();
        let known: Vec<&str> = options.iter().map(|known| known.info.name).collect();
        let known = known.join(", ");
        let Some(PolicyOption { info, set }) =
            options.into_iter().find(|known| known.info.name == option)
        else {
            let name = option.to_string();
            return Err(match known.is_empty() {
                true => BadOption::NoOptions { policy, name },
                false => BadOption::UnknownOption { policy, name, known },
            });
        };
        if set(value, limits) {
            return Ok(());
        }
        let OptionInfo { name, values, .. } = info;
        Err(BadOption::BadValue { policy, name, value: value.to_string(), values })
    }

    /// Returns the event after which the caller must step the policy. The value can change with each step.
    pub fn trigger(&self) -> Trigger {
        self.policy.trigger()
    }

    /// Returns the data that the policy needs in a snapshot, in addition to counts.
    pub fn inputs(&self) -> Inputs {
        self.policy.inputs()
    }

    /// Returns the number of gets that the policy's footprints must cover; `None` if it uses no footprints.
    pub fn footprint_gets(&self) -> Option<u64> {
        self.policy.footprint_gets()
    }

    /// Returns true if the profiles must count stores of keys that were stored before
    /// ([`ClassProfile::stored_before`](crate::ClassProfile::stored_before)).
    pub fn detects_stored_before(&self) -> bool {
        self.policy.detects_stored_before()
    }

    /// Receives the current state of the cache and returns the planned page moves. `random` is the policy's only
    /// source of randomness.
    pub fn step(&mut self, snapshot: &Snapshot, random: &mut Random) -> Plan {
        self.policy.step(snapshot, random)
    }
}

#[cfg(test)]
mod tests {
    use super::PagePolicy;
    use crate::{Inputs, Trigger};

    #[test]
    fn every_name_creates_its_policy() {
        for name in PagePolicy::NAMES {
            assert_eq!(PagePolicy::named(name).map(|policy| policy.name()), Some(name));
        }
        assert!(PagePolicy::named("random").is_none());
        assert_eq!(PagePolicy::none().name(), "none");
    }

    #[test]
    fn policies_stepped_by_time_do_not_need_fresh_profiles() {
        for policy in PagePolicy::NAMES.into_iter().filter_map(PagePolicy::named) {
            let is_by_time = matches!(policy.trigger(), Trigger::EveryTicks(_));
            let is_fast = !is_by_time || policy.inputs() != Inputs::FreshProfiles;
            assert!(
                is_fast,
                "policy {}: a step by time does not wait for new curves",
                policy.name()
            );
        }
    }
}
