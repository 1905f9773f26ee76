//! Measures the processor time of a visit to a chunk and of a sleep on this machine.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use slabwise_base::{ClassId, Clock, Moment};
use slabwise_engine::{Engine, MoverStep};
use std::time::Duration;

/// Returns the processor time of the current thread since the thread started, in nanoseconds.
pub fn thread_cpu_nanos() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Runs one step of the engine's mover, with at most `budget_chunks` visits. Returns the result of the step and the
/// number of its visits.
pub fn step(engine: &Engine, budget_chunks: usize, at: Moment) -> (MoverStep, u64) {
    let before = engine.mover_counters().visits;
    let stepped = engine.mover_step(budget_chunks, at);
    (stepped, engine.mover_counters().visits - before)
}

/// Returns the median of the values, or 0 if the list is empty.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Number of sleeps over which [`SleepCost::measure`] computes its means.
const SLEEPS: u32 = 200;

/// The measured cost of a sleep of a certain length on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SleepCost {
    /// Mean processor time of a sleep: the time to fall asleep and to wake up.
    pub cpu_nanos: f64,
    /// Mean actual length of a sleep, which is longer than requested, because timers fire late.
    pub wall_nanos: f64,
}

impl SleepCost {
    /// Sleeps several times for `length`, and returns the mean cost of a sleep.
    #[expect(clippy::disallowed_methods, reason = "the function measures sleeps")]
    pub fn measure(length: Duration, clock: &Clock) -> SleepCost {
        let (wall, cpu) = (clock.nanos(), thread_cpu_nanos());
        for _ in 0..SLEEPS {
            std::thread::sleep(length);
        }
        SleepCost {
            cpu_nanos: (thread_cpu_nanos() - cpu) / f64::from(SLEEPS),
            wall_nanos: (clock.nanos() - wall) as f64 / f64::from(SLEEPS),
        }
    }
}

/// Number of pages that [`VisitCost::measure`] moves. The median over the pages is used, because other load on the
/// machine slows down single pages.
const PAGES: usize = 16;
/// Number of visits per step, large enough that the overhead of a step is negligible.
const CHUNKS_PER_STEP: usize = 256;

/// The time of a visit to a chunk in nanoseconds, finite and above 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VisitCost(f64);

/// The time of a visit, in nanoseconds, is not finite or not above 0.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "the time of a visit to a chunk must be above 0, not {0} ns, because virtual time has to advance while the mover \
     works; the measured time is 0 if the cache is too small to move a page: use a larger --scale"
)]
pub struct InvalidVisitCost(f64);

impl VisitCost {
    /// A cost for runs whose results do not depend on the cost of a visit.
    pub const NOMINAL: VisitCost = VisitCost(1.0);

    pub fn new(nanos: f64) -> Result<VisitCost, InvalidVisitCost> {
        let is_valid = nanos > 0.0 && nanos.is_finite();
        if is_valid { Ok(VisitCost(nanos)) } else { Err(InvalidVisitCost(nanos)) }
    }

    pub fn nanos(self) -> f64 {
        self.0
    }

    /// Moves pages from the first class to the second without sleeps, and returns the median processor time of a visit.
    /// The caller has filled the engine in the same way as the engine of the experiment. The experiment must use
    /// another engine, because this function changes the partition.
    pub fn measure(engine: &Engine, at: Moment) -> Result<VisitCost, InvalidVisitCost> {
        let (first, second) = (Some(ClassId(0)), Some(ClassId(1)));
        let start_move =
            |engine: &Engine| engine.reassign(first, second, "lab: calibration", at.now).is_ok();
        let mut costs = Vec::with_capacity(PAGES);
        while costs.len() < PAGES && start_move(engine) {
            let (start, mut visits) = (thread_cpu_nanos(), 0);
            loop {
                let (stepped, visited) = step(engine, CHUNKS_PER_STEP, at);
                visits += visited;
                match stepped {
                    MoverStep::Working | MoverStep::Pause(_) => {}
                    MoverStep::Idle | MoverStep::Done | MoverStep::GivenUp => break,
                }
            }
            costs.push((thread_cpu_nanos() - start) / visits.max(1) as f64);
        }
        VisitCost::new(median(costs))
    }
}

#[cfg(test)]
mod tests {
    use super::{SleepCost, VisitCost};
    use slabwise_base::{Clock, Moment};
    use slabwise_engine::{Engine, EngineConfig};
    use std::time::Duration;

    #[test]
    fn a_sleep_takes_at_least_its_length_and_less_processor_time() {
        let cost = SleepCost::measure(Duration::from_micros(50), &Clock::real());
        assert!(cost.wall_nanos >= 50_000.0, "{cost:?}");
        assert!(cost.cpu_nanos > 0.0 && cost.cpu_nanos < cost.wall_nanos, "{cost:?}");
    }

    #[test]
    fn measuring_an_engine_without_pages_is_an_error() {
        let engine = Engine::new(EngineConfig::new(1 << 20)).expect("1 MiB can be allocated");
        let measured = VisitCost::measure(&engine, Moment::default());
        assert!(measured.is_err(), "no visit was measured, but the result is {measured:?}");
    }

    #[test]
    fn a_cost_that_is_not_positive_and_finite_is_an_error() {
        for nanos in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let error = VisitCost::new(nanos).expect_err("the cost is invalid");
            assert!(error.to_string().contains("must be above 0"), "{error}");
        }
        assert_eq!(VisitCost::new(87.5).map(VisitCost::nanos), Ok(87.5));
    }
}
