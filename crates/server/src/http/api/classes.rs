//! `/api/v1/classes`: the classes with their curves. `/api/v1/pages`: the class of each page.

use crate::stats::StatsContext;
use serde::Serialize;
use slabwise_engine::ClassStats;
use slabwise_policy::{ClassProfile, ClassSnapshot, Snapshot};
use std::collections::BTreeMap;

/// The sizes at which the curve of a class is shown, in percent of its current memory.
const CURVE_PERCENTS: [u64; 14] = [10, 25, 40, 50, 65, 80, 90, 100, 110, 125, 150, 200, 300, 400];
/// The maximum number of cells of the page map.
const CELLS_MAX: u64 = 4096;

#[derive(Serialize)]
pub(super) struct Class {
    class: u32,
    /// True if the class left the class table and its items move to other classes.
    is_retired: bool,
    chunk_size_bytes: usize,
    chunks_per_page: usize,
    pages: u64,
    used_chunks: u64,
    free_chunks: u64,
    items: u64,
    item_bytes: u64,
    /// Memory that holds nothing: the ends of chunks that are larger than their items, ...
    inside_chunks_bytes: u64,
    /// ... chunks without items, ...
    free_chunks_bytes: u64,
    /// ... and the ends of pages.
    page_ends_bytes: u64,
    tail_age_seconds: Option<u32>,
    hits: u64,
    sets: u64,
    evictions: u64,
    out_of_memory: u64,
    pages_taken: u64,
    pages_released: u64,
    /// `None` if the class has no profiled references.
    curve: Option<Curve>,
}

/// The miss-ratio curve of a class.
#[derive(Serialize)]
struct Curve {
    /// The share of all profiled gets that are gets of this class.
    get_share: f64,
    /// The miss ratio of the class with its current pages, according to the curve.
    miss_ratio: f64,
    /// The share of all gets that would hit in addition with one more page, ...
    next_page_hit_ratio: f64,
    /// ... and that would miss in addition with one page less.
    last_page_hit_ratio: f64,
    points: Vec<CurvePoint>,
}

#[derive(Serialize)]
struct CurvePoint {
    /// The memory of the class in percent of its current memory.
    memory_percent: u64,
    miss_ratio: f64,
}

pub(super) fn classes(context: StatsContext<'_>) -> Vec<Class> {
    let shared = context.shared;
    let report = shared.tuner_status.read().profile;
    let snapshot = report.as_ref().map(|report| &report.snapshot);
    let gets = snapshot.map_or(0.0, Snapshot::profiled_gets);
    let curve_of = |stats: &ClassStats| {
        let snapshot = snapshot?;
        let mut classes = snapshot.classes.iter().zip(&snapshot.profiles);
        let (class, profile) = classes.find(|(class, _)| Some(class.class) == stats.class)?;
        (profile.curve.references() > 0.0).then(|| curve(class, profile, gets))
    };
    let page_size_bytes = shared.engine.config().page_size_bytes as u64;
    let stats = shared.engine.class_stats(context.now).into_iter();
    stats.filter_map(|stats| class(context, &stats, curve_of(&stats), page_size_bytes)).collect()
}

fn class(
    context: StatsContext<'_>,
    stats: &ClassStats,
    curve: Option<Curve>,
    page_size_bytes: u64,
) -> Option<Class> {
    let waste = stats.waste(page_size_bytes);
    let seconds = |age_work| context.shared.engine.age_seconds(age_work, context.now);
    Some(Class {
        class: stats.class?.wire(),
        is_retired: stats.retired,
        chunk_size_bytes: stats.chunk_size_bytes,
        chunks_per_page: stats.chunks_per_page,
        pages: stats.pages,
        used_chunks: stats.used_chunks,
        free_chunks: stats.free_chunks,
        items: stats.items.iter().sum(),
        item_bytes: stats.item_bytes,
        inside_chunks_bytes: waste.inside_chunks_bytes,
        free_chunks_bytes: waste.free_chunks_bytes,
        page_ends_bytes: waste.page_ends_bytes,
        tail_age_seconds: stats.oldest_tail_work().map(seconds),
        hits: stats.get_hits(),
        sets: stats.sets,
        evictions: stats.counters.evicted,
        out_of_memory: stats.counters.out_of_memory,
        pages_taken: stats.counters.pages_taken,
        pages_released: stats.counters.pages_released,
        curve,
    })
}

/// Returns the curve of a class. `gets` is the number of profiled gets of all classes.
fn curve(class: &ClassSnapshot, profile: &ClassProfile, gets: f64) -> Curve {
    let (curve, chunks_per_page) = (&profile.curve, class.chunks_per_page as u64);
    let chunks = class.pages * chunks_per_page;
    let misses = curve.misses(chunks);
    let fewer = curve.misses(chunks.saturating_sub(chunks_per_page));
    // The percentages of a class without pages refer to one page.
    let current = chunks.max(chunks_per_page);
    let point = |memory_percent| CurvePoint {
        memory_percent,
        miss_ratio: curve.misses(current * memory_percent / 100) / curve.references(),
    };
    Curve {
        get_share: curve.references() / gets,
        miss_ratio: misses / curve.references(),
        next_page_hit_ratio: (misses - curve.misses(chunks + chunks_per_page)) / gets,
        last_page_hit_ratio: (fewer - misses) / gets,
        points: CURVE_PERCENTS.map(point).into(),
    }
}

#[derive(Serialize)]
pub(super) struct Pages {
    page_size_bytes: u64,
    /// The number of pages that the memory limit allows.
    pages: u64,
    /// The number of adjacent pages in a cell.
    pages_per_cell: u64,
    /// For each cell, the number of the class that owns most of its pages; 0 if no class owns one.
    cells: Vec<u32>,
    /// The page moves since the start of the server.
    page_moves: u64,
}

pub(super) fn pages(context: StatsContext<'_>) -> Pages {
    let engine = context.shared.engine;
    let mut pages = engine.page_stats().limit;
    engine.for_each_owned_page(|page| pages = pages.max(u64::from(page.id.0) + 1));
    let pages_per_cell = pages.div_ceil(CELLS_MAX).max(1);
    let mut cells = vec![0; pages.div_ceil(pages_per_cell) as usize];
    // The numbers of pages by class, of the cell whose pages are visited. A server can have millions of pages.
    let (mut cell, mut counts) = (0, BTreeMap::new());
    engine.for_each_owned_page(|page| {
        let next = (u64::from(page.id.0) / pages_per_cell) as usize;
        if next != cell {
            if let Some(done) = cells.get_mut(cell) {
                *done = most_frequent(&counts);
            }
            (cell, counts) = (next, BTreeMap::new());
        }
        *counts.entry(page.class.wire()).or_default() += 1;
    });
    // A class may have taken a page beyond the last cell since the first visit.
    if let Some(last) = cells.get_mut(cell) {
        *last = most_frequent(&counts);
    }
    Pages {
        page_size_bytes: engine.config().page_size_bytes as u64,
        pages,
        pages_per_cell,
        cells,
        page_moves: engine.mover_counters().moved,
    }
}

/// Returns the class with the most pages; 0 if there is none.
fn most_frequent(pages_by_class: &BTreeMap<u32, u64>) -> u32 {
    let most = pages_by_class.iter().max_by_key(|&(_, &pages)| pages);
    most.map_or(0, |(&class, _)| class)
}
