//! Computes the advice: compares the best class table for the items with the current class table, and counts the items
//! and the lost bytes of each class.
//!
//! A chained item is counted as several parts, whose sizes [`Chaining`] defines: one head, some bodies of the largest
//! chunk size, and one smaller body for the rest.
//!
//! Invariant: the sum of the lost bytes of all classes is the loss in chunks (`inside_bytes`) that
//! `slabwise_policy::sizes::loss` computes.

use crate::chunk_sizes::cache::{Cache, LISTED_COUNT_MAX, Listed, Program, list};
use crate::chunk_sizes::error::AdvisorError;
use crate::chunk_sizes::sizes_seen::{SizesSeen, Source};
use serde::Serialize;
use slabwise_base::{ClassId, Random};
use slabwise_policy::sizes::{
    Chaining, ChunkLayout, Demand, HillClimbOptions, exact, fill_gaps, hill_climb, loss,
};

/// The advice. The names of the fields are the names in the JSON output, which scripts use. Sizes and losses are in
/// bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// The program of the server: `memcached` or `slabwise`.
    pub program: &'static str,
    /// The version of the server, if the sizes are from a server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The description of the input: a file, or a server and the command that returned the sizes.
    pub source: String,
    /// The number of items.
    pub items: u64,
    /// The sum of the sizes of all items. A size includes header, key and value.
    pub bytes: u64,
    /// The maximum size of an item on the server.
    pub item_size_max: usize,
    pub page_size: usize,
    /// The memory that the items use with the current class table.
    pub current: MemoryUse,
    /// The memory that the items use with the recommended class table.
    pub recommended: MemoryUse,
    /// The bytes lost with the current table minus the bytes lost with the recommended table. Negative if the
    /// recommended table loses more.
    pub saved_bytes: i64,
    /// `saved_bytes` in percent of `bytes`.
    pub saved_percent: f64,
    /// The pages of the current table minus the pages of the recommended table.
    pub saved_pages: i64,
    /// The recommended value of the option `-o slab_sizes=`.
    pub slab_sizes: String,
}

/// The memory that the items use with one class table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryUse {
    /// The bytes of chunks that their items do not use.
    pub lost_in_chunks: u64,
    /// The bytes at the ends of pages that are too small for another chunk.
    pub lost_at_page_ends: u64,
    /// The bytes of the headers and links of chained items. They do not depend on the class table.
    pub lost_by_chaining: u64,
    /// The sum of the three losses.
    pub lost: u64,
    /// The number of pages that the items need.
    pub pages: u64,
    /// The bytes of unused chunks on these pages.
    pub free: u64,
    /// The classes in the order of their chunk sizes. For the current table of a server, only the classes that `stats
    /// slabs` reports, and the class of the largest chunks.
    pub classes: Vec<ClassRow>,
}

impl MemoryUse {
    /// Computes the memory that the items use with a class table.
    fn of(table: &[usize], seen: &SizesSeen, cache: &Cache) -> Result<MemoryUse, AdvisorError> {
        let loss = loss(&demands(seen), table, &cache.layout)?;
        let classes = class_rows(seen, table, &cache.layout);
        let lost = loss.total_bytes().round() as u64;
        let pages: u64 = classes.iter().map(|row| row.pages).sum();
        let page_bytes = pages * cache.page_size_bytes() as u64;
        Ok(MemoryUse {
            lost_in_chunks: loss.inside_bytes.round() as u64,
            lost_at_page_ends: loss.page_end_bytes.round() as u64,
            lost_by_chaining: loss.chained_bytes.round() as u64,
            lost,
            pages,
            free: page_bytes.saturating_sub(seen.bytes() + lost),
            classes,
        })
    }

    /// Returns the number of classes with items.
    pub fn used_count(&self) -> usize {
        self.classes.iter().filter(|row| row.chunks > 0).count()
    }
}

/// The selection of the recommended class table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The table with the lowest loss.
    Exact {
        /// The maximum number of chunk sizes in the table, not counting the largest; the table has at most 63 sizes in
        /// total. If `None`, the table has the number of classes with the lowest loss. In this comparison, each class
        /// also loses half a page, because on average half of the last page of a class is unused. The sizes that remain
        /// up to the maximum become spare sizes without items.
        listed_count_max: Option<usize>,
    },
    /// The end of a climb from the current table, which has as many chunk sizes.
    HillClimb {
        /// The seed of the random steps.
        seed: u64,
    },
}

