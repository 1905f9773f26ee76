//! What each class of a table would hold: chunks, bytes, pages.
//!
//! Chained items count by their parts, cut as [`Chaining`] says: head, bodies that fill largest chunks, rest. Law:
//! over all classes, the losses of the rows are those that `slabwise_policy::sizes::loss` tells in total.

use crate::sizes_seen::SizesSeen;
use serde::Serialize;
use slabwise_policy::sizes::{Chaining, ChunkLayout};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClassRow {
    pub chunk_size: usize,
    /// Chunks in use: items, and parts of chained ones.
    pub chunks: u64,
    pub bytes: u64,
    pub bytes_lost: u64,
    /// Pages that so many chunks take, the last one perhaps in part.
    pub pages: u64,
}

/// A row for each size of a table whose last size is the layout's largest.
pub fn class_rows(seen: &SizesSeen, table: &[usize], layout: &ChunkLayout) -> Vec<ClassRow> {
    let row = |&chunk_size: &usize| ClassRow { chunk_size, ..ClassRow::default() };
    let mut rows: Vec<ClassRow> = table.iter().map(row).collect();
    for (size_bytes, items) in seen.bars() {
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

/// The parts of an item, by size, with how many there are of it.
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
    fn rows_lose_what_the_policy_says() {
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
            let demands: Vec<Demand> = seen.bars().map(demand).collect();
            let told = loss(&demands, &table, &cache.layout).expect("a table of this layout");
            let inside: u64 = rows.iter().map(|row| row.bytes_lost).sum();
            assert_eq!(inside as f64, told.inside_bytes.round(), "seed {seed}");
            let bytes: u64 = rows.iter().map(|row| row.bytes).sum();
            assert_eq!(bytes, seen.bytes() + told.chained_bytes as u64, "seed {seed}");
        }
    }
}
