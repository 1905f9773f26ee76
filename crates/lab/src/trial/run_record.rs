//! The record of a run of a workload on an engine, the request from which the miss ratio was steady, and the rows of
//! the run.

use super::curves::Partition;
use crate::result::{Outcome, format_number, maximum, mean, measures, minimum};
use crate::vtime::{MoverTime, PageMove};
use serde::{Deserialize, Serialize};
use slabwise_engine::{ClassStats, MoverCounters, PageStats};
use std::ops::Range;

/// The measurements of a run. A window is one of the equal parts of the run. Vectors with values of windows have one
/// element per window, in the order of time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunRecord {
    /// Number of requests.
    pub requests: u64,
    /// Number of gets and sets. A get that misses is followed by a set.
    pub operations: u64,
    /// Number of the request before which the first target partition of an oracle allocation is computed. 0 under a
    /// policy.
    pub changed_at: u64,
    /// Number of requests of a window. The last window can be shorter.
    pub window_requests: u64,
    /// Misses of each window.
    pub misses: Vec<u64>,
    /// Sum of the response times of each window, in microseconds.
    pub response_us: Vec<f64>,
    /// Number of pages of each class at the end of each window.
    pub pages: Vec<Vec<u64>>,
    /// Number of pages that had moved from the start of the run to the end of each window.
    pub moved: Vec<u64>,
    /// The last target partition of an oracle allocation. `None` if no partition was computed.
    pub partition: Option<Partition>,
    /// The page moves of the oracle allocation or of the policy.
    pub page_moves: Vec<PageMove>,
    /// Number of gets since the move in progress at the end of the run began. `None`: no page was moving.
    #[serde(default)]
    pub gets_of_moving_page: Option<u64>,
    /// Number of the request before which the pages had the last target partition. `None` if they never had it.
    pub at_target: Option<u64>,
    /// Counters of the engine's mover at the end of the run.
    pub counts: MoverCounts,
    /// Visits and sleeps of the mover.
    pub time: MoverTime,
    /// Virtual time from the request `changed_at` to the end of the last page move of an oracle allocation, or to the
    /// end of the run if the pages never had the last target partition. 0 under a policy.
    pub moving_nanos: f64,
    /// Statistics of each class at the end of the run. A stored record does not contain them.
    #[serde(skip)]
    pub classes: Vec<ClassStats>,
    /// Statistics of the pages at the end of the run. A stored record does not contain them.
    #[serde(skip)]
    pub memory: PageStats,
    /// The mean difference of the classes' tail ages from their mean, as a fraction of the mean, at the end of the run:
    /// see [`tail_age_difference`].
    #[serde(default)]
    pub tail_age_difference: f64,
    /// Processor time of the thread for the whole run.
    pub processor_nanos: f64,
}

/// Returns the mean difference of the classes' tail ages from the mean tail age, as a fraction of the mean tail age. In
/// both means, each class counts by its pages. 0 if no class has items.
pub fn tail_age_difference(classes: &[ClassStats]) -> f64 {
    let tail_age = |class: &ClassStats| class.tail_age_work.into_iter().flatten().max();
    let ages = classes.iter().filter_map(|class| Some((tail_age(class)?, class.pages)));
    let ages: Vec<(f64, f64)> = ages.map(|(age, pages)| (f64::from(age), pages as f64)).collect();
    let mean_of = |value: &dyn Fn(f64) -> f64| {
        let pages: f64 = ages.iter().map(|(_, pages)| pages).sum();
        ages.iter().map(|&(age, pages)| value(age) * pages).sum::<f64>() / pages.max(1.0)
    };
    let mean = mean_of(&|age| age);
    if mean > 0.0 { mean_of(&|age| (age - mean).abs()) / mean } else { 0.0 }
}

