//! Miniature simulation computes the miss-ratio curve of any eviction kind.
//!
//! ```text
//!   keys --is_sampled, rate r--> one cache of r * size chunks per size --> misses / r at each size
//! ```
//!
//! Stack distances predict hits only for an LRU. For any eviction, a cache of `r c` chunks under a spatial sample of rate
//! `r` has about the miss ratio of a cache of `c` chunks under all references.
//! Source: C. Waldspurger, T. Saemundsson, I. Ahmad, N. Park, "Cache Modeling and Optimization using Miniature
//! Simulations", ATC 2017.
//!
//! Invariants: at rate 1 the misses are those of the full-size cache. The curve never rises: if a larger cache has more
//! misses, which some eviction kinds allow, the curve has the misses of the next smaller one.

use super::cache::Simulation;
use slabwise_base::sampling::{is_sampled, rate_of, threshold_of};
use slabwise_profile::{Mrc, Point};

pub struct MiniatureSimulation {
    threshold: u64,
    caches: Vec<Miniature>,
}

struct Miniature {
    chunks: u64,
    cache: Box<dyn Simulation>,
    misses: u64,
}

impl MiniatureSimulation {
    /// Creates empty caches of these sizes in chunks for a sample of this rate in (0, 1]. `cache` returns a cache with
    /// the given number of chunks.
    ///
    /// # Panics
    /// If the sizes do not ascend, or a size is less than one chunk in miniature.
    pub fn new(
        sizes: &[u64],
        rate: f64,
        cache: impl Fn(u64) -> Box<dyn Simulation>,
    ) -> MiniatureSimulation {
        assert!(sizes.is_sorted_by(|a, b| a < b), "sizes do not ascend: {sizes:?}");
        let miniature = |&chunks: &u64| {
            let small = (chunks as f64 * rate).round() as u64;
            assert!(
                small > 0,
                "{chunks} chunks at rate {rate} are less than one: use sizes of at least 1 / rate"
            );
            Miniature { chunks, cache: cache(small), misses: 0 }
        };
        let caches = sizes.iter().map(miniature).collect();
        MiniatureSimulation { threshold: threshold_of(rate), caches }
    }

    /// Gets a key in all caches if its hash is in the sample.
    pub fn get(&mut self, key: u32, hash: u64) {
        if is_sampled(hash, self.threshold) {
            for Miniature { cache, misses, .. } in &mut self.caches {
                *misses += u64::from(!cache.get(key, 1, 0));
            }
        }
    }

    /// Returns the curve for `references` references, sampled or not. If the sample has too few or too many of them, the
    /// difference counts as hits.
    pub fn mrc(&self, references: u64) -> Mrc {
        let rate = rate_of(self.threshold);
        let mut misses = references as f64;
        let mut points = vec![Point { chunks: 0, misses }];
        for miniature in &self.caches {
            misses = misses.min(miniature.misses as f64 / rate);
            points.push(Point { chunks: miniature.chunks, misses });
        }
        Mrc::new(points)
    }
}

#[cfg(test)]
mod tests {
    use super::MiniatureSimulation;
    use crate::simulation::cache::Simulation;
    use crate::simulation::queues::Lru;
    use crate::simulation::segmented::Segmented;
    use slabwise_base::Random;
    use slabwise_base::random::mix;
    use slabwise_profile::{Distances, Mrc, StackDistances};

    /// Random keys with a skewed popularity, and their hashes.
    fn skewed(seed: u64, keys: u64, count: usize) -> Vec<(u32, u64)> {
        let mut random = Random::new(seed);
        let mut key = || random.below(keys).min(random.below(keys)).min(random.below(keys));
        (0..count).map(|_| key()).map(|key| (key as u32, mix(key ^ mix(seed)))).collect()
    }

    fn exact(keys: &[(u32, u64)]) -> Mrc {
        let (mut stack, mut distances) = (StackDistances::default(), Distances::default());
        keys.iter().for_each(|&(_, hash)| distances.record(stack.reference(hash)));
        distances.mrc(1)
    }

    #[test]
    fn at_rate_1_an_lru_has_the_exact_misses() {
        for seed in 0..5 {
            let keys = skewed(seed, 400, 5_000);
            let sizes: Vec<u64> = (1..=420).step_by(13).collect();
            let mut simulation =
                MiniatureSimulation::new(&sizes, 1.0, |chunks| Box::new(Lru::new(400, chunks)));
            keys.iter().for_each(|&(key, hash)| simulation.get(key, hash));
            let (found, exact) = (simulation.mrc(5_000), exact(&keys));
            for chunks in sizes.into_iter().chain([0]) {
                assert_eq!(
                    found.misses(chunks),
                    exact.misses(chunks),
                    "seed {seed}, {chunks} chunks"
                );
            }
        }
    }

    #[test]
    fn miniature_caches_have_the_miss_ratio_of_full_size_caches() {
        for seed in 0..3 {
            let keys = skewed(seed, 60_000, 150_000);
            let sizes = [1_000, 5_000, 10_000, 20_000, 40_000];
            let segmented =
                |chunks| -> Box<dyn Simulation> { Box::new(Segmented::new(60_000, chunks)) };
            let mut small = MiniatureSimulation::new(&sizes, 0.1, segmented);
            let mut full = MiniatureSimulation::new(&sizes, 1.0, segmented);
            for &(key, hash) in &keys {
                small.get(key, hash);
                full.get(key, hash);
            }
            let (small, full) = (small.mrc(150_000), full.mrc(150_000));
            for chunks in sizes {
                let off = small.miss_ratio(chunks) - full.miss_ratio(chunks);
                assert!(off.abs() < 0.03, "seed {seed}, {chunks} chunks: {off} off");
            }
        }
    }

    /// An eviction that hits only in small caches.
    struct SmallIsBetter(u64);

    impl Simulation for SmallIsBetter {
        fn held_bytes(&self) -> u64 {
            0
        }

        fn get(&mut self, _key: u32, _size_bytes: u32, _number: usize) -> bool {
            self.0 < 10
        }

        fn remove(&mut self, _key: u32) {}
    }

    #[test]
    fn a_curve_never_rises() {
        let cache = |chunks| -> Box<dyn Simulation> { Box::new(SmallIsBetter(chunks)) };
        let mut simulation = MiniatureSimulation::new(&[5, 20], 1.0, cache);
        (0..8).for_each(|key| simulation.get(key, 0));
        let curve = simulation.mrc(8);
        assert_eq!([0, 5, 20].map(|chunks| curve.misses(chunks)), [8.0, 0.0, 0.0]);
        // A sample has at most one miss per get.
        let mut simulation = MiniatureSimulation::new(&[20], 1.0, cache);
        (0..8).for_each(|key| simulation.get(key, 0));
        assert_eq!(simulation.mrc(6).misses(20), 6.0);
    }
}
