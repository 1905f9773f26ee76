//! Exact LRU stack distances and their curves. Tests and experiments compare sampled profiles with them.
//!
//! The distance of a reference is the number of other keys referenced since the last reference to its key. An LRU of
//! `c` chunks hits if and only if the distance is below `c` (Mattson and others, "Evaluation techniques for storage
//! hierarchies", IBM Systems Journal 1970).

use crate::key_map::KeyMap;
use crate::mrc::{Mrc, Point};
use crate::stack::Stack;

/// The keys of a stream of references, in order of their last references.
#[derive(Debug, Default)]
pub struct StackDistances {
    /// The slot of each key in the stack.
    slots: KeyMap<u32>,
    stack: Stack<u64>,
}

impl StackDistances {
    /// Records a reference and returns its distance; `None` for the first reference of a key.
    ///
    /// # Panics
    /// Panics if there are more than 2^31 keys.
    pub fn reference(&mut self, key: u64) -> Option<u64> {
        let distance = self.slots.get(&key).map(|&slot| {
            let distance = self.stack.distance(slot);
            self.stack.remove(slot);
            distance
        });
        let slots = &mut self.slots;
        let slot = self.stack.push(key, |moved, slot| {
            slots.insert(moved, slot);
        });
        self.slots.insert(key, slot);
        distance
    }

    /// Forgets a key, so that its next reference is a first reference again.
    pub fn forget(&mut self, key: u64) {
        if let Some(slot) = self.slots.remove(&key) {
            self.stack.remove(slot);
        }
    }

    /// Returns the number of different keys.
    pub fn keys(&self) -> u64 {
        self.slots.len() as u64
    }
}

/// The number of references at each distance, and the number of first references.
#[derive(Clone, Debug, Default)]
pub struct Distances {
    /// Element `d` is the number of references at distance `d`.
    counts: Vec<u64>,
    first_references: u64,
}

impl Distances {
    /// Counts a reference at this distance; `None` for the first reference of a key.
    pub fn record(&mut self, distance: Option<u64>) {
        let Some(distance) = distance else {
            self.first_references += 1;
            return;
        };
        let distance = distance as usize;
        if distance >= self.counts.len() {
            self.counts.resize(distance + 1, 0);
        }
        self.counts[distance] += 1;
    }

    /// Returns the smallest number of chunks with which an LRU has at most `misses` misses more than with unlimited
    /// chunks. This is at most the number of different keys.
    pub fn chunks_for(&self, misses: u64) -> u64 {
        let mut more_misses = 0;
        let too_small = self.counts.iter().rposition(|count| {
            more_misses += count;
            more_misses > misses
        });
        too_small.map_or(0, |distance| distance as u64 + 1)
    }

    /// Returns the curve of an LRU. The curve is exact at multiples of `step_chunks`, which must be at least 1. First
    /// references miss at every size.
    pub fn mrc(&self, step_chunks: usize) -> Mrc {
        assert!(step_chunks > 0, "step_chunks must be at least 1");
        let reused: u64 = self.counts.iter().sum();
        let references = reused + self.first_references;
        let mut left = references;
        let mut points = vec![Point { chunks: 0, misses: left as f64 }];
        for (step, counts) in self.counts.chunks(step_chunks).enumerate() {
            left -= counts.iter().sum::<u64>();
            points.push(Point { chunks: ((step + 1) * step_chunks) as u64, misses: left as f64 });
        }
        Mrc::new(points)
    }
}

#[cfg(test)]
mod tests {
    use super::{Distances, StackDistances};
    use slabwise_base::Random;

    /// A number above the number of slots of a new stack.
    const SLOTS_MIN: usize = 1 << 12;

    /// The reference implementation: a list of keys, the most recently used first.
    #[derive(Default)]
    struct List(Vec<u64>);

    impl List {
        fn reference(&mut self, key: u64) -> Option<u64> {
            let index = self.forget(key);
            self.0.insert(0, key);
            index.map(|index| index as u64)
        }

        fn forget(&mut self, key: u64) -> Option<usize> {
            let index = self.0.iter().position(|&known| known == key)?;
            self.0.remove(index);
            Some(index)
        }
    }

    #[test]
    fn distances_equal_positions_in_a_list() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let (mut exact, mut list) = (StackDistances::default(), List::default());
            let keys = 1 + random.below(300);
            // The stack uses all its slots and compacts its keys several times.
            for at in 0..3 * SLOTS_MIN {
                // Some keys are much more frequent than others, and a third of the references are a loop over all keys.
                let key = match random.below(3) {
                    0 => random.below(keys),
                    1 => random.below(1 + keys / 20),
                    _ => at as u64 % keys,
                };
                let (found, expected) = (exact.reference(key), list.reference(key));
                assert_eq!(found, expected, "seed {seed}, reference {at}: distance of key {key}");
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
    fn the_chunks_for_a_number_of_misses_are_the_fewest() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let (mut exact, mut distances) = (StackDistances::default(), Distances::default());
            let keys = 1 + random.below(300);
            for _ in 0..1_000 {
                let limit = 1 + random.below(keys);
                distances.record(exact.reference(random.below(limit)));
            }
            // With a step of one chunk, the curve is exact at every size.
            let curve = distances.mrc(1);
            for misses in [0, 1, 5, 100, 2_000] {
                let allowed = curve.misses(u64::MAX) + misses as f64;
                let fewest = (0..=keys).find(|&chunks| curve.misses(chunks) <= allowed);
                let found = distances.chunks_for(misses);
                assert_eq!(Some(found), fewest, "seed {seed}, {keys} keys, {misses} misses");
            }
        }
    }

    #[test]
    fn all_references_of_a_loop_have_the_same_distance() {
        let keys = 3 * SLOTS_MIN as u64;
        let mut exact = StackDistances::default();
        assert!((0..keys).all(|key| exact.reference(key).is_none()));
        assert!((0..3 * keys).all(|at| exact.reference(at % keys) == Some(keys - 1)));
    }
}