/// The counters of the engine's mover that are rows: see [`MoverCounters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoverCounts {
    pub moved: u64,
    pub visits: u64,
    pub locked: u64,
    pub pinned: u64,
    pub unlinked: u64,
    pub reallocated: u64,
    pub rescued: u64,
    pub evicted: u64,
}

impl From<MoverCounters> for MoverCounts {
    fn from(counters: MoverCounters) -> MoverCounts {
        let MoverCounters {
            moved,
            visits,
            locked,
            pinned,
            unlinked,
            reallocated,
            rescued,
            evicted,
            ..
        } = counters;
        MoverCounts { moved, visits, locked, pinned, unlinked, reallocated, rescued, evicted }
    }
}

impl RunRecord {
    /// Returns the miss ratio of the whole run.
    pub fn miss_ratio(&self) -> f64 {
        self.miss_ratio_between(0, self.requests)
    }

    /// Returns the miss ratio of all windows that contain a request from `from` to before `to`.
    pub fn miss_ratio_between(&self, from: u64, to: u64) -> f64 {
        let (windows, requests) = self.windows_between(from, to);
        self.misses[windows].iter().sum::<u64>() as f64 / requests
    }

    /// Returns the mean response time in microseconds over all windows that contain a request from `from` to before
    /// `to`.
    pub fn response_us_between(&self, from: u64, to: u64) -> f64 {
        let (windows, requests) = self.windows_between(from, to);
        self.response_us[windows].iter().sum::<f64>() / requests
    }

    /// Returns the number of pages that moved in all windows that contain a request from `from` to before `to`.
    pub fn pages_moved_between(&self, from: u64, to: u64) -> u64 {
        let (windows, _) = self.windows_between(from, to);
        let moved_before = |window: usize| if window == 0 { 0 } else { self.moved[window - 1] };
        moved_before(windows.end) - moved_before(windows.start)
    }

    /// Returns the number of requests from the start of the run to the end of each window.
    fn window_ends(&self) -> Vec<f64> {
        let ends = (1..=self.misses.len() as u64).map(|window| window * self.window_requests);
        ends.map(|end| end.min(self.requests) as f64).collect()
    }

    /// Divides the sum of each window by the window's number of requests. Returns each quotient with the number of
    /// requests to the end of its window.
    fn per_request(&self, sums: impl Iterator<Item = f64>) -> Vec<(f64, f64)> {
        let ends = self.window_ends();
        let begins = std::iter::once(0.0).chain(ends.iter().copied());
        let windows = begins.zip(ends.iter().copied());
        windows.zip(sums).map(|((begin, end), sum)| (end, sum / (end - begin))).collect()
    }

    /// Returns the windows that contain a request from `from` to before `to`, at least one window, and their number of
    /// requests.
    fn windows_between(&self, from: u64, to: u64) -> (Range<usize>, f64) {
        let width = self.window_requests.max(1);
        let end = to.min(self.requests).div_ceil(width).min(self.misses.len() as u64);
        let start = (from / width).min(end.saturating_sub(1));
        let requests = (end * width).min(self.requests) - start * width;
        (start as usize..end as usize, requests.max(1) as f64)
    }
}

/// The last tenth of the windows, rounded up to whole windows, determines the final miss ratio.
const FINAL_DIVISOR: usize = 10;
/// The miss ratio of a steady window differs by at most this number of standard deviations from the final miss ratio.
const DEVIATIONS_MAX: f64 = 4.0;

/// The request from which the miss ratio of a run was steady. Miss ratios are fractions of the requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steady {
    /// Miss ratio of the last tenth of the windows.
    pub final_ratio: f64,
    /// Largest difference between the miss ratio of a steady window and the final miss ratio.
    pub tolerance: f64,
    /// Number of the request from which the miss ratios of all windows are within the tolerance. `None` if even a
    /// window in the last tenth is not.
    pub since: Option<u64>,
}

