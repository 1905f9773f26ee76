//! A table that remembers the requests for evicted keys.
//!
//! The table consists of sets of four entries. The hash of a key determines its set. A new entry replaces the oldest
//! entry of its set. An entry takes two bytes: a byte of the key's hash, by which the table identifies the key, and the
//! seven bits of [`Uses`]. A key without an entry is mistaken for another key with a probability of at most 4 / 256.

use slabwise_base::Uses;
use slabwise_base::random::mix;

/// The cache gives one entry for this number of bytes of its memory.
const BYTES_PER_GHOST: u64 = 256;
const ENTRY_BYTES: u64 = 2;
const SET_ENTRIES: u64 = 4;

/// A byte of the hash and the requests, the newest entry first.
type Set = [Option<(u8, Uses)>; SET_ENTRIES as usize];

#[derive(Debug)]
pub struct Ghosts {
    sets: Vec<Set>,
}

impl Ghosts {
    /// Creates an empty table for a cache with this limit.
    pub fn new(limit_bytes: u64) -> Ghosts {
        let sets = limit_bytes / BYTES_PER_GHOST / SET_ENTRIES;
        Ghosts { sets: vec![Set::default(); sets as usize] }
    }

    /// Returns the memory of the table in a server.
    pub fn held_bytes(&self) -> u64 {
        self.sets.len() as u64 * SET_ENTRIES * ENTRY_BYTES
    }

    /// Remembers the requests for an evicted key.
    pub fn insert(&mut self, key: u32, uses: Uses) {
        let (place, check) = self.place(key);
        if let Some(set) = self.sets.get_mut(place) {
            set.rotate_right(1);
            set[0] = Some((check, uses));
        }
    }

    /// Returns the requests for a key, and forgets them.
    pub fn take(&mut self, key: u32) -> Option<Uses> {
        let (place, check) = self.place(key);
        let mut entries = self.sets.get_mut(place)?.iter_mut();
        let entry = entries.find(|entry| entry.is_some_and(|(found, _)| found == check))?;
        entry.take().map(|(_, uses)| uses)
    }

    fn place(&self, key: u32) -> (usize, u8) {
        let hash = mix(u64::from(key));
        let place = (u128::from(hash) * self.sets.len() as u128) >> 64;
        (place as usize, hash as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::Ghosts;
    use slabwise_base::Uses;

    #[test]
    fn an_entry_is_found_once_unless_four_newer_ones_replace_it() {
        let mut ghosts = Ghosts::new(1_024);
        assert_eq!(ghosts.held_bytes(), 8, "one set");
        let twice = Uses::FIRST.counted(0);
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
    fn a_cache_that_is_too_small_has_no_ghosts() {
        let mut ghosts = Ghosts::new(1_023);
        ghosts.insert(1, Uses::FIRST);
        assert_eq!((ghosts.take(1), ghosts.held_bytes()), (None, 0));
    }
}
