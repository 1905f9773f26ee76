//! A table that remembers the requests for evicted and deleted keys ([`Uses`]), for eviction kinds that count requests.
//!
//! ```text
//!   set of four entries, newest first:   | entry | entry | entry | entry |
//!   entry, 16 bits:                      | byte of the hash | 1 | uses |        0: no entry
//! ```
//!
//! The hash of a key selects its set. A new entry replaces the oldest entry of the set. A key without an entry is
//! mistaken for another key with a probability of at most 4 / 256; its item then starts with wrong uses, which is
//! harmless. The table has one entry for each 256 bytes of the memory limit at the start, and counts against this limit.
//!
//! Threads read and write a set without a lock. If two threads write a set at the same time, one entry may get lost.

use crate::Uses;
use crate::random::mix;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The cache has one entry for this number of bytes of its memory limit.
const BYTES_PER_ENTRY: u64 = 256;
const ENTRY_BITS: u32 = 16;
const ENTRIES_PER_SET: u32 = u64::BITS / ENTRY_BITS;
/// Set in every entry.
const PRESENT: u64 = 1 << 7;
const _: () = assert!(Uses::BITS_COUNT as u64 <= PRESENT, "the uses fit below this bit");

/// The requests for keys that have no item.
#[derive(Debug)]
pub struct Ghosts {
    sets: Box<[AtomicU64]>,
}

impl Ghosts {
    /// Returns an empty table for a cache with this memory limit. If `is_enabled` is false, the table has no entries.
    pub fn new(memory_limit_bytes: u64, is_enabled: bool) -> Ghosts {
        let entries = if is_enabled { memory_limit_bytes / BYTES_PER_ENTRY } else { 0 };
        let sets = entries / u64::from(ENTRIES_PER_SET);
        Ghosts { sets: (0..sets).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Returns the memory of the table in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.sets.len() as u64 * size_of::<AtomicU64>() as u64
    }

    /// Remembers the requests for the key with this hash.
    pub fn insert(&self, hash: u64, uses: Uses) {
        let Some((set, check)) = self.find(hash) else { return };
        let entry = check | PRESENT | u64::from(uses.to_bits());
        set.store(set.load(Relaxed) << ENTRY_BITS | entry, Relaxed);
    }

    /// Returns the requests for the key with this hash, and forgets them. `None`: the table has no entry for the key.
    pub fn take(&self, hash: u64) -> Option<Uses> {
        let (set, check) = self.find(hash)?;
        let entries = set.load(Relaxed);
        for shift in (0..u64::BITS).step_by(ENTRY_BITS as usize) {
            let entry = entries >> shift & ((1 << ENTRY_BITS) - 1);
            if entry & !(PRESENT - 1) == check | PRESENT {
                set.store(entries & !(((1 << ENTRY_BITS) - 1) << shift), Relaxed);
                return Some(Uses::from_bits(entry as u8));
            }
        }
        None
    }

    /// Returns the address of the set that the key with this hash would use, so that the caller can prefetch it. `None`:
    /// there are no sets.
    #[inline]
    pub fn address_of_set(&self, hash: u64) -> Option<*const AtomicU64> {
        self.find(hash).map(|(set, _)| &raw const *set)
    }

    /// Returns the set of a hash, and the bits by which an entry identifies the hash. `None`: there are no sets.
    #[inline]
    fn find(&self, hash: u64) -> Option<(&AtomicU64, u64)> {
        // The index selects its buckets by other bits of the hash, so the bits are mixed.
        let mixed = mix(hash);
        let index = (u128::from(mixed) * self.sets.len() as u128) >> u64::BITS;
        Some((self.sets.get(index as usize)?, (mixed & 0xff) << 8))
    }
}

#[cfg(test)]
mod tests {
    use super::Ghosts;
    use crate::Uses;

    #[test]
    fn an_entry_is_found_once_unless_four_newer_ones_replace_it() {
        let ghosts = Ghosts::new(1_024, true);
        assert_eq!(ghosts.size_bytes(), 8, "one set");
        let twice = Uses::FIRST.add(3, 0);
        ghosts.insert(1, twice);
        assert_eq!(ghosts.take(2), None, "key 2 has another hash");
        assert_eq!([ghosts.take(1), ghosts.take(1)], [Some(twice), None]);
        ghosts.insert(1, twice);
        (2..5).for_each(|key| ghosts.insert(key, Uses::FIRST));
        assert_eq!(ghosts.take(1), Some(twice), "three entries are newer");
        ghosts.insert(1, twice);
        (2..6).for_each(|key| ghosts.insert(key, Uses::FIRST));
        assert_eq!([ghosts.take(1), ghosts.take(2)], [None, Some(Uses::FIRST)]);
    }

    #[test]
    fn a_disabled_table_remembers_nothing() {
        let ghosts = Ghosts::new(1 << 20, false);
        ghosts.insert(1, Uses::FIRST);
        assert_eq!((ghosts.take(1), ghosts.size_bytes()), (None, 0));
    }

    #[test]
    fn a_cache_that_is_too_small_has_no_ghosts() {
        let ghosts = Ghosts::new(1_023, true);
        ghosts.insert(1, Uses::FIRST);
        assert_eq!((ghosts.take(1), ghosts.size_bytes()), (None, 0));
    }
}