/// Finds the request from which the miss ratio was steady. If windows are short, their miss ratios vary by chance, and
/// the function uses a larger tolerance than the argument.
pub fn steady(record: &RunRecord, tolerance: f64) -> Steady {
    let windows = &record.misses;
    let width = record.window_requests as f64;
    let last = &windows[windows.len() - windows.len().div_ceil(FINAL_DIVISOR)..];
    // The last window can be shorter than the others.
    let missing_requests = (windows.len() as f64 * width - record.requests as f64).max(0.0);
    let requests = last.len() as f64 * width - missing_requests;
    let final_ratio = last.iter().sum::<u64>() as f64 / requests.max(1.0);
    let deviation = (final_ratio * (1.0 - final_ratio) / width).max(0.0).sqrt();
    let tolerance = tolerance.max(DEVIATIONS_MAX * deviation);
    let complete = record.requests as usize / record.window_requests.max(1) as usize;
    let is_unsteady = |&misses: &u64| (misses as f64 / width - final_ratio).abs() > tolerance;
    let last_unsteady = windows[..complete].iter().rposition(is_unsteady);
    let first_steady = last_unsteady.map_or(0, |window| window + 1);
    let is_steady = first_steady + last.len() <= windows.len();
    let since = is_steady.then_some(first_steady as u64 * record.window_requests);
    Steady { final_ratio, tolerance, since }
}

measures! {
    MEAN: "mean_miss_ratio", "mean miss ratio", "%", Fixed;
    STEADY: "steady_miss_ratio", "steady miss ratio", "%", Fixed;
    AT_TARGET: "allocation_at_target", "requests until the target partition is reached", "requests", WithRun;
    STEADY_AT: "miss_ratio_steady", "requests until the miss ratio is steady", "requests", WithRun;
    PAGES: "pages_moved", "pages moved", "pages", WithPages;
    PAGES_STEADY: "pages_moved_steady", "pages moved, steady", "pages", WithPages;
    GETS_MEAN: "gets_per_page_mean", "GETs per page, mean", "requests", WithPageSize;
    GETS_MIN: "gets_per_page_min", "GETs per page, minimum", "requests", WithPageSize;
    GETS_MAX: "gets_per_page_max", "GETs per page, maximum", "requests", WithPageSize;
    FEWER_GETS: "fewer_gets_per_page", "fewer GETs per page, mean", "%", Fixed;
    FEWER_MEAN: "fewer_misses_mean", "fewer misses in the whole run", "%", Fixed;
    CASE_1: "case_1", "case 1: chunks found locked", "chunks", WithRun;
    CASE_2: "case_2", "case 2: chunks found in use", "chunks", WithRun;
    CASE_3: "case_3", "case 3: chunks unlinked, visited again", "chunks", WithRun;
    REALLOCATED: "reallocated", "chunks re-allocated before the next visit", "chunks", WithRun;
    RESCUED: "rescued", "items moved", "items", WithRun;
    DROPPED: "dropped", "items dropped or evicted", "items", WithRun;
}

/// The result has a series of the pages of each class only if there are at most this number of classes.
const SHOWN_CLASSES_MAX: usize = 8;

/// Adds the row with the request before which the pages had their target partition.
pub fn add_at_target(outcome: &mut Outcome, name: &str, record: &RunRecord) {
    let never = "not reached in this run".to_owned();
    let at_target = record.at_target.map(|requests| requests as f64);
    outcome.add(AT_TARGET, name, at_target.ok_or(never));
}

/// The allocation is steady if the pages of every class differ from their final number by at most this fraction of all
/// pages.
const ALLOCATION_TOLERANCE: f64 = 0.01;

/// Adds the row with the request from which the allocation was steady, for a run in which a policy decides several times.
pub fn add_allocation_steady(outcome: &mut Outcome, name: &str, record: &RunRecord) {
    let condition =
        "the pages of every class differ from their number at the end by at most 1 % of all pages";
    let Some(steady) = allocation_steady(record) else {
        return outcome.add(AT_TARGET, name, Err(format!("not reached in this run: {condition}")));
    };
    outcome.add(AT_TARGET, name, Ok(steady));
    let window = format_number(record.window_requests as f64);
    outcome.note_last_row(format!(
        "the first reading, of one every {window} requests, from which {condition}"
    ));
}

