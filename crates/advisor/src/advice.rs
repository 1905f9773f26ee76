//! The advice: the best class table for the items compared with the current one, and the contents of each class.
//!
//! A chained item counts as its parts, which [`Chaining`] defines: the head, bodies of the largest chunk size, and the
//! rest. Invariant: the sum of the losses of all classes is the loss by `slabwise_policy::sizes::loss`.

use crate::cache::{Cache, LISTED_COUNT_MAX, Listed, Program, list};
use crate::error::AdvisorError;
use crate::sizes_seen::{SizesSeen, Source};
use serde::Serialize;
use slabwise_base::ClassId;
use slabwise_policy::sizes::{Chaining, ChunkLayout, Demand, exact, fill_gaps, loss};

/// The advice. Scripts rely on the names of its fields. Sizes and losses are in bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    pub program: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub source: String,
    pub items: u64,
    /// The bytes of all items: headers, keys and values.
    pub bytes: u64,
    pub item_size_max: usize,
    pub page_size: usize,
    /// With the current table.
    pub now: Outcome,
    /// With the recommended table.
    pub then: Outcome,
    /// The reduction of the loss; negative if the loss grows.
    pub saved_bytes: i64,
    pub saved_percent: f64,
    pub saved_pages: i64,
    /// The value of `-o slab_sizes=`.
    pub slab_sizes: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    pub lost_in_chunks: u64,
    pub lost_at_page_ends: u64,
    /// The overhead of chained items, which does not depend on the table.
    pub lost_by_chaining: u64,
    pub lost: u64,
    pub pages: u64,
    /// The free bytes of pages that are not full.
    pub free: u64,
    /// The classes by chunk size; of the current table only the known ones.
    pub classes: Vec<ClassRow>,
}

impl Outcome {
    fn of(table: &[usize], seen: &SizesSeen, cache: &Cache) -> Result<Outcome, AdvisorError> {
        let loss = loss(&demands(seen), table, &cache.layout)?;
        let classes = class_rows(seen, table, &cache.layout);
        let lost = loss.total_bytes().round() as u64;
        let pages: u64 = classes.iter().map(|row| row.pages).sum();
        let page_bytes = pages * cache.page_size_bytes() as u64;
        Ok(Outcome {
            lost_in_chunks: loss.inside_bytes.round() as u64,
            lost_at_page_ends: loss.page_end_bytes.round() as u64,
            lost_by_chaining: loss.chained_bytes.round() as u64,
            lost,
            pages,
            free: page_bytes.saturating_sub(seen.bytes() + lost),
            classes,
        })
    }

    pub fn used_count(&self) -> usize {
        self.classes.iter().filter(|row| row.chunks > 0).count()
    }
}

/// Returns the best table with at most `listed_count_max` sizes besides the largest chunk, 63 in total. With `None` the
/// number of classes minimizes the loss plus half a page per class, the average unused part of its last page. Remaining
/// classes become spare sizes without items.
pub fn advise(
    source: Source,
    cache: &Cache,
    listed_count_max: Option<usize>,
) -> Result<Advice, AdvisorError> {
    let Source { text, version, seen, current } = source;
    let now = Outcome::of(&current, &seen, cache)?;
    let listed = best_table(&seen, cache, listed_count_max)?;
    let then = Outcome::of(&listed.table, &seen, cache)?;
    let saved_bytes = now.lost as i64 - then.lost as i64;
    Ok(Advice {
        program: cache.program.name(),
        version,
        source: text,
        items: seen.item_count(),
        bytes: seen.bytes(),
        item_size_max: cache.item_size_bytes_max,
        page_size: cache.page_size_bytes(),
        saved_bytes,
        saved_percent: saved_bytes as f64 / seen.bytes() as f64 * 100.0,
        saved_pages: now.pages as i64 - then.pages as i64,
        slab_sizes: listed.joined(),
        now,
        then,
    })
}

fn best_table(
    seen: &SizesSeen,
    cache: &Cache,
    listed_count_max: Option<usize>,
) -> Result<Listed, AdvisorError> {
    let tables = exact(&demands(seen), &cache.layout, &[], ClassId::COUNT_MAX)?;
    let class_cost_bytes = cache.page_size_bytes() as f64 / 2.0;
    let (class_count, class_count_max) = match listed_count_max {
        Some(count) => (count.min(LISTED_COUNT_MAX) + 1, count.min(LISTED_COUNT_MAX) + 1),
        None => {
            let lost = |count: usize| tables.of(count).loss.total_bytes();
            let cost = |&count: &usize| lost(count) + count as f64 * class_cost_bytes;
            let best = tables.class_counts().min_by(|a, b| cost(a).total_cmp(&cost(b)));
            (best.unwrap_or(ClassId::COUNT_MAX), ClassId::COUNT_MAX)
        }
    };
    let listed = list(&tables.of(class_count).sizes, cache.listed_min);
    with_spares(listed, seen, cache, class_count_max)
}

