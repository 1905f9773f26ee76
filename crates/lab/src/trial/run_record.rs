//! The record of one run of a workload on one engine, the request from which it was steady, and the rows that report it.

use super::curves::Partition;
use crate::result::{Outcome, measures, number};
use crate::vtime::{Arrival, MoverTime};
use slabwise_engine::{ClassStats, MoverCounters, PageStats};
use std::ops::Range;

#[derive(Clone, Debug, Default)]
pub struct RunRecord {
    pub requests: u64,
    pub operations: u64,
    /// The request before which the first oracle allocation was decided; 0 under a policy.
    pub changed_at: u64,
    pub window_requests: u64,
    pub misses: Vec<u64>,
    pub answer_us: Vec<f64>,
    pub pages: Vec<Vec<u64>>,
    /// The number of pages that had arrived by the end of each window.
    pub moved: Vec<u64>,
    pub partition: Option<Partition>,
    pub arrivals: Vec<Arrival>,
    /// The request at which the pages had their target partition, after the last decision.
    pub at_target: Option<u64>,
    pub counts: MoverCounters,
    pub time: MoverTime,
    /// Nanoseconds of virtual time from the first decision to the end of the last move or of the run.
    pub moving_nanos: f64,
    pub classes: Vec<ClassStats>,
    pub memory: PageStats,
    /// Nanoseconds of real processor time that the whole run took.
    pub processor_nanos: f64,
}

impl RunRecord {
    pub fn miss_ratio(&self) -> f64 {
        self.miss_ratio_between(0, self.requests)
    }

    pub fn miss_ratio_between(&self, from: u64, to: u64) -> f64 {
        let (windows, requests) = self.windows_between(from, to);
        self.misses[windows].iter().sum::<u64>() as f64 / requests
    }

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

/// The last tenth of the windows counts as the final state.
const FINAL_SHARE: usize = 10;
/// A window may differ by this many standard deviations by chance alone.
const DEVIATIONS: f64 = 4.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steady {
    pub final_ratio: f64,
    pub tolerance: f64,
    /// The request from which all windows are within the tolerance; `None` if the last tenth is not.
    pub since: Option<u64>,
}

/// Finds the last window whose ratio differs from the final one by more than `tolerance`, or by more than chance can
/// explain if windows are short.
pub fn steady(record: &RunRecord, tolerance: f64) -> Steady {
    let windows = &record.misses;
    let width = record.window_requests as f64;
    let last = &windows[windows.len() - windows.len().div_ceil(FINAL_SHARE)..];
    let requests = last.len() as f64 * width
        - (windows.len() as f64 * width - record.requests as f64).max(0.0);
    let final_ratio = last.iter().sum::<u64>() as f64 / requests.max(1.0);
    let chance = DEVIATIONS * (final_ratio * (1.0 - final_ratio) / width).max(0.0).sqrt();
    let tolerance = tolerance.max(chance);
    let whole = record.requests as usize / record.window_requests.max(1) as usize;
    let is_off = |&misses: &u64| (misses as f64 / width - final_ratio).abs() > tolerance;
    let first_steady = windows[..whole].iter().rposition(is_off).map_or(0, |off| off + 1);
    let is_steady = first_steady + last.len() <= windows.len();
    let since = is_steady.then_some(first_steady as u64 * record.window_requests);
    Steady { final_ratio, tolerance, since }
}

measures! {
    MEAN: "mean_miss_ratio", "mean miss ratio", "%", Fixed;
    STEADY: "steady_miss_ratio", "steady miss ratio", "%", Fixed;
    AT_TARGET: "allocation_at_target", "allocation at its target", "requests", WithRun;
    STEADY_AT: "miss_ratio_steady", "miss ratio steady", "requests", WithRun;
    PAGES: "pages_moved", "pages moved", "pages", WithRun;
    PAGES_STEADY: "pages_moved_steady", "pages moved, steady", "pages", WithRun;
    GETS_MEAN: "gets_a_page_mean", "GETs per page, mean", "requests", Fixed;
    GETS_MIN: "gets_a_page_min", "GETs per page, minimum", "requests", Fixed;
    GETS_MAX: "gets_a_page_max", "GETs per page, maximum", "requests", Fixed;
    CASE_1: "case_1", "case 1: chunks found locked", "chunks", WithRun;
    CASE_2: "case_2", "case 2: chunks found in use", "chunks", WithRun;
    CASE_3: "case_3", "case 3: chunks unlinked, visited again", "chunks", WithRun;
    REALLOCATED: "reallocated", "re-allocated meanwhile", "chunks", WithRun;
    RESCUED: "rescued", "items carried over", "items", WithRun;
    DROPPED: "dropped", "items dropped or evicted", "items", WithRun;
}

/// Runs with more classes have no series of pages.
const SHOWN_CLASSES_MAX: usize = 8;

pub fn add_at_target(outcome: &mut Outcome, name: &str, record: &RunRecord) {
    let never = "not reached in this run".to_owned();
    let at_target = record.at_target.map(|requests| requests as f64);
    outcome.add(AT_TARGET, name, at_target.ok_or(never));
}

pub fn add_mover_counts(outcome: &mut Outcome, name: &str, counts: &MoverCounters) {
    for (measure, count) in [
        (CASE_1, counts.locked),
        (CASE_2, counts.pinned),
        (CASE_3, counts.unlinked),
        (REALLOCATED, counts.reallocated),
        (RESCUED, counts.rescued),
        (DROPPED, counts.evicted),
    ] {
        outcome.add(measure, name, Ok(count as f64));
        if matches!(measure.name, "case_1" | "case_2") {
            outcome.note("one thread: no request runs while the mover visits a chunk");
        }
    }
}

pub fn add_steady(outcome: &mut Outcome, name: &str, record: &RunRecord, steady: &Steady) {
    let window = number(record.window_requests as f64);
    let points = steady.tolerance * 100.0;
    let how = format!("windows of {window} stay within {points:.2} points of the final ratio");
    match steady.since {
        Some(since) => {
            outcome.add(STEADY_AT, name, Ok(since as f64));
            outcome.note(how);
        }
        None => outcome.add(STEADY_AT, name, Err(format!("never: {how}"))),
    }
}

pub fn add_gets(outcome: &mut Outcome, name: &str, record: &RunRecord) {
    let arrived = record.arrivals.iter().filter(|arrival| arrival.arrived);
    let gets: Vec<f64> = arrived.map(|arrival| arrival.requests() as f64).collect();
    let none = || "no page arrived".to_owned();
    let mean = (!gets.is_empty()).then(|| gets.iter().sum::<f64>() / gets.len() as f64);
    outcome.add(GETS_MEAN, name, mean.ok_or_else(none));
    outcome.add(GETS_MIN, name, gets.iter().copied().reduce(f64::min).ok_or_else(none));
    outcome.add(GETS_MAX, name, gets.iter().copied().reduce(f64::max).ok_or_else(none));
}

pub fn add_series(outcome: &mut Outcome, name: &str, record: &RunRecord) {
    let ends = (1..=record.misses.len() as u64).map(|window| window * record.window_requests);
    let x: Vec<f64> = ends.map(|end| end.min(record.requests) as f64).collect();
    let width = |at: usize| if at == 0 { x[0] } else { x[at] - x[at - 1] };
    let ratios = record.misses.iter().enumerate();
    let ratios = ratios.map(|(at, &misses)| (x[at], misses as f64 / width(at) * 100.0));
    outcome.draw("miss ratio", name, ["requests", "%"], ratios);
    let classes = record.pages.first().map_or(0, Vec::len);
    for class in (0..classes).filter(|_| classes <= SHOWN_CLASSES_MAX) {
        let pages = record.pages.iter().map(|pages| pages[class] as f64);
        let points = x.iter().copied().zip(pages);
        outcome.draw(format!("pages of class {}", class + 1), name, ["requests", "pages"], points);
    }
}

#[cfg(test)]
mod tests {
    use super::{RunRecord, steady};

