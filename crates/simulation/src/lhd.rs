//! LHD (Beckmann, Chen, Cidon: LHD: Improving Cache Hit Rate by Maximizing Hit Density, NSDI 2018), by bytes.
//!
//! The hit density of an item is the expected number of its hits, divided by the time that it is expected to stay in
//! the cache and by its size. The victim is the item with the lowest hit density among 32 random items and the 8 items
//! stored last. Similar items form a class. The simulation computes the hit density of each class at each age from the
//! ages at which items of the class were hit and evicted. As in the paper:
//!
//! - The age is the time since the last request for the item. Ages are *coarsened*: time is divided by a step, which is
//!   adjusted so that few items are evicted at the highest age. Items of the highest age are evicted first.
//! - The class of an item depends on the sum of its last two ages at a hit, and on its application. The requests here
//!   have no application, so the size replaces it.
//! - The densities are computed at regular intervals, from counts of events that decay exponentially.
//! - A few items are *explorers*: they are evicted only when they have the highest age. Without them, the ages at which
//!   items are always evicted would never have a hit.
//!
//! The intervals here are shorter than the paper's, because the workloads are shorter.

use super::cache::Simulation;
use super::pool::{Item, Pool, SampleSetup, Victims};
use slabwise_base::Random;

const SAMPLE: SampleSetup = SampleSetup { random: 32, largest_of: 1, kept: 0, recent: 8 };

/// Number of coarsened ages.
const AGES: usize = 128;
/// Number of classes by ages at hits. The last of them has the items without a hit.
const HIT_CLASSES: usize = 8;
/// Number of classes by size.
const SIZE_CLASSES: usize = 8;
/// Number of requests from one computation of the densities to the next.
const INTERVAL_REQUESTS: u64 = 1 << 15;
/// Factor on the counted events at each computation.
const DECAY: f64 = 0.9;
/// The step of ages doubles if more than this share of the evictions has the highest age. Explorers do not count: they
/// are evicted only at this age.
const OVERFLOW_SHARE_MAX: f64 = 0.01;
/// One of this number of stored items is an explorer.
const EXPLORER_ONE_IN: u64 = 32;
/// The explorers take at most this fraction of the limit.
const EXPLORER_DIVISOR: u64 = 100;

#[derive(Debug)]
pub struct Lhd {
    pool: Pool<History>,
    victims: Victims,
    classes: Vec<Class>,
    random: Random,
    limit_bytes: u64,
    /// Sum of the sizes of all explorers.
    explorer_bytes: u64,
    /// Number of requests so far.
    now: u64,
    /// Number of requests per coarsened age.
    step: u64,
    /// Evictions since the last computation, without explorers.
    evictions: u64,
    /// Those of the evictions that had the highest age.
    oldest_evictions: u64,
}

#[derive(Clone, Copy, Debug)]
struct History {
    /// Time of the last request for the item.
    last: u64,
    /// The ages of the item at its last hit and at the one before, in requests. 0 before the first hit.
    hit_ages: [u64; 2],
    class: u8,
    is_explorer: bool,
}

/// The events of a class, and the densities learned from them, by coarsened age.
#[derive(Clone, Debug)]
struct Class {
    hits: [f64; AGES],
    evictions: [f64; AGES],
    densities: [f64; AGES],
}

impl Class {
    fn new() -> Class {
        // Before the first computation, the densities are those of an LRU.
        let densities = std::array::from_fn(|age| 1.0 / (age + 1) as f64);
        Class { hits: [0.0; AGES], evictions: [0.0; AGES], densities }
    }

    fn events(&self, age: usize) -> f64 {
        self.hits[age] + self.evictions[age]
    }

    /// Computes the densities. A class without events keeps its densities.
    fn learn(&mut self) {
        let (mut hits, mut events, mut lifetimes) = (0.0, 0.0, 0.0);
        for age in (0..AGES).rev() {
            hits += self.hits[age];
            events += self.events(age);
            // Every event at this age or a higher one adds one step to the sum of the remaining lifetimes.
            lifetimes += events;
            if lifetimes > 1e-3 {
                self.densities[age] = hits / lifetimes;
            }
        }
    }