/// Returns the number of requests to the first reading of the pages from which they stayed close to their number at the
/// end. Pages are read at the end of each window. `None` if this reading is in the last tenth of the windows.
fn allocation_steady(record: &RunRecord) -> Option<f64> {
    let readings = &record.pages;
    let last = readings.last()?;
    let tolerance = ALLOCATION_TOLERANCE * last.iter().sum::<u64>() as f64;
    let is_far = |pages: &Vec<u64>| {
        pages.iter().zip(last).any(|(pages, last)| pages.abs_diff(*last) as f64 > tolerance)
    };
    let steady = readings.iter().rposition(is_far).map_or(0, |far| far + 1);
    let is_reached = steady + readings.len().div_ceil(FINAL_DIVISOR) < readings.len();
    record.window_ends().get(steady).copied().filter(|_| is_reached)
}

/// Adds one row per counter of the mover.
pub fn add_mover_counts(outcome: &mut Outcome, name: &str, counts: &MoverCounts) {
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
            outcome.note_last_row(
                "always 0 with one thread: no request runs while the mover visits a chunk",
            );
        }
    }
}

/// Adds the row with the request from which the miss ratio was steady.
pub fn add_steady(outcome: &mut Outcome, name: &str, record: &RunRecord, steady: &Steady) {
    let window = format_number(record.window_requests as f64);
    let points = steady.tolerance * 100.0;
    let condition = format!(
        "in windows of {window} requests, the miss ratio stays within {points:.2} percentage points of the final ratio"
    );
    match steady.since {
        Some(since) => {
            outcome.add(STEADY_AT, name, Ok(since as f64));
            outcome.note_last_row(condition);
        }
        None => outcome.add(STEADY_AT, name, Err(format!("not reached in this run: {condition}"))),
    }
}

/// Returns the number of requests during each page move that arrived. Also counts the requests of the move in progress
/// at the end of the run, if they are already more than the mean of the others. Otherwise the mean would leave out the
/// slowest moves. If no page arrived, returns the reason for missing rows.
fn gets_by_page(record: &RunRecord) -> Result<GetsByPage, String> {
    let arrived = record.page_moves.iter().filter(|page_move| page_move.arrived);
    let mut gets: Vec<f64> = arrived.map(|page_move| page_move.requests() as f64).collect();
    if gets.is_empty() {
        return Err("no page arrived".to_owned());
    }
    let unfinished = record.gets_of_moving_page.map(|gets| gets as f64);
    let unfinished = unfinished.filter(|&unfinished| unfinished > mean(&gets));
    gets.extend(unfinished);
    Ok(GetsByPage { gets, unfinished })
}

/// The numbers of requests during page moves.
#[derive(Clone)]
struct GetsByPage {
    /// One number for each move that arrived, and the number in `unfinished`.
    gets: Vec<f64>,
    /// The number of requests of the move in progress at the end of the run, if it counts.
    unfinished: Option<f64>,
}

/// Adds the rows with the mean, the minimum and the maximum of the requests during a page move.
pub fn add_gets(outcome: &mut Outcome, name: &str, record: &RunRecord) {
    let gets = gets_by_page(record);
    let unfinished = gets.as_ref().ok().and_then(|gets| gets.unfinished);
    let note = unfinished.map(|requests| {
        let requests = format_number(requests);
        format!(
            "a lower limit: the last page was still moving at the end, after {requests} requests"
        )
    });
    let mut add = |measure, value: fn(&[f64]) -> f64, note: Option<&String>| {
        outcome.add(measure, name, gets.clone().map(|gets| value(&gets.gets)));
        if let Some(note) = note {
            outcome.note_last_row(note.clone());
        }
    };
    add(GETS_MEAN, mean, note.as_ref());
    add(GETS_MIN, minimum, None);
    add(GETS_MAX, maximum, note.as_ref());
}

