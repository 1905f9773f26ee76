//! The records of sampled keys, 24 bytes each, found by the key's hash.
//!
//! ```text
//!   hash --> index (open addressing, linear probing) --> number --> record
//! ```
//!
//! The number of a key does not change while the key has a record, so stacks refer to keys with four bytes. Numbers of
//! removed keys are reused.

use crate::reuse_windows::UsedAt;
use crate::size_buckets::SizeBucket;
use slabwise_base::ClassId;
use slabwise_base::random::mix;

/// The class of a key, and the stack that the key is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The key was requested but never stored. It has no class and is in the stack of absent keys.
    NeverStored,
    /// The key is in the stack of its class. Its item is in the cache or was evicted.
    Stacked(ClassId),
    /// The key was deleted. It still belongs to its class, but is in the stack of absent keys.
    Deleted(ClassId),
}

/// The data about a sampled key.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// The hash of the key.
    pub hash: u64,
    /// If `misses` is 0, the time of the key's last use, in sampled accesses of all classes. Otherwise the time of the
    /// first miss that is counted in `misses`, in microseconds, which wraps around after 71 minutes.
    pub at: u32,
    /// The time of the key's last use, in references of its class.
    pub used_at: UsedAt,
    /// The key's slot in its stack, or [`NO_SLOT`].
    pub slot: u32,
    /// The number of get misses since the key was last stored; at most 255 are counted.
    pub misses: u8,
    /// The number of the key's class; 0 if the key has no class.
    class: u8,
    /// The kind of place in the two highest bits, and the bucket of the item's size in the other bits.
    kind_and_bucket: u16,
}

/// The bits of [`Record::kind_and_bucket`] that have the bucket of the item's size.
const BUCKET_BITS: u16 = 0x3fff;
const NEVER_STORED: u16 = 0;
const STACKED: u16 = 0x4000;
const DELETED: u16 = 0x8000;

impl Record {
    fn new(hash: u64) -> Record {
        let (at, used_at, misses, class) = (0, 0, 0, 0);
        Record { hash, at, used_at, slot: NO_SLOT, misses, class, kind_and_bucket: NEVER_STORED }
    }

    /// Returns the class of the key, and the stack that the key is in.
    #[inline]
    pub fn place(&self) -> Place {
        match self.kind_and_bucket & !BUCKET_BITS {
            STACKED => Place::Stacked(ClassId(self.class)),
            DELETED => Place::Deleted(ClassId(self.class)),
            _ => Place::NeverStored,
        }
    }

    #[inline]
    pub fn set_place(&mut self, place: Place) {
        let (kind, class) = match place {
            Place::NeverStored => (NEVER_STORED, 0),
            Place::Stacked(class) => (STACKED, class.0),
            Place::Deleted(class) => (DELETED, class.0),
        };
        (self.class, self.kind_and_bucket) = (class, kind | self.bucket().0);
    }

    /// Returns the bucket of the size of the key's item.
    #[inline]
    pub fn bucket(&self) -> SizeBucket {
        SizeBucket(self.kind_and_bucket & BUCKET_BITS)
    }

    #[inline]
    pub fn set_bucket(&mut self, bucket: SizeBucket) {
        let kind = self.kind_and_bucket & !BUCKET_BITS;
        self.kind_and_bucket = kind | bucket.0.min(BUCKET_BITS);
    }
}

/// The slot of a key that is in no stack.
pub const NO_SLOT: u32 = u32::MAX;

const _: () = assert!(size_of::<Record>() == 24);

/// The value of an index entry without a key.
const NONE: u32 = u32::MAX;
/// The initial number of index entries, and the minimum number of records for which memory is allocated at once.
const ENTRIES_MIN: usize = 64;

/// A hash table of the records of sampled keys.
#[derive(Debug)]
pub struct KeyTable {
    /// The number of a key, or `NONE`. The number of entries is a power of two, and at most three quarters are in use.
    /// Invariant: no entry from the home entry of a key's hash, where a search starts, to the entry with the key's
    /// number is `NONE`.
    index: Vec<u32>,
    /// The record of each key, by the number of the key.
    records: Vec<Record>,
    /// The numbers that no key has.
    free: Vec<u32>,
    /// The maximum number of records for which memory is allocated in advance.
    records_max: usize,
}

impl KeyTable {
    /// Creates a table without keys. It allocates memory for at most `records_max` records in advance.
    pub fn new(records_max: usize) -> KeyTable {
        KeyTable {
            index: vec![NONE; ENTRIES_MIN],
            records: Vec::new(),
            free: Vec::new(),
            records_max,
        }
    }

    /// Returns the number of keys.
    pub fn count(&self) -> usize {
        self.records.len() - self.free.len()
    }

    pub fn size_bytes(&self) -> usize {
        let numbers = self.index.capacity() + self.free.capacity();
        numbers * size_of::<u32>() + self.records.capacity() * size_of::<Record>()
    }

