//! Simulates the unpartitioned cache, and predicts the misses of a class table from the curve of the unpartitioned
//! cache.
//!
//! The unpartitioned cache is an LRU whose chunks have exactly the sizes of their items. It hits if it has memory for
//! the item and for all items that were used since the last reference to the item. This number of bytes is the stack
//! distance of Mattson and others (1970), in bytes instead of keys.
//!
//! ```text
//!   slots in the order of time:   . 90 . . 400 77 . 120 | next
//! ```
//!
//! Each reference uses the next slot. The slot stores the bytes of the item until the next reference to the same key.
//! So the stack distance is the sum over the key's slot and all later slots. A Fenwick tree (P. Fenwick, 1994) computes
//! sums over slots.
//!
//! The prediction for a class table of which the items use `classes` classes:
//!
//! ```text
//!   bytes for items  = (pages - price of a class * classes) * page size * bytes of items / (bytes of items + waste)
//!   predicted misses = misses of the unpartitioned cache with this number of bytes
//! ```

use slabwise_policy::sizes::{ChunkLayout, Demand, Loss, SizesError, loss};
use slabwise_profile::{Distances, Mrc};
use std::collections::{BTreeMap, HashMap};

/// The initial number of slots, which is also the smallest number.
const SLOTS_MIN: usize = 1 << 12;
/// Curves are exact at multiples of this number of bytes.
const STEP_BYTES: u64 = 4 << 10;

/// An LRU whose chunks have exactly the sizes of their items: the slots of all references, and the measured stack
/// distances.
#[derive(Debug)]
pub struct UnpartitionedCache {
    /// The slot of each key's last reference.
    slots: HashMap<u64, usize>,
    /// The key and the bytes of the item in each slot. An empty slot has 0 bytes.
    items: Vec<(u64, u32)>,
    /// The Fenwick tree. Element `i` is the sum of the bytes of the slots `i - (i & -i) .. i`; element 0 is not used.
    tree: Vec<u64>,
    /// The next free slot.
    next: usize,
    /// Sum of the bytes of all slots.
    bytes: u64,
    /// Stack distances of the measured references, in units of [`STEP_BYTES`].
    distances: Distances,
}

impl Default for UnpartitionedCache {
    fn default() -> UnpartitionedCache {
        let (items, tree) = (vec![(0, 0); SLOTS_MIN], vec![0; SLOTS_MIN + 1]);
        let (slots, distances) = (HashMap::new(), Distances::default());
        UnpartitionedCache { slots, items, tree, next: 0, bytes: 0, distances }
    }
}

impl UnpartitionedCache {
    /// Adds a reference to a key whose item has `size_bytes` bytes, at least 1. Returns the smallest memory in bytes
    /// with which an LRU hits, or `None` if this is the first reference to the key.
    pub fn reference(&mut self, key: u64, size_bytes: u32) -> Option<u64> {
        if self.next == self.items.len() {
            self.compact();
        }
        let needed = self.slots.insert(key, self.next).map(|last| {
            let used_before = self.bytes_before(last);
            let last_size = u64::from(std::mem::take(&mut self.items[last]).1);
            self.add(last, last_size.wrapping_neg());
            let needed = self.bytes - used_before - last_size + u64::from(size_bytes);
            self.bytes -= last_size;
            needed
        });
        self.items[self.next] = (key, size_bytes);
        self.add(self.next, u64::from(size_bytes));
        self.bytes += u64::from(size_bytes);
        self.next += 1;
        needed
    }

    /// Adds a reference like [`UnpartitionedCache::reference`], and counts it in the curve.
    pub fn count(&mut self, key: u64, size_bytes: u32) {
        let needed = self.reference(key, size_bytes);
        self.distances.record(needed.map(|bytes| bytes.div_ceil(STEP_BYTES) - 1));
    }

    /// Returns the miss-ratio curve of the counted references. Its sizes are in bytes.
    pub fn curve(&self) -> Mrc {
        self.distances.mrc(1).in_bytes(STEP_BYTES)
    }

    /// Returns the items in a cache with this memory: the number of items by their size in bytes.
    pub fn held(&self, memory_bytes: u64) -> BTreeMap<u32, u64> {
        let mut sizes = BTreeMap::new();
        let mut left = memory_bytes;
        for &(_, size_bytes) in self.items[..self.next].iter().rev() {
            let Some(rest) = left.checked_sub(u64::from(size_bytes)) else { break };
            left = rest;
            if size_bytes > 0 {
                *sizes.entry(size_bytes).or_default() += 1;
            }
        }
        sizes
    }

    /// Returns the sum of the bytes of all slots before `slot`.
    fn bytes_before(&self, slot: usize) -> u64 {
        let (mut sum, mut at) = (0u64, slot);
        while at > 0 {
            sum = sum.wrapping_add(self.tree[at]);
            at &= at - 1;
        }
        sum
    }

