//! Exact LRU stack distances, which every faster profile is compared with, and the curves that they give.
//!
//! The distance of a reference is the number of other keys referenced since the last reference to its
//! key. An LRU of `c` chunks hits it exactly if the distance is below `c` (Mattson and others,
//! "Evaluation techniques for storage hierarchies", IBM Systems Journal 1970).

use crate::key_map::KeyMap;
use crate::mrc::{Mrc, Point};
use crate::stack::Stack;

/// The keys of a stream in the order of their last references.
#[derive(Debug, Default)]
pub struct StackDistances {
    slots: KeyMap<u32>,
    stack: Stack<u64>,
}

impl StackDistances {
    /// Notes a reference and returns its distance; `None` for a key's first.
    ///
    /// # Panics
    /// With more than 2^31 keys.
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

    /// Forgets a key: its next reference is its first again.
    pub fn forget(&mut self, key: u64) {
        if let Some(slot) = self.slots.remove(&key) {
            self.stack.remove(slot);
        }
    }

    /// How many different keys there are.
    pub fn keys(&self) -> u64 {
        self.slots.len() as u64
    }
}

/// Counts of references by distance, and of those that had none.
#[derive(Clone, Debug, Default)]
pub struct Distances {
    /// Element `d`: references at distance `d`.
    counts: Vec<u64>,
    first_references: u64,
}

impl Distances {
    /// Counts a reference; `None` is a key's first.
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

    /// The curve of an LRU, exact at multiples of `step_chunks` (at least 1). First references miss at
    /// every size.
    pub fn mrc(&self, step_chunks: usize) -> Mrc {
        assert!(step_chunks > 0, "a curve's points lie at least one chunk apart");
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
    use super::StackDistances;
    use slabwise_base::Random;

    /// More keys than a stack has slots for at first.
    const SLOTS_MIN: usize = 1 << 12;

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
