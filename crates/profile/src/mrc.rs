//! Miss-ratio curves.

/// Misses of one class's references as a function of its size in chunks.
///
/// Laws: it falls, or stays, as chunks are added; with no chunk every reference misses; between its
/// points it is linear, beyond the last one level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mrc {
    step_chunks: u64,
    /// Element `i`: misses with `i * step_chunks` chunks. Never empty.
    misses: Vec<u64>,
}

impl Mrc {
    /// A curve through these points; the first is the number of references.
    pub(crate) fn new(step_chunks: u64, misses: Vec<u64>) -> Mrc {
        assert!(!misses.is_empty(), "a curve has a point");
        assert!(misses.is_sorted_by(|a, b| a >= b), "a curve does not rise");
        Mrc { step_chunks, misses }
    }

    /// How many references it was made from.
    pub fn references(&self) -> u64 {
        self.misses[0]
    }

    /// Misses that an LRU of `chunks` chunks would have had.
    pub fn misses(&self, chunks: u64) -> f64 {
        let last = self.misses.len() - 1;
        let point = (chunks / self.step_chunks).min(last as u64) as usize;
        let here = self.misses[point] as f64;
        if point == last {
            return here;
        }
        let next = self.misses[point + 1] as f64;
        let part = (chunks % self.step_chunks) as f64 / self.step_chunks as f64;
        here + (next - here) * part
    }

    /// The same of all references; 0 where there were none.
    pub fn miss_ratio(&self, chunks: u64) -> f64 {
        self.misses(chunks) / self.references().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use crate::{Distances, StackDistances};
    use slabwise_base::Random;
    use std::collections::VecDeque;

    /// Misses of a plain LRU.
    fn lru_misses(keys: &[u64], chunks: usize) -> u64 {
        let (mut queue, mut misses) = (VecDeque::new(), 0);
        for key in keys {
            match queue.iter().position(|known| known == key) {
                Some(place) => drop(queue.remove(place)),
                None => misses += 1,
            }
            queue.push_front(*key);
            queue.truncate(chunks);
        }
        misses
    }

    fn distances(keys: &[u64]) -> Distances {
        let (mut exact, mut distances) = (StackDistances::default(), Distances::default());
        keys.iter().for_each(|&key| distances.record(exact.reference(key)));
        distances
    }

    #[test]
    fn the_curve_is_what_an_lru_of_every_size_does() {
        for seed in 0..10 {
            let mut random = Random::new(seed);
            let mut key = || random.below(100).min(random.below(100));
            let keys: Vec<u64> = (0..2_000).map(|_| key()).collect();
            let (fine, coarse) = (distances(&keys).mrc(1), distances(&keys).mrc(7));
            assert_eq!(fine.references(), 2_000);
            for chunks in 0..110 {
                let expected = lru_misses(&keys, chunks) as f64;
                assert_eq!(fine.misses(chunks as u64), expected, "seed {seed}, {chunks} chunks");
                if chunks % 7 == 0 {
                    let found = coarse.misses(chunks as u64);
                    assert_eq!(found, expected, "seed {seed}, {chunks} chunks, steps of 7");
                }
            }
        }
    }

    #[test]
    fn between_points_the_curve_is_a_line_and_behind_the_last_level() {
        let keys: Vec<u64> = (0..10).chain(0..10).collect();
        let mrc = distances(&keys).mrc(10);
        assert_eq!(mrc.misses(0), 20.0);
        assert_eq!(mrc.misses(5), 15.0);
        assert_eq!(mrc.misses(10), 10.0);
        assert_eq!(mrc.misses(1_000), 10.0);
        assert_eq!(mrc.miss_ratio(1_000), 0.5);
        assert_eq!(super::Mrc::new(1, vec![0]).miss_ratio(3), 0.0);
    }
}
