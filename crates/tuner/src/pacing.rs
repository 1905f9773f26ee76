//! The results of steps, and the waits of drivers between them.
//!
//! A driver makes a step, reports its result to the pace, and waits as long as the pace says. A step that found much to
//! do shortens the next wait, and one that found nothing lengthens it, so an idle server wakes up a few times a second.

use slabwise_base::{Ticks, counts};
use slabwise_engine::ReassignError;
use slabwise_policy::PageMove;
use std::time::Duration;

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunerStep {
    /// There is more to do: call again soon.
    Working,
    /// There is more to do: call again soon. The tuner requested a planned move from the engine.
    Requested {
        /// The move.
        page_move: PageMove,
        /// Whether it started; if not, the cache has changed since the plan.
        outcome: Result<(), ReassignError>,
    },
    /// There is more to do after this time.
    Rest(Duration),
    /// Nothing to do for this many ticks, unless a command requests a move.
    Idle {
        /// Ticks until the policy or another task is due; `None` if none ever is.
        ticks: Option<u32>,
    },
}

const TICK: Duration = Duration::from_nanos(1_000_000_000 / Ticks::PER_SECOND as u64);

/// The maximum number of items that one step of the LRU maintainer moves.
pub const MAINTAINER_ITEMS_PER_STEP: usize = 1_000;

/// The maximum number of chunks that one step of a crawl visits; memcached's crawler rests after the same number.
pub const CRAWLER_CHUNKS_PER_STEP: usize = 1_024;

/// A wait that doubles after each step that found nothing to do and halves after each other step, like that of
/// memcached's LRU maintainer.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    wait: Duration,
}

impl Backoff {
    /// The shortest wait, which is also the first.
    pub const WAIT_MIN: Duration = Duration::from_millis(1);
    /// The longest wait.
    pub const WAIT_MAX: Duration = Duration::from_secs(1);

    /// The wait before the next step.
    pub fn wait(&self) -> Duration {
        self.wait
    }

    /// Updates the wait after a step.
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

/// The pace of a tuner's steps: no wait while it works, the rests that it requests, and a backoff while it is idle
/// without traffic.
#[derive(Clone, Copy, Debug, Default)]
pub struct TunerPace {
    backoff: Backoff,
    traffic: u64,
    has_worked: bool,
}

impl TunerPace {
    /// The wait before the next step.
    pub fn wait(&self) -> Duration {
        self.backoff.wait
    }

    /// Updates the wait with the result of a step; `traffic` is a count that rises while clients are served.
    pub fn step(&mut self, step: &TunerStep, traffic: u64) {
        self.backoff.wait = match *step {
            TunerStep::Working | TunerStep::Requested { .. } => {
                self.has_worked = true;
                Duration::ZERO
            }
            TunerStep::Rest(rest) => {
                self.has_worked = true;
                rest
            }
            TunerStep::Idle { ticks } => {
                let due = ticks.map_or(Backoff::WAIT_MAX, |ticks| TICK * ticks);
                let before = std::mem::replace(&mut self.traffic, traffic);
                // Without traffic since the last step, and no move just done, a policy finds nothing new. The wait
                // stays bounded because a store that needs a page may leave a move half done.
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
    /// The results of crawls for expired items since the start.
    pub struct CrawlCounts {
        /// Items checked.
        checked,
        /// Items reclaimed.
        reclaimed,
    }
}

/// The time between two automatic crawls.
#[derive(Clone, Copy, Debug)]
pub struct CrawlPeriod {
    period: Duration,
}

impl CrawlPeriod {
    /// memcached's limits; the first period is the shortest.
    const MIN: Duration = Duration::from_secs(60);
    const MAX: Duration = Duration::from_secs(3600);
    /// A crawl that reclaims at least one item in this many is worth repeating soon.
    const ITEMS_PER_RECLAIM_MAX: u64 = 100;

    /// The time until the next crawl.
    pub fn get(&self) -> Duration {
        self.period
    }

    /// Updates the period after a crawl: half of it if the crawl was worth it, else twice.
    pub fn step(&mut self, crawl: CrawlCounts) {
        let CrawlCounts { checked, reclaimed } = crawl;
        let was_worth_it =
            reclaimed > 0 && reclaimed >= checked / CrawlPeriod::ITEMS_PER_RECLAIM_MAX;
        let next = if was_worth_it { self.period / 2 } else { self.period * 2 };
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
    use super::{Backoff, CrawlCounts, CrawlPeriod, TICK, TunerPace, TunerStep};
    use std::time::Duration;

    #[test]
    fn waits_adapt_within_their_limits() {
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
        // After much work without any wait, the next wait is the shortest one.
        let mut backoff = Backoff { wait: Duration::ZERO };
        backoff.step(false);
        assert_eq!(backoff.wait(), Backoff::WAIT_MIN);
    }

    #[test]
    fn a_tuner_works_without_waits_and_backs_off_without_traffic() {
        let mut pace = TunerPace::default();
        assert_eq!(pace.wait(), Backoff::WAIT_MIN);
        let mut wait = |step, traffic| {
            pace.step(&step, traffic);
            pace.wait()
        };
        let rest = Duration::from_micros(70);
        assert_eq!(wait(TunerStep::Working, 0), Duration::ZERO);
        assert_eq!(wait(TunerStep::Rest(rest), 0), rest);
        let idle = |ticks| TunerStep::Idle { ticks };
        assert_eq!(wait(idle(Some(2)), 0), 2 * TICK, "it has worked before");
        assert_eq!(wait(idle(Some(2)), 0), 4 * TICK);
        assert_eq!(wait(idle(Some(2)), 0), 8 * TICK);
        assert_eq!(wait(idle(Some(2)), 5), 2 * TICK, "there is traffic");
        assert_eq!(wait(idle(Some(1_000)), 6), Backoff::WAIT_MAX);
        assert_eq!(wait(idle(None), 7), Backoff::WAIT_MAX);
        assert_eq!(wait(idle(None), 7), Backoff::WAIT_MAX);
    }

    #[test]
    fn the_crawl_period_adapts_to_reclaimed_items() {
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
