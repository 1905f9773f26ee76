//! Simulations that evict by the priority of each key.
//!
//! - GreedyDual-Size with frequency (Cherkasova 1998) evicts the key with the lowest `L + frequency / size`, and sets `L`
//!   to it.
//! - Belady's rule with sizes evicts the key with the largest product of its bytes and the distance to its next get. It
//!   knows the future, so its misses are close to a lower bound of any eviction, although not a strict one. Sizes are
//!   grouped into sixteenths of a power of two. In each group the key with the farthest next get is the worst, so an
//!   eviction compares one key per group.

use super::cache::{Catalog, Simulation};
use slabwise_replay::workload::Op;
use std::collections::BTreeSet;

#[derive(Debug)]
pub struct Gdsf {
    /// Keys by priority, then by the get that set it, so that the oldest of equal keys is evicted first.
    order: BTreeSet<(u64, usize, u32)>,
    entries: Vec<Option<GdsfEntry>>,
    inflation: f64,
    held_bytes: u64,
    limit_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct GdsfEntry {
    /// The bits of a priority of 0 or more, which have its order.
    priority_bits: u64,
    number: usize,
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

const GROUPS_LOG2: u32 = 4;
const NEVER: u32 = u32::MAX;

#[derive(Debug)]
pub struct BeladySize {
    /// The number of the next get of the same key, for each request.
    next_gets: Vec<u32>,
    /// Keys by their next get, for each group of sizes.
    groups: Vec<BTreeSet<(u32, u32)>>,
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
            // A key that is deleted or stored before its next get has no use.
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

    fn worst(&self, number: usize) -> Option<u32> {
        let farthest = self.groups.iter().filter_map(|group| group.last());
        let loss = |&&(next_get, key): &&(u32, u32)| {
            let size_bytes = self.entries[key as usize].map_or(0, |entry| entry.size_bytes);
            // A key that is never requested again is evicted first.
            let is_useless = next_get == NEVER;
            (is_useless, u64::from(size_bytes) * u64::from(next_get - number as u32))
        };
        farthest.max_by_key(loss).map(|&(_, key)| key)
    }
}

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
            let Some(worst) = self.worst(number) else { break };
            self.take(worst);
        }
        is_hit
    }

    fn remove(&mut self, key: u32) {
        self.take(key);
    }
}
