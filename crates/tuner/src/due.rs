//! Decides when the policy must take its next step.
//!
//! A policy with a trigger by time is due at once when it becomes the current policy, and then after each period. A
//! policy with a trigger by events is due after the trigger's number of events since its last step, or since it became
//! the current policy. The tuner checks the number of events every tick.

use crate::profiling::Profiling;
use slabwise_base::{Now, Ticks};
use slabwise_engine::Engine;
use slabwise_policy::Trigger;

/// The time between two checks of the number of events.
const CHECK_TICKS: u32 = 1;

/// The state of the last step, from which the next step is scheduled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Due {
    /// The time of the last step; `None` before the first step.
    stepped_at: Option<Ticks>,
    /// The number of the trigger's events at the last step; `None` before the first check.
    count_at_step: Option<f64>,
}

impl Due {
    /// Returns the ticks until the policy is due, or until the next check; `None` if the policy is never due. `count`
    /// is the current result of [`count`] for the trigger.
    pub fn ticks_until_due(
        &mut self,
        trigger: Trigger,
        count: Option<f64>,
        now: Now,
    ) -> Option<u32> {
        let period = match trigger {
            Trigger::Never => return None,
            Trigger::EveryTicks(period) => {
                let waited = self.stepped_at.map_or(period, |at| at.age_at(now.ticks));
                return Some(period.saturating_sub(waited));
            }
            Trigger::EveryGets(period)
            | Trigger::EveryMisses(period)
            | Trigger::EveryEvictions(period)
            | Trigger::EveryShadowHits(period)
            | Trigger::EveryShadowHitsWithPartitions(period) => period as f64,
        };
        let count = count?;
        let count_at_step = self.count_at_step.get_or_insert(count);
        // The number of shadow hits decreases when a class is removed.
        *count_at_step = count_at_step.min(count);
        Some(if count - *count_at_step >= period { 0 } else { CHECK_TICKS })
    }

    /// Records that the policy takes a step now.
    pub fn step(&mut self, count: Option<f64>, now: Now) {
        (self.stepped_at, self.count_at_step) = (Some(now.ticks), count);
    }
}

/// Returns the number of a trigger's events since the start. Returns `None` for a trigger by time, and for shadow hits
/// if profiling is off.
pub(crate) fn count(
    trigger: Trigger,
    engine: &Engine,
    profiling: Option<&Profiling>,
) -> Option<f64> {
    match trigger {
        Trigger::Never | Trigger::EveryTicks(_) => None,
        Trigger::EveryGets(_) => Some(engine.gets_ever() as f64),
        Trigger::EveryMisses(_) => Some(engine.misses_ever() as f64),
        Trigger::EveryEvictions(_) => Some(engine.evictions_ever() as f64),
        Trigger::EveryShadowHits(_) => profiling.map(|it| it.profiler.shadow_hits()),
        Trigger::EveryShadowHitsWithPartitions(_) => {
            profiling.map(|it| it.profiler.shadow_hits_with_partitions())
        }
    }
}
