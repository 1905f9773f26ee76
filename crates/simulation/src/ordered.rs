//! Simulates caches that evict the key with the lowest priority.
//!
//! - `gdsf`, GreedyDual-Size with frequency (Cherkasova 1998). The priority of a key is `L + frequency / size`,
//!   computed at the last request for the key. `L` is the priority of the last victim.
//! - `belady_size`, Belady's rule with sizes. The victim is the key with the largest product of size in bytes and
//!   distance to the next get of the key. This rule uses future requests, so no real eviction policy can apply it. Its
//!   misses are close to the minimum, although other choices could have fewer misses. The keys are grouped by size;
//!   each group covers a sixteenth of the sizes between two powers of two. In each group only the key with the farthest
//!   next get is a candidate, so an eviction compares one key per group.

use super::cache::{Catalog, Simulation};
use slabwise_replay::workload::Op;
use std::collections::BTreeSet;

#[derive(Debug)]
pub struct Gdsf {
    /// The cached keys, ordered by priority, and then by the number of the last request. The first key is evicted next.
    order: BTreeSet<(u64, usize, u32)>,
    /// The cached item of each key, by the number of the key.
    entries: Vec<Option<GdsfEntry>>,
    /// The priority of the last victim.
    inflation: f64,
    held_bytes: u64,
    limit_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct GdsfEntry {
    /// The priority as bits. Priorities are at least 0, so the bits have the same order as the priorities.
    priority_bits: u64,
    /// Number of the last request for the key.
    number: usize,
    /// Number of requests for the key since the key was stored.
    frequency: u32,
    size_bytes: u32,
}

impl Gdsf {
    pub fn new(key_count: usize, limit_bytes: u64) -> Gdsf {
        Gdsf {
            order: BTreeSet::new(),
            entries: vec![None; key_count],
            inflation: 0.0,
            held_bytes: 0,
            limit_bytes,
        }
    }

    /// Removes the item of a key, if any.
    fn take(&mut self, key: u32) -> Option<GdsfEntry> {
        let entry = self.entries[key as usize].take()?;
        self.order.remove(&(entry.priority_bits, entry.number, key));
        self.held_bytes -= u64::from(entry.size_bytes);
        Some(entry)
    }
}

impl Simulation for Gdsf {
    fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    fn get(&mut self, key: u32, size_bytes: u32, number: usize) -> bool {
        let found = self.take(key);
        let frequency = found.map_or(1, |entry| entry.frequency + 1);
        if u64::from(size_bytes) > self.limit_bytes {
            return found.is_some();
        }
        while self.held_bytes + u64::from(size_bytes) > self.limit_bytes {
            let Some(&(priority_bits, _, victim)) = self.order.first() else { break };
            self.inflation = f64::from_bits(priority_bits);
            self.take(victim);
        }
        let priority = self.inflation + f64::from(frequency) / f64::from(size_bytes.max(1));
        let priority_bits = priority.to_bits();
        self.order.insert((priority_bits, number, key));
        self.held_bytes += u64::from(size_bytes);
        self.entries[key as usize] =
            Some(GdsfEntry { priority_bits, number, frequency, size_bytes });
        found.is_some()
    }

    fn remove(&mut self, key: u32) {
        self.take(key);
    }
}

/// Each power of two is divided into 16 groups of sizes.
const GROUPS_LOG2: u32 = 4;
/// The next get of a key whose item is never read again.
const NEVER: u32 = u32::MAX;

#[derive(Debug)]
pub struct BeladySize {
    /// For each request, the number of the next request for the same key if it is a get, or else [`NEVER`].
    next_gets: Vec<u32>,
    /// The cached keys of each group of sizes, ordered by the number of their next get.
    groups: Vec<BTreeSet<(u32, u32)>>,
    /// The cached item of each key, by the number of the key.
    entries: Vec<Option<BeladyEntry>>,
    held_bytes: u64,
    limit_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct BeladyEntry {
    next_get: u32,
    size_bytes: u32,
}

impl BeladySize {
    pub fn new(catalog: &Catalog, limit_bytes: u64) -> BeladySize {
        let references = catalog.references();
        let mut next_gets = vec![NEVER; references.len()];
        let mut later = vec![NEVER; catalog.key_count()];
        for (number, reference) in references.iter().enumerate().rev() {
            // If the next request for the key is a set or a delete, the cached item is never read.
            let next = if reference.op == Op::Get { number as u32 } else { NEVER };
            next_gets[number] = std::mem::replace(&mut later[reference.key as usize], next);
        }
        BeladySize {
            next_gets,
            groups: vec![BTreeSet::new(); (u32::BITS << GROUPS_LOG2) as usize],
            entries: vec![None; catalog.key_count()],
            held_bytes: 0,
            limit_bytes,
        }
    }

    fn put(&mut self, key: u32, entry: BeladyEntry) {
        self.groups[group_of(entry.size_bytes)].insert((entry.next_get, key));
        self.held_bytes += u64::from(entry.size_bytes);
        self.entries[key as usize] = Some(entry);
    }

    fn take(&mut self, key: u32) -> Option<BeladyEntry> {
        let entry = self.entries[key as usize].take()?;
        self.groups[group_of(entry.size_bytes)].remove(&(entry.next_get, key));
        self.held_bytes -= u64::from(entry.size_bytes);
        Some(entry)
    }

    /// Returns the key to evict after the request with this number.
    fn victim(&self, number: usize) -> Option<u32> {
        let farthest = self.groups.iter().filter_map(|group| group.last());
        let product = |&&(next_get, key): &&(u32, u32)| {
            let size_bytes = self.entries[key as usize].map_or(0, |entry| entry.size_bytes);
            // A key whose item is never read again is evicted before all other keys.
            let is_useless = next_get == NEVER;
            (is_useless, u64::from(size_bytes) * u64::from(next_get - number as u32))
        };
        farthest.max_by_key(product).map(|&(_, key)| key)
    }
}

/// Returns the index in `BeladySize::groups` of the group that contains this size.
fn group_of(size_bytes: u32) -> usize {
    let size_bytes = size_bytes.max(1 << GROUPS_LOG2);
    let power = size_bytes.ilog2();
    let within = (size_bytes >> (power - GROUPS_LOG2)) - (1 << GROUPS_LOG2);
    ((power << GROUPS_LOG2) + within) as usize
}

impl Simulation for BeladySize {
    fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    fn get(&mut self, key: u32, size_bytes: u32, number: usize) -> bool {
        let is_hit = self.take(key).is_some();
        if u64::from(size_bytes) > self.limit_bytes {
            return is_hit;
        }
        self.put(key, BeladyEntry { next_get: self.next_gets[number], size_bytes });
        while self.held_bytes > self.limit_bytes {
            let Some(victim) = self.victim(number) else { break };
            self.take(victim);
        }
        is_hit
    }

    fn remove(&mut self, key: u32) {
        self.take(key);
    }
}
