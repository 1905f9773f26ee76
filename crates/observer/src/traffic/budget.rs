//! When to watch: the processor time that watching may cost the server.
//!
//! Watching costs the server processor time for each line, and for the log thread, which polls about 900 times per
//! second. The *cost* is the sum of both. Invariant, at every time:
//!
//! ```text
//!   cost <= cost_share_max * (processor time of the server since the start + its mean rate * advance)
//! ```
//!
//! So on average over a time that is long compared with `advance`, the cost is at most `cost_share_max` of the server's
//! processor time. A window may start when the cost is at most `cost_share_max` of the processor time since the start,
//! and must end before the cost violates the invariant. The first window can therefore use the budget of the whole
//! `advance` at once.

use std::time::Duration;

/// The cost of a line for the server, in nanoseconds: formatting, copying and sending. Decision 19 has its source.
const LINE_COST_NANOS: f64 = 1_000.0;
/// The cost of the log thread, in nanoseconds for each second of a window. Decision 19 has its source.
const SECOND_COST_NANOS: f64 = 8e6;

/// The cost of watching, and the time of the server.
#[derive(Clone, Debug)]
pub struct Budget {
    cost_share_max: f64,
    advance: Duration,
    cost_nanos: f64,
    server_nanos: f64,
    elapsed: Duration,
}

impl Budget {
    /// Starts without costs. `cost_share_max` is the cost of watching as a share of the processor time of the server.
    pub fn new(cost_share_max: f64, advance: Duration) -> Budget {
        let (cost_nanos, server_nanos) = (0.0, 0.0);
        Budget { cost_share_max, advance, cost_nanos, server_nanos, elapsed: Duration::ZERO }
    }

    /// Adds processor time of the server, which it used during `elapsed`.
    pub fn earn(&mut self, server: Duration, elapsed: Duration) {
        self.server_nanos += server.as_nanos() as f64;
        self.elapsed += elapsed;
    }

    /// Adds the cost of lines, which the server sent during `watched`.
    pub fn spend(&mut self, lines: u64, watched: Duration) {
        self.cost_nanos +=
            lines as f64 * LINE_COST_NANOS + watched.as_secs_f64() * SECOND_COST_NANOS;
    }

    /// True if a window may start.
    pub fn may_start(&self) -> bool {
        self.server_nanos > 0.0 && self.cost_nanos <= self.cost_share_max * self.server_nanos
    }

    /// True if a window may continue.
    pub fn may_continue(&self) -> bool {
        let advance = self.advance.as_secs_f64() / self.elapsed.as_secs_f64().max(1e-3);
        self.cost_nanos <= self.cost_share_max * self.server_nanos * (1.0 + advance)
    }

    /// Returns the estimated cost of all lines and windows for the server.
    pub fn cost(&self) -> Duration {
        Duration::from_nanos(self.cost_nanos as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::Budget;
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    /// Watches a server whenever the budget allows, and returns the largest share of the cost in any second after the
    /// start, and the seconds of the first window.
    fn watch(seconds: u32, lines_per_second: u64, busy: Duration) -> (f64, u32) {
        let mut budget = Budget::new(0.03, 60 * SECOND);
        let (mut is_open, mut first, mut windows) = (false, 0, 0);
        for _ in 0..seconds {
            budget.earn(busy, SECOND);
            let was_open = is_open;
            is_open = if is_open { budget.may_continue() } else { budget.may_start() };
            windows += u32::from(is_open && !was_open);
            if is_open {
                budget.spend(lines_per_second, SECOND);
                first += u32::from(windows == 1);
            }
        }
        (budget.cost().as_secs_f64() / (busy * seconds).as_secs_f64(), first)
    }

    #[test]
    fn the_cost_approaches_its_share() {
        let (share, first) = watch(3_600, 60_000, SECOND / 5);
        assert!((0.027..0.031).contains(&share), "the cost is {share} of the server's time");
        assert!((4..8).contains(&first), "the first window took {first} s");
        let (share, _) = watch(3_600, 1_000, SECOND / 50);
        assert!((0.027..0.031).contains(&share), "at a low rate, the cost is {share}");
    }

    #[test]
    fn an_idle_server_is_not_watched() {
        let budget = Budget::new(0.03, SECOND);
        assert!(!budget.may_start());
    }
}
