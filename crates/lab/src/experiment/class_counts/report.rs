//! Adds the rows of each table, and the number of classes that the prediction picks for each workload.

use super::trial::{ClassCountsSetup, Finding, Prepared};
use super::unpartitioned::{Table, slope};
use crate::result::{Measure, Outcome, mean, measures, number};
use crate::trial::run_record::{PAGES, PAGES_STEADY, STEADY};
use crate::trial::setup::scaled;
use slabwise_policy::sizes::LearnerOptions;

measures! {
    PREDICTED: "predicted_miss_ratio", "predicted miss ratio", "%", Fixed;
    BEST_SPLIT: "best_split_miss_ratio", "miss ratio of the best partition, LRU", "%", Fixed;
    TIME: "steady_answer_time", "steady mean response time", "us", Fixed;
    CLASSES: "classes_used", "classes that hold an item", "classes", Fixed;
    INSIDE: "lost_inside", "lost inside chunks", "% of memory", Fixed;
    PAGE_ENDS: "lost_page_ends", "lost at the ends of pages", "% of memory", Fixed;
    UNUSED: "unused", "free chunks and pages", "% of memory", Fixed;
    ITEMS: "items_held", "items held", "items", WithRun;
    PROCESSOR: "operation_processor_time", "processor time of an operation, all included", "ns", Fixed;
    DEFICIT: "pages_missing", "page deficit, without the losses of the table", "pages", Fixed;
    DEFICIT_BEST: "pages_missing_best_split", "page deficit of the best partition", "pages", Fixed;
    BEST: "class_count_best", "classes with the fewest misses", "classes", Fixed;
    QUICKEST: "class_count_quickest", "classes with the lowest response time", "classes", Fixed;
    ERROR: "prediction_error", "predicted minus measured miss ratio, mean over k", "points", Fixed;
    SHAPE: "prediction_deviation", "predicted minus measured miss ratio, deviation over k", "points", Fixed;
    PICKED: "class_count_picked", "classes that the prediction picks", "classes", Fixed;
    REGRET: "pick_misses_more", "more misses with the pick than with the best", "%", Fixed;
    PRICE: "class_price", "page deficit per additional class", "pages", Fixed;
    PRICE_FREE: "class_price_free", "free pages per additional class", "pages", Fixed;
}

pub fn describe(outcome: &mut Outcome, setup: &ClassCountsSetup, prepared: &[Prepared<'_>]) {
    let scale = outcome.scale;
    for prepared in prepared {
        let (stream, prediction) = (prepared.stream, &prepared.prediction);
        let text = |count: f64| number(count);
        let (from, to) = stream.steady.at(scale);
        let cache = format!(
            "{} requests, {} MiB in pages of {} bytes, values cut to {} bytes; tables by the {} items in the cache \
             after {} requests; steady from request {} to {}",
            text(scaled(stream.workload.requests, scale) as f64),
            text(prediction.pages * prediction.page_size_bytes / f64::from(1 << 20)),
            text(prediction.page_size_bytes),
            text(f64::from(prepared.value_len_max)),
            text(prepared.items as f64),
            text((stream.training_requests as f64 * scale).round()),
            text(from as f64),
            text(to as f64),
        );
        outcome.choose(&stream.name, cache);
    }
    outcome.choose("page policy", &setup.policy);
    let price = class_price_pages();
    outcome.choose("predicted", format!("a class costs {price} pages, as in the server"));
    outcome.choose("response times", setup.answer.text());
}

fn class_price_pages() -> f64 {
    LearnerOptions::default().class_price_pages
}

/// The use of the memory at the end of a run, in percent of it.
struct MemoryUse {
    inside: f64,
    page_ends: f64,
    unused: f64,
    items: f64,
    unused_pages: f64,
}

impl MemoryUse {
    fn of(prepared: &Prepared<'_>, found: &Finding<'_>) -> MemoryUse {
        let (page_bytes, memory) = (prepared.prediction.page_size_bytes, found.record.memory);
        let mut usage = MemoryUse {
            inside: 0.0,
            page_ends: 0.0,
            unused: 0.0,
            items: 0.0,
            unused_pages: (memory.free + memory.limit_for_items.saturating_sub(memory.held)) as f64,
        };
        for class in &found.record.classes {
            let chunk_bytes = class.chunk_size_bytes as f64;
            let filled = class.chunks_per_page as f64 * chunk_bytes;
            usage.inside += class.used_chunks as f64 * chunk_bytes - class.item_bytes as f64;
            usage.page_ends += class.pages as f64 * (page_bytes - filled);
            usage.unused_pages += class.free_chunks as f64 * chunk_bytes / page_bytes;
            usage.items += class.items.iter().sum::<u64>() as f64;
        }
        usage.unused = usage.unused_pages * page_bytes;
        let percent = 100.0 / (prepared.prediction.pages * page_bytes);
        usage.inside *= percent;
        usage.page_ends *= percent;
        usage.unused *= percent;
        usage
    }
}

struct Measured<'f> {
    class_count: usize,
    table: &'f Table,
    ratio: f64,
    best_partition: f64,
    answer_us: f64,
    unused_pages: f64,
    found: [(Measure, f64); 14],
}

