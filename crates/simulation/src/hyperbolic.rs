//! Hyperbolic caching (Blankstein, Sen, Freedman: Hyperbolic Caching, ATC 2017), by bytes.
//!
//! The priority of an item is the number of its gets since it was stored, divided by the time since then and by its
//! size. The victim is the item with the lowest priority among 64 random items. Time is the number of requests. The
//! paper divides by the size to reduce the misses of items with different sizes.

use super::cache::Simulation;
use super::pool::{Item, Pool, SampleSetup, Victims};

const SAMPLE: SampleSetup = SampleSetup { random: 64, largest_of: 1, kept: 0, recent: 0 };

#[derive(Debug)]
pub struct Hyperbolic {
    pool: Pool<Use>,
    victims: Victims,
    limit_bytes: u64,
    /// Number of requests so far.
    now: u64,
}

#[derive(Clone, Copy, Debug)]
struct Use {
    /// Number of gets and sets since the item was stored, with the one that stored it.
    count: u32,
    /// Time at which the item was stored.
    stored: u64,
}

impl Hyperbolic {
    pub fn new(key_count: usize, limit_bytes: u64, seed: u64) -> Hyperbolic {
        let (pool, victims) = (Pool::new(key_count), Victims::new(SAMPLE, seed));
        Hyperbolic { pool, victims, limit_bytes, now: 0 }
    }
}

/// Returns the priority of an item at a time after the item was stored.
fn priority(item: &Item<Use>, now: u64) -> f64 {
    let age = (now - item.state.stored).max(1);
    f64::from(item.state.count) / (age as f64 * f64::from(item.size_bytes.max(1)))
}

impl Simulation for Hyperbolic {
    fn held_bytes(&self) -> u64 {
        self.pool.held_bytes()
    }

    fn get(&mut self, key: u32, size_bytes: u32, _number: usize) -> bool {
        self.now += 1;
        let now = self.now;
        let found = self.pool.remove(key);
        let mut state = found.map_or(Use { count: 0, stored: now }, |item| item.state);
        state.count += 1;
        if u64::from(size_bytes) > self.limit_bytes {
            return found.is_some();
        }
        while self.pool.held_bytes() + u64::from(size_bytes) > self.limit_bytes {
            let victim = self.victims.choose(&self.pool, |item| priority(item, now));
            let Some((victim, _)) = victim else { break };
            self.pool.remove(victim);
        }
        self.pool.insert(Item { key, size_bytes, state });
        found.is_some()
    }

    fn remove(&mut self, key: u32) {
        self.pool.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::Hyperbolic;
    use crate::cache::Simulation;

    /// With two or three items, 64 draws find all of them except with a probability of 2^-37.
    #[test]
    fn the_item_with_the_fewest_gets_per_time_and_byte_is_evicted() {
        let mut cache = Hyperbolic::new(4, 300, 1);
        let gets = [(0, 100), (0, 100), (0, 100), (1, 100), (2, 100)];
        let hits = gets.map(|(key, size)| cache.get(key, size, 0));
        assert_eq!(hits, [false, true, true, false, false]);
        // At time 6, key 0 has 3 gets in 5 requests, key 1 has 1 in 2, and key 2 has 1 in 1. Key 1 is evicted.
        assert!(!cache.get(3, 100, 0));
        // At time 8, key 0 has 4 in 7, key 2 has 1 in 3, and key 3 has 1 in 2. Key 2 is evicted.
        assert!(cache.get(0, 100, 0));
        assert!(!cache.get(1, 100, 0));
        assert_eq!([0, 3, 1].map(|key| cache.get(key, 100, 0)), [true; 3]);
        assert!(!cache.get(2, 100, 0), "key 2 was evicted");
    }

    #[test]
    fn a_large_item_is_evicted_before_a_small_one() {
        let mut cache = Hyperbolic::new(3, 300, 1);
        cache.get(0, 50, 0);
        cache.get(1, 200, 0);
        // At time 3, key 0 has 1 / (2 * 50), and key 1 has 1 / (1 * 200).
        cache.get(2, 100, 0);
        assert!(cache.get(0, 50, 0) && cache.get(2, 100, 0) && !cache.get(1, 200, 0));
    }
}