/// Returns the advice for the items of `source`.
pub fn advise(source: Source, cache: &Cache, choice: Choice) -> Result<Advice, AdvisorError> {
    let Source { text, version, seen, current: table } = source;
    let current = MemoryUse::of(&table, &seen, cache)?;
    let listed = match choice {
        Choice::Exact { listed_count_max } => best_table(&seen, cache, listed_count_max)?,
        Choice::HillClimb { seed } => climbed_table(&seen, cache, &table, seed)?,
    };
    let recommended = MemoryUse::of(&listed.table, &seen, cache)?;
    let saved_bytes = current.lost as i64 - recommended.lost as i64;
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
        saved_pages: current.pages as i64 - recommended.pages as i64,
        slab_sizes: listed.joined(),
        current,
        recommended,
    })
}

/// Returns the table with the lowest loss, including its spare sizes, as a list for `slab_sizes`.
fn best_table(
    seen: &SizesSeen,
    cache: &Cache,
    listed_count_max: Option<usize>,
) -> Result<Listed, AdvisorError> {
    let tables = exact(&demands(seen), &cache.layout, &[], ClassId::COUNT_MAX)?;
    let unused_bytes_per_class = cache.page_size_bytes() as f64 / 2.0;
    let (class_count, class_count_max) = match listed_count_max {
        Some(count) => (count.min(LISTED_COUNT_MAX) + 1, count.min(LISTED_COUNT_MAX) + 1),
        None => {
            let lost = |count: usize| tables.of(count).loss.total_bytes();
            let lost_with_pages =
                |&count: &usize| lost(count) + count as f64 * unused_bytes_per_class;
            let best = tables
                .class_counts()
                .min_by(|a, b| lost_with_pages(a).total_cmp(&lost_with_pages(b)));
            (best.unwrap_or(ClassId::COUNT_MAX), ClassId::COUNT_MAX)
        }
    };
    let listed = list(&tables.of(class_count).sizes, cache.listed_min);
    add_spare_sizes(listed, seen, cache, class_count_max)
}

/// Returns the table at the end of a climb from the current table, as a list for `slab_sizes`.
fn climbed_table(
    seen: &SizesSeen,
    cache: &Cache,
    current: &[usize],
    seed: u64,
) -> Result<Listed, AdvisorError> {
    let (options, mut random) = (HillClimbOptions::default(), Random::new(seed));
    let climb = hill_climb(&demands(seen), current, &cache.layout, &options, &mut random)?;
    Ok(list(&climb.table, cache.listed_min))
}

/// Adds spare sizes without items to a table, so that future items of other sizes find a chunk that is not much larger
/// than they are.
fn add_spare_sizes(
    listed: Listed,
    seen: &SizesSeen,
    cache: &Cache,
    class_count_max: usize,
) -> Result<Listed, AdvisorError> {
    /// A gap between two sizes is filled if their ratio is above this factor. With this factor the available classes
    /// are enough to fill all gaps. A gap that is divided in two parts has a ratio of at least 1.22 in each part.
    const GAP_FACTOR_MAX: f64 = 1.5;
    /// The minimum spare size. No item is smaller, because an item has a header and a key.
    const SPARE_SIZE_BYTES_MIN: usize = 56;
    let first = listed.table[0];
    let size_min = cache.layout.chunk_size_bytes_min.max(SPARE_SIZE_BYTES_MIN).min(first);
    let layout = ChunkLayout { chunk_size_bytes_min: size_min, ..cache.layout };
    let mut table = fill_gaps(&listed.table, &layout, GAP_FACTOR_MAX, class_count_max)?;
    // A spare size must not receive any of the items: its class would need a page that the best table does not need.
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
    let with_spares = list(&table, cache.listed_min);
    // If sizes differ by 8, a spare size can prevent that a size of the best table is listed. Then there are no spare
    // sizes.
    let has_all_sizes = listed.table.iter().all(|size| with_spares.table.contains(size));
    Ok(if has_all_sizes { with_spares } else { listed })
}

/// Returns the item sizes in the form that the policy needs.
fn demands(seen: &SizesSeen) -> Vec<Demand> {
    seen.bins().map(|(size_bytes, items)| Demand::new(size_bytes, items)).collect()
}

