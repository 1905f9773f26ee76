//! Simulates memcached's segmented LRU; every item takes one chunk, and sizes are counted in chunks.
//!
//! ```text
//!              over its share or too old                      no free chunk
//!   new ---> HOT ------------------------------> COLD ----------------------> out
//!             | active                          ^    | active
//!             v         over its share, too old |    v
//!            WARM <----(active: to the head)----'   WARM
//! ```
//!
//! The rules are those of memcached's doc/new_lru.txt and of slabwise's engine. The first hit marks a key as fetched, the
//! next one as active. Each store checks the tails of HOT and WARM once; the maintainer also checks ages. The queue for
//! items with a short TTL is not simulated.
//!
//! Time is counted in gets and stores. The limits of age are relative to another age, so the unit does not matter, and a
//! sample of the keys behaves like all keys. The maintainer checks the queues a few times after every get and store.

use super::cache::Simulation;
use super::queues::Queues;

const HOT_PERCENT: u64 = 20;
const WARM_PERCENT: u64 = 40;
/// A hot item older than this factor times the cold tail age moves to COLD.
const HOT_AGE_FACTOR: f64 = 0.2;
/// A warm item older than this factor times the cold tail age moves to COLD.
const WARM_AGE_FACTOR: f64 = 2.0;
const MAINTAINER_STEPS_MAX: usize = 4;
/// The largest number of active items that a search for a victim moves to WARM.
const VICTIM_ACTIVE_MAX: usize = 31;

const HOT: usize = 0;
const WARM: usize = 1;
const COLD: usize = 2;
const CHUNK: u32 = 1;

#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    last_access: u64,
    fetched: bool,
    active: bool,
}

#[derive(Clone, Debug)]
pub struct Segmented {
    chunks: u64,
    queues: Queues<3>,
    marks: Vec<Marks>,
    now: u64,
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
    /// An empty cache of `chunks` chunks, at least 1, for keys below `key_count`.
    pub fn new(key_count: usize, chunks: u64) -> Segmented {
        assert!(chunks > 0, "a cache has at least one chunk");
        let (queues, marks) = (Queues::new(key_count), vec![Marks::default(); key_count]);
        Segmented { chunks, queues, marks, now: 0 }
    }

    fn look_up(&mut self, key: u32) -> bool {
        self.now += 1;
        let is_hit = self.queues.queue_of(key).is_some();
        if is_hit {
            let marks = &mut self.marks[key as usize];
            marks.active |= marks.fetched;
            marks.fetched = true;
            marks.last_access = self.now;
        }
        self.maintain();
        is_hit
    }

    fn store(&mut self, key: u32) {
        self.now += 1;
        self.queues.remove(key);
        if self.held_bytes() == self.chunks {
            let victim = self.victim();
            self.queues.remove(victim);
        }
        self.marks[key as usize] = Marks { last_access: self.now, fetched: false, active: false };
        self.queues.push_head(HOT, key, CHUNK);
        self.balance(false);
        self.maintain();
    }

    fn count(&self, queue: usize) -> u64 {
        self.queues.bytes(queue)
    }

    fn is_active(&self, key: u32) -> bool {
        self.marks[key as usize].active
    }

    fn requeue(&mut self, key: u32, to: usize) {
        self.queues.remove(key);
        self.queues.push_head(to, key, CHUNK);
        self.marks[key as usize].active = false;
    }

    fn maintain(&mut self) {
        for _ in 0..MAINTAINER_STEPS_MAX {
            if !self.balance(true) {
                break;
            }
        }
    }

    /// Checks the tails of HOT and WARM once each, with `by_age` also that of COLD. Returns true if it moved an item.
    fn balance(&mut self, by_age: bool) -> bool {
        let mut moved = false;
        if by_age
            && let Some(tail) = self.queues.tail(COLD)
            && self.is_active(tail)
        {
            self.requeue(tail, WARM);
            moved = true;
        }
        moved |= self.balance_queue(HOT, HOT_PERCENT, by_age.then_some(HOT_AGE_FACTOR));
        moved | self.balance_queue(WARM, WARM_PERCENT, by_age.then_some(WARM_AGE_FACTOR))
    }

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

    fn age(&self, key: u32) -> u64 {
        self.now - self.marks[key as usize].last_access
    }

    /// Returns the item to evict. It first moves active items to WARM, and refills COLD if that is empty.
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
                (None, None) => panic!("a full cache has a key"),
            };
            self.requeue(key, to);
            moved += 1;
        }
    }
}

#[cfg(test)]
#[path = "segmented_tests.rs"]
mod tests;