    #[test]
    fn ratios_count_whole_windows() {
        // The last window is shorter.
        let record = RunRecord {
            requests: 35,
            window_requests: 10,
            misses: vec![10, 5, 0, 2],
            answer_us: vec![100.0, 50.0, 20.0, 9.0],
            moved: vec![3, 3, 4, 9],
            ..RunRecord::default()
        };
        assert_eq!(record.miss_ratio(), 17.0 / 35.0);
        assert_eq!(record.miss_ratio_between(10, 20), 0.5);
        assert_eq!(record.miss_ratio_between(25, 35), 2.0 / 15.0);
        assert_eq!(record.miss_ratio_between(35, 35), 0.4);
        assert_eq!(record.answer_us_between(0, 20), 7.5);
        assert_eq!(
            [(0, 10), (10, 30), (25, 35)].map(|(from, to)| record.pages_moved_between(from, to)),
            [3, 1, 6]
        );
    }

    fn record_of(ratios: &[f64]) -> RunRecord {
        let misses = ratios.iter().map(|ratio| (ratio * 1e6) as u64).collect();
        let requests = ratios.len() as u64 * 1_000_000;
        RunRecord { requests, window_requests: 1_000_000, misses, ..RunRecord::default() }
    }

    #[test]
    fn a_run_is_steady_after_the_last_window_that_differs() {
        let mut ratios = vec![0.4, 0.21, 0.35, 0.3];
        ratios.extend([0.2; 16]);
        let found = steady(&record_of(&ratios), 0.002);
        assert_eq!((found.final_ratio, found.since), (0.2, Some(4_000_000)));
    }

    #[test]
    fn a_run_that_still_falls_at_the_end_is_not_steady() {
        let ratios: Vec<f64> = (0..20).map(|at| 0.5 - 0.02 * f64::from(at)).collect();
        assert_eq!(steady(&record_of(&ratios), 0.002).since, None);
    }
}
