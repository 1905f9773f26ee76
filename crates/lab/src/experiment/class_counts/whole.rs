//! The whole cache: all items in one queue in the order of their last use, chunks of just their size, and no page.
//!
//! ```text
//!   slots, in order of time:   . 90 . . 400 77 . 120 | next     bytes of the item last used there
//!                                ^                               a hit needs these, and all behind
//! ```
//!
//! An LRU by bytes hits a reference where it holds the item and all that were used since: the stack distance of Mattson
//! and others (1970) in bytes. Sums over slots are a Fenwick tree's (P. Fenwick, 1994).

use slabwise_profile::{Distances, Mrc};
use std::collections::{BTreeMap, HashMap};

/// Slots at first, and never less.
const SLOTS_MIN: usize = 1 << 12;
/// Curves are exact at multiples of so many bytes.
const STEP_BYTES: u64 = 4 << 10;

/// The items of a stream in the order of their last use.
#[derive(Debug)]
pub struct WholeCache {
    /// Each key's slot.
    slots: HashMap<u64, usize>,
    /// By slot: the key that was last used there, and its item's bytes; 0 for none.
    items: Vec<(u64, u32)>,
    /// Element `i`: the bytes of the slots `i - (i & -i) .. i`; element 0 is not used.
    tree: Vec<u64>,
    next: usize,
    bytes: u64,
    distances: Distances,
}

impl Default for WholeCache {
    fn default() -> WholeCache {
        let (items, tree) = (vec![(0, 0); SLOTS_MIN], vec![0; SLOTS_MIN + 1]);
        let (slots, distances) = (HashMap::new(), Distances::default());
        WholeCache { slots, items, tree, next: 0, bytes: 0, distances }
    }
}

impl WholeCache {
    /// Notes a reference to a key with an item of so many bytes, at least 1. Returns the least memory in bytes in
    /// which an LRU hits it; `None` for a key's first.
    pub fn reference(&mut self, key: u64, size_bytes: u32) -> Option<u64> {
        if self.next == self.items.len() {
            self.move_together();
        }
        let needed = self.slots.insert(key, self.next).map(|last| {
            let used_before = self.before(last);
            let size_then = u64::from(std::mem::take(&mut self.items[last]).1);
            self.add(last, size_then.wrapping_neg());
            let needed = self.bytes - used_before - size_then + u64::from(size_bytes);
            self.bytes -= size_then;
            needed
        });
        self.items[self.next] = (key, size_bytes);
        self.add(self.next, u64::from(size_bytes));
        self.bytes += u64::from(size_bytes);
        self.next += 1;
        needed
    }

    pub fn count(&mut self, key: u64, size_bytes: u32) {
        let needed = self.reference(key, size_bytes);
        self.distances.record(needed.map(|bytes| bytes.div_ceil(STEP_BYTES) - 1));
    }

    /// Misses by bytes of memory, of what was counted.
    pub fn curve(&self) -> Mrc {
        self.distances.mrc(1).in_bytes(STEP_BYTES)
    }

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

    fn before(&self, slot: usize) -> u64 {
        let (mut sum, mut at) = (0u64, slot);
        while at > 0 {
            sum = sum.wrapping_add(self.tree[at]);
            at &= at - 1;
        }
        sum
    }

    /// Adds `change`, modulo 2^64, to every sum that the slot is part of.
    fn add(&mut self, slot: usize, change: u64) {
        let mut at = slot + 1;
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add(change);
            at += at & at.wrapping_neg();
        }
    }

    /// Takes the empty slots out, and leaves as many free ones as there are keys.
    fn move_together(&mut self) {
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

#[cfg(test)]
mod tests {
    use super::{SLOTS_MIN, WholeCache};
    use crate::exact_lru::ExactLru;
    use slabwise_base::Random;
    use std::collections::HashMap;

    #[test]
    fn an_lru_hits_exactly_where_the_memory_is_enough() {
        for seed in 0..10 {
            let mut random = Random::new(seed);
            let mut whole = WholeCache::default();
            // More than any item has: one that is larger than the memory is not what an LRU is asked here.
            let mut lrus = [5_000, 20_000, 60_000].map(|bytes| (bytes, ExactLru::new(bytes)));
            for at in 0..3 * SLOTS_MIN {
                let key = random.below(400).min(random.below(400));
                let size_bytes = 1 + (key * 7_919) % 500;
                let needed = whole.reference(key, size_bytes as u32);
                for (bytes, lru) in &mut lrus {
                    let hits = !lru.access(key, size_bytes).is_miss();
                    let predicted = needed.is_some_and(|needed| needed <= *bytes);
                    assert_eq!(hits, predicted, "seed {seed}, reference {at}: {needed:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_held_was_used_last_and_fits() {
        for seed in 0..10 {
            let mut random = Random::new(seed);
            let mut whole = WholeCache::default();
            let mut used: HashMap<u64, (usize, u32)> = HashMap::new();
            for at in 0..2 * SLOTS_MIN {
                let (key, size_bytes) = (random.below(300), 1 + random.below(90) as u32);
                whole.reference(key, size_bytes);
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
            let held = whole.held(memory_bytes);
            let held = held.iter().flat_map(|(&size, &count)| (0..count).map(move |_| size));
            assert!(held.eq(expected), "seed {seed}, {memory_bytes} bytes");
        }
    }
}
