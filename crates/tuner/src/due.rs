//! Decides when the policy must take its next step.
//!
//! A policy with a trigger by time is due at once when it becomes the current policy, and then after each period. A
//! policy with a trigger by events or by work is due after the trigger's number of events since its last step, or since
//! it became the current policy.

use crate::pacing::TICK;
use crate::profiling::Profiling;
use crate::work::turnovers;
use slabwise_base::{Moment, Ticks};
use slabwise_engine::Engine;
use slabwise_policy::Trigger;
use std::time::Duration;

/// The shortest wait before the number of events is counted again.
const WAIT_MIN: Duration = Duration::from_millis(1);
/// A policy with a trigger by work is due after this time if there was any work. So a server with little traffic decides
/// once in some minutes.
const WORK_TICKS_MAX: u32 = 120 * Ticks::PER_SECOND;

/// The largest number of periods between two steps of a policy with a trigger by work.
const WORK_PERIODS_MAX: f64 = 4.0;
/// The number of steps without moves after which the steps are that rare.
const STEPS_WITHOUT_MOVES_MAX: u32 = 12;

/// The state of the last step, from which the next step is scheduled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Due {
    /// The time of the last step; `None` before the first step.
    stepped_at: Option<Ticks>,
    /// The number of the trigger's events at the last step; `None` before the first check.
    count_at_step: Option<f64>,
    /// The time of the last check in nanoseconds, and the number of events then.
    checked: Option<(u64, f64)>,
    /// The number of steps since the last plan with moves.
    steps_without_moves: u32,
}

impl Due {
    /// Returns the time until the policy is due, or until the next check; 0 if it is due, and `None` if it is never due.
    /// `count` is the current result of [`count`] for the trigger.
    pub fn wait(&mut self, trigger: Trigger, count: Option<f64>, at: Moment) -> Option<Duration> {
        let period = match trigger {
            Trigger::Never => return None,
            Trigger::EveryTicks(period) => {
                let waited = self.stepped_at.map_or(period, |step| step.age_at(at.now.ticks));
                return Some(TICK * period.saturating_sub(waited));
            }
            Trigger::EveryWork { .. } => self.work_periods(),
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
        let done = count - *count_at_step;
        let stepped_at = *self.stepped_at.get_or_insert(at.now.ticks);
        let is_by_work = matches!(trigger, Trigger::EveryWork { .. });
        let is_late = is_by_work && stepped_at.age_at(at.now.ticks) >= WORK_TICKS_MAX;
        if done >= period || (is_late && done > 0.0) {
            return Some(Duration::ZERO);
        }
        Some(self.estimate(period - done, count, at))
    }

    /// Estimates the time until `left` more events, from the rate since the last check.
    fn estimate(&mut self, left: f64, count: f64, at: Moment) -> Duration {
        let (before_nanos, before) = *self.checked.get_or_insert((at.nanos, count));
        self.checked = Some((at.nanos, count));
        let (nanos, events) = ((at.nanos.saturating_sub(before_nanos)) as f64, count - before);
        if events <= 0.0 {
            return TICK;
        }
        Duration::from_nanos((left / events * nanos) as u64).clamp(WAIT_MIN, TICK)
    }

    /// Returns the number of periods until the next step of a policy with a trigger by work: while a policy plans no
    /// moves, its steps become rarer.
    fn work_periods(&self) -> f64 {
        1.0 + f64::from(self.steps_without_moves) * (WORK_PERIODS_MAX - 1.0)
            / f64::from(STEPS_WITHOUT_MOVES_MAX)
    }

    /// Records if the last step planned moves.
    pub fn note_plan(&mut self, has_moves: bool) {
        let steps = (self.steps_without_moves + 1).min(STEPS_WITHOUT_MOVES_MAX);
        self.steps_without_moves = if has_moves { 0 } else { steps };
    }

    /// Records that the policy takes a step now.
    pub fn step(&mut self, count: Option<f64>, at: Moment) {
        (self.stepped_at, self.count_at_step) = (Some(at.now.ticks), count);
    }
}

/// Returns the number of a trigger's events since the start; for a trigger by work, the number of its periods. Returns
/// `None` for a trigger by time, and for shadow hits if profiling is off.
pub(crate) fn count(
    trigger: Trigger,
    engine: &Engine,
    profiling: Option<&Profiling>,
) -> Option<f64> {
    match trigger {
        Trigger::Never | Trigger::EveryTicks(_) => None,
        Trigger::EveryWork { gets, memory_divisor } => {
            let stored = turnovers(engine) * memory_divisor as f64;
            Some(engine.gets_ever() as f64 / gets as f64 + stored)
        }
        Trigger::EveryGets(_) => Some(engine.gets_ever() as f64),
        Trigger::EveryMisses(_) => Some(engine.misses_ever() as f64),
        Trigger::EveryEvictions(_) => Some(engine.evictions_ever() as f64),
        Trigger::EveryShadowHits(_) => profiling.map(|it| it.profiler.shadow_hits()),
        Trigger::EveryShadowHitsWithPartitions(_) => {
            profiling.map(|it| it.profiler.shadow_hits_with_partitions())
        }
    }
}