    /// Adds `change`, modulo 2^64, to the elements of the tree that include the slot.
    fn add(&mut self, slot: usize, change: u64) {
        let mut at = slot + 1;
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add(change);
            at += at & at.wrapping_neg();
        }
    }

    /// Removes the empty slots, and adds free slots at the end: one per key, but at least up to [`SLOTS_MIN`] slots.
    fn compact(&mut self) {
        self.items.retain(|&(_, size_bytes)| size_bytes > 0);
        self.next = self.items.len();
        for (slot, (key, _)) in self.items.iter().enumerate() {
            self.slots.insert(*key, slot);
        }
        self.items.resize((2 * self.next).max(SLOTS_MIN), (0, 0));
        self.tree = vec![0; self.items.len() + 1];
        for at in 1..self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add(u64::from(self.items[at - 1].1));
            let parent = at + (at & at.wrapping_neg());
            if parent < self.tree.len() {
                self.tree[parent] = self.tree[parent].wrapping_add(self.tree[at]);
            }
        }
    }
}

/// A class table, with its waste for the items of a workload.
#[derive(Clone, Debug)]
pub struct Table {
    /// Name of the table in rows.
    pub name: String,
    /// Number of classes for which the table was computed. `None` for a geometric table, which does not depend on the
    /// items.
    pub class_count: Option<usize>,
    /// The chunk sizes in bytes.
    pub sizes: Vec<usize>,
    /// Number of classes that hold at least one item.
    pub classes_used: usize,
    /// The waste.
    pub loss: Loss,
    /// Sum of the sizes of all items.
    pub item_bytes: f64,
}

/// Predicts the misses of class tables.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// The curve of the unpartitioned cache, whose sizes are in bytes.
    pub curve: Mrc,
    /// Number of pages of the cache.
    pub pages: f64,
    pub page_size_bytes: f64,
}

impl Table {
    /// Computes the waste of a class table for the given items.
    pub fn new(
        name: String,
        class_count: Option<usize>,
        sizes: Vec<usize>,
        demands: &[Demand],
        layout: &ChunkLayout,
    ) -> Result<Table, SizesError> {
        let loss = loss(demands, &sizes, layout)?;
        let mut used = vec![false; sizes.len()];
        let mut item_bytes = 0.0;
        for demand in demands {
            used[sizes.partition_point(|&size| size < demand.size_bytes)] = true;
            item_bytes += (demand.size_bytes as u64 * demand.items) as f64;
        }
        let classes_used = used.into_iter().filter(|&is_used| is_used).count();
        Ok(Table { name, class_count, sizes, classes_used, loss, item_bytes })
    }

    /// Returns the memory that the items take with their waste, divided by the sum of their sizes.
    fn memory_per_byte(&self) -> f64 {
        1.0 + self.loss.total_bytes() / self.item_bytes
    }
}

impl Prediction {
    /// Returns the predicted sum of the sizes of all items in the cache, if a class has this price in pages.
    pub fn item_bytes(&self, table: &Table, class_price_pages: f64) -> f64 {
        let pages = self.pages - class_price_pages * table.classes_used as f64;
        pages.max(0.0) * self.page_size_bytes / table.memory_per_byte()
    }

    /// Returns the predicted miss ratio, if a class has this price in pages.
    pub fn miss_ratio(&self, table: &Table, class_price_pages: f64) -> f64 {
        self.curve.miss_ratio(self.item_bytes(table, class_price_pages) as u64)
    }

    /// Returns the page deficit of a class table with this measured miss ratio: the pages of the cache, minus the pages
    /// that the unpartitioned cache would need for the same miss ratio, if its items had the waste of this table. The
    /// deficit is negative if the class table has fewer misses than such a cache.
    pub fn page_deficit(&self, table: &Table, miss_ratio: f64) -> f64 {
        let is_enough = |bytes: u64| self.curve.miss_ratio(bytes) <= miss_ratio;
        let (mut from, mut to) = (0, self.curve.points().last().map_or(0, |last| last.chunks));
        while from < to {
            let middle = from.midpoint(to);
            if is_enough(middle) { to = middle } else { from = middle + 1 }
        }
        self.pages - from as f64 * table.memory_per_byte() / self.page_size_bytes
    }
}

/// Returns the slope of the least-squares line through points (x, y), or `None` if all points have the same x.
pub fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x_mean, y_mean) = (mean(|point| point.0), mean(|point| point.1));
    let variance: f64 = points.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
    let covariance: f64 = points.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
    (variance > 0.0).then(|| covariance / variance)
}

#[cfg(test)]
mod tests {
    use super::{Prediction, SLOTS_MIN, Table, UnpartitionedCache, slope};
    use crate::exact_lru::ExactLru;
    use slabwise_base::Random;
    use slabwise_policy::sizes::{ChunkLayout, Demand, exact};
    use slabwise_profile::{Mrc, Point};
    use std::collections::HashMap;

