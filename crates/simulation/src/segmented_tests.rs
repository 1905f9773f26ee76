//! Compares the simulated segmented LRU with a model that stores its queues in vectors.

use super::{COLD, HOT, HOT_AGE_FACTOR, MAINTAINER_STEPS_MAX, Segmented, WARM, WARM_AGE_FACTOR};
use crate::cache::Simulation;
use crate::queues::Lru;
use slabwise_base::Random;

#[derive(Clone, Copy)]
struct Item {
    key: u64,
    last_access: u64,
    fetched: bool,
    active: bool,
}

/// memcached's rules, with a vector for each of the three queues. The last element of a vector is the tail of the
/// queue.
struct Model {
    /// Capacity of the cache.
    chunks: usize,
    queues: [Vec<Item>; 3],
    /// Number of gets and stores so far.
    now: u64,
}

impl Model {
    /// Returns the number of cached items.
    fn items(&self) -> usize {
        self.queues.iter().map(Vec::len).sum()
    }

    /// Removes the item of a key from its queue, if any.
    fn take(&mut self, key: u64) -> Option<Item> {
        let index_of = |queue: &Vec<Item>| queue.iter().position(|item| item.key == key);
        let queue = self.queues.iter().position(|queue| index_of(queue).is_some())?;
        let index = index_of(&self.queues[queue])?;
        Some(self.queues[queue].remove(index))
    }

    fn get(&mut self, key: u64) -> bool {
        self.now += 1;
        let now = self.now;
        let item = self.queues.iter_mut().flatten().find(|item| item.key == key);
        let hit = item.is_some();
        if let Some(item) = item {
            (item.active, item.fetched) = (item.active || item.fetched, true);
            item.last_access = now;
        }
        self.maintain();
        hit
    }

    fn store(&mut self, key: u64) {
        self.now += 1;
        self.take(key);
        if self.items() == self.chunks {
            self.evict();
        }
        let item = Item { key, last_access: self.now, fetched: false, active: false };
        self.queues[HOT].insert(0, item);
        self.check(HOT, 20, None);
        self.check(WARM, 40, None);
        self.maintain();
    }

    fn maintain(&mut self) {
        for _ in 0..MAINTAINER_STEPS_MAX {
            let cold = self.queues[COLD].last().is_some_and(|item| item.active);
            if cold {
                self.move_tail(COLD, WARM);
            }
            let hot = self.check(HOT, 20, Some(HOT_AGE_FACTOR));
            let warm = self.check(WARM, 40, Some(WARM_AGE_FACTOR));
            if !(cold || hot || warm) {
                break;
            }
        }
    }

    /// Moves the tail of a queue if the queue has more than `percent` of the items, or if the tail is older than
    /// `factor` times the tail of COLD. Returns true if the tail was moved.
    fn check(&mut self, queue: usize, percent: usize, factor: Option<f64>) -> bool {
        let Some(&tail) = self.queues[queue].last() else { return false };
        let age = |item: &Item| (self.now - item.last_access) as f64;
        let cold_age = self.queues[COLD].last().map_or(0.0, age);
        let too_old = factor.is_some_and(|factor| age(&tail) > factor * cold_age);
        let moves = too_old || 100 * self.queues[queue].len() > percent * self.items();
        if moves {
            self.move_tail(queue, if tail.active { WARM } else { COLD });
        }
        moves
    }

    /// Moves the tail of the queue `from` to the head of the queue `to`.
    fn move_tail(&mut self, from: usize, to: usize) {
        let item = self.queues[from].pop().expect("the queue has a tail");
        self.queues[to].insert(0, Item { active: false, ..item });
    }

    fn evict(&mut self) {
        for moved in 0.. {
            let spared = |item: &Item| item.active && moved < 31;
            match self.queues[COLD][..] {
                [] if self.queues[HOT].last().is_some_and(spared) => self.move_tail(HOT, WARM),
                [] if !self.queues[HOT].is_empty() => self.move_tail(HOT, COLD),
                [] => self.move_tail(WARM, COLD),
                [_, .., tail] if spared(&tail) => self.move_tail(COLD, WARM),
                _ => break,
            }
        }
        self.queues[COLD].pop();
    }
}

#[test]
fn the_simulation_has_the_hits_and_queue_lengths_of_the_model() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let chunks = 1 + random.below(60) as usize;
        let mut model = Model { chunks, queues: Default::default(), now: 0 };
        let mut segmented = Segmented::new(100, chunks as u64);
        for step in 0..5_000 {
            let key = random.below(100).min(random.below(100));
            let number = key as u32;
            match random.below(10) {
                0 => {
                    segmented.remove(number);
                    model.take(key);
                }
                1 => {
                    segmented.store(number);
                    model.store(key);
                }
                _ => {
                    let (found, expected) = (segmented.look_up(number), model.get(key));
                    assert_eq!(found, expected, "seed {seed}, step {step}, {chunks} chunks");
                    if !found {
                        segmented.store(number);
                        model.store(key);
                    }
                }
            }
            let counts = model.queues.each_ref().map(Vec::len);
            let found = [HOT, WARM, COLD].map(|queue| segmented.count(queue) as usize);
            assert_eq!(found, counts, "seed {seed}, step {step}, {chunks} chunks");
            assert_eq!(segmented.held_bytes() as usize, model.items(), "seed {seed}, step {step}");
        }
    }
}

#[test]
fn during_a_scan_reused_keys_miss_less_than_in_an_lru() {
    const KEYS: usize = 101_000;
    let mut random = Random::new(1);
    let mut misses = [0; 2];
    let (mut lru, mut segmented) = (Lru::new(KEYS, 1_000), Segmented::new(KEYS, 1_000));
    for at in 0..100_000 {
        // Two of three references are to 600 reused keys. The third reference is to a key that occurs only once.
        let key = if at % 3 == 0 { 1_000 + at } else { random.below(600) as u32 };
        for (cache, misses) in
            [&mut lru as &mut dyn Simulation, &mut segmented].into_iter().zip(&mut misses)
        {
            *misses += u64::from(!cache.get(key, 1, 0));
        }
    }
    // 33,334 references are to keys that occur only once.
    let [lru, segmented] = misses.map(|misses| misses - 33_334);
    assert!(segmented * 3 < lru * 2, "misses of reused keys: segmented {segmented}, LRU {lru}");
}
