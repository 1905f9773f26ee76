//! GreedyDual-Size with frequency (Cherkasova 1998): what goes has the least `L + frequency / size`, and `L` rises to it.

use super::cache::Simulation;
use std::collections::BTreeSet;

#[derive(Debug)]
pub struct Gdsf {
    /// By priority, then by the get that set it: of equals the oldest goes first.
    order: BTreeSet<(u64, usize, u32)>,
    entries: Vec<Option<Entry>>,
    inflation: f64,
    held_bytes: u64,
    limit_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
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

    fn take(&mut self, key: u32) -> Option<Entry> {
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
        self.entries[key as usize] = Some(Entry { priority_bits, number, frequency, size_bytes });
        found.is_some()
    }

    fn remove(&mut self, key: u32) {
        self.take(key);
    }
}
