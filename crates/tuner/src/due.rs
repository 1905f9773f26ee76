//! When a policy is due.
//!
//! A trigger by time is due at once at first, and then after its ticks. A trigger by counts is due after its number of
//! events since the policy was last stepped or became active; the counts are checked every tick.

use crate::profiling::Profiling;
use slabwise_base::{Now, Ticks};
use slabwise_engine::Engine;
use slabwise_policy::Trigger;

/// The time between two checks of a count.
const CHECK_TICKS: u32 = 1;

/// The time and the trigger's count at the last step.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Due {
    stepped_at: Option<Ticks>,
    counted: Option<f64>,
}

impl Due {
    /// The ticks until the policy is due; `None` if it never is. `count` is the trigger's current [`count`].
    pub fn wait(&mut self, trigger: Trigger, count: Option<f64>, now: Now) -> Option<u32> {
        let period = match trigger {
            Trigger::Never => return None,
            Trigger::EveryTicks(period) => {
                let waited = self.stepped_at.map_or(period, |at| at.age_at(now.ticks));
                return Some(period.saturating_sub(waited));
            }
            Trigger::EveryGets(period)
            | Trigger::EveryMisses(period)
            | Trigger::EveryEvictions(period)
            | Trigger::EveryShadowHits(period) => period as f64,
        };
        let count = count?;
        let counted = self.counted.get_or_insert(count);
        // The counts of profiles fall when classes are removed.
        *counted = counted.min(count);
        Some(if count - *counted >= period { 0 } else { CHECK_TICKS })
    }

    /// Records that the policy is stepped now.
    pub fn step(&mut self, count: Option<f64>, now: Now) {
        (self.stepped_at, self.counted) = (Some(now.ticks), count);
    }
}

/// The current count of a trigger; `None` for a trigger by time, or by profiles if there are none.
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
    }
}
