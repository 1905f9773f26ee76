//! Adds the rows of each class table, and for each workload the rows of the number of classes that the predictions
//! select.

use super::trial::{ClassCountsSetup, Finding, Prepared};
use super::unpartitioned::{Table, slope};
use crate::result::{Measure, Outcome, format_number, mean, measures};
use crate::trial::run_record::{PAGES, PAGES_STEADY, STEADY};
use crate::trial::setup::scaled;
use slabwise_policy::sizes::LearnerOptions;

measures! {
    PREDICTED: "predicted_miss_ratio", "predicted miss ratio", "%", Fixed;
    BEST_PARTITION: "best_partition_miss_ratio", "miss ratio of the best partition, LRU", "%", Fixed;
    TIME: "steady_response_time", "steady mean response time", "us", Fixed;
    CLASSES: "classes_used", "classes that hold an item", "classes", Fixed;
    INSIDE: "lost_inside", "lost inside chunks", "% of memory", Fixed;
    PAGE_ENDS: "lost_page_ends", "lost at the ends of pages", "% of memory", Fixed;
    UNUSED: "unused", "free chunks and pages", "% of memory", Fixed;
    ITEMS: "items_held", "items held", "items", WithRun;
    PROCESSOR: "operation_processor_time", "processor time of an operation", "ns", Fixed;
    DEFICIT: "page_deficit", "page deficit", "pages", Fixed;
    DEFICIT_BEST: "page_deficit_best_partition", "page deficit of the best partition", "pages", Fixed;
    BEST: "class_count_best", "classes with the fewest misses", "classes", Fixed;
    QUICKEST: "class_count_quickest", "classes with the lowest response time", "classes", Fixed;
    ERROR: "prediction_error", "predicted minus measured miss ratio, mean over all k", "percentage points", Fixed;
    DEVIATION: "prediction_deviation", "predicted minus measured miss ratio, standard deviation over all k",
        "percentage points", Fixed;
    PICKED: "class_count_picked", "classes that the prediction picks", "classes", Fixed;
    PICK_MORE_MISSES: "pick_more_misses", "more misses with the pick than with the best number of classes", "%", Fixed;
    PRICE: "class_price", "page deficit per additional class", "pages", Fixed;
    PRICE_FREE: "class_price_free", "free pages per additional class", "pages", Fixed;
}

/// Adds the conditions of all runs to the outcome.
pub fn describe(outcome: &mut Outcome, setup: &ClassCountsSetup, prepared: &[Prepared<'_>]) {
    let scale = outcome.scale;
    for prepared in prepared {
        let (stream, prediction) = (prepared.stream, &prepared.prediction);
        let (from, to) = stream.steady.at(scale);
        let conditions = format!(
            "{} requests, {} MiB in pages of {} bytes, values cut to {} bytes; class tables are computed from the {} \
             items in the cache after {} requests; steady from request {} to {}",
            format_number(scaled(stream.workload.requests, scale) as f64),
            format_number(prediction.pages * prediction.page_size_bytes / f64::from(1 << 20)),
            format_number(prediction.page_size_bytes),
            format_number(f64::from(prepared.value_len_max)),
            format_number(prepared.items as f64),
            format_number((stream.training_requests as f64 * scale).round()),
            format_number(from as f64),
            format_number(to as f64),
        );
        outcome.add_setup(&stream.name, conditions);
    }
    outcome.add_setup("page policy", &setup.policy);
    let price = class_price_pages();
    outcome.add_setup("price of a class", format!("{price} pages, as in the server"));
    outcome.add_setup("response times", setup.response.text());
}

/// Returns the price of a class that a server assumes when it computes a class table: the number of pages that a class
/// needs without a benefit.
fn class_price_pages() -> f64 {
    LearnerOptions::default().class_price_pages
}

/// The use of the memory at the end of a run.
struct MemoryUse {
    /// Bytes of used chunks that hold no item data, in percent of the memory.
    inside: f64,
    /// Bytes at the ends of pages that are too short for a chunk, in percent of the memory.
    page_ends: f64,
    /// Free chunks and free pages, in percent of the memory.
    unused: f64,
    /// Number of items.
    items: f64,
    /// Free chunks and free pages, in pages.
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

/// The measurements of a class table that was computed for a number of classes. Miss ratios are fractions of all
/// requests in the steady part of the run (`StreamSetup::steady`).
struct Measured<'f> {
    /// The number of classes for which the table was computed.
    class_count: usize,
    table: &'f Table,
    /// Measured miss ratio.
    ratio: f64,
    /// Miss ratio of the best partition by exact curves.
    best_partition_ratio: f64,
    /// Mean response time.
    response_us: f64,
    /// Free chunks and free pages at the end of the run, in pages.
    unused_pages: f64,
    /// The values of the rows of the table.
    found: [(Measure, f64); 14],
}

/// Adds the rows and series of a workload. `found` has one element per class table.
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
                best_partition_ratio: found.best_partition_ratio,
                response_us: found.record.response_us_between(from, to),
                unused_pages: usage.unused_pages,
                found: measured,
            });
        }
    }
    add_series(outcome, prepared, &tables);
    let name = &prepared.stream.name;
    add_class_count(outcome, BEST, name, &tables, |table| table.ratio);
    add_class_count(outcome, QUICKEST, name, &tables, |table| table.response_us);
    for &price in &setup.class_prices_pages {
        add_price(outcome, prepared, &tables, price);
    }
    add_pick(outcome, &format!("{name}, best partition"), &tables, |table| {
        table.best_partition_ratio
    });
    add_measured_prices(outcome, prepared, &tables);
}