    fn decay(&mut self) {
        self.hits.iter_mut().chain(&mut self.evictions).for_each(|count| *count *= DECAY);
    }

    /// Adjusts the counts after the step of ages has doubled.
    fn double_step(&mut self) {
        for counts in [&mut self.hits, &mut self.evictions] {
            for age in 0..AGES {
                let pair = (2 * age < AGES).then(|| counts[2 * age] + counts[2 * age + 1]);
                counts[age] = pair.unwrap_or(0.0);
            }
        }
    }
}

/// Returns the coarsened age.
fn coarse_age(age_requests: u64, step: u64) -> usize {
    (age_requests / step).min(AGES as u64 - 1) as usize
}

impl Lhd {
    pub fn new(key_count: usize, limit_bytes: u64, seed: u64) -> Lhd {
        Lhd {
            pool: Pool::new(key_count),
            victims: Victims::new(SAMPLE, seed),
            classes: vec![Class::new(); HIT_CLASSES * SIZE_CLASSES],
            random: Random::new(seed ^ 1),
            limit_bytes,
            explorer_bytes: 0,
            now: 0,
            step: 1,
            evictions: 0,
            oldest_evictions: 0,
        }
    }

    fn class_of(&self, hit_ages: [u64; 2], size_bytes: u32) -> u8 {
        let age_max = self.step * AGES as u64;
        let sum = hit_ages[0] + hit_ages[1];
        let by_hits = match sum {
            0 => HIT_CLASSES - 1,
            sum => ((age_max / sum).max(1).ilog2() as usize).min(HIT_CLASSES - 2),
        };
        let by_size = (size_bytes.max(64).ilog2() as usize - 6).div_ceil(2).min(SIZE_CLASSES - 1);
        (by_size * HIT_CLASSES + by_hits) as u8
    }

    /// Removes the item of a key, if any.
    fn take(&mut self, key: u32) -> Option<Item<History>> {
        let item = self.pool.remove(key)?;
        if item.state.is_explorer {
            self.explorer_bytes -= u64::from(item.size_bytes);
        }
        Some(item)
    }

    fn evict(&mut self) {
        let (now, step, classes) = (self.now, self.step, &self.classes);
        let rank = |item: &Item<History>| {
            let age = coarse_age(now - item.state.last, step);
            // The last age has all higher ages too, so its density would be too high.
            if age == AGES - 1 {
                return 0.0;
            }
            if item.state.is_explorer {
                return f64::INFINITY;
            }
            let class = &classes[usize::from(item.state.class)];
            class.densities[age] / f64::from(item.size_bytes.max(1))
        };
        let Some((victim, _)) = self.victims.choose(&self.pool, rank) else { return };
        if let Some(item) = self.take(victim) {
            let age = coarse_age(self.now - item.state.last, self.step);
            self.classes[usize::from(item.state.class)].evictions[age] += 1.0;
            if !item.state.is_explorer {
                self.evictions += 1;
                self.oldest_evictions += u64::from(age == AGES - 1);
            }
        }
    }

    /// Computes the densities of all classes, and adjusts the step of ages.
    fn learn(&mut self) {
        if self.oldest_evictions as f64 > self.evictions as f64 * OVERFLOW_SHARE_MAX {
            self.step *= 2;
            self.classes.iter_mut().for_each(Class::double_step);
        }
        (self.evictions, self.oldest_evictions) = (0, 0);
        for class in &mut self.classes {
            class.learn();
            class.decay();
        }
    }
}

impl Simulation for Lhd {
    fn held_bytes(&self) -> u64 {
        self.pool.held_bytes()
    }

