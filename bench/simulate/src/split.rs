//! The best static split: the pages of memcached's classes with which a replay has the fewest misses, if no page moves.
//!
//! ```text
//! request --> ClassStacks --> Distances of each class --end of a window--> curves --> best_partition --> BestSplit
//! ```
//!
//! The classes are those of memcached's defaults: pages of 1 MiB, and chunk sizes that grow by the factor 1.25. Each class
//! is an exact LRU. The stacks stay from one window to the next, as the items of a server do. A class that had requests
//! keeps a page, because memcached takes no page from a class that has only one.
//!
//! The program's main module calls it.

use crate::stacks::{ClassStacks, Reference};
use serde::Serialize;
use slabwise_base::memcached;
use slabwise_policy::partition::{ClassCurve, best_partition, cost};
use slabwise_policy::sizes::{ChunkLayout, geometric};
use slabwise_profile::{Distances, Mrc};
use slabwise_replay::workload::{Op, Request};
use std::collections::BTreeMap;

/// The best split of a window. The names of the fields are those of the JSON output.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BestSplit {
    /// The number of gets.
    pub gets: u64,
    /// The gets that miss with the best split, divided by the gets.
    pub miss_ratio: f64,
    /// From the chunk size in bytes to the number of pages.
    pub pages: BTreeMap<u64, u64>,
}

/// The classes of a server, over several windows.
#[derive(Debug)]
pub struct StaticSplits {
    chunk_sizes_bytes: Vec<u64>,
    stacks: ClassStacks,
    /// The distances of the gets of this window, for each class.
    distances: Vec<Distances>,
    /// For each class: true if it had a request.
    is_used: Vec<bool>,
    gets: u64,
    pages: u64,
    keeps_first_pages: bool,
}

/// Returns the chunk sizes of memcached's defaults, in bytes.
pub fn memcached_chunk_sizes() -> Vec<u64> {
    let layout = ChunkLayout {
        chunk_align_bytes: memcached::CHUNK_ALIGN_BYTES,
        chunk_size_bytes_min: memcached::CHUNK_ALIGN_BYTES,
        ..ChunkLayout::published(memcached::CHUNK_SIZE_BYTES_MAX)
    };
    let first = memcached::HEADER_SIZE_BYTES + memcached::ITEM_ROOM_BYTES_MIN;
    let sizes = geometric(first, memcached::GROWTH_FACTOR, &layout);
    sizes.into_iter().map(|size| size as u64).collect()
}

impl StaticSplits {
    /// Starts with empty classes, for splits of this number of pages. With `keeps_first_pages`, each class that has had a
    /// request keeps a page.
    pub fn new(pages: u64, keeps_first_pages: bool) -> StaticSplits {
        let chunk_sizes_bytes = memcached_chunk_sizes();
        StaticSplits {
            stacks: ClassStacks::new(chunk_sizes_bytes.clone()),
            distances: vec![Distances::default(); chunk_sizes_bytes.len()],
            is_used: vec![false; chunk_sizes_bytes.len()],
            chunk_sizes_bytes,
            gets: 0,
            pages,
            keeps_first_pages,
        }
    }

    /// Executes a request for an item of this size.
    pub fn request(&mut self, request: &Request, size_bytes: u64) {
        let Some(Reference { class, distance }) = self.stacks.request(request, size_bytes) else {
            return;
        };
        self.is_used[class] = true;
        if request.op == Op::Get {
            self.gets += 1;
            self.distances[class].record(distance);
        }
    }

    /// Ends a window. Returns its best split.
    pub fn end_window(&mut self) -> Result<BestSplit, String> {
        let keeps = |is_used: bool| u64::from(is_used && self.keeps_first_pages);
        let (kept, pages) = (self.is_used.iter().map(|&it| keeps(it)).sum::<u64>(), self.pages);
        if kept > pages {
            return Err(format!(
                "{kept} classes have items: give at least as many pages, not {pages}"
            ));
        }
        let per_page = |chunk: u64| memcached::PAGE_SIZE_BYTES as u64 / chunk;
        let sizes = || self.chunk_sizes_bytes.iter().copied();
        let distances = sizes().zip(&self.distances);
        let curves: Vec<Mrc> =
            distances.map(|(chunk, it)| it.mrc(per_page(chunk) as usize)).collect();
        let classes: Vec<ClassCurve> = sizes()
            .zip(&curves)
            .zip(&self.is_used)
            .map(|((chunk, curve), &is_used)| ClassCurve {
                pages_min: keeps(is_used),
                ..ClassCurve::new(curve, per_page(chunk), keeps(is_used))
            })
            .collect();
        let best = best_partition(&classes, pages);
        let misses = cost(&classes, &best);
        let found = BestSplit {
            gets: self.gets,
            miss_ratio: misses / (self.gets as f64).max(1.0),
            pages: sizes().zip(best.iter().copied()).filter(|(_, pages)| *pages > 0).collect(),
        };
        self.distances.fill(Distances::default());
        self.gets = 0;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::StaticSplits;
    use slabwise_replay::workload::{Op, Request};

    /// Requests all keys of a loop. The keys of a loop begin at `first`.
    fn request_loop(splits: &mut StaticSplits, first: u64, keys: u64, size_bytes: u64) {
        for key in first..first + keys {
            let request = Request { key, value_len: 1, op: Op::Get, cost: None };
            splits.request(&request, size_bytes);
        }
    }

    #[test]
    fn the_best_split_holds_the_loops_that_fit() {
        let mut splits = StaticSplits::new(3, true);
        // Two loops of two pages each, with chunks of 524,288 and 394,840 bytes; the second one is twice as frequent.
        let mut pass = || {
            for _ in 0..10 {
                request_loop(&mut splits, 0, 4, 500_000);
                (0..2).for_each(|_| request_loop(&mut splits, 100, 4, 390_000));
            }
            splits.end_window()
        };
        let (first, second) = (pass().expect("it fits"), pass().expect("it fits"));
        assert_eq!(first.pages, [(394_840, 2), (524_288, 1)].into());
        assert_eq!((first.gets, second.gets), (120, 120));
        // The first pass misses every key of the frequent loop once, and all gets of the other loop.
        assert_eq!(first.miss_ratio, (4.0 + 40.0) / 120.0);
        assert_eq!(second.miss_ratio, 40.0 / 120.0);
    }

    #[test]
    fn each_used_class_keeps_a_page_unless_it_need_not() {
        let ended = |pages, keeps_first_pages| {
            let mut splits = StaticSplits::new(pages, keeps_first_pages);
            (0..3).for_each(|class| request_loop(&mut splits, 10 * class, 1, 100 << class));
            splits.end_window().map(|split| split.pages.len())
        };
        assert!(ended(2, true).is_err_and(|error| error.contains("3 classes")));
        assert_eq!(ended(3, true), Ok(3));
        assert_eq!(ended(2, false), Ok(0), "no page saves a first reference");
    }
}
