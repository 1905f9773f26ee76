//! Decides when a policy is stepped, from its trigger and the counters.
//!
//! Invariant: a step is due at the first reading after the event of the trigger, and at most once per reading.

use slabwise_base::Ticks;
use slabwise_policy::{ClassSnapshot, Inputs, PagePolicy, Snapshot, Trigger};

/// The counters at the last step.
#[derive(Clone, Copy, Debug)]
pub struct LastStep {
    now: Ticks,
    gets: u64,
    misses: u64,
    shortages: u64,
    turnovers: f64,
}

impl LastStep {
    /// Returns the counters of this snapshot.
    pub fn of(snapshot: &Snapshot) -> LastStep {
        let shortages = snapshot.classes.iter().map(ClassSnapshot::shortages);
        LastStep {
            now: snapshot.now,
            gets: snapshot.gets,
            misses: snapshot.misses,
            shortages: shortages.fold(0, u64::saturating_add),
            turnovers: snapshot.turnovers,
        }
    }

    /// Returns true if the event of the trigger has occurred since this step.
    pub fn is_due(self, trigger: Trigger, snapshot: &Snapshot) -> bool {
        let now = LastStep::of(snapshot);
        let gets_since = now.gets.saturating_sub(self.gets);
        match trigger {
            Trigger::EveryTicks(ticks) => self.now.age_at(now.now) >= ticks,
            Trigger::EveryWork { gets, memory_divisor } => {
                let stored = (now.turnovers - self.turnovers) * memory_divisor as f64;
                gets_since as f64 / gets as f64 + stored >= 1.0
            }
            Trigger::EveryGets(gets) => gets_since >= gets,
            Trigger::EveryMisses(misses) => now.misses.saturating_sub(self.misses) >= misses,
            Trigger::EveryEvictions(evictions) => {
                now.shortages.saturating_sub(self.shortages) >= evictions
            }
            Trigger::Never
            | Trigger::EveryShadowHits(_)
            | Trigger::EveryShadowHitsWithPartitions(_) => false,
        }
    }
}

/// Returns why this policy cannot steer a server from outside; `None` if it can.
pub fn unusable(policy: &PagePolicy) -> Option<&'static str> {
    match (policy.trigger(), policy.inputs()) {
        (Trigger::Never, _) => Some("it moves no pages"),
        (Trigger::EveryShadowHits(_) | Trigger::EveryShadowHitsWithPartitions(_), _) => {
            Some("it needs shadow hits, which only slabwise counts")
        }
        (_, Inputs::Pages) => Some("it names the pages that move, which only slabwise can do"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{LastStep, unusable};
    use slabwise_base::Ticks;
    use slabwise_policy::{PagePolicy, Snapshot, Trigger};

    #[test]
    fn a_step_is_due_after_the_event_of_the_trigger() {
        let start = LastStep::of(&Snapshot::default());
        let later = Snapshot {
            now: Ticks(100),
            gets: 1_000,
            misses: 10,
            turnovers: 0.5,
            ..Snapshot::default()
        };
        let cases = [
            (Trigger::EveryTicks(100), Trigger::EveryTicks(101)),
            (Trigger::EveryGets(1_000), Trigger::EveryGets(1_001)),
            (Trigger::EveryMisses(10), Trigger::EveryMisses(11)),
            (
                Trigger::EveryWork { gets: 2_000, memory_divisor: 1 },
                Trigger::EveryWork { gets: 2_001, memory_divisor: 1 },
            ),
        ];
        for (due, not_due) in cases {
            assert!(start.is_due(due, &later), "{due:?}");
            assert!(!start.is_due(not_due, &later), "{not_due:?}");
        }
        assert!(!start.is_due(Trigger::Never, &later));
    }

    #[test]
    fn policies_that_need_slabwise_are_refused() {
        let reason = |name| unusable(&PagePolicy::named(name).expect("the policy exists"));
        for name in ["marginal", "lama", "tail_age", "space_time", "psa"] {
            assert_eq!(reason(name), None, "{name}");
        }
        for name in ["none", "cliffhanger", "twemcache_lra"] {
            assert!(reason(name).is_some(), "{name}");
        }
    }
}
