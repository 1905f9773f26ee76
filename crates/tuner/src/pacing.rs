//! The results of steps, and the waits of drivers between steps.
//!
//! A driver (the thread or the simulation that repeats the steps) takes a step, passes the result to the pace, and
//! waits for the time that the pace returns. After a step that did work the next wait is shorter than the last one;
//! after a step that found nothing to do it is longer. So the threads of an idle server wake up only a few times a
//! second.

use slabwise_base::{Ticks, WorkTime, counts};
use std::time::Duration;

/// The result of a step of the tuner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunerStep {
    /// The step did work, and there is more to do. The driver should take the next step at once.
    Working,
    /// The step did work. The driver should take the next step after this time, so that clients are served in between.
    Pause(Duration),
    /// The step found nothing to do.
    Idle {
        /// The time until the next task may be due; `None` if no task is due, unless a command requests a move.
        wait: Option<Duration>,
    },
}

/// The length of a tick.
pub(crate) const TICK: Duration = Duration::from_nanos(1_000_000_000 / Ticks::PER_SECOND as u64);

/// The maximum number of rounds of one step of the LRU maintainer, for each class. A round removes one item, or moves
/// at most one item from each queue.
pub const MAINTAINER_ROUNDS_PER_STEP: usize = 1_000;

/// The maximum number of chunks that one step of a crawl visits. memcached's crawler pauses after about the same
/// number, 1,000 items.
pub const CRAWLER_CHUNKS_PER_STEP: usize = 1_024;

/// A wait that doubles after each step that found nothing to do, and halves after each step that did work. memcached's
/// LRU maintainer waits in the same way.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    wait: Duration,
}

impl Backoff {
    /// The shortest wait, which is also the first.
    pub const WAIT_MIN: Duration = Duration::from_millis(1);
    /// The longest wait. The maintainer and the tuner of an idle process together wake up less than twice a second.
    pub const WAIT_MAX: Duration = Duration::from_millis(1_250);

    /// Returns the wait before the next step.
    pub fn wait(&self) -> Duration {
        self.wait
    }

    /// Updates the wait after a step. `was_busy` is true if the step did work.
    pub fn step(&mut self, was_busy: bool) {
        let next = if was_busy { self.wait / 2 } else { self.wait * 2 };
        self.wait = next.clamp(Backoff::WAIT_MIN, Backoff::WAIT_MAX);
    }
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { wait: Backoff::WAIT_MIN }
    }
}

/// The wait between two steps of the LRU maintainer. It follows the work clock: stores keep the queues within their size
/// limits themselves, so the maintainer is needed only as often as the ages of items change.
#[derive(Clone, Copy, Debug, Default)]
pub struct MaintainerPace {
    backoff: Backoff,
    /// The time of the last step.
    stepped_at: WorkTime,
}

impl MaintainerPace {
    /// The advance of the work clock between two steps of a busy maintainer: 1/128 of the memory was stored.
    const WORK_PER_STEP: u32 = 8;

    /// Returns the wait before the next step.
    pub fn wait(&self) -> Duration {
        self.backoff.wait()
    }

    /// Updates the wait after a step that took `rounds` rounds at this time.
    pub fn step(&mut self, rounds: usize, now: WorkTime) {
        let work = std::mem::replace(&mut self.stepped_at, now).age_at(now);
        let has_more = rounds >= MAINTAINER_ROUNDS_PER_STEP;
        self.backoff.step(has_more || rounds > 0 && work >= MaintainerPace::WORK_PER_STEP);
    }
}

/// The wait between two steps of a tuner: none while the tuner works, the pauses that it requests, and a [`Backoff`]
/// while it has nothing to do and clients send nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct TunerPace {
    backoff: Backoff,
    /// The value of `traffic` at the last step.
    traffic: u64,
    /// True if the tuner has worked since it last found nothing to do.
    has_worked: bool,
}

impl TunerPace {
    /// Returns the wait before the next step.
    pub fn wait(&self) -> Duration {
        self.backoff.wait
    }

    /// Updates the wait with the result of a step. `traffic` is a number that increases when clients send requests.
    pub fn step(&mut self, step: &TunerStep, traffic: u64) {
        self.backoff.wait = match *step {
            TunerStep::Working => {
                self.has_worked = true;
                Duration::ZERO
            }
            TunerStep::Pause(pause) => {
                self.has_worked = true;
                pause
            }
            TunerStep::Idle { wait } => {
                let due = wait.unwrap_or(Backoff::WAIT_MAX);
                let before = std::mem::replace(&mut self.traffic, traffic);
                // If clients sent nothing since the last step, and no page has just moved, a policy plans no other
                // moves than before. The wait stays bounded, because a store that needs a page may start a move and
                // leave the rest of it to the tuner.
                if before == traffic && !std::mem::take(&mut self.has_worked) {
                    self.backoff.wait = self.wait().max(due);
                    self.backoff.step(false);
                    return;
                }
                due.min(Backoff::WAIT_MAX)
            }
        };
    }
}

counts! {
    /// The results of all crawls for expired items since the start, or of one crawl.
    pub struct CrawlCounts {
        /// The number of items that crawls have checked.
        checked,
        /// The number of expired items that crawls have reclaimed.
        reclaimed,
    }
}

/// The time between two automatic crawls.
#[derive(Clone, Copy, Debug)]
pub struct CrawlPeriod {
    period: Duration,
}