    fn get(&mut self, key: u32, size_bytes: u32, _number: usize) -> bool {
        self.now += 1;
        if self.now.is_multiple_of(INTERVAL_REQUESTS) {
            self.learn();
        }
        let found = self.take(key);
        let mut hit_ages = [0; 2];
        if let Some(Item { state, .. }) = found {
            let age = coarse_age(self.now - state.last, self.step);
            self.classes[usize::from(state.class)].hits[age] += 1.0;
            hit_ages = [self.now - state.last, state.hit_ages[0]];
        }
        if u64::from(size_bytes) > self.limit_bytes {
            return found.is_some();
        }
        while self.pool.held_bytes() + u64::from(size_bytes) > self.limit_bytes {
            self.evict();
        }
        let explorers_fit =
            self.explorer_bytes + u64::from(size_bytes) <= self.limit_bytes / EXPLORER_DIVISOR;
        let is_explorer = explorers_fit && self.random.below(EXPLORER_ONE_IN) == 0;
        self.explorer_bytes += if is_explorer { u64::from(size_bytes) } else { 0 };
        let class = self.class_of(hit_ages, size_bytes);
        let state = History { last: self.now, hit_ages, class, is_explorer };
        self.pool.insert(Item { key, size_bytes, state });
        if found.is_none() {
            self.victims.stored(key);
        }
        found.is_some()
    }

    fn remove(&mut self, key: u32) {
        self.take(key);
    }
}

#[cfg(test)]
mod tests {
    use super::{AGES, Class, INTERVAL_REQUESTS, Lhd};
    use crate::cache::Simulation;
    use slabwise_base::Random;

    #[test]
    fn the_density_is_hits_divided_by_lifetimes() {
        let mut class = Class::new();
        class.hits[..2].copy_from_slice(&[2.0, 1.0]);
        class.evictions[2] = 1.0;
        class.learn();
        // Age 2: no hit in one step. Age 1: one hit in 1 + 2 steps. Age 0: three hits in 1 + 1 + 2 + 3 steps.
        assert_eq!(class.densities[..3], [3.0 / 7.0, 1.0 / 3.0, 0.0]);
        assert_eq!(class.densities[3], 0.25, "an age without later events keeps its density");
    }

    #[test]
    fn a_doubled_step_adds_pairs_of_ages() {
        let mut class = Class::new();
        class.hits = std::array::from_fn(|age| age as f64);
        class.double_step();
        assert_eq!(class.hits[..3], [1.0, 5.0, 9.0]);
        assert_eq!(class.hits[AGES / 2 - 1..AGES / 2 + 1], [253.0, 0.0]);
    }

    #[test]
    fn the_class_depends_on_the_last_two_ages_at_hits_and_on_the_size() {
        let lhd = Lhd::new(1, 1_000, 1);
        // The highest age is 128. 128 / 128 is 2^0, 128 / 16 is 2^3, and 128 / 1 is at most 2^6.
        let classes = [[0, 0], [128, 0], [10, 6], [1, 0]].map(|ages| lhd.class_of(ages, 64));
        assert_eq!(classes, [7, 0, 3, 6]);
        assert_eq!([64, 255, 256, 1 << 30].map(|size| lhd.class_of([0; 2], size)), [7, 15, 15, 63]);
    }

    #[test]
    fn the_item_with_the_lowest_density_per_byte_is_evicted() {
        let mut cache = Lhd::new(4, 300, 1);
        // At time 4, before densities are learned, key 0 has 1 / 4 / 50, key 1 has 1 / 3 / 150, key 2 has 1 / 2 / 100.
        for (key, size_bytes) in [(0, 50), (1, 150), (2, 100)] {
            cache.get(key, size_bytes, 0);
        }
        assert!(!cache.get(3, 100, 0));
        let hits = [(0, 50), (2, 100), (3, 100)].map(|(key, size)| cache.get(key, size, 0));
        assert_eq!(hits, [true; 3]);
        assert!(!cache.get(1, 40, 0), "key 1 was evicted");
    }

    /// Keys are requested again after up to 400 other requests, and the cache has about 100 items. An age must reach far
    /// enough for these items, but not much farther.
    #[test]
    fn the_step_follows_the_ages_of_evictions() {
        let mut cache = Lhd::new(400, 100_000, 1);
        let mut random = Random::new(4);
        for _ in 0..40 * INTERVAL_REQUESTS {
            cache.get(random.below(400) as u32, 1_000, 0);
        }
        assert!((2..=64).contains(&cache.step), "step {}, seed 4", cache.step);
        assert!(cache.explorer_bytes <= 1_000, "{} bytes", cache.explorer_bytes);
    }
}