/// Adds the rows of a class table, and returns their values.
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
        (BEST_PARTITION, found.best_partition_ratio * 100.0),
        (TIME, record.response_us_between(from, to)),
        (CLASSES, found.table.classes_used as f64),
        (INSIDE, usage.inside),
        (PAGE_ENDS, usage.page_ends),
        (UNUSED, usage.unused),
        (ITEMS, usage.items),
        (PAGES, record.counts.moved as f64),
        (PAGES_STEADY, record.pages_moved_between(from, to) as f64),
        (PROCESSOR, record.processor_nanos / record.operations.max(1) as f64),
        (DEFICIT, prediction.page_deficit(found.table, ratio)),
        (DEFICIT_BEST, prediction.page_deficit(found.table, found.best_partition_ratio)),
    ];
    outcome.add_all(&name, found);
    found
}

const NO_TABLE: &str = "no number of classes was measured";

/// Returns the class table for which `value` is lowest. If several tables have the lowest value, returns the table with
/// the fewest classes.
fn with_lowest<'t, 'f>(
    tables: &'t [Measured<'f>],
    value: impl Fn(&Measured<'_>) -> f64,
) -> Option<&'t Measured<'f>> {
    tables.iter().min_by(|a, b| value(a).total_cmp(&value(b)))
}

/// Adds a row with the number of classes of the table for which `value` is lowest.
fn add_class_count(
    outcome: &mut Outcome,
    measure: Measure,
    name: &str,
    tables: &[Measured<'_>],
    value: impl Fn(&Measured<'_>) -> f64,
) {
    let count = with_lowest(tables, value).map(|table| table.class_count as f64);
    outcome.add(measure, name, count.ok_or_else(|| NO_TABLE.to_owned()));
}

/// Adds a row with the number of classes that has the lowest predicted miss ratio. Adds a second row with the
/// additional misses that were measured with this number of classes, compared with the number of classes that has the
/// fewest misses.
fn add_pick(
    outcome: &mut Outcome,
    name: &str,
    tables: &[Measured<'_>],
    predicted: impl Fn(&Measured<'_>) -> f64,
) {
    add_class_count(outcome, PICKED, name, tables, &predicted);
    let pick_and_best =
        with_lowest(tables, &predicted).zip(with_lowest(tables, |table| table.ratio));
    let more = pick_and_best.map(|(pick, best)| (pick.ratio / best.ratio - 1.0) * 100.0);
    outcome.add(PICK_MORE_MISSES, name, more.ok_or_else(|| NO_TABLE.to_owned()));
}

/// Adds the rows and the curve of the predictions with a certain price of a class, in pages.
fn add_price(outcome: &mut Outcome, prepared: &Prepared<'_>, tables: &[Measured<'_>], price: f64) {
    let name = format!("{}, a class {price} pages", prepared.stream.name);
    let predicted = |table: &Measured<'_>| prepared.prediction.miss_ratio(table.table, price);
    let errors: Vec<f64> =
        tables.iter().map(|table| (predicted(table) - table.ratio) * 100.0).collect();
    let error = mean(&errors);
    let squares: Vec<f64> = errors.iter().map(|single| (single - error).powi(2)).collect();
    outcome.add_all(&name, [(ERROR, error), (DEVIATION, mean(&squares).sqrt())]);
    add_pick(outcome, &name, tables, predicted);
    let points = tables.iter().map(|table| (table.class_count as f64, predicted(table) * 100.0));
    outcome.add_series(PREDICTED.text, name, ["classes", PREDICTED.unit], points);
}

/// Prices are measured over class tables with at least this number of classes. With fewer classes, the page deficit
/// (`Prediction::page_deficit`) depends mainly on the gain of partitioning, which differs much between small tables.
const PRICED_CLASSES_MIN: usize = 16;

/// Adds the rows of the measured prices of a class: by how many pages the page deficit (`Prediction::page_deficit`) and
/// the free memory rise per additional used class.
fn add_measured_prices(outcome: &mut Outcome, prepared: &Prepared<'_>, tables: &[Measured<'_>]) {
    let name = &prepared.stream.name;
    let priced = || tables.iter().filter(|table| table.class_count >= PRICED_CLASSES_MIN);
    let price = |pages: &dyn Fn(&Measured<'_>) -> f64| {
        let point = |table: &Measured<'_>| (table.table.classes_used as f64, pages(table));
        let why_missing = || {
            format!(
                "all tables of at least {PRICED_CLASSES_MIN} classes have the same number of used classes"
            )
        };
        slope(&priced().map(point).collect::<Vec<_>>()).ok_or_else(why_missing)
    };
    let deficit =
        |table: &Measured<'_>, ratio| prepared.prediction.page_deficit(table.table, ratio);
    let method = format!("slope over tables of at least {PRICED_CLASSES_MIN} classes");
    for (measure, name, found) in [
        (PRICE, name.clone(), price(&|table| deficit(table, table.ratio))),
        (
            PRICE,
            format!("{name}, best partition"),
            price(&|table| deficit(table, table.best_partition_ratio)),
        ),
        (PRICE_FREE, name.clone(), price(&|table| table.unused_pages)),
    ] {
        let is_found = found.is_ok();
        outcome.add(measure, &name, found);
        if is_found {
            outcome.note_last_row(&method);
        }
    }
}

/// The measures that have a curve over the number of classes.
const IN_SERIES: [Measure; 11] = [
    STEADY,
    BEST_PARTITION,
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
            let (_, value) = table.found.iter().find(|(found, _)| found.name == measure.name)?;
            Some((table.class_count as f64, *value))
        };
        let points: Vec<_> = tables.iter().filter_map(value).collect();
        outcome.add_series(measure.text, &prepared.stream.name, ["classes", measure.unit], points);
    }
}
