//! Measures the processor time of a visit to a chunk and of a sleep on this machine.

use rustix::time::{ClockId, clock_gettime};
use slabwise_base::{ClassId, Clock, Moment};
use slabwise_engine::{Engine, MoverStep};
use std::time::Duration;

pub fn thread_cpu_nanos() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Runs one mover step of at most `budget_chunks` visits. Returns its result and its number of visits.
pub fn step(engine: &Engine, budget_chunks: usize, at: Moment) -> (MoverStep, u64) {
    let before = engine.mover_counters().visits;
    let stepped = engine.mover_step(budget_chunks, at);
    (stepped, engine.mover_counters().visits - before)
}

/// The median; 0 of an empty list.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}

const SLEEPS: u32 = 200;

/// The mean cost of several sleeps of one length on this machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SleepCost {
    pub cpu_nanos: f64,
    /// The actual length in nanoseconds; timers fire late.
    pub wall_nanos: f64,
}

impl SleepCost {
    #[expect(clippy::disallowed_methods, reason = "sleeping is what is measured")]
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

/// The number of pages moved to measure the cost. The median counts, so that other load on the machine matters little.
const PAGES: usize = 16;
/// The number of chunks per step, large enough that the overhead of a step is negligible.
const CHUNKS_PER_STEP: usize = 256;

/// The nanoseconds of a visit, above 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VisitCost(f64);

#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "a visit to a chunk cannot cost {0} ns, or virtual time would stand still while the mover works; if \
     no page could be moved to measure it, use a larger --scale"
)]
pub struct InvalidVisitCost(f64);

impl VisitCost {
    /// The cost of a visit in runs whose results do not depend on it.
    pub const NOMINAL: VisitCost = VisitCost(1.0);

    pub fn new(nanos: f64) -> Result<VisitCost, InvalidVisitCost> {
        let is_valid = nanos > 0.0 && nanos.is_finite();
        if is_valid { Ok(VisitCost(nanos)) } else { Err(InvalidVisitCost(nanos)) }
    }

    pub fn nanos(self) -> f64 {
        self.0
    }

    /// Moves pages from the first class to the second without sleeps, and returns the median processor time of a visit.
    /// The engine must be filled as in the experiment, and cannot be used for it afterwards.
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
                    MoverStep::Working | MoverStep::Rest(_) => {}
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
    fn a_sleep_takes_its_length_and_less_processor_time() {
        let cost = SleepCost::measure(Duration::from_micros(50), &Clock::real());
        assert!(cost.wall_nanos >= 50_000.0, "{cost:?}");
        assert!(cost.cpu_nanos > 0.0 && cost.cpu_nanos < cost.wall_nanos, "{cost:?}");
    }

    #[test]
    fn without_a_page_to_move_the_cost_is_an_error() {
        let engine = Engine::new(EngineConfig::new(1 << 20)).expect("a small arena");
        let measured = VisitCost::measure(&engine, Moment::default());
        assert!(measured.is_err(), "{measured:?}");
    }

    #[test]
    fn a_cost_that_is_not_positive_and_finite_is_an_error() {
        for nanos in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let error = VisitCost::new(nanos).expect_err("not a valid cost");
            assert!(error.to_string().contains("stand still"), "{error}");
        }
        assert_eq!(VisitCost::new(87.5).map(VisitCost::nanos), Ok(87.5));
    }
}
