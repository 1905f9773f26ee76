//! What happened in one run of a workload on one engine.

use super::split::Split;
use crate::vtime::{Arrival, MoverTime};
use slabwise_engine::{ClassStats, MoverCounters, PageStats};
use std::ops::Range;

#[derive(Clone, Debug, Default)]
pub struct Course {
    pub requests: u64,
    pub operations: u64,
    /// The request before which the first split was decided; 0 where none is.
    pub changed_at: u64,
    pub window_requests: u64,
    /// Misses by window.
    pub misses: Vec<u64>,
    /// Microseconds of all answers by window.
    pub answer_us: Vec<f64>,
    /// Pages by class at the end of each window.
    pub pages: Vec<Vec<u64>>,
    /// Pages that had arrived by the end of each window.
    pub moved: Vec<u64>,
    pub split: Option<Split>,
    pub arrivals: Vec<Arrival>,
    /// When the pages were where they should be, after the last decision.
    pub at_target: Option<u64>,
    pub counts: MoverCounters,
    pub time: MoverTime,
    /// Nanoseconds of virtual time from the first decision to the end of the last move, or of the run.
    pub moving_nanos: f64,
    pub classes: Vec<ClassStats>,
    pub memory: PageStats,
    /// Nanoseconds of this machine's processor for all that the run did.
    pub processor_nanos: f64,
}

impl Course {
    pub fn miss_ratio(&self) -> f64 {
        self.miss_ratio_between(0, self.requests)
    }

    /// The same of the windows that lie between two requests, at least one window.
    pub fn miss_ratio_between(&self, from: u64, to: u64) -> f64 {
        let (windows, requests) = self.windows_between(from, to);
        self.misses[windows].iter().sum::<u64>() as f64 / requests
    }

    /// The mean time of an answer between two requests, in microseconds.
    pub fn answer_us_between(&self, from: u64, to: u64) -> f64 {
        let (windows, requests) = self.windows_between(from, to);
        self.answer_us[windows].iter().sum::<f64>() / requests
    }

    pub fn pages_moved_between(&self, from: u64, to: u64) -> u64 {
        let (windows, _) = self.windows_between(from, to);
        let by = |windows: usize| if windows == 0 { 0 } else { self.moved[windows - 1] };
        by(windows.end) - by(windows.start)
    }

    fn windows_between(&self, from: u64, to: u64) -> (Range<usize>, f64) {
        let width = self.window_requests.max(1);
        let end = to.min(self.requests).div_ceil(width).min(self.misses.len() as u64);
        let start = (from / width).min(end.saturating_sub(1));
        let requests = (end * width).min(self.requests) - start * width;
        (start as usize..end as usize, requests.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::Course;

    #[test]
    fn ratios_are_those_of_whole_windows() {
        // The last window is a short one.
        let course = Course {
            requests: 35,
            window_requests: 10,
            misses: vec![10, 5, 0, 2],
            answer_us: vec![100.0, 50.0, 20.0, 9.0],
            moved: vec![3, 3, 4, 9],
            ..Course::default()
        };
        assert_eq!(course.miss_ratio(), 17.0 / 35.0);
        assert_eq!(course.miss_ratio_between(10, 20), 0.5);
        assert_eq!(course.miss_ratio_between(25, 35), 2.0 / 15.0);
        assert_eq!(course.miss_ratio_between(35, 35), 0.4);
        assert_eq!(course.answer_us_between(0, 20), 7.5);
        assert_eq!(
            [(0, 10), (10, 30), (25, 35)].map(|(from, to)| course.pages_moved_between(from, to)),
            [3, 1, 6]
        );
    }
}
