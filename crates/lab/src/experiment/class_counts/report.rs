//! What was found, as rows: every table; then, for every workload, which number of classes the prediction picks.

use super::prediction::slope;
use super::spec::ClassCountsSetup;
use super::{Finding, Learned};
use crate::experiment::course_rows::{PAGES, PAGES_STEADY, STEADY, measures};
use crate::experiment::outcome::{Measure, Outcome, Scaling, Series, number};
use crate::experiment::spec::scaled;
use slabwise_policy::sizes::LearnerOptions;

measures! {
    PREDICTED: "predicted_miss_ratio", "predicted miss ratio", "%", Fixed;
    BEST_SPLIT: "best_split_miss_ratio", "miss ratio of the best split, LRU", "%", Fixed;
    TIME: "steady_answer_time", "steady mean time of an answer", "us", Fixed;
    CLASSES: "classes_used", "classes that hold an item", "classes", Fixed;
    INSIDE: "lost_inside", "lost inside chunks", "% of memory", Fixed;
    PAGE_ENDS: "lost_page_ends", "lost at the ends of pages", "% of memory", Fixed;
    UNUSED: "unused", "free chunks and pages", "% of memory", Fixed;
    ITEMS: "items_held", "items held", "items", WithRun;
    PROCESSOR: "operation_processor_time", "processor time of an operation, all included", "ns", Fixed;
    ERROR: "prediction_error", "predicted less measured, mean over k", "points", Fixed;
    SHAPE: "prediction_shape_error", "the same beside its mean, deviation", "points", Fixed;
    PICKED: "class_count_picked", "classes that the prediction picks", "classes", Fixed;
    BEST: "class_count_best", "classes that miss least", "classes", Fixed;
    REGRET: "pick_misses_more", "more misses with the pick than at best", "%", Fixed;
    MISSING: "class_price_misses", "price of a class by the misses measured", "pages", Fixed;
    FREE: "class_price_free", "price of a class by what is free", "pages", Fixed;
}

