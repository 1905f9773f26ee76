//! Simulates memcached's segmented LRU. Every item takes one chunk, and all sizes are numbers of chunks.
//!
//! ```text
//!   new ---> HOT  --its tail is not active---> COLD --no free chunk--> evicted
//!   HOT  --its tail is active---> WARM
//!   WARM --its tail is not active---> COLD     (an active tail of WARM moves to the head of WARM)
//!   COLD --its tail is active---> WARM
//! ```
//!
//! The tail of HOT or WARM moves if the queue has more than its share of the items, or if the tail is too old. The
//! rules are the rules of memcached's doc/new_lru.txt and of slabwise's engine. The first hit marks an item as fetched,
//! and the second hit marks the item as active. Each store checks the shares of HOT and WARM once. The maintainer
//! checks shares and ages, and moves active items out of COLD. The queue for items with a short TTL is not simulated.
//!
//! The clock counts gets and stores. Limits of age are ratios of two ages. So a small cache that gets only sampled keys
//! behaves like the full cache, although its clock is slower. The maintainer runs at most four steps after every get
//! and store.

use super::cache::Simulation;
use super::queues::Queues;

/// Share of HOT in all items, in percent.
const HOT_PERCENT: u64 = 20;
/// Share of WARM in all items, in percent.
const WARM_PERCENT: u64 = 40;
/// The tail of HOT is too old if its age exceeds this factor times the tail age of COLD.
const HOT_AGE_FACTOR: f64 = 0.2;
/// The tail of WARM is too old if its age exceeds this factor times the tail age of COLD.
const WARM_AGE_FACTOR: f64 = 2.0;
/// The largest number of steps of the maintainer after a get or a store.
const MAINTAINER_STEPS_MAX: usize = 4;
/// The largest number of active items that a search for a victim moves to WARM.
const VICTIM_ACTIVE_MAX: usize = 31;

// Numbers of the queues.
const HOT: usize = 0;
const WARM: usize = 1;
const COLD: usize = 2;
/// Size of every item, in chunks.
const ITEM_CHUNKS: u32 = 1;

/// The state of a cached item.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    /// Time of the last store or hit.
    last_access: u64,
    /// True if the item had a hit since it was stored.
    fetched: bool,
    /// True if the item had a hit since it was stored or moved. The first hit after the store does not count.
    active: bool,
}

/// A cache with memcached's segmented LRU.
#[derive(Clone, Debug)]
pub struct Segmented {
    /// Capacity of the cache.
    chunks: u64,
    queues: Queues<3>,
    /// The state of each key's item, by the number of the key.
    marks: Vec<Marks>,
    /// Number of gets and stores so far.
    now: u64,
    counts: SegmentedCounts,
}

/// The counts of a cache since its start, as memcached counts them for each class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentedCounts {
    /// Gets that hit.
    pub hits: u64,
    /// Gets that hit an item in COLD.
    pub hits_in_cold: u64,
    /// Stores.
    pub stores: u64,
    /// Evictions for a store. An eviction for a smaller number of chunks is not counted.
    pub evictions: u64,
}

impl Simulation for Segmented {
    fn held_bytes(&self) -> u64 {
        self.count(HOT) + self.count(WARM) + self.count(COLD)
    }

    fn get(&mut self, key: u32, _size_bytes: u32, _number: usize) -> bool {
        let is_hit = self.look_up(key);
        if !is_hit {
            self.store(key);
        }
        is_hit
    }

    fn remove(&mut self, key: u32) {
        self.queues.remove(key);
    }
}

impl Segmented {
    /// Creates an empty cache of `chunks` chunks for keys below `key_count`.
    ///
    /// # Panics
    /// If `chunks` is 0.
    pub fn new(key_count: usize, chunks: u64) -> Segmented {
        assert!(chunks > 0, "a simulated cache has at least one chunk, not 0");
        let (queues, marks) = (Queues::new(key_count), vec![Marks::default(); key_count]);
        Segmented { chunks, queues, marks, now: 0, counts: SegmentedCounts::default() }
    }

    /// Changes the number of chunks. Evicts items until the others fit.
    ///
    /// # Panics
    /// If `chunks` is 0.
    pub fn resize(&mut self, chunks: u64) {
        assert!(chunks > 0, "a simulated cache has at least one chunk, not 0");
        self.chunks = chunks;
        while self.held_bytes() > self.chunks {
            let victim = self.victim();
            self.queues.remove(victim);
        }
    }

    /// Returns the counts since the start.
    pub fn counts(&self) -> SegmentedCounts {
        self.counts
    }

    /// Returns the number of items in COLD.
    pub fn cold_items(&self) -> u64 {
        self.count(COLD)
    }