/// Adds the row with the reduction of the mean number of requests during a page move, of one run compared with another.
pub fn add_fewer_gets(outcome: &mut Outcome, name: &str, [run, other]: [&RunRecord; 2]) {
    let found = gets_by_page(run).and_then(|gets| Ok([gets, gets_by_page(other)?]));
    let reduction = found.as_ref().map(|pair| {
        let [of_run, of_other] = pair.each_ref().map(|gets| mean(&gets.gets));
        (1.0 - of_run / of_other.max(1.0)) * 100.0
    });
    outcome.add(FEWER_GETS, name, reduction.map_err(String::clone));
    let is_limit = |gets: GetsByPage| gets.unfinished.is_some();
    let note = match found.map(|pair| pair.map(is_limit)) {
        Ok([false, true]) => "a lower limit: the mean of the second variant is a lower limit",
        Ok([true, false]) => "an upper limit: the mean of the first variant is a lower limit",
        Ok([true, true]) => "not exact: the means of both variants are lower limits",
        Ok([false, false]) | Err(_) => return,
    };
    outcome.note_last_row(note);
}

/// Adds the series of the miss ratio and, for few classes, of the pages of each class. Series have one point per
/// window.
pub fn add_series(outcome: &mut Outcome, name: &str, record: &RunRecord) {
    let x = record.window_ends();
    let percent = record.misses.iter().map(|&misses| misses as f64 * 100.0);
    outcome.add_series("miss ratio", name, ["requests", "%"], record.per_request(percent));
    let classes = record.pages.first().map_or(0, Vec::len);
    for class in (0..classes).filter(|_| classes <= SHOWN_CLASSES_MAX) {
        let pages = record.pages.iter().map(|pages| pages[class] as f64);
        let points = x.iter().copied().zip(pages);
        outcome.add_series(
            format!("pages of class {}", class + 1),
            name,
            ["requests", "pages"],
            points,
        );
    }
}

/// Adds the series of the mean response time, with one point per window.
pub fn add_response_series(outcome: &mut Outcome, name: &str, record: &RunRecord) {
    let points = record.per_request(record.response_us.iter().copied());
    outcome.add_series("response time", name, ["requests", "us"], points);
}

#[cfg(test)]
mod tests {
    use super::{RunRecord, add_fewer_gets, allocation_steady, gets_by_page, steady};
    use crate::registry;
    use crate::result::Outcome;
    use crate::vtime::PageMove;

    #[test]
    fn ratios_between_two_requests_include_complete_windows() {
        // The last window has only 5 requests.
        let record = RunRecord {
            requests: 35,
            window_requests: 10,
            misses: vec![10, 5, 0, 2],
            response_us: vec![100.0, 50.0, 20.0, 9.0],
            moved: vec![3, 3, 4, 9],
            ..RunRecord::default()
        };
        assert_eq!(record.miss_ratio(), 17.0 / 35.0);
        assert_eq!(record.miss_ratio_between(10, 20), 0.5);
        assert_eq!(record.miss_ratio_between(25, 35), 2.0 / 15.0);
        assert_eq!(record.miss_ratio_between(35, 35), 0.4);
        assert_eq!(record.response_us_between(0, 20), 7.5);
        assert_eq!(
            [(0, 10), (10, 30), (25, 35)].map(|(from, to)| record.pages_moved_between(from, to)),
            [3, 1, 6]
        );
    }