/// Notes what a reader has to know.
pub fn describe(outcome: &mut Outcome, setup: &ClassCountsSetup, learned: &[Learned<'_>]) {
    let scale = outcome.scale;
    for learned in learned {
        let (stream, whole) = (learned.stream, &learned.whole);
        let text = |count: f64| number(count);
        let (from, to) = stream.steady.at(scale);
        let cache = format!(
            "{} requests, {} MiB in pages of {} bytes, values cut to {} bytes; tables by the {} items of the first {} \
             requests, steady from {} to {}",
            text(scaled(stream.workload.requests, scale) as f64),
            text(whole.pages * whole.page_size_bytes / f64::from(1 << 20)),
            text(whole.page_size_bytes),
            text(f64::from(learned.value_len_max)),
            text(learned.items as f64),
            text((stream.training_requests as f64 * scale).round()),
            text(from as f64),
            text(to as f64),
        );
        outcome.choose(&stream.name, cache);
    }
    outcome.choose("page policy", &setup.policy);
    let price = class_price_pages();
    outcome.choose("predicted", format!("a class costs {price} pages, as for the learner"));
    let answer = setup.answer;
    let (hit, miss, kib) = (answer.hit_us, answer.miss_us, answer.miss_us_per_kib);
    outcome.choose(
        "answers",
        format!("a hit {hit} us, a miss {miss} us and {kib} us for each KiB of its value"),
    );
}

/// What the learner of a server takes a class to cost.
fn class_price_pages() -> f64 {
    LearnerOptions::default().class_price_pages
}

/// Where the memory is at the end, in percent of it.
struct Places {
    inside: f64,
    page_ends: f64,
    unused: f64,
    items: f64,
    /// Free chunks and pages, in pages.
    unused_pages: f64,
}

impl Places {
    fn of(learned: &Learned<'_>, found: &Finding<'_>) -> Places {
        let (page_bytes, memory) = (learned.whole.page_size_bytes, found.course.memory);
        let mut places = Places {
            inside: 0.0,
            page_ends: 0.0,
            unused: 0.0,
            items: 0.0,
            unused_pages: (memory.free + memory.limit_for_items.saturating_sub(memory.held)) as f64,
        };
        for class in &found.course.classes {
            let chunk_bytes = class.chunk_size_bytes as f64;
            let filled = class.chunks_per_page as f64 * chunk_bytes;
            places.inside += class.used_chunks as f64 * chunk_bytes - class.item_bytes as f64;
            places.page_ends += class.pages as f64 * (page_bytes - filled);
            places.unused_pages += class.free_chunks as f64 * chunk_bytes / page_bytes;
            places.items += class.items.iter().sum::<u64>() as f64;
        }
        places.unused = places.unused_pages * page_bytes;
        let percent = 100.0 / (learned.whole.pages * page_bytes);
        places.inside *= percent;
        places.page_ends *= percent;
        places.unused *= percent;
        places
    }
}

/// Adds all rows of a workload.
pub fn add(
    outcome: &mut Outcome,
    setup: &ClassCountsSetup,
    learned: &Learned<'_>,
    found: &[Finding<'_>],
) {
    let ratio = |found: &Finding<'_>| {
        let (from, to) = learned.stream.steady.at(outcome.scale);
        found.course.miss_ratio_between(from, to)
    };
    let ratios: Vec<f64> = found.iter().map(ratio).collect();
    let first_row = outcome.rows.len();
    for (found, ratio) in found.iter().zip(&ratios) {
        add_table(outcome, learned, found, *ratio);
    }
    add_series(outcome, learned, found, first_row);
    let by_count: Vec<(&Finding<'_>, f64)> = found
        .iter()
        .zip(&ratios)
        .filter(|(found, _)| found.table.class_count.is_some())
        .map(|(found, ratio)| (found, *ratio))
        .collect();
    for &price in &setup.class_prices_pages {
        add_price(outcome, learned, &by_count, price);
    }
    add_measured_prices(outcome, learned, &by_count);
}

fn add_table(outcome: &mut Outcome, learned: &Learned<'_>, found: &Finding<'_>, ratio: f64) {
    let name = format!("{}, {}", learned.stream.name, found.table.name);
    let (from, to) = learned.stream.steady.at(outcome.scale);
    let predicted = learned.whole.miss_ratio(found.table, class_price_pages());
    let (course, places) = (&found.course, Places::of(learned, found));
    for (measure, value) in [
        (STEADY, ratio * 100.0),
        (PREDICTED, predicted * 100.0),
        (BEST_SPLIT, found.best_split * 100.0),
        (TIME, course.answer_us_between(from, to)),
        (CLASSES, found.table.classes_used as f64),
        (INSIDE, places.inside),
        (PAGE_ENDS, places.page_ends),
        (UNUSED, places.unused),
        (ITEMS, places.items),
        (PAGES, course.counts.pages as f64),
        (PAGES_STEADY, course.pages_moved_between(from, to) as f64),
        (PROCESSOR, course.processor_nanos / course.operations.max(1) as f64),
    ] {
        outcome.add(measure, &name, Ok(value));
    }
}

/// What a price of a class makes of the prediction.
fn add_price(
    outcome: &mut Outcome,
    learned: &Learned<'_>,
    found: &[(&Finding<'_>, f64)],
    price: f64,
) {
    let name = format!("{}, a class {price} pages", learned.stream.name);
    let predicted = |found: &Finding<'_>| learned.whole.miss_ratio(found.table, price);
    let errors = found.iter().map(|(found, ratio)| (predicted(found) - ratio) * 100.0);
    let errors: Vec<f64> = errors.collect();
    let count = errors.len().max(1) as f64;
    let mean = errors.iter().sum::<f64>() / count;
    let variance = errors.iter().map(|error| (error - mean).powi(2)).sum::<f64>() / count;
    outcome.add(ERROR, &name, Ok(mean));
    outcome.add(SHAPE, &name, Ok(variance.sqrt()));
    // Of equal ones the first, that of the fewest classes.
    let pick = found.iter().min_by(|a, b| predicted(a.0).total_cmp(&predicted(b.0)));
    let best = found.iter().min_by(|a, b| a.1.total_cmp(&b.1));
    let none = || "no number of classes was tried".to_owned();
    let classes = |found: Option<&(&Finding<'_>, f64)>| {
        found.and_then(|found| found.0.table.class_count).map(|count| count as f64).ok_or_else(none)
    };
    outcome.add(PICKED, &name, classes(pick));
    outcome.add(BEST, &name, classes(best));
    let more = pick.zip(best).map(|(pick, best)| (pick.1 / best.1 - 1.0) * 100.0);
    outcome.add(REGRET, &name, more.ok_or_else(none));
    let series = |y_unit, name: &str, y: Vec<f64>| Series {
        name: name.to_owned(),
        variant: format!("{}, a class {price} pages", learned.stream.name),
        x_unit: "classes",
        y_unit,
        x: found.iter().filter_map(|found| found.0.table.class_count).map(|k| k as f64).collect(),
        y,
    };
    let ratios = found.iter().map(|found| predicted(found.0) * 100.0).collect();
    outcome.series.push(series("%", "predicted miss ratio", ratios));
}

/// What a class was found to cost.
fn add_measured_prices(
    outcome: &mut Outcome,
    learned: &Learned<'_>,
    found: &[(&Finding<'_>, f64)],
) {
    let name = &learned.stream.name;
    let none = || "all tables use as many classes".to_owned();
    let price = |pages: &dyn Fn(&Finding<'_>, f64) -> f64| {
        let point = |(found, ratio): &(&Finding<'_>, f64)| {
            (found.table.classes_used as f64, pages(found, *ratio))
        };
        slope(&found.iter().map(point).collect::<Vec<_>>()).ok_or_else(none)
    };
    let missing = |found: &Finding<'_>, ratio| learned.whole.pages_missing(found.table, ratio);
    outcome.add(MISSING, name, price(&missing));
    let best_split = |found: &Finding<'_>, _| missing(found, found.best_split);
    outcome.add(MISSING, &format!("{name}, best split"), price(&best_split));
    let free = |found: &Finding<'_>, _| Places::of(learned, found).unused_pages;
    outcome.add(FREE, name, price(&free));
}

/// Every measure of the tables by their number of classes.
fn add_series(
    outcome: &mut Outcome,
    learned: &Learned<'_>,
    found: &[Finding<'_>],
    first_row: usize,
) {
    let counts: Vec<(String, f64)> = found
        .iter()
        .filter_map(|found| {
            let name = format!("{}, {}", learned.stream.name, found.table.name);
            Some((name, found.table.class_count? as f64))
        })
        .collect();
    let units = [STEADY, BEST_SPLIT, TIME, INSIDE, PAGE_ENDS, UNUSED, ITEMS, PAGES, PROCESSOR];
    for Measure { name, text, unit, .. } in units {
        let value = |variant: &str| {
            let is_it = |row: &&_| -> bool {
                let row: &crate::experiment::outcome::Row = row;
                row.measure == name && row.variant == variant
            };
            outcome.rows[first_row..].iter().find(is_it).and_then(|row| row.ours)
        };
        let points = counts.iter().filter_map(|(variant, count)| Some((*count, value(variant)?)));
        let (x, y) = points.unzip();
        outcome.series.push(Series {
            name: text.to_owned(),
            variant: learned.stream.name.clone(),
            x_unit: "classes",
            y_unit: unit,
            x,
            y,
        });
    }
}
