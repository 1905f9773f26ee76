//! The steps of a counter: increments of a version by one. A number that decreases has steps, too.
//!
//! Rules for a request that sees a version after a number of steps:
//! - It sees at least as many steps as every request that ended before it began. An increment sees more.
//! - It sees at most as many steps as increments have begun since the store of the version began.
//! - No two increments see the same number of steps.

use crate::stamps::Stamp;
use std::collections::VecDeque;

/// The number of results of increments that are compared with a new one.
const RESULTS_KEPT: usize = 64;
/// The number of observations above which old ones are combined.
const SEEN_KEPT: usize = 32;

/// The steps of one version.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    /// The number of increments that began and may have changed the version.
    begun: u64,
    /// Observations: the stamp at which the request ended, and the steps that it saw.
    seen: Vec<(Stamp, u64)>,
    /// The results of the last increments.
    results: VecDeque<u64>,
}

impl Steps {
    /// Returns the steps of a version whose store begins while this number of increments is open.
    pub fn new(open: u64) -> Steps {
        Steps { begun: open, ..Steps::default() }
    }

    /// Records that an increment begins.
    pub fn begin(&mut self) {
        self.begun += 1;
    }

    /// Judges the steps that a request from `begin` to `end` saw. Returns the problem.
    pub fn see(
        &mut self,
        steps: u64,
        is_increment: bool,
        begin: Stamp,
        end: Stamp,
    ) -> Result<(), String> {
        let before = self.seen.iter().filter(|seen| seen.0 < begin).map(|seen| seen.1).max();
        let steps_min = before.map_or(0, |steps| steps + u64::from(is_increment));
        if steps < steps_min || is_increment && steps == 0 {
            return Err(format!("{steps} steps, but {steps_min} were seen or made before"));
        }
        if steps > self.begun {
            return Err(format!("{steps} steps, but only {} increments have begun", self.begun));
        }
        if is_increment {
            if self.results.contains(&steps) {
                return Err(format!("two increments have the same result, {steps} steps"));
            }
            if self.results.len() == RESULTS_KEPT {
                self.results.pop_front();
            }
            self.results.push_back(steps);
        }
        if before.is_none_or(|before| steps > before) {
            self.seen.push((end, steps));
        }
        Ok(())
    }

    /// Forgets observations that have no effect, if no open request began before `oldest`.
    pub fn prune(&mut self, oldest: Stamp) {
        if self.seen.len() > SEEN_KEPT {
            let is_old = |seen: &&(Stamp, u64)| seen.0 < oldest;
            let best = self.seen.iter().filter(is_old).max_by_key(|seen| seen.1).copied();
            self.seen.retain(|seen| seen.0 >= oldest);
            self.seen.extend(best);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Steps;

    #[test]
    fn steps_only_increase_and_are_different() {
        let mut steps = Steps::new(0);
        assert!(steps.see(1, true, 1, 2).is_err(), "no increment has begun");
        (0..5).for_each(|_| steps.begin());
        assert_eq!(steps.see(1, true, 1, 10), Ok(()));
        assert_eq!(steps.see(2, true, 2, 9), Ok(()));
        assert!(steps.see(2, true, 3, 11).is_err(), "the result was returned before");
        assert_eq!(steps.see(2, false, 11, 12), Ok(()));
        assert!(steps.see(1, false, 11, 13).is_err(), "two steps were seen before");
        assert!(steps.see(6, false, 14, 15).is_err(), "only five increments have begun");
        assert_eq!(steps.see(5, false, 14, 15), Ok(()));
    }
}