pub fn add(
    outcome: &mut Outcome,
    setup: &ClassCountsSetup,
    prepared: &Prepared<'_>,
    found: &[Finding<'_>],
) {
    let (from, to) = prepared.stream.steady.at(outcome.scale);
    let mut tables = Vec::new();
    for found in found {
        let usage = MemoryUse::of(prepared, found);
        let measured = add_table(outcome, prepared, found, &usage);
        if let Some(class_count) = found.table.class_count {
            tables.push(Measured {
                class_count,
                table: found.table,
                ratio: found.record.miss_ratio_between(from, to),
                best_partition: found.best_partition,
                answer_us: found.record.answer_us_between(from, to),
                unused_pages: usage.unused_pages,
                found: measured,
            });
        }
    }
    add_series(outcome, prepared, &tables);
    let name = &prepared.stream.name;
    add_least(outcome, BEST, name, &tables, |table| table.ratio);
    add_least(outcome, QUICKEST, name, &tables, |table| table.answer_us);
    for &price in &setup.class_prices_pages {
        add_price(outcome, prepared, &tables, price);
    }
    add_pick(outcome, &format!("{name}, best partition"), &tables, |table| table.best_partition);
    add_measured_prices(outcome, prepared, &tables);
}

fn add_table(
    outcome: &mut Outcome,
    prepared: &Prepared<'_>,
    found: &Finding<'_>,
    usage: &MemoryUse,
) -> [(Measure, f64); 14] {
    let name = format!("{}, {}", prepared.stream.name, found.table.name);
    let (from, to) = prepared.stream.steady.at(outcome.scale);
    let (record, prediction) = (&found.record, &prepared.prediction);
    let ratio = record.miss_ratio_between(from, to);
    let predicted = prediction.miss_ratio(found.table, class_price_pages());
    let found = [
        (STEADY, ratio * 100.0),
        (PREDICTED, predicted * 100.0),
        (BEST_SPLIT, found.best_partition * 100.0),
        (TIME, record.answer_us_between(from, to)),
        (CLASSES, found.table.classes_used as f64),
        (INSIDE, usage.inside),
        (PAGE_ENDS, usage.page_ends),
        (UNUSED, usage.unused),
        (ITEMS, usage.items),
        (PAGES, record.counts.moved as f64),
        (PAGES_STEADY, record.pages_moved_between(from, to) as f64),
        (PROCESSOR, record.processor_nanos / record.operations.max(1) as f64),
        (DEFICIT, prediction.page_deficit(found.table, ratio)),
        (DEFICIT_BEST, prediction.page_deficit(found.table, found.best_partition)),
    ];
    outcome.add_all(&name, found);
    found
}

const NO_TABLE: &str = "no number of classes was measured";

/// The table with the least value; of equal ones, that with the fewest classes.
fn least<'t, 'f>(
    tables: &'t [Measured<'f>],
    of: impl Fn(&Measured<'_>) -> f64,
) -> Option<&'t Measured<'f>> {
    tables.iter().min_by(|a, b| of(a).total_cmp(&of(b)))
}

fn add_least(
    outcome: &mut Outcome,
    measure: Measure,
    name: &str,
    tables: &[Measured<'_>],
    of: impl Fn(&Measured<'_>) -> f64,
) {
    let count = least(tables, of).map(|least| least.class_count as f64);
    outcome.add(measure, name, count.ok_or_else(|| NO_TABLE.to_owned()));
}

/// Adds the number of classes that is best by `predicted`, and its additional misses compared with the best of all.
fn add_pick(
    outcome: &mut Outcome,
    name: &str,
    tables: &[Measured<'_>],
    predicted: impl Fn(&Measured<'_>) -> f64,
) {
    add_least(outcome, PICKED, name, tables, &predicted);
    let both = least(tables, &predicted).zip(least(tables, |table| table.ratio));
    let more = both.map(|(pick, best)| (pick.ratio / best.ratio - 1.0) * 100.0);
    outcome.add(REGRET, name, more.ok_or_else(|| NO_TABLE.to_owned()));
}

fn add_price(outcome: &mut Outcome, prepared: &Prepared<'_>, tables: &[Measured<'_>], price: f64) {
    let name = format!("{}, a class {price} pages", prepared.stream.name);
    let predicted = |table: &Measured<'_>| prepared.prediction.miss_ratio(table.table, price);
    let errors: Vec<f64> =
        tables.iter().map(|table| (predicted(table) - table.ratio) * 100.0).collect();
    let error = mean(&errors);
    let squares: Vec<f64> = errors.iter().map(|it| (it - error).powi(2)).collect();
    outcome.add_all(&name, [(ERROR, error), (SHAPE, mean(&squares).sqrt())]);
    add_pick(outcome, &name, tables, predicted);
    let points = tables.iter().map(|table| (table.class_count as f64, predicted(table) * 100.0));
    outcome.draw(PREDICTED.text, name, ["classes", PREDICTED.unit], points);
}

/// The smallest table for the slope: the gain of partitioning differs much between tables with fewer classes.
const PRICED_CLASSES_MIN: usize = 16;

fn add_measured_prices(outcome: &mut Outcome, prepared: &Prepared<'_>, tables: &[Measured<'_>]) {
    let name = &prepared.stream.name;
    let many = || tables.iter().filter(|table| table.class_count >= PRICED_CLASSES_MIN);
    let price = |pages: &dyn Fn(&Measured<'_>) -> f64| {
        let point = |table: &Measured<'_>| (table.table.classes_used as f64, pages(table));
        let none =
            || format!("all tables of at least {PRICED_CLASSES_MIN} classes use equally many");
        slope(&many().map(point).collect::<Vec<_>>()).ok_or_else(none)
    };
    let deficit =
        |table: &Measured<'_>, ratio| prepared.prediction.page_deficit(table.table, ratio);
    let how = format!("slope over tables of at least {PRICED_CLASSES_MIN} classes");
    for (measure, name, found) in [
        (PRICE, name.clone(), price(&|table| deficit(table, table.ratio))),
        (
            PRICE,
            format!("{name}, best partition"),
            price(&|table| deficit(table, table.best_partition)),
        ),
        (PRICE_FREE, name.clone(), price(&|table| table.unused_pages)),
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
    DEFICIT,
    DEFICIT_BEST,
];

fn add_series(outcome: &mut Outcome, prepared: &Prepared<'_>, tables: &[Measured<'_>]) {
    for measure in IN_SERIES {
        let value = |table: &Measured<'_>| {
            let (_, value) = table.found.iter().find(|(it, _)| it.name == measure.name)?;
            Some((table.class_count as f64, *value))
        };
        let points: Vec<_> = tables.iter().filter_map(value).collect();
        outcome.draw(measure.text, &prepared.stream.name, ["classes", measure.unit], points);
    }
}
