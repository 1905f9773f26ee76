//! Rows that courses of several experiments have in common.

use super::course::Course;
use super::steady::Steady;
use crate::result::{Outcome, measures, number};
use slabwise_engine::MoverCounters;

measures! {
    MEAN: "mean_miss_ratio", "mean miss ratio", "%", Fixed;
    STEADY: "steady_miss_ratio", "steady miss ratio", "%", Fixed;
    AT_TARGET: "allocation_at_target", "allocation at its target", "requests", WithRun;
    STEADY_AT: "miss_ratio_steady", "miss ratio steady", "requests", WithRun;
    PAGES: "pages_moved", "pages moved", "pages", WithRun;
    PAGES_STEADY: "pages_moved_steady", "pages moved, steady", "pages", WithRun;
    GETS_MEAN: "gets_a_page_mean", "GETs a page, mean", "requests", Fixed;
    GETS_MIN: "gets_a_page_min", "GETs a page, least", "requests", Fixed;
    GETS_MAX: "gets_a_page_max", "GETs a page, most", "requests", Fixed;
    CASE_1: "case_1", "case 1: chunks met locked", "chunks", WithRun;
    CASE_2: "case_2", "case 2: chunks met in use", "chunks", WithRun;
    CASE_3: "case_3", "case 3: unlinked, met again", "chunks", WithRun;
    REALLOCATED: "reallocated", "re-allocated meanwhile", "chunks", WithRun;
    RESCUED: "rescued", "items carried over", "items", WithRun;
    DROPPED: "dropped", "items dropped or evicted", "items", WithRun;
}

/// Of more classes no curves of pages are kept.
const SHOWN_CLASSES_MAX: usize = 8;

pub fn add_at_target(outcome: &mut Outcome, name: &str, course: &Course) {
    let never = "not reached in this run".to_owned();
    let at_target = course.at_target.map(|requests| requests as f64);
    outcome.add(AT_TARGET, name, at_target.ok_or(never));
}

pub fn add_met(outcome: &mut Outcome, name: &str, counts: &MoverCounters) {
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
            outcome.note("one thread: no request is under way while a chunk is visited");
        }
    }
}

pub fn add_steady(outcome: &mut Outcome, name: &str, course: &Course, steady: &Steady) {
    let window = number(course.window_requests as f64);
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

pub fn add_gets(outcome: &mut Outcome, name: &str, course: &Course) {
    let arrived = course.arrivals.iter().filter(|arrival| arrival.arrived);
    let gets: Vec<f64> = arrived.map(|arrival| arrival.requests() as f64).collect();
    let none = || "no page arrived".to_owned();
    let mean = (!gets.is_empty()).then(|| gets.iter().sum::<f64>() / gets.len() as f64);
    outcome.add(GETS_MEAN, name, mean.ok_or_else(none));
    outcome.add(GETS_MIN, name, gets.iter().copied().reduce(f64::min).ok_or_else(none));
    outcome.add(GETS_MAX, name, gets.iter().copied().reduce(f64::max).ok_or_else(none));
}

/// The miss ratio and the pages of each class, window by window.
pub fn add_series(outcome: &mut Outcome, name: &str, course: &Course) {
    let ends = (1..=course.misses.len() as u64).map(|window| window * course.window_requests);
    let x: Vec<f64> = ends.map(|end| end.min(course.requests) as f64).collect();
    let width = |at: usize| if at == 0 { x[0] } else { x[at] - x[at - 1] };
    let ratios = course.misses.iter().enumerate();
    let ratios = ratios.map(|(at, &misses)| (x[at], misses as f64 / width(at) * 100.0));
    outcome.draw("miss ratio", name, ["requests", "%"], ratios);
    let classes = course.pages.first().map_or(0, Vec::len);
    for class in (0..classes).filter(|_| classes <= SHOWN_CLASSES_MAX) {
        let pages = course.pages.iter().map(|pages| pages[class] as f64);
        let points = x.iter().copied().zip(pages);
        outcome.draw(format!("pages of class {}", class + 1), name, ["requests", "pages"], points);
    }
}