impl CrawlPeriod {
    /// The minimum period, which is also the first. memcached has the same limits.
    const MIN: Duration = Duration::from_secs(60);
    /// The maximum period.
    const MAX: Duration = Duration::from_secs(3600);
    /// A crawl is useful if it reclaims at least one item for this many checked items.
    const ITEMS_PER_RECLAIM_MAX: u64 = 100;

    /// Returns the time until the next crawl.
    pub fn get(&self) -> Duration {
        self.period
    }

    /// Updates the period after a crawl with these counts: halves it if the crawl was useful, and doubles it otherwise.
    pub fn step(&mut self, crawl: CrawlCounts) {
        let CrawlCounts { checked, reclaimed } = crawl;
        let was_useful = reclaimed > 0 && reclaimed >= checked / CrawlPeriod::ITEMS_PER_RECLAIM_MAX;
        let next = if was_useful { self.period / 2 } else { self.period * 2 };
        self.period = next.clamp(CrawlPeriod::MIN, CrawlPeriod::MAX);
    }
}

impl Default for CrawlPeriod {
    fn default() -> CrawlPeriod {
        CrawlPeriod { period: CrawlPeriod::MIN }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Backoff, CrawlCounts, CrawlPeriod, MAINTAINER_ROUNDS_PER_STEP, MaintainerPace, TICK,
        TunerPace, TunerStep,
    };
    use slabwise_base::WorkTime;
    use std::time::Duration;

    #[test]
    fn a_backoff_doubles_and_halves_within_its_limits() {
        let mut backoff = Backoff::default();
        for _ in 0..20 {
            backoff.step(false);
        }
        assert_eq!(backoff.wait(), Backoff::WAIT_MAX);
        backoff.step(true);
        assert_eq!(backoff.wait(), Backoff::WAIT_MAX / 2);
        for _ in 0..20 {
            backoff.step(true);
        }
        assert_eq!(backoff.wait(), Backoff::WAIT_MIN);
        // After steps without a wait, the next wait is the shortest one.
        let mut backoff = Backoff { wait: Duration::ZERO };
        backoff.step(false);
        assert_eq!(backoff.wait(), Backoff::WAIT_MIN);
    }

    #[test]
    fn the_maintainer_steps_when_a_part_of_the_memory_was_stored() {
        /// Lets a maintainer that always has work run for ten seconds, in which the work clock advances at this rate.
        /// Returns the number of steps.
        fn steps_in_10_s(work_per_second: f64, rounds: usize) -> u32 {
            let (mut pace, mut time, mut steps) = (MaintainerPace::default(), Duration::ZERO, 0);
            while time < Duration::from_secs(10) {
                time += pace.wait();
                pace.step(rounds, WorkTime((time.as_secs_f64() * work_per_second) as u32));
                steps += 1;
            }
            steps
        }
        let steps = [1.0, 128.0, 1_024.0, 1e6].map(|rate| steps_in_10_s(rate, 1));
        assert!(steps[0] < 25 && (100..350).contains(&steps[1]), "{steps:?}");
        assert!((1_000..3_000).contains(&steps[2]) && steps[3] > 9_000, "{steps:?}");
        assert!(steps_in_10_s(1.0, MAINTAINER_ROUNDS_PER_STEP) > 9_000, "more work is left");
        assert!(steps_in_10_s(1e6, 0) < 25, "no item has moved");
    }

    #[test]
    fn a_tuner_works_without_waits_and_backs_off_without_traffic() {
        let mut pace = TunerPace::default();
        assert_eq!(pace.wait(), Backoff::WAIT_MIN);
        let mut wait = |step, traffic| {
            pace.step(&step, traffic);
            pace.wait()
        };
        let pause = Duration::from_micros(70);
        assert_eq!(wait(TunerStep::Working, 0), Duration::ZERO);
        assert_eq!(wait(TunerStep::Pause(pause), 0), pause);
        let idle = |ticks: Option<u32>| TunerStep::Idle { wait: ticks.map(|ticks| TICK * ticks) };
        assert_eq!(wait(idle(Some(2)), 0), 2 * TICK, "after work the wait does not double");
        assert_eq!(wait(idle(Some(2)), 0), 4 * TICK);
        assert_eq!(wait(idle(Some(2)), 0), 8 * TICK);
        assert_eq!(wait(idle(Some(2)), 5), 2 * TICK, "with traffic the wait does not double");
        assert_eq!(wait(idle(Some(1_000)), 6), Backoff::WAIT_MAX);
        assert_eq!(wait(idle(None), 7), Backoff::WAIT_MAX);
        assert_eq!(wait(idle(None), 7), Backoff::WAIT_MAX);
    }

    #[test]
    fn the_crawl_period_halves_after_a_useful_crawl_and_doubles_after_others() {
        let counts = |checked, reclaimed| CrawlCounts { checked, reclaimed };
        let (start, useful, useless) = (counts(5, 1), counts(1005, 11), counts(1005, 10));
        let next = |period, after: CrawlCounts| {
            let mut period = CrawlPeriod { period };
            period.step(after.since(&start));
            period.get()
        };
        let (min, max) = (CrawlPeriod::MIN, CrawlPeriod::MAX);
        assert_eq!(next(min, useless), min * 2);
        assert_eq!(next(min * 2, useful), min);
        assert_eq!(next(min, useful), min);
        assert_eq!(next(max, useless), max);
        assert_eq!(next(min, start), min * 2);
    }
}
