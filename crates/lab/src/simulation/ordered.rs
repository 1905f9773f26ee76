//! Simulations that evict by a rank of each key.
//!
//! - GreedyDual-Size with frequency (Cherkasova 1998): what goes has the least `L + frequency / size`, and `L` rises to it.
//! - Belady's rule with sizes: what goes has the largest product of its bytes and the gets until its next one. It knows
//!   the future, and so bounds what any policy can do, closely if not strictly. Sizes are told apart by sixteenths of a
//!   power of two: within such a step the farthest next get is the worst, so an eviction compares one key of each.

use super::cache::{Catalog, Simulation};
use slabwise_replay::workload::Op;
use std::collections::BTreeSet;

#[derive(Debug)]
pub struct Gdsf {
    /// By priority, then by the get that set it: of equals the oldest goes first.
    order: BTreeSet<(u64, usize, u32)>,
    entries: Vec<Option<Ranked>>,
    inflation: f64,
    held_bytes: u64,
    limit_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Ranked {
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

    fn take(&mut self, key: u32) -> Option<Ranked> {
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
        self.entries[key as usize] = Some(Ranked { priority_bits, number, frequency, size_bytes });
        found.is_some()
    }

    fn remove(&mut self, key: u32) {
        self.take(key);
    }
}

const STEPS_LOG2: u32 = 4;
const NEVER: u32 = u32::MAX;

#[derive(Debug)]
pub struct BeladySize {
    /// By get: the number of the next one of the same key.
    next_gets: Vec<u32>,
    /// By step of sizes: keys by their next get.
    steps: Vec<BTreeSet<(u32, u32)>>,
    entries: Vec<Option<Awaited>>,
    held_bytes: u64,
    limit_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Awaited {
    next_get: u32,
    size_bytes: u32,
}

impl BeladySize {
    pub fn new(catalog: &Catalog, limit_bytes: u64) -> BeladySize {
        let references = catalog.references();
        let mut next_gets = vec![NEVER; references.len()];
        let mut later = vec![NEVER; catalog.key_count()];
        for (number, reference) in references.iter().enumerate().rev() {
            // What is removed or stored anew before its next get is of no use.
            let next = if reference.op == Op::Get { number as u32 } else { NEVER };
            next_gets[number] = std::mem::replace(&mut later[reference.key as usize], next);
        }
        BeladySize {
            next_gets,
            steps: vec![BTreeSet::new(); (u32::BITS << STEPS_LOG2) as usize],
            entries: vec![None; catalog.key_count()],
            held_bytes: 0,
            limit_bytes,
        }
    }

    fn put(&mut self, key: u32, entry: Awaited) {
        self.steps[step(entry.size_bytes)].insert((entry.next_get, key));
        self.held_bytes += u64::from(entry.size_bytes);
        self.entries[key as usize] = Some(entry);
    }

    fn take(&mut self, key: u32) -> Option<Awaited> {
        let entry = self.entries[key as usize].take()?;
        self.steps[step(entry.size_bytes)].remove(&(entry.next_get, key));
        self.held_bytes -= u64::from(entry.size_bytes);
        Some(entry)
    }

    fn worst(&self, number: usize) -> Option<u32> {
        let farthest = self.steps.iter().filter_map(|step| step.last());
        let loss = |&&(next_get, key): &&(u32, u32)| {
            let size_bytes = self.entries[key as usize].map_or(0, |entry| entry.size_bytes);
            // What never comes again goes before all else.
            let is_gone = next_get == NEVER;
            (is_gone, u64::from(size_bytes) * u64::from(next_get - number as u32))
        };
        farthest.max_by_key(loss).map(|&(_, key)| key)
    }
}

fn step(size_bytes: u32) -> usize {
    let size_bytes = size_bytes.max(1 << STEPS_LOG2);
    let power = size_bytes.ilog2();
    let within = (size_bytes >> (power - STEPS_LOG2)) - (1 << STEPS_LOG2);
    ((power << STEPS_LOG2) + within) as usize
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
        self.put(key, Awaited { next_get: self.next_gets[number], size_bytes });
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
