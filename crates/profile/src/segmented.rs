//! memcached's segmented LRU on keys alone.
//!
//! ```text
//!              over its share or too old                      no free chunk
//!   new ---> HOT ------------------------------> COLD ----------------------> out
//!             | active                          ^    | active
//!             v         over its share, too old |    v
//!            WARM <----(active: to the head)----'   WARM
//! ```
//!
//! Source of the rules: memcached's doc/new_lru.txt. They are those that slabwise's engine follows: a key's first
//! hit marks it fetched, the next active; each store looks at the tails of HOT and WARM once, and the maintainer
//! at ages too. A queue for items of short TTL is not simulated.
//!
//! Time is counted in gets and stores: limits of age are factors of another age, so its unit does not
//! matter, and a sample of the keys behaves like all of them. The maintainer looks at the queues after
//! every get and store, a few times.

use crate::eviction::Eviction;
use crate::key_map::KeyMap;
use crate::lists::{List, Nodes};

/// The share of the items that HOT may hold, in percent.
const HOT_PERCENT: usize = 20;
/// The same for WARM.
const WARM_PERCENT: usize = 40;
/// A hot item older than this factor of the cold tail's age goes to COLD.
const HOT_AGE_FACTOR: f64 = 0.2;
/// The same for a warm one.
const WARM_AGE_FACTOR: f64 = 2.0;
/// How often the maintainer looks at the queues after a get or store.
const MAINTAINER_LOOKS_MAX: usize = 4;
/// How many active items a search for a victim puts off.
const VICTIM_ACTIVE_MAX: usize = 31;

/// Which queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueKind {
    Hot,
    Warm,
    Cold,
}

/// What is kept of a key.
#[derive(Clone, Copy, Debug)]
struct Marks {
    last_access: u64,
    queue: QueueKind,
    fetched: bool,
    active: bool,
}

/// HOT, WARM and COLD.
#[derive(Clone, Debug)]
pub struct Segmented {
    chunks: usize,
    numbers: KeyMap<u32>,
    nodes: Nodes<Marks>,
    queues: [List; 3],
    now: u64,
}

impl Eviction for Segmented {
    fn with_chunks(chunks: usize) -> Segmented {
        assert!(chunks > 0, "a cache has at least one chunk");
        Segmented {
            chunks,
            numbers: KeyMap::default(),
            nodes: Nodes::default(),
            queues: Default::default(),
            now: 0,
        }
    }

    fn get(&mut self, key: u64) -> bool {
        self.now += 1;
        let number = self.numbers.get(&key).copied();
        if let Some(number) = number {
            let marks = self.nodes.kept_mut(number);
            marks.active |= marks.fetched;
            marks.fetched = true;
            marks.last_access = self.now;
        }
        self.maintain();
        number.is_some()
    }

    fn store(&mut self, key: u64) {
        self.now += 1;
        self.delete(key);
        if self.numbers.len() == self.chunks {
            let victim = self.victim();
            self.remove(victim);
        }
        let queue = QueueKind::Hot;
        let marks = Marks { last_access: self.now, queue, fetched: false, active: false };
        let number = self.nodes.add(key, marks);
        self.queues[queue as usize].push_head(&mut self.nodes, number);
        self.numbers.insert(key, number);
        self.balance(false);
        self.maintain();
    }

    fn delete(&mut self, key: u64) {
        if let Some(&number) = self.numbers.get(&key) {
            self.remove(number);
        }
    }
}

impl Segmented {
    fn remove(&mut self, number: u32) {
        let queue = self.nodes.kept(number).queue;
        self.queues[queue as usize].remove(&mut self.nodes, number);
        self.numbers.remove(&self.nodes.free(number));
    }

    fn tail(&self, queue: QueueKind) -> Option<u32> {
        self.queues[queue as usize].tail()
    }

    fn requeue(&mut self, number: u32, to: QueueKind) {
        let from = self.nodes.kept(number).queue;
        self.queues[from as usize].remove(&mut self.nodes, number);
        self.queues[to as usize].push_head(&mut self.nodes, number);
        let marks = self.nodes.kept_mut(number);
        (marks.queue, marks.active) = (to, false);
    }

    fn maintain(&mut self) {
        for _ in 0..MAINTAINER_LOOKS_MAX {
            if !self.balance(true) {
                break;
            }
        }
    }

    /// Looks at the tails of HOT and WARM once each, and with `by_age` at COLD's too; whether it moved one.
    fn balance(&mut self, by_age: bool) -> bool {
        let mut moved = false;
        if by_age
            && let Some(tail) = self.tail(QueueKind::Cold)
            && self.nodes.kept(tail).active
        {
            self.requeue(tail, QueueKind::Warm);
            moved = true;
        }
        moved |= self.balance_queue(QueueKind::Hot, HOT_PERCENT, by_age.then_some(HOT_AGE_FACTOR));
        moved | self.balance_queue(QueueKind::Warm, WARM_PERCENT, by_age.then_some(WARM_AGE_FACTOR))
    }

    fn balance_queue(&mut self, queue: QueueKind, percent: usize, factor: Option<f64>) -> bool {
        let Some(tail) = self.tail(queue) else { return false };
        let over_share = self.queues[queue as usize].count() * 100 > self.numbers.len() * percent;
        let too_old = factor.is_some_and(|factor| {
            let cold_age = self.tail(QueueKind::Cold).map_or(0, |cold| self.age(cold));
            self.age(tail) as f64 > cold_age as f64 * factor
        });
        if !(over_share || too_old) {
            return false;
        }
        let active = self.nodes.kept(tail).active;
        self.requeue(tail, if active { QueueKind::Warm } else { QueueKind::Cold });
        true
    }

    fn age(&self, number: u32) -> u64 {
        self.now - self.nodes.kept(number).last_access
    }

    /// The item to evict, once active ones are out of the way and an empty COLD is refilled.
    fn victim(&mut self) -> u32 {
        let mut put_off = 0;
        loop {
            let (tail, refills) = match self.tail(QueueKind::Cold) {
                Some(tail) => (tail, false),
                None => {
                    let refill = self.tail(QueueKind::Hot).or(self.tail(QueueKind::Warm));
                    (refill.expect("a full cache has a key"), true)
                }
            };
            let marks = *self.nodes.kept(tail);
            let spare = marks.active && put_off < VICTIM_ACTIVE_MAX;
            let last = self.queues[QueueKind::Cold as usize].count() == 1;
            match refills {
                true if spare && marks.queue == QueueKind::Hot => {
                    self.requeue(tail, QueueKind::Warm)
                }
                true => self.requeue(tail, QueueKind::Cold),
                false if spare && !last => self.requeue(tail, QueueKind::Warm),
                false => return tail,
            }
            put_off += 1;
        }
    }
}

#[cfg(test)]
#[path = "segmented_tests.rs"]
mod tests;