    #[test]
    fn a_slow_move_in_progress_counts_in_the_requests_per_page() {
        let arrived = |began, ended| PageMove { began, ended, arrived: true };
        let moves = vec![arrived(0, 100), arrived(100, 400)];
        let of = |page_moves: &[PageMove], gets_of_moving_page| {
            let page_moves = page_moves.to_vec();
            let record = RunRecord { page_moves, gets_of_moving_page, ..RunRecord::default() };
            gets_by_page(&record).map(|found| (found.gets, found.unfinished))
        };
        assert_eq!(of(&moves, None), Ok((vec![100.0, 300.0], None)));
        assert_eq!(of(&moves, Some(150)), Ok((vec![100.0, 300.0], None)));
        assert_eq!(of(&moves, Some(900)), Ok((vec![100.0, 300.0, 900.0], Some(900.0))));
        assert!(of(&[], Some(900)).is_err());
    }

    #[test]
    fn a_reduction_compared_with_a_lower_limit_is_a_lower_limit() {
        let record = |gets_of_moving_page| {
            let page_moves = vec![PageMove { began: 0, ended: 100, arrived: true }];
            RunRecord { page_moves, gets_of_moving_page, ..RunRecord::default() }
        };
        let found = |of_run, of_other| {
            let mut outcome = Outcome::new(&registry::specs()[0], 1, 1.0, false);
            add_fewer_gets(&mut outcome, "fast", [&record(of_run), &record(of_other)]);
            let row = outcome.rows.remove(0);
            (row.ours, row.note.map(|note| note[..note.find(':').unwrap_or(0)].to_owned()))
        };
        let note = |text: &str| Some(text.to_owned());
        assert_eq!(found(None, None), (Some(0.0), None));
        assert_eq!(found(None, Some(300)), (Some(50.0), note("a lower limit")));
        assert_eq!(found(Some(300), None), (Some(-100.0), note("an upper limit")));
        assert_eq!(found(Some(300), Some(300)), (Some(0.0), note("not exact")));
    }

    #[test]
    fn an_allocation_is_steady_from_the_first_reading_that_is_close_to_the_last() {
        let steady = |first_pages: &[u64], windows: usize| {
            let mut pages: Vec<Vec<u64>> =
                first_pages.iter().map(|&pages| vec![pages, 1_000 - pages]).collect();
            pages.resize(windows, vec![500, 500]);
            let (requests, misses) = (windows as u64 * 10 - 5, vec![0; windows]);
            let window_requests = 10;
            allocation_steady(&RunRecord {
                requests,
                window_requests,
                misses,
                pages,
                ..RunRecord::default()
            })
        };
        // The second reading is the last one that is far. The third reading is at the end of the third window.
        assert_eq!(steady(&[900, 511, 510], 20), Some(30.0));
        assert_eq!(steady(&[510, 900, 500, 489], 20), Some(50.0));
        assert_eq!(steady(&[], 20), Some(10.0));
        // Of 20 readings, the last two are in the last tenth of the run.
        assert_eq!(steady(&[900; 17], 20), Some(180.0));
        assert_eq!(steady(&[900; 18], 20), None);
    }

    /// Returns a record whose windows have these miss ratios and a million requests each.
    fn record_of(ratios: &[f64]) -> RunRecord {
        let misses = ratios.iter().map(|ratio| (ratio * 1e6) as u64).collect();
        let requests = ratios.len() as u64 * 1_000_000;
        RunRecord { requests, window_requests: 1_000_000, misses, ..RunRecord::default() }
    }

    #[test]
    fn a_run_is_steady_after_the_last_window_outside_the_tolerance() {
        let mut ratios = vec![0.4, 0.21, 0.35, 0.3];
        ratios.extend([0.2; 16]);
        let found = steady(&record_of(&ratios), 0.002);
        assert_eq!((found.final_ratio, found.since), (0.2, Some(4_000_000)));
    }

    #[test]
    fn a_run_whose_miss_ratio_falls_until_the_end_is_never_steady() {
        let ratios: Vec<f64> = (0..20).map(|at| 0.5 - 0.02 * f64::from(at)).collect();
        assert_eq!(steady(&record_of(&ratios), 0.002).since, None);
    }
}