/// Adds spare sizes without items, so that an item of a new size finds a chunk that is not much larger.
fn with_spares(
    listed: Listed,
    seen: &SizesSeen,
    cache: &Cache,
    class_count_max: usize,
) -> Result<Listed, AdvisorError> {
    /// Large enough that the available classes fill all gaps. Half of a wider gap is at least a factor of 1.22.
    const GAP_FACTOR_MAX: f64 = 1.5;
    /// No item is smaller, because of its header and key.
    const SPARE_SIZE_BYTES_MIN: usize = 56;
    let first = listed.table[0];
    let least = cache.layout.chunk_size_bytes_min.max(SPARE_SIZE_BYTES_MIN).min(first);
    let layout = ChunkLayout { chunk_size_bytes_min: least, ..cache.layout };
    let mut table = fill_gaps(&listed.table, &layout, GAP_FACTOR_MAX, class_count_max)?;
    // A spare size with items would need a page that the best table does not need.
    loop {
        let rows = class_rows(seen, &table, &cache.layout);
        let kept =
            rows.iter().filter(|row| row.chunks == 0 || listed.table.contains(&row.chunk_size));
        let kept: Vec<usize> = kept.map(|row| row.chunk_size).collect();
        if kept.len() == table.len() {
            break;
        }
        table = kept;
    }
    let spared = list(&table, cache.listed_min);
    // If sizes are 8 apart, a spare size can prevent that another size is listed.
    let is_whole = listed.table.iter().all(|size| spared.table.contains(size));
    Ok(if is_whole { spared } else { listed })
}

fn demands(seen: &SizesSeen) -> Vec<Demand> {
    seen.bins().map(|(size_bytes, items)| Demand::new(size_bytes, items)).collect()
}

impl Advice {
    /// True if the recommended table needs fewer pages, or the same number with a smaller loss.
    pub fn gains(&self) -> bool {
        self.saved_pages > 0 || (self.saved_pages == 0 && self.saved_bytes > 0)
    }

    pub fn table_has(&self, number: &str) -> bool {
        self.then.classes.iter().any(|row| row.chunk_size.to_string() == number)
    }

    pub fn is_for_slabwise(&self) -> bool {
        self.program == Program::Slabwise.name()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClassRow {
    pub chunk_size: usize,
    /// The chunks in use: items, and parts of chained items.
    pub chunks: u64,
    pub bytes: u64,
    pub bytes_lost: u64,
    /// The pages of these chunks; the last one can be partly full.
    pub pages: u64,
}

/// Returns a row for each size of a table whose last size is the largest of the layout.
pub fn class_rows(seen: &SizesSeen, table: &[usize], layout: &ChunkLayout) -> Vec<ClassRow> {
    let row = |&chunk_size: &usize| ClassRow { chunk_size, ..ClassRow::default() };
    let mut rows: Vec<ClassRow> = table.iter().map(row).collect();
    for (size_bytes, items) in seen.bins() {
        each_part(size_bytes, layout, |part_bytes, parts| {
            let class = table.partition_point(|&chunk| chunk < part_bytes);
            rows[class].chunks += items * parts;
            rows[class].bytes += items * parts * part_bytes as u64;
        });
    }
    for row in &mut rows {
        row.bytes_lost = row.chunks * row.chunk_size as u64 - row.bytes;
        let per_page = layout.chunks_per_page(row.chunk_size).unwrap_or(1);
        row.pages = row.chunks.div_ceil(per_page as u64);
    }
    rows
}

/// Calls `each` with the size and the number of each kind of part of an item.
fn each_part(size_bytes: usize, layout: &ChunkLayout, mut each: impl FnMut(usize, u64)) {
    let largest = layout.chunk_size_bytes_max;
    let chaining = match layout.chaining {
        Some(chaining) if size_bytes > largest => chaining,
        _ => return each(size_bytes, 1),
    };
    let Chaining { head_size_bytes, link_size_bytes, body_header_size_bytes } = chaining;
    each(head_size_bytes, 1);
    let value_bytes = size_bytes + link_size_bytes - head_size_bytes;
    let full = largest - body_header_size_bytes;
    each(largest, (value_bytes / full) as u64);
    if !value_bytes.is_multiple_of(full) {
        each(value_bytes % full + body_header_size_bytes, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::class_rows;
    use crate::cache::{Cache, Program};
    use crate::sizes_seen::SizesSeen;
    use slabwise_base::Random;
    use slabwise_policy::sizes::{Demand, loss};

    #[test]
    fn rows_have_the_loss_of_the_policy() {
        for seed in 0..100 {
            let mut random = Random::new(seed);
            let largest = 4096 + 8 * random.below(1000) as usize;
            let cache = Cache::new(Program::Memcached, 1 << 16, largest, 1 << 20, None);
            let mut seen = SizesSeen::default();
            for _ in 0..1 + random.below(100) {
                let magnitude = 4 + random.below(16);
                let size = 60 + random.below(1 << magnitude) as usize;
                seen.add(size, 1 + random.below(1000)).expect("few bytes");
            }
            let mut table: Vec<usize> =
                (0..random.below(20)).map(|_| 48 + 8 * random.below(500) as usize).collect();
            table.push(cache.layout.chunk_size_bytes_max);
            table.sort_unstable();
            table.dedup();
            let rows = class_rows(&seen, &table, &cache.layout);
            let demand = |(size_bytes, items)| Demand { size_bytes, items, byte_value: 1.0 };
            let demands: Vec<Demand> = seen.bins().map(demand).collect();
            let expected = loss(&demands, &table, &cache.layout).expect("a table of this layout");
            let inside: u64 = rows.iter().map(|row| row.bytes_lost).sum();
            assert_eq!(inside as f64, expected.inside_bytes.round(), "seed {seed}");
            let bytes: u64 = rows.iter().map(|row| row.bytes).sum();
            assert_eq!(bytes, seen.bytes() + expected.chained_bytes as u64, "seed {seed}");
        }
    }
}
