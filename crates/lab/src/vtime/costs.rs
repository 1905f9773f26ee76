//! What work costs a processor, measured on this machine: a visit to a chunk, and a sleep.

use rustix::time::{ClockId, clock_gettime};
use slabwise_base::{ClassId, Clock, Moment};
use slabwise_engine::{Engine, MoverStep};
use std::time::Duration;

/// Nanoseconds that the calling thread has worked since it began.
pub fn thread_cpu_nanos() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// One step of at most `budget_chunks` visits; what it came to, and how many visits it took.
pub fn step(engine: &Engine, budget_chunks: usize, at: Moment) -> (MoverStep, u64) {
    let before = engine.mover_counters().visits;
    let stepped = engine.mover_step(budget_chunks, at);
    (stepped, engine.mover_counters().visits - before)
}

/// Of none 0.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}

const SLEEPS: u32 = 200;

/// A sleep of one length, as this machine carries it out: the mean of several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SleepCost {
    pub cpu_nanos: f64,
    /// How long it really was, in nanoseconds: timers fire late.
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

/// Pages moved to measure the cost; the median counts, so that a busy machine spoils little.
const PAGES: usize = 16;
/// Chunks a step: enough that reading the clock and starting a step weigh nothing.
const CHUNKS_A_STEP: usize = 256;

/// Nanoseconds that a visit takes, above 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VisitCost(f64);

#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "a visit to a chunk cannot cost {0} ns, or virtual time would stand still while the mover works; if \
     there was no page to move and measure, give a larger --scale"
)]
pub struct NoVisitCost(f64);

impl VisitCost {
    /// What is charged where it makes no difference.
    pub const NOMINAL: VisitCost = VisitCost(1.0);

    pub fn new(nanos: f64) -> Result<VisitCost, NoVisitCost> {
        let is_cost = nanos > 0.0 && nanos.is_finite();
        if is_cost { Ok(VisitCost(nanos)) } else { Err(NoVisitCost(nanos)) }
    }

    pub fn nanos(self) -> f64 {
        self.0
    }

    /// Moves pages from the first class to the second as fast as the machine can, sleeps left out, and takes the median page's
    /// processor time. The engine is filled as it will be in the experiment, and not used for it.
    pub fn measure(engine: &Engine, at: Moment) -> Result<VisitCost, NoVisitCost> {
        let (first, second) = (Some(ClassId(0)), Some(ClassId(1)));
        let begins =
            |engine: &Engine| engine.reassign(first, second, "lab: calibration", at.now).is_ok();
        let mut costs = Vec::with_capacity(PAGES);
        while costs.len() < PAGES && begins(engine) {
            let (start, mut visits) = (thread_cpu_nanos(), 0);
            loop {
                let (stepped, visited) = step(engine, CHUNKS_A_STEP, at);
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
    fn a_sleep_is_at_least_as_long_as_asked_for_and_takes_less_processor_than_time() {
        let cost = SleepCost::measure(Duration::from_micros(50), &Clock::real());
        assert!(cost.wall_nanos >= 50_000.0, "{cost:?}");
        assert!(cost.cpu_nanos > 0.0 && cost.cpu_nanos < cost.wall_nanos, "{cost:?}");
    }

    #[test]
    fn where_no_page_can_be_moved_there_is_no_cost() {
        let engine = Engine::new(EngineConfig::new(1 << 20)).expect("a small arena");
        let measured = VisitCost::measure(&engine, Moment::default());
        assert!(measured.is_err(), "{measured:?}");
    }

    #[test]
    fn a_visit_without_a_cost_is_refused() {
        for nanos in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let refusal = VisitCost::new(nanos).expect_err("no cost");
            assert!(refusal.to_string().contains("stand still"), "{refusal}");
        }
        assert_eq!(VisitCost::new(87.5).map(VisitCost::nanos), Ok(87.5));
    }
}
