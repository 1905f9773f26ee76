//! What was found, as rows: every table; then, for every workload, which number of classes the prediction picks.

use super::trial::{ClassCountsSetup, Finding, Learned};
use super::whole::{Table, slope};
use crate::result::{Measure, Outcome, mean, measures, number};
use crate::trial::course::{PAGES, PAGES_STEADY, STEADY};
use crate::trial::setup::scaled;
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
    MISSING: "pages_missing", "pages missing, beside what the table loses", "pages", Fixed;
    MISSING_SPLIT: "pages_missing_best_split", "pages missing for the best split", "pages", Fixed;
    BEST: "class_count_best", "classes that miss least", "classes", Fixed;
    QUICKEST: "class_count_quickest", "classes that take least time", "classes", Fixed;
    ERROR: "prediction_error", "predicted less measured, mean over k", "points", Fixed;
    SHAPE: "prediction_deviation", "the same, deviation over k", "points", Fixed;
    PICKED: "class_count_picked", "classes that the prediction picks", "classes", Fixed;
    REGRET: "pick_misses_more", "more misses with the pick than at best", "%", Fixed;
    PRICE: "class_price", "a class more, pages missing", "pages", Fixed;
    PRICE_FREE: "class_price_free", "a class more, pages free", "pages", Fixed;
}

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
    outcome.choose("answers", setup.answer.text());
}

fn class_price_pages() -> f64 {
    LearnerOptions::default().class_price_pages
}

/// Where the memory is at the end, in percent of it.
struct Places {
    inside: f64,
    page_ends: f64,
    unused: f64,
    items: f64,
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

struct Tried<'f> {
    class_count: usize,
    table: &'f Table,
    ratio: f64,
    best_split: f64,
    answer_us: f64,
    unused_pages: f64,
    found: [(Measure, f64); 14],
}

