//! Exact LRU stack distances: what every faster profile is held against.
//!
//! The distance of a reference is the number of other keys referenced since the last reference to its
//! key. An LRU of `c` chunks hits it exactly if the distance is below `c` (Mattson and others,
//! "Evaluation techniques for storage hierarchies", IBM Systems Journal 1970).
//!
//! ```text
//!   slots, in order of time:   . x . . x x . x | next
//!                                ^             a key has one mark, at its last reference:
//!                                '- distance = marks behind it
//! ```
//!
//! When the slots are used up, the marks are moved together: O(log n) a reference over all, for n keys.

use crate::key_map::KeyMap;
use crate::marks::Marks;

/// Slots at first, and never less.
const SLOTS_MIN: usize = 1 << 12;

/// The keys of a stream in the order of their last references.
#[derive(Debug)]
pub struct StackDistances {
    /// Each key's marked slot.
    slots: KeyMap<u32>,
    marks: Marks,
    next: usize,
}

impl Default for StackDistances {
    fn default() -> StackDistances {
        StackDistances { slots: KeyMap::default(), marks: Marks::new(SLOTS_MIN, 0), next: 0 }
    }
}

impl StackDistances {
    /// Notes a reference and returns its distance; `None` for a key's first.
    ///
    /// # Panics
    /// With more than 2^31 keys.
    pub fn reference(&mut self, key: u64) -> Option<u64> {
        if self.next == self.marks.slots() {
            self.move_together();
        }
        let slot = self.next as u32;
        let known = self.slots.len();
        let last = self.slots.insert(key, slot);
        let distance = last.map(|last| {
            let last = last as usize;
            let distance = known - 1 - self.marks.before(last);
            self.marks.unmark(last);
            distance as u64
        });
        self.marks.mark(self.next);
        self.next += 1;
        distance
    }

    /// Forgets a key: its next reference is its first again.
    pub fn forget(&mut self, key: u64) {
        if let Some(slot) = self.slots.remove(&key) {
            self.marks.unmark(slot as usize);
        }
    }

    /// How many different keys there are.
    pub fn keys(&self) -> u64 {
        self.slots.len() as u64
    }

    /// Gives every key the slot of its rank, so that only marked slots are left, and as many free ones.
    fn move_together(&mut self) {
        for slot in self.slots.values_mut() {
            *slot = self.marks.before(*slot as usize) as u32;
        }
        let keys = self.slots.len();
        let slots = (2 * keys).max(SLOTS_MIN);
        assert!(slots <= u32::MAX as usize, "{keys} keys are more than slots can be numbered for");
        self.marks = Marks::new(slots, keys);
        self.next = keys;
    }
}

#[cfg(test)]
mod tests {
    use super::{SLOTS_MIN, StackDistances};
    use slabwise_base::Random;

    /// By the definition: keys in a list, the newest in front.
    #[derive(Default)]
    struct List(Vec<u64>);

    impl List {
        fn reference(&mut self, key: u64) -> Option<u64> {
            let place = self.forget(key);
            self.0.insert(0, key);
            place.map(|place| place as u64)
        }

        fn forget(&mut self, key: u64) -> Option<usize> {
            let place = self.0.iter().position(|&known| known == key)?;
            self.0.remove(place);
            Some(place)
        }
    }

    #[test]
    fn distances_are_places_in_a_list() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let (mut exact, mut list) = (StackDistances::default(), List::default());
            let keys = 1 + random.below(300);
            // Slots are used up, and marks moved together, several times.
            for at in 0..3 * SLOTS_MIN {
                // Some keys far more often than others, and a scan now and then.
                let key = match random.below(3) {
                    0 => random.below(keys),
                    1 => random.below(1 + keys / 20),
                    _ => at as u64 % keys,
                };
                let (found, expected) = (exact.reference(key), list.reference(key));
                assert_eq!(found, expected, "seed {seed}, reference {at}, key {key}");
                if random.below(30) == 0 {
                    let key = random.below(keys);
                    exact.forget(key);
                    list.forget(key);
                }
            }
            assert_eq!(exact.keys(), list.0.len() as u64);
        }
    }

    #[test]
    fn a_loop_has_one_distance() {
        let keys = 3 * SLOTS_MIN as u64;
        let mut exact = StackDistances::default();
        assert!((0..keys).all(|key| exact.reference(key).is_none()));
        assert!((0..3 * keys).all(|at| exact.reference(at % keys) == Some(keys - 1)));
    }
}
