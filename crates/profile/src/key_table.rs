//! The records of sampled keys, 24 bytes each, found by the key's hash.
//!
//! ```text
//!   hash --> index (open addressing, linear probing) --> number --> record
//! ```
//!
//! A key keeps its number as long as it is known, so stacks refer to it in four bytes. Free numbers are reused.

use crate::reuse_windows::UsedAt;
use slabwise_base::ClassId;
use slabwise_base::random::mix;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It was requested but never stored, so it has no class.
    Nowhere,
    /// It is in the stack of its class; its item is in the cache or was evicted.
    Stacked(ClassId),
    /// It was deleted: it has a class, but is not in its stack.
    Deleted(ClassId),
}

#[derive(Clone, Copy, Debug)]
pub struct Record {
    pub hash: u64,
    /// The time of the first of `misses` in microseconds; wraps around after 71 minutes.
    pub miss_at_us: u32,
    /// The time of its last use by its class's clock.
    pub used_at: UsedAt,
    /// Its slot in its stack, or [`OUT`].
    pub slot: u32,
    /// Get misses since it was last stored; at most 65,535 are counted.
    pub misses: u16,
    pub place: Place,
}

/// The slot of a key that is in no stack.
pub const OUT: u32 = u32::MAX;

const _: () = assert!(size_of::<Record>() == 24);

/// An index entry without a record.
const NONE: u32 = u32::MAX;
const ENTRIES_MIN: usize = 64;

/// Records by hash.
#[derive(Debug)]
pub struct KeyTable {
    /// A power of two of entries, at most three quarters of them in use. Invariant: no entry from the home of a key's
    /// hash to the entry with its record is `NONE`.
    index: Vec<u32>,
    records: Vec<Record>,
    free: Vec<u32>,
    records_max: usize,
}

impl KeyTable {
    /// A table that allocates memory for at most `records_max` records in advance.
    pub fn new(records_max: usize) -> KeyTable {
        KeyTable {
            index: vec![NONE; ENTRIES_MIN],
            records: Vec::new(),
            free: Vec::new(),
            records_max,
        }
    }

    pub fn count(&self) -> usize {
        self.records.len() - self.free.len()
    }

    pub fn size_bytes(&self) -> usize {
        let numbers = self.index.capacity() + self.free.capacity();
        numbers * size_of::<u32>() + self.records.capacity() * size_of::<Record>()
    }

    #[inline]
    pub fn find(&self, hash: u64) -> Option<u32> {
        let mut entry = self.home(hash);
        loop {
            match self.index[entry] {
                NONE => return None,
                number if self.records[number as usize].hash == hash => return Some(number),
                _ => entry = self.behind(entry),
            }
        }
    }

    #[inline]
    pub fn get(&self, number: u32) -> &Record {
        &self.records[number as usize]
    }

    /// The record of a key to be changed; its hash must stay.
    #[inline]
    pub fn get_mut(&mut self, number: u32) -> &mut Record {
        &mut self.records[number as usize]
    }

    /// Adds a key that is not known, and returns its number.
    pub fn insert(&mut self, hash: u64) -> u32 {
        debug_assert!(self.find(hash).is_none(), "key {hash:x} is known");
        if (self.count() + 1) * 4 > self.index.len() * 3 {
            self.grow();
        }
        let place = Place::Nowhere;
        let record = Record { hash, miss_at_us: 0, used_at: 0, slot: OUT, misses: 0, place };
        let number = match self.free.pop() {
            Some(number) => {
                self.records[number as usize] = record;
                number
            }
            None => self.push(record),
        };
        self.enter(number);
        number
    }

    pub fn remove(&mut self, number: u32) {
        let mut hole = self.home(self.get(number).hash);
        while self.index[hole] != number {
            hole = self.behind(hole);
        }
        // Entries after the hole move up, except those whose home is after the hole.
        let mut entry = self.behind(hole);
        while self.index[entry] != NONE {
            let home = self.home(self.get(self.index[entry]).hash);
            if self.gap(home, entry) >= self.gap(hole, entry) {
                self.index[hole] = self.index[entry];
                hole = entry;
            }
            entry = self.behind(entry);
        }
        self.index[hole] = NONE;
        self.free.push(number);
    }

    /// The numbers of all keys for which the condition holds, in no particular order.
    pub fn numbers_where(&self, holds: impl Fn(&Record) -> bool) -> Vec<u32> {
        let known = self.index.iter().filter(|&&number| number != NONE);
        known.copied().filter(|&number| holds(self.get(number))).collect()
    }

    fn push(&mut self, record: Record) -> u32 {
        let count = self.records.len();
        assert!(count < NONE as usize, "{count} keys exceed the range of their numbers");
        if count == self.records.capacity() {
            let ahead = self.records_max.saturating_sub(count).min(count).max(ENTRIES_MIN);
            self.records.reserve_exact(ahead);
        }
        self.records.push(record);
        count as u32
    }

    fn grow(&mut self) {
        let old = std::mem::take(&mut self.index);
        self.index = vec![NONE; 2 * old.len()];
        old.into_iter().filter(|&number| number != NONE).for_each(|number| self.enter(number));
    }

    fn enter(&mut self, number: u32) {
        let mut entry = self.home(self.get(number).hash);
        while self.index[entry] != NONE {
            entry = self.behind(entry);
        }
        self.index[entry] = number;
    }

    /// The entry where the search for a hash starts. Hashes are mixed because those of sampled keys have some equal
    /// bits.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        mix(hash) as usize & (self.index.len() - 1)
    }

    #[inline]
    fn behind(&self, entry: usize) -> usize {
        (entry + 1) & (self.index.len() - 1)
    }

    /// The number of steps of a search from one entry to the other.
    fn gap(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.index.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::KeyTable;
    use slabwise_base::Random;
    use std::collections::HashMap;

    #[test]
    fn finds_the_same_keys_as_a_map() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let (mut table, mut map) = (KeyTable::new(100), HashMap::new());
            let keys = 1 + random.below(500);
            for step in 0..5_000 {
                let hash = random.below(keys);
                assert_eq!(table.find(hash), map.get(&hash).copied(), "seed {seed}, step {step}");
                match map.remove(&hash) {
                    Some(number) if random.below(2) == 0 => table.remove(number),
                    Some(number) => drop(map.insert(hash, number)),
                    None => drop(map.insert(hash, table.insert(hash))),
                }
                assert_eq!(table.count(), map.len(), "seed {seed}, step {step}");
            }
            let even = table.numbers_where(|record| record.hash % 2 == 0).len();
            assert_eq!(even, map.keys().filter(|&&hash| hash % 2 == 0).count(), "seed {seed}");
        }
    }

    #[test]
    fn numbers_are_reused() {
        let mut table = KeyTable::new(10);
        for hash in 0..10_000 {
            let number = table.insert(hash);
            table.remove(number);
        }
        assert!(table.size_bytes() < 4_000, "{} bytes for no key", table.size_bytes());
    }
}