    /// Gets a key without storing it after a miss. Returns true if the get hits.
    pub fn look_up(&mut self, key: u32) -> bool {
        self.now += 1;
        let queue = self.queues.queue_of(key);
        let is_hit = queue.is_some();
        if is_hit {
            self.counts.hits += 1;
            self.counts.hits_in_cold += u64::from(queue == Some(COLD));
            let marks = &mut self.marks[key as usize];
            marks.active |= marks.fetched;
            marks.fetched = true;
            marks.last_access = self.now;
        }
        self.maintain();
        is_hit
    }

    /// Stores a key, and evicts an item if all chunks are used.
    pub fn store(&mut self, key: u32) {
        self.now += 1;
        self.counts.stores += 1;
        self.queues.remove(key);
        if self.held_bytes() == self.chunks {
            self.counts.evictions += 1;
            let victim = self.victim();
            self.queues.remove(victim);
        }
        self.marks[key as usize] = Marks { last_access: self.now, fetched: false, active: false };
        self.queues.push_head(HOT, key, ITEM_CHUNKS);
        self.balance(false);
        self.maintain();
    }

    /// Returns the number of items in a queue.
    fn count(&self, queue: usize) -> u64 {
        self.queues.bytes(queue)
    }

    fn is_active(&self, key: u32) -> bool {
        self.marks[key as usize].active
    }

    /// Moves an item to the head of the queue `to`. The item is not active afterwards.
    fn requeue(&mut self, key: u32, to: usize) {
        self.queues.remove(key);
        self.queues.push_head(to, key, ITEM_CHUNKS);
        self.marks[key as usize].active = false;
    }

    /// Runs the maintainer until it moves no item, but at most [`MAINTAINER_STEPS_MAX`] steps.
    fn maintain(&mut self) {
        for _ in 0..MAINTAINER_STEPS_MAX {
            if !self.balance(true) {
                break;
            }
        }
    }

    /// Moves the tails of HOT and WARM if their queues have more than their shares. A step of the maintainer also
    /// checks the ages of these tails, and moves an active tail of COLD. Returns true if an item was moved.
    fn balance(&mut self, is_maintainer: bool) -> bool {
        let mut moved = false;
        if is_maintainer
            && let Some(tail) = self.queues.tail(COLD)
            && self.is_active(tail)
        {
            self.requeue(tail, WARM);
            moved = true;
        }
        moved |= self.balance_queue(HOT, HOT_PERCENT, is_maintainer.then_some(HOT_AGE_FACTOR));
        moved | self.balance_queue(WARM, WARM_PERCENT, is_maintainer.then_some(WARM_AGE_FACTOR))
    }

    /// Moves the tail of a queue if the queue has more than `percent` of the items. With a `factor`, also moves the
    /// tail if its age exceeds the factor times the tail age of COLD. Returns true if the tail was moved.
    fn balance_queue(&mut self, queue: usize, percent: u64, factor: Option<f64>) -> bool {
        let Some(tail) = self.queues.tail(queue) else { return false };
        let over_share = self.count(queue) * 100 > self.held_bytes() * percent;
        let too_old = factor.is_some_and(|factor| {
            let cold_age = self.queues.tail(COLD).map_or(0, |cold| self.age(cold));
            self.age(tail) as f64 > cold_age as f64 * factor
        });
        if !(over_share || too_old) {
            return false;
        }
        self.requeue(tail, if self.is_active(tail) { WARM } else { COLD });
        true
    }

    /// Returns the number of gets and stores since the last access of the key's item.
    fn age(&self, key: u32) -> u64 {
        self.now - self.marks[key as usize].last_access
    }

    /// Returns the item to evict, which is the tail of COLD. First moves active tails of COLD to WARM, and moves a tail
    /// of HOT or WARM to COLD if COLD is empty.
    fn victim(&mut self) -> u32 {
        let mut moved = 0;
        loop {
            let is_spared = |key| self.is_active(key) && moved < VICTIM_ACTIVE_MAX;
            let hot = self.queues.tail(HOT);
            let (key, to) = match (self.queues.tail(COLD), hot.or(self.queues.tail(WARM))) {
                (Some(cold), _) if is_spared(cold) && self.count(COLD) > 1 => (cold, WARM),
                (Some(cold), _) => return cold,
                (None, Some(refill)) if is_spared(refill) && hot.is_some() => (refill, WARM),
                (None, Some(refill)) => (refill, COLD),
                (None, None) => panic!("a full cache has an item in HOT, WARM or COLD"),
            };
            self.requeue(key, to);
            moved += 1;
        }
    }
}

#[cfg(test)]
#[path = "segmented_tests.rs"]
mod tests;