    /// Returns the number of the key with this hash; `None` if the key has no record.
    #[inline]
    pub fn find(&self, hash: u64) -> Option<u32> {
        let mut entry = self.home(hash);
        loop {
            match self.index[entry] {
                NONE => return None,
                number if self.records[number as usize].hash == hash => return Some(number),
                _ => entry = self.next_entry(entry),
            }
        }
    }

    #[inline]
    pub fn get(&self, number: u32) -> &Record {
        &self.records[number as usize]
    }

    /// Returns the record of a key for changes. The caller must not change the hash.
    #[inline]
    pub fn get_mut(&mut self, number: u32) -> &mut Record {
        &mut self.records[number as usize]
    }

    /// Adds a key that has no record, and returns its number.
    pub fn insert(&mut self, hash: u64) -> u32 {
        debug_assert!(self.find(hash).is_none(), "key {hash:x} has no record yet");
        if (self.count() + 1) * 4 > self.index.len() * 3 {
            self.grow();
        }
        let record = Record::new(hash);
        let number = match self.free.pop() {
            Some(number) => {
                self.records[number as usize] = record;
                number
            }
            None => self.push(record),
        };
        self.add_to_index(number);
        number
    }

    pub fn remove(&mut self, number: u32) {
        let mut hole = self.home(self.get(number).hash);
        while self.index[hole] != number {
            hole = self.next_entry(hole);
        }
        // An entry after the hole moves into the hole if a search for its key passes the hole.
        let mut entry = self.next_entry(hole);
        while self.index[entry] != NONE {
            let home = self.home(self.get(self.index[entry]).hash);
            if self.probe_distance(home, entry) >= self.probe_distance(hole, entry) {
                self.index[hole] = self.index[entry];
                hole = entry;
            }
            entry = self.next_entry(entry);
        }
        self.index[hole] = NONE;
        self.free.push(number);
    }

    /// Returns the numbers of all keys for whose records `holds` returns true, in any order.
    pub fn numbers_where(&self, holds: impl Fn(&Record) -> bool) -> Vec<u32> {
        let known = self.index.iter().filter(|&&number| number != NONE);
        known.copied().filter(|&number| holds(self.get(number))).collect()
    }

    fn push(&mut self, record: Record) -> u32 {
        let count = self.records.len();
        assert!(count < NONE as usize, "a table has fewer than 2^32 - 1 keys, not {count}");
        if count == self.records.capacity() {
            let ahead = self.records_max.saturating_sub(count).min(count).max(ENTRIES_MIN);
            self.records.reserve_exact(ahead);
        }
        self.records.push(record);
        count as u32
    }

    /// Doubles the number of index entries.
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.index);
        self.index = vec![NONE; 2 * old.len()];
        old.into_iter()
            .filter(|&number| number != NONE)
            .for_each(|number| self.add_to_index(number));
    }

    /// Writes the number of a key to the first free entry from its home entry on.
    fn add_to_index(&mut self, number: u32) {
        let mut entry = self.home(self.get(number).hash);
        while self.index[entry] != NONE {
            entry = self.next_entry(entry);
        }
        self.index[entry] = number;
    }

    /// Returns the home entry of a hash, where the search for it starts. The hash is mixed, because some bits of the
    /// hashes of sampled keys are always equal.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        mix(hash) as usize & (self.index.len() - 1)
    }

    #[inline]
    fn next_entry(&self, entry: usize) -> usize {
        (entry + 1) & (self.index.len() - 1)
    }

    /// Returns the number of steps of a search from the entry `from` to the entry `to`.
    fn probe_distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.index.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::KeyTable;
    use slabwise_base::Random;
    use std::collections::HashMap;

    #[test]
    fn a_table_has_the_same_keys_as_a_hash_map() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let (mut table, mut map) = (KeyTable::new(100), HashMap::new());
            let keys = 1 + random.below(500);
            for step in 0..5_000 {
                let hash = random.below(keys);
                assert_eq!(
                    table.find(hash),
                    map.get(&hash).copied(),
                    "seed {seed}, step {step}: number of a key"
                );
                match map.remove(&hash) {
                    Some(number) if random.below(2) == 0 => table.remove(number),
                    Some(number) => drop(map.insert(hash, number)),
                    None => drop(map.insert(hash, table.insert(hash))),
                }
                assert_eq!(table.count(), map.len(), "seed {seed}, step {step}: number of keys");
            }
            let even = table.numbers_where(|record| record.hash % 2 == 0).len();
            assert_eq!(
                even,
                map.keys().filter(|&&hash| hash % 2 == 0).count(),
                "seed {seed}: keys with an even hash"
            );
        }
    }

    #[test]
    fn numbers_of_removed_keys_are_reused() {
        let mut table = KeyTable::new(10);
        for hash in 0..10_000 {
            let number = table.insert(hash);
            table.remove(number);
        }
        assert!(table.size_bytes() < 4_000, "an empty table has {} bytes", table.size_bytes());
    }
}