pub fn add(
    outcome: &mut Outcome,
    setup: &ClassCountsSetup,
    learned: &Learned<'_>,
    found: &[Finding<'_>],
) {
    let (from, to) = learned.stream.steady.at(outcome.scale);
    let mut tried = Vec::new();
    for found in found {
        let places = Places::of(learned, found);
        let measured = add_table(outcome, learned, found, &places);
        if let Some(class_count) = found.table.class_count {
            tried.push(Tried {
                class_count,
                table: found.table,
                ratio: found.course.miss_ratio_between(from, to),
                best_split: found.best_split,
                answer_us: found.course.answer_us_between(from, to),
                unused_pages: places.unused_pages,
                found: measured,
            });
        }
    }
    add_series(outcome, learned, &tried);
    let name = &learned.stream.name;
    add_least(outcome, BEST, name, &tried, |tried| tried.ratio);
    add_least(outcome, QUICKEST, name, &tried, |tried| tried.answer_us);
    for &price in &setup.class_prices_pages {
        add_price(outcome, learned, &tried, price);
    }
    add_pick(outcome, &format!("{name}, best split"), &tried, |tried| tried.best_split);
    add_measured_prices(outcome, learned, &tried);
}

fn add_table(
    outcome: &mut Outcome,
    learned: &Learned<'_>,
    found: &Finding<'_>,
    places: &Places,
) -> [(Measure, f64); 14] {
    let name = format!("{}, {}", learned.stream.name, found.table.name);
    let (from, to) = learned.stream.steady.at(outcome.scale);
    let (course, whole) = (&found.course, &learned.whole);
    let ratio = course.miss_ratio_between(from, to);
    let predicted = whole.miss_ratio(found.table, class_price_pages());
    let found = [
        (STEADY, ratio * 100.0),
        (PREDICTED, predicted * 100.0),
        (BEST_SPLIT, found.best_split * 100.0),
        (TIME, course.answer_us_between(from, to)),
        (CLASSES, found.table.classes_used as f64),
        (INSIDE, places.inside),
        (PAGE_ENDS, places.page_ends),
        (UNUSED, places.unused),
        (ITEMS, places.items),
        (PAGES, course.counts.moved as f64),
        (PAGES_STEADY, course.pages_moved_between(from, to) as f64),
        (PROCESSOR, course.processor_nanos / course.operations.max(1) as f64),
        (MISSING, whole.pages_missing(found.table, ratio)),
        (MISSING_SPLIT, whole.pages_missing(found.table, found.best_split)),
    ];
    outcome.add_all(&name, found);
    found
}

const NONE_TRIED: &str = "no number of classes was tried";

/// Of equal ones the first, that of the fewest classes.
fn least<'t, 'f>(tried: &'t [Tried<'f>], of: impl Fn(&Tried<'_>) -> f64) -> Option<&'t Tried<'f>> {
    tried.iter().min_by(|a, b| of(a).total_cmp(&of(b)))
}

fn add_least(
    outcome: &mut Outcome,
    measure: Measure,
    name: &str,
    tried: &[Tried<'_>],
    of: impl Fn(&Tried<'_>) -> f64,
) {
    let count = least(tried, of).map(|least| least.class_count as f64);
    outcome.add(measure, name, count.ok_or_else(|| NONE_TRIED.to_owned()));
}

/// The number of classes that is best by `predicted`, and what it misses more than the best of all.
fn add_pick(
    outcome: &mut Outcome,
    name: &str,
    tried: &[Tried<'_>],
    predicted: impl Fn(&Tried<'_>) -> f64,
) {
    add_least(outcome, PICKED, name, tried, &predicted);
    let both = least(tried, &predicted).zip(least(tried, |tried| tried.ratio));
    let more = both.map(|(pick, best)| (pick.ratio / best.ratio - 1.0) * 100.0);
    outcome.add(REGRET, name, more.ok_or_else(|| NONE_TRIED.to_owned()));
}

fn add_price(outcome: &mut Outcome, learned: &Learned<'_>, tried: &[Tried<'_>], price: f64) {
    let name = format!("{}, a class {price} pages", learned.stream.name);
    let predicted = |tried: &Tried<'_>| learned.whole.miss_ratio(tried.table, price);
    let errors: Vec<f64> =
        tried.iter().map(|tried| (predicted(tried) - tried.ratio) * 100.0).collect();
    let error = mean(&errors);
    let squares: Vec<f64> = errors.iter().map(|it| (it - error).powi(2)).collect();
    outcome.add_all(&name, [(ERROR, error), (SHAPE, mean(&squares).sqrt())]);
    add_pick(outcome, &name, tried, predicted);
    let points = tried.iter().map(|tried| (tried.class_count as f64, predicted(tried) * 100.0));
    outcome.draw(PREDICTED.text, name, ["classes", PREDICTED.unit], points);
}

/// With fewer classes, what a split gains by itself changes much from table to table.
const PRICED_CLASSES_MIN: usize = 16;

fn add_measured_prices(outcome: &mut Outcome, learned: &Learned<'_>, tried: &[Tried<'_>]) {
    let name = &learned.stream.name;
    let many = || tried.iter().filter(|tried| tried.class_count >= PRICED_CLASSES_MIN);
    let price = |pages: &dyn Fn(&Tried<'_>) -> f64| {
        let point = |tried: &Tried<'_>| (tried.table.classes_used as f64, pages(tried));
        let none = || format!("all tables from {PRICED_CLASSES_MIN} classes on use as many");
        slope(&many().map(point).collect::<Vec<_>>()).ok_or_else(none)
    };
    let missing = |tried: &Tried<'_>, ratio| learned.whole.pages_missing(tried.table, ratio);
    let how = format!("over tables of {PRICED_CLASSES_MIN} classes and more");
    for (measure, name, found) in [
        (PRICE, name.clone(), price(&|tried| missing(tried, tried.ratio))),
        (PRICE, format!("{name}, best split"), price(&|tried| missing(tried, tried.best_split))),
        (PRICE_FREE, name.clone(), price(&|tried| tried.unused_pages)),
    ] {
        let is_found = found.is_ok();
        outcome.add(measure, &name, found);
        if is_found {
            outcome.note(&how);
        }
    }
}

const IN_SERIES: [Measure; 11] = [
    STEADY,
    BEST_SPLIT,
    TIME,
    INSIDE,
    PAGE_ENDS,
    UNUSED,
    ITEMS,
    PAGES,
    PROCESSOR,
    MISSING,
    MISSING_SPLIT,
];

fn add_series(outcome: &mut Outcome, learned: &Learned<'_>, tried: &[Tried<'_>]) {
    for measure in IN_SERIES {
        let value = |tried: &Tried<'_>| {
            let (_, value) = tried.found.iter().find(|(it, _)| it.name == measure.name)?;
            Some((tried.class_count as f64, *value))
        };
        let points: Vec<_> = tried.iter().filter_map(value).collect();
        outcome.draw(measure.text, &learned.stream.name, ["classes", measure.unit], points);
    }
}
