//! When a policy is due.
//!
//! A trigger by time is due after its ticks, and at first at once. One by counts is due after its number of events
//! since the policy was last stepped or became active; they are checked again after a tick.

use crate::profiling::Profiling;
use slabwise_base::{Now, Ticks};
use slabwise_engine::Engine;
use slabwise_policy::Trigger;

/// Between two looks at a count.
const LOOK_TICKS: u32 = 1;

/// When the policy was stepped last, by what its trigger goes by.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Due {
    stepped_at: Option<Ticks>,
    counted: Option<f64>,
}

impl Due {
    /// Ticks until it is due; `None`: it never is. `count` is what the trigger [counts](count).
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
        // Profiles forget what they counted of classes that are gone.
        *counted = counted.min(count);
        Some(if count - *counted >= period { 0 } else { LOOK_TICKS })
    }

    /// Notes that the policy is stepped now.
    pub fn step(&mut self, count: Option<f64>, now: Now) {
        (self.stepped_at, self.counted) = (Some(now.ticks), count);
    }
}

/// What a trigger counts, so far; `None` if it goes by time, or by profiles where there are none.
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