impl Advice {
    /// True if the recommended table is better than the current table: it needs fewer pages, or it needs the same
    /// number of pages and loses fewer bytes.
    pub fn is_improvement(&self) -> bool {
        self.saved_pages > 0 || (self.saved_pages == 0 && self.saved_bytes > 0)
    }

    /// True if the recommended table has a class whose chunk size is this decimal number.
    pub fn table_has(&self, number: &str) -> bool {
        self.recommended.classes.iter().any(|row| row.chunk_size.to_string() == number)
    }

    pub fn is_for_slabwise(&self) -> bool {
        self.program == Program::Slabwise.name()
    }
}

/// The use of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClassRow {
    pub chunk_size: usize,
    /// The number of used chunks. Each chunk contains an item or a part of a chained item.
    pub chunks: u64,
    /// The sum of the sizes of the items and parts in the chunks.
    pub bytes: u64,
    /// The bytes of the used chunks that the items do not use.
    pub bytes_lost: u64,
    /// The number of pages that the used chunks need. The last page may have free chunks.
    pub pages: u64,
}

/// Returns one row per chunk size of `table`. The last chunk size of the table must be the largest of `layout`.
pub fn class_rows(seen: &SizesSeen, table: &[usize], layout: &ChunkLayout) -> Vec<ClassRow> {
    let row = |&chunk_size: &usize| ClassRow { chunk_size, ..ClassRow::default() };
    let mut rows: Vec<ClassRow> = table.iter().map(row).collect();
    for (size_bytes, items) in seen.bins() {
        for_each_part(size_bytes, layout, |part_bytes, parts| {
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

/// Calls `each` for each kind of part of an item, with the size of the part in bytes and the number of such parts. An
/// item that is not chained has one part.
fn for_each_part(size_bytes: usize, layout: &ChunkLayout, mut each: impl FnMut(usize, u64)) {
    let largest = layout.chunk_size_bytes_max;
    let chaining = match layout.chaining {
        Some(chaining) if size_bytes > largest => chaining,
        _ => return each(size_bytes, 1),
    };
    let Chaining { head_size_bytes, link_size_bytes, body_header_size_bytes } = chaining;
    each(head_size_bytes, 1);
    let value_bytes = size_bytes + link_size_bytes - head_size_bytes;
    let full_body_bytes = largest - body_header_size_bytes;
    each(largest, (value_bytes / full_body_bytes) as u64);
    if !value_bytes.is_multiple_of(full_body_bytes) {
        each(value_bytes % full_body_bytes + body_header_size_bytes, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::class_rows;
    use crate::chunk_sizes::cache::{Cache, Program};
    use crate::chunk_sizes::sizes_seen::SizesSeen;
    use slabwise_base::Random;
    use slabwise_policy::sizes::{Demand, loss};

    #[test]
    fn the_lost_bytes_of_the_classes_are_the_loss_of_the_policy() {
        for seed in 0..100 {
            let mut random = Random::new(seed);
            let largest = 4096 + 8 * random.below(1000) as usize;
            let cache = Cache::new(Program::Memcached, 1 << 16, largest, 1 << 20, None);
            let mut seen = SizesSeen::default();
            for _ in 0..1 + random.below(100) {
                let magnitude = 4 + random.below(16);
                let size = 60 + random.below(1 << magnitude) as usize;
                seen.add(size, 1 + random.below(1000)).expect("the sizes are below the limits");
            }
            let mut table: Vec<usize> =
                (0..random.below(20)).map(|_| 48 + 8 * random.below(500) as usize).collect();
            table.push(cache.layout.chunk_size_bytes_max);
            table.sort_unstable();
            table.dedup();
            let rows = class_rows(&seen, &table, &cache.layout);
            let demand = |(size_bytes, items)| Demand { size_bytes, items, byte_value: 1.0 };
            let demands: Vec<Demand> = seen.bins().map(demand).collect();
            let expected =
                loss(&demands, &table, &cache.layout).expect("the table is valid for the layout");
            let inside: u64 = rows.iter().map(|row| row.bytes_lost).sum();
            assert_eq!(inside as f64, expected.inside_bytes.round(), "seed {seed}");
            let bytes: u64 = rows.iter().map(|row| row.bytes).sum();
            assert_eq!(bytes, seen.bytes() + expected.chained_bytes as u64, "seed {seed}");
        }
    }
}
