//! Small caches that stand for large ones: the curve of any kind of eviction.
//!
//! ```text
//!   keys --is_sampled, rate r--> caches of r * size chunks, one a size --> misses / r at each size
//! ```
//!
//! Where eviction is not that of an LRU, no distance tells whether a reference hits. But a cache of `r c` chunks
//! that sees a spatial sample of rate `r` misses the share of references that one of `c` chunks misses of all.
//! Source: C. Waldspurger, T. Saemundsson, I. Ahmad, N. Park, "Cache Modeling and Optimization using Miniature
//! Simulations", ATC 2017.
//!
//! Laws: at rate 1 every count is that of the cache itself; the curve does not rise: where a larger cache
//! misses more, as some kinds of eviction can, it is given the misses of the next smaller one.

use crate::eviction::Eviction;
use crate::mrc::{Mrc, Point};
use slabwise_base::sampling::{is_sampled, rate_of, threshold_of};

/// Caches of several sizes, simulated at once.
#[derive(Clone, Debug)]
pub struct MiniatureSimulation<E> {
    threshold: u64,
    caches: Vec<Miniature<E>>,
    /// Sampled ones.
    references: u64,
}

#[derive(Clone, Debug)]
struct Miniature<E> {
    /// What it stands for.
    chunks: u64,
    cache: E,
    misses: u64,
}

impl<E: Eviction> MiniatureSimulation<E> {
    /// Empty caches of these sizes in chunks, ascending, for a sample of this rate in (0, 1].
    ///
    /// # Panics
    /// If a size is less than one chunk in miniature, or no larger than the one before.
    pub fn new(sizes: &[u64], rate: f64) -> MiniatureSimulation<E> {
        let threshold = threshold_of(rate);
        assert!(sizes.is_sorted_by(|a, b| a < b), "sizes ascend, and these do not: {sizes:?}");
        let miniature = |&chunks: &u64| {
            let small = (chunks as f64 * rate).round() as usize;
            assert!(
                small > 0,
                "{chunks} chunks are none at rate {rate}: let sizes be 1 / rate or more"
            );
            Miniature { chunks, cache: E::with_chunks(small), misses: 0 }
        };
        MiniatureSimulation {
            threshold,
            caches: sizes.iter().map(miniature).collect(),
            references: 0,
        }
    }

    /// A get: where it misses, its key is stored, as a look-aside client does.
    pub fn get(&mut self, hash: u64) {
        if !is_sampled(hash, self.threshold) {
            return;
        }
        self.references += 1;
        for Miniature { cache, misses, .. } in &mut self.caches {
            if !cache.get(hash) {
                *misses += 1;
                cache.store(hash);
            }
        }
    }

    /// A store that answers no miss.
    pub fn store(&mut self, hash: u64) {
        if is_sampled(hash, self.threshold) {
            self.caches.iter_mut().for_each(|miniature| miniature.cache.store(hash));
        }
    }

    /// A delete.
    pub fn delete(&mut self, hash: u64) {
        if is_sampled(hash, self.threshold) {
            self.caches.iter_mut().for_each(|miniature| miniature.cache.delete(hash));
        }
    }

    /// Sampled gets since the window began.
    pub fn references(&self) -> u64 {
        self.references
    }

    /// Begins to count anew; the caches stay as they are.
    pub fn begin_window(&mut self) {
        self.references = 0;
        self.caches.iter_mut().for_each(|miniature| miniature.misses = 0);
    }

    /// The curve of the gets since the window began. `references` are all of them, sampled or not: those that
    /// the sample has too few or too many of count as hits.
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
    use crate::{Distances, Eviction, Lru, Mrc, Segmented, StackDistances};
    use slabwise_base::Random;
    use slabwise_base::random::mix;

    fn skewed(seed: u64, keys: u64, count: usize) -> Vec<u64> {
        let mut random = Random::new(seed);
        let mut key = || random.below(keys).min(random.below(keys)).min(random.below(keys));
        (0..count).map(|_| mix(key() ^ mix(seed))).collect()
    }

    fn exact(keys: &[u64]) -> Mrc {
        let (mut stack, mut distances) = (StackDistances::default(), Distances::default());
        keys.iter().for_each(|&key| distances.record(stack.reference(key)));
        distances.mrc(1)
    }

    #[test]
    fn at_rate_1_an_lru_has_the_misses_that_distances_tell() {
        for seed in 0..5 {
            let keys = skewed(seed, 400, 5_000);
            let sizes: Vec<u64> = (1..=420).step_by(13).collect();
            let mut simulation = MiniatureSimulation::<Lru>::new(&sizes, 1.0);
            keys.iter().for_each(|&key| simulation.get(key));
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
    fn in_miniature_caches_miss_as_in_full_size() {
        for seed in 0..3 {
            let keys = skewed(seed, 60_000, 150_000);
            let sizes = [1_000, 5_000, 10_000, 20_000, 40_000];
            let mut small = MiniatureSimulation::<Segmented>::new(&sizes, 0.1);
            let mut full = MiniatureSimulation::<Segmented>::new(&sizes, 1.0);
            for &key in &keys {
                small.get(key);
                full.get(key);
            }
            let (small, full) = (small.mrc(150_000), full.mrc(150_000));
            for chunks in sizes {
                let off = small.miss_ratio(chunks) - full.miss_ratio(chunks);
                assert!(off.abs() < 0.03, "seed {seed}, {chunks} chunks: {off} off");
            }
        }
    }

    #[test]
    fn a_window_counts_its_own_gets_of_warm_caches() {
        let mut simulation = MiniatureSimulation::<Lru>::new(&[10, 20], 1.0);
        (0..20).for_each(|key| simulation.get(key));
        simulation.begin_window();
        (0..20).for_each(|key| simulation.get(key));
        assert_eq!(simulation.references(), 20);
        let curve = simulation.mrc(20);
        assert_eq!([0, 10, 20].map(|chunks| curve.misses(chunks)), [20.0, 20.0, 0.0]);
        simulation.begin_window();
        simulation.delete(3);
        simulation.store(77);
        [3, 77].into_iter().for_each(|key| simulation.get(key));
        assert_eq!(simulation.mrc(2).misses(20), 1.0);
    }

    /// A kind of eviction that hits in small caches only.
    struct SmallIsBetter(usize);

    impl Eviction for SmallIsBetter {
        fn with_chunks(chunks: usize) -> SmallIsBetter {
            SmallIsBetter(chunks)
        }

        fn get(&mut self, _key: u64) -> bool {
            self.0 < 10
        }

        fn store(&mut self, _key: u64) {}

        fn delete(&mut self, _key: u64) {}
    }

    #[test]
    fn a_larger_cache_is_given_no_more_misses() {
        let mut simulation = MiniatureSimulation::<SmallIsBetter>::new(&[5, 20], 1.0);
        (0..8).for_each(|key| simulation.get(key));
        let curve = simulation.mrc(8);
        assert_eq!([0, 5, 20].map(|chunks| curve.misses(chunks)), [8.0, 0.0, 0.0]);
        // Nor has a sample more misses than there were gets.
        let mut simulation = MiniatureSimulation::<SmallIsBetter>::new(&[20], 1.0);
        (0..8).for_each(|key| simulation.get(key));
        assert_eq!(simulation.mrc(6).misses(20), 6.0);
    }
}
