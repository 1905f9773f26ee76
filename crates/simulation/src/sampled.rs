//! A cache that samples its victims, and keeps seven bits and the time of the last request with each item.
//!
//! ```text
//!   request --> Uses and tick of the item --> Ranking: which item is worth the least? --> victim --> Ghosts
//!                        ^------------------- what the key had before its eviction -------------------'
//! ```
//!
//! A hit changes only the item: it moves no item in a list. [`Ranking`] computes the rank of an item when the item is
//! sampled.
//!
//! Invariant: the items and the table of ghosts together take at most the limit.

use super::cache::Simulation;
use super::pool::{Item, Pool, SampleSetup, Victims};
use super::work_clock::WorkClock;
use slabwise_base::{Ghosts, Random, Uses};

/// Returns the candidates of a choice: this number of random items, and a few others.
fn candidates(random: usize) -> SampleSetup {
    SampleSetup { random, largest_of: 4, kept: 8, recent: 8 }
}

/// What is kept with an item.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    pub uses: Uses,
    /// Tick of the last request.
    pub tick: u32,
}

/// Ranks the items of a cache. Times are ticks of the work clock.
pub trait Ranking {
    /// Returns the rank of an item. The item with the lowest rank is evicted.
    fn rank(&self, item: &Item<Stamp>, now: u32) -> f64;
    /// Notes a get or a set of a key, whether it hit or not. `uses` includes this request.
    fn requested(&mut self, key: u32, uses: Uses, now: u32);
    /// Notes that an item of this rank was evicted.
    fn evicted(&mut self, rank: f64);
    /// Notes that a client deleted a key.
    fn deleted(&mut self, key: u32);
}

#[derive(Debug)]
pub struct Sampled<R> {
    ranking: R,
    pool: Pool<Stamp>,
    victims: Victims,
    ghosts: Ghosts,
    random: Random,
    clock: WorkClock,
    /// Limit of the items, without the table of ghosts.
    limit_bytes: u64,
}

impl<R: Ranking> Sampled<R> {
    /// Creates an empty cache. A victim is chosen from `random` random items and a few others.
    pub fn new(
        ranking: R,
        random: usize,
        key_count: usize,
        limit_bytes: u64,
        seed: u64,
    ) -> Sampled<R> {
        let ghosts = Ghosts::new(limit_bytes, true);
        Sampled {
            ranking,
            pool: Pool::new(key_count),
            victims: Victims::new(candidates(random), seed),
            random: Random::new(seed ^ 1),
            clock: WorkClock::new(limit_bytes),
            limit_bytes: limit_bytes - ghosts.size_bytes(),
            ghosts,
        }
    }

    fn evict(&mut self) {
        let now = self.clock.now();
        let choice = self.victims.choose(&self.pool, |item| self.ranking.rank(item, now));
        let Some((victim, rank)) = choice else { return };
        self.ranking.evicted(rank);
        if let Some(item) = self.pool.remove(victim) {
            self.ghosts.insert(u64::from(victim), item.state.uses);
        }
    }

    /// Stores an item after a miss, or an item of another size for a cached key.
    fn store(&mut self, key: u32, size_bytes: u32, uses: Uses) {
        while self.pool.held_bytes() + u64::from(size_bytes) > self.limit_bytes {
            self.evict();
        }
        self.clock.add(size_bytes);
        let tick = self.clock.now();
        self.ranking.requested(key, uses, tick);
        self.pool.insert(Item { key, size_bytes, state: Stamp { uses, tick } });
        self.victims.stored(key);
    }
}

impl<R: Ranking> Simulation for Sampled<R> {
    fn held_bytes(&self) -> u64 {
        self.pool.held_bytes()
    }

    fn get(&mut self, key: u32, size_bytes: u32, _number: usize) -> bool {
        let tick = self.clock.now();
        let fits = u64::from(size_bytes) <= self.limit_bytes;
        if let Some(&Item { size_bytes: held, state, .. }) = self.pool.item(key) {
            let uses = state.uses.add(tick - state.tick, self.random.next_u64());
            if held == size_bytes {
                self.ranking.requested(key, uses, tick);
                self.pool.set_state(key, Stamp { uses, tick });
                return true;
            }
            self.pool.remove(key);
            if fits {
                self.store(key, size_bytes, uses);
            }
            return true;
        }
        if fits {
            let evicted = self.ghosts.take(u64::from(key));
            let uses = evicted.map_or(Uses::FIRST, |uses| uses.counted(self.random.next_u64()));
            self.store(key, size_bytes, uses);
        }
        false
    }

    fn remove(&mut self, key: u32) {
        self.pool.remove(key);
        self.ranking.deleted(key);
    }
}

#[cfg(test)]
mod tests {
    use super::{Ranking, Sampled, Stamp};
    use crate::cache::Simulation;
    use crate::pool::Item;
    use slabwise_base::Uses;

    /// Ranks items by their counts.
    #[derive(Debug, Default)]
    struct ByCount {
        evicted: Vec<f64>,
    }

    impl Ranking for ByCount {
        fn rank(&self, item: &Item<Stamp>, _now: u32) -> f64 {
            f64::from(item.state.uses.count())
        }

        fn requested(&mut self, _key: u32, _uses: Uses, _now: u32) {}

        fn evicted(&mut self, rank: f64) {
            self.evicted.push(rank);
        }

        fn deleted(&mut self, _key: u32) {}
    }

    /// With two items, 32 draws find both of them except with a probability of 2^-31.
    #[test]
    fn the_lowest_rank_is_evicted_and_its_count_is_remembered() {
        let mut cache = Sampled::new(ByCount::default(), 32, 4, 1_024, 1);
        // The table of ghosts takes 8 of the 1,024 bytes. Key 0 has a count of 2, and key 1 a count of 1.
        let gets = [(0, 508), (0, 508), (1, 508), (2, 508)];
        assert_eq!(gets.map(|(key, size)| cache.get(key, size, 0)), [false, true, false, false]);
        assert_eq!(cache.ranking.evicted, [1.0], "key 1 was evicted for key 2");
        assert!(!cache.get(1, 508, 0), "key 1 was evicted");
        let count =
            |cache: &Sampled<ByCount>, key| cache.pool.item(key).map(|i| i.state.uses.count());
        let counts = [0, 1, 2].map(|key| count(&cache, key));
        assert_eq!(counts, [Some(2), Some(2), None], "key 1 returned with its count");
        assert_eq!(cache.held_bytes(), 1_016);
    }

    #[test]
    fn a_set_of_another_size_keeps_the_count() {
        let mut cache = Sampled::new(ByCount::default(), 32, 1, 1_024, 1);
        assert_eq!([100, 200, 1_017].map(|size| cache.get(0, size, 0)), [false, true, true]);
        assert_eq!(
            cache.held_bytes(),
            0,
            "1,017 bytes exceed the limit without the table of ghosts"
        );
        cache.get(0, 100, 0);
        cache.get(0, 50, 0);
        let counts = cache.pool.item(0).map(|item| item.state.uses.count());
        assert_eq!((counts, cache.held_bytes()), (Some(2), 50));
    }
}