    #[test]
    fn an_lru_hits_if_and_only_if_it_has_the_returned_memory() {
        for seed in 0..10 {
            let mut random = Random::new(seed);
            let mut cache = UnpartitionedCache::default();
            // Every limit is larger than the largest item, which has 500 bytes.
            let mut lrus = [5_000, 20_000, 60_000].map(|bytes| (bytes, ExactLru::new(bytes)));
            for at in 0..3 * SLOTS_MIN {
                let key = random.below(400).min(random.below(400));
                let size_bytes = 1 + (key * 7_919) % 500;
                let needed = cache.reference(key, size_bytes as u32);
                for (bytes, lru) in &mut lrus {
                    let hits = !lru.access(key, size_bytes).is_miss();
                    let predicted = needed.is_some_and(|needed| needed <= *bytes);
                    let context = format!("seed {seed}, reference {at}, {bytes} bytes");
                    assert_eq!(hits, predicted, "{context}: the hit needs {needed:?} bytes");
                }
            }
        }
    }

    #[test]
    fn the_cache_holds_the_most_recently_used_items_that_fit() {
        for seed in 0..10 {
            let mut random = Random::new(seed);
            let mut cache = UnpartitionedCache::default();
            let mut used: HashMap<u64, (usize, u32)> = HashMap::new();
            for at in 0..2 * SLOTS_MIN {
                let (key, size_bytes) = (random.below(300), 1 + random.below(90) as u32);
                cache.reference(key, size_bytes);
                used.insert(key, (at, size_bytes));
            }
            let mut order: Vec<(usize, u32)> = used.into_values().collect();
            order.sort_unstable();
            let memory_bytes = random.below(20_000);
            let mut left = memory_bytes;
            let newest = order.iter().rev().map(|&(_, size)| size).take_while(|&size| {
                let fits = u64::from(size) <= left;
                left = left.saturating_sub(u64::from(size));
                fits
            });
            let mut expected: Vec<u32> = newest.collect();
            expected.sort_unstable();
            let held = cache.held(memory_bytes);
            let held = held.iter().flat_map(|(&size, &count)| (0..count).map(move |_| size));
            assert!(held.eq(expected), "seed {seed}, {memory_bytes} bytes");
        }
    }

    const LAYOUT: ChunkLayout = ChunkLayout {
        page_size_bytes: Some(16 << 10),
        chunk_size_bytes_min: 32,
        chunk_size_bytes_max: 8 << 10,
        chunk_align_bytes: 8,
        chaining: None,
    };

    /// Returns a prediction with a curve that falls evenly from 1 at 0 bytes to 0 at about 4 MB.
    fn prediction() -> Prediction {
        let points = (0..=1_000).map(|at| Point { chunks: at << 12, misses: (1_000 - at) as f64 });
        let pages = 64.0;
        Prediction { curve: Mrc::new(points.collect()), pages, page_size_bytes: 16384.0 }
    }

    fn demands(random: &mut Random) -> Vec<Demand> {
        let demand = |_| Demand {
            size_bytes: 60 + random.below(3_000) as usize,
            items: 1 + random.below(20),
            byte_value: 1.0,
        };
        (0..200).map(demand).collect()
    }

    /// Returns the best class tables of 1 to 63 classes for random items.
    fn tables(random: &mut Random) -> Vec<Table> {
        let demands = demands(random);
        let best = exact(&demands, &LAYOUT, &[], 63).expect("the best tables can be computed");
        let table = |count| {
            let sizes = best.of(count).sizes.clone();
            let table = Table::new(String::new(), Some(count), sizes, &demands, &LAYOUT);
            table.expect("the largest chunk size of the table holds the largest item")
        };
        (1..=63).map(table).collect()
    }

    #[test]
    fn more_classes_have_more_predicted_misses_only_if_a_class_has_a_price() {
        for seed in 0..20 {
            let (tables, prediction) = (tables(&mut Random::new(seed)), prediction());
            let ratio = |table: &Table, price| prediction.miss_ratio(table, price);
            for pair in tables.windows(2) {
                let (few, many) = (&pair[0], &pair[1]);
                assert!(ratio(many, 0.0) <= ratio(few, 0.0) + 1e-9, "seed {seed}: {many:?}");
                if many.classes_used > few.classes_used {
                    assert!(ratio(many, 0.9) > ratio(many, 0.1), "seed {seed}: {many:?}");
                }
            }
            let (few, last) = (&tables[7], &tables[62]);
            assert!(ratio(last, 0.0) < ratio(few, 0.0), "seed {seed}");
            assert!(ratio(last, 0.9) > ratio(few, 0.9), "seed {seed}");
        }
    }

    #[test]
    fn the_slope_of_predicted_page_deficits_is_the_price_of_a_class() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let (tables, prediction) = (tables(&mut random), prediction());
            let price = random.below(8) as f64 / 10.0;
            let deficits = tables.iter().map(|table| {
                let ratio = prediction.miss_ratio(table, price);
                (table.classes_used as f64, prediction.page_deficit(table, ratio))
            });
            let deficits: Vec<(f64, f64)> = deficits.collect();
            for (classes, pages) in &deficits {
                assert!((pages - price * classes).abs() < 0.01, "seed {seed}: {deficits:?}");
            }
            let found = slope(&deficits).expect("the tables have different numbers of classes");
            assert!((found - price).abs() < 0.01, "seed {seed}: slope {found}, price {price}");
        }
        assert_eq!(slope(&[(3.0, 1.0), (3.0, 2.0)]), None);
    }
}
