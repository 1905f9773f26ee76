//! A small cache of LRU classes under a policy, for tests. The cache carries out plans at once, and the profiler that
//! servers use computes the profiles.

use crate::{ClassSnapshot, PageMove, PagePolicy, Snapshot, Trigger};
use slabwise_base::{ClassId, Random, Ticks, random::mix};
use slabwise_profile::{Access, AccessKind, ClassSize, Profiler, ProfilerOptions};
use std::collections::HashMap;

/// The index that means no item.
const NONE: usize = usize::MAX;

/// A doubly linked list of items in order of their last use.
#[derive(Default)]
struct Lru {
    /// The index into `items` of each key.
    slots: HashMap<u64, usize>,
    items: Vec<Item>,
    /// The indexes into `items` that are not in use.
    free: Vec<usize>,
    /// The index of the most recently used item, or `NONE`.
    newest: usize,
    /// The index of the least recently used item, or `NONE`.
    oldest: usize,
}

struct Item {
    key: u64,
    /// The index of the next more recently used item, or `NONE`.
    newer: usize,
    /// The index of the next less recently used item, or `NONE`.
    older: usize,
    /// The tick of the last use.
    used_at: u32,
}

impl Lru {
    fn new() -> Lru {
        Lru { newest: NONE, oldest: NONE, ..Lru::default() }
    }

    /// Makes the item of a key the most recently used. Returns false if there is no such item.
    fn hit(&mut self, key: u64, now: u32) -> bool {
        let Some(&slot) = self.slots.get(&key) else { return false };
        self.unlink(slot);
        self.link(slot, now);
        true
    }

    fn insert(&mut self, key: u64, now: u32) {
        let item = Item { key, newer: NONE, older: NONE, used_at: now };
        let slot = self.free.pop().unwrap_or(self.items.len());
        match self.items.get_mut(slot) {
            Some(free) => *free = item,
            None => self.items.push(item),
        }
        self.slots.insert(key, slot);
        self.link(slot, now);
    }

    fn drop_oldest(&mut self) {
        let slot = self.oldest;
        self.unlink(slot);
        self.slots.remove(&self.items[slot].key);
        self.free.push(slot);
    }

    fn link(&mut self, slot: usize, now: u32) {
        let older = std::mem::replace(&mut self.newest, slot);
        let item = &mut self.items[slot];
        (item.newer, item.older, item.used_at) = (NONE, older, now);
        match older {
            NONE => self.oldest = slot,
            older => self.items[older].newer = slot,
        }
    }

    fn unlink(&mut self, slot: usize) {
        let Item { newer, older, .. } = self.items[slot];
        match newer {
            NONE => self.newest = older,
            newer => self.items[newer].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.items[older].newer = newer,
        }
    }
}

/// A cache with its policy and its profiler.
pub struct TestCache {
    pub policy: PagePolicy,
    /// Another policy that receives the same snapshots and must return the same plans; `None` if there is none.
    pub twin: Option<PagePolicy>,
    /// The cost of an item of each class; 0 if clients supply no cost.
    pub costs: Vec<u64>,
    /// The cost of all misses so far.
    pub cost: u64,
    profiler: Profiler,
    random: Random,
    lrus: Vec<Lru>,
    pub classes: Vec<ClassSnapshot>,
    pub pages_free: u64,
    pub now: u32,
    pub gets: u64,
    pub misses: u64,
    pub moves: u64,
    /// The number of pages of all classes and of the page pool.
    pages_all: u64,
    /// See [`Snapshot::turnovers`].
    turnovers: f64,
    gets_per_tick: u64,
    /// The tick, the number of gets and the turnovers at the last step.
    stepped_at: (u32, u64, f64),
}

impl TestCache {
    /// Creates a cache with classes of these chunk sizes and with `pages` pages of 16 KiB in the page pool.
    pub fn new(
        policy: PagePolicy,
        chunk_sizes_bytes: &[usize],
        pages: u64,
        gets_per_tick: u64,
        profiler: ProfilerOptions,
    ) -> TestCache {
        let class = |(index, &size): (usize, &usize)| {
            ClassSnapshot::empty(ClassId(index as u8), size, 16_384 / size)
        };
        TestCache {
            policy,
            twin: None,
            costs: vec![0; chunk_sizes_bytes.len()],
            cost: 0,
            profiler: Profiler::new(profiler),
            random: Random::new(1),
            lrus: chunk_sizes_bytes.iter().map(|_| Lru::new()).collect(),
            classes: chunk_sizes_bytes.iter().enumerate().map(class).collect(),
            pages_free: pages,
            now: 0,
            gets: 0,
            misses: 0,
            moves: 0,
            pages_all: pages,
            turnovers: 0.0,
            gets_per_tick,
            stepped_at: (0, 0, 0.0),
        }
    }

    /// Runs this many gets, with a store after each miss. `request` returns the class and the key of each get. Returns
    /// the miss ratio.
    pub fn run(&mut self, gets: u64, mut request: impl FnMut() -> (usize, u64)) -> f64 {
        let misses = self.misses;
        for _ in 0..gets {
            let (class, key) = request();
            self.get(class, key << 8 | class as u64);
            if self.gets.is_multiple_of(self.gets_per_tick) {
                self.now += 1;
                self.step_if_due();
            }
        }
        (self.misses - misses) as f64 / gets as f64
    }

    /// Returns the number of pages of each class.
    pub fn pages(&self) -> Vec<u64> {
        self.classes.iter().map(|class| class.pages).collect()
    }

    fn get(&mut self, class: usize, key: u64) {
        self.gets += 1;
        let (lru, counts) = (&mut self.lrus[class], &mut self.classes[class]);
        let access =
            |kind, class| Access { hash: mix(key), kind, class, size_bytes: 0, at_nanos: 0 };
        let id = Some(counts.class);
        if lru.hit(key, self.now) {
            counts.hits += 1;
            counts.cost_saved += self.costs[class];
            self.profiler.access(&access(AccessKind::Hit, id));
            return;
        }
        self.misses += 1;
        self.cost += self.costs[class];
        self.profiler.access(&access(AccessKind::Miss, None));
        // A refused store counts, too. The engine would take a page of another class for it.
        self.turnovers += 1.0 / (counts.chunks_per_page as u64 * self.pages_all) as f64;
        if lru.slots.len() as u64 == counts.pages * counts.chunks_per_page as u64 {
            if self.pages_free > 0 {
                self.pages_free -= 1;
                counts.pages += 1;
            } else if counts.pages == 0 {
                counts.out_of_memory += 1;
                return;
            } else {
                counts.evicted += 1;
                lru.drop_oldest();
            }
        }
        counts.sets += 1;
        counts.inserted += 1;
        counts.costs_known += u64::from(self.costs[class] > 0);
        counts.cost_paid += self.costs[class];
        lru.insert(key, self.now);
        self.profiler.access(&access(AccessKind::Store, id));
    }

    fn step_if_due(&mut self) {
        let due = match self.policy.trigger() {
            Trigger::EveryTicks(ticks) => self.now - self.stepped_at.0 >= ticks,
            Trigger::EveryGets(gets) => self.gets - self.stepped_at.1 >= gets,
            Trigger::EveryWork { gets, memory_divisor } => {
                let stored = (self.turnovers - self.stepped_at.2) * memory_divisor as f64;
                (self.gets - self.stepped_at.1) as f64 / gets as f64 + stored >= 1.0
            }
            _ => false,
        };
        if due {
            self.stepped_at = (self.now, self.gets, self.turnovers);
            let snapshot = self.snapshot();
            let same_random = &mut self.random.clone();
            let plan = self.policy.step(&snapshot, &mut self.random);
            if let Some(twin) = &mut self.twin {
                let same = twin.step(&snapshot, same_random);
                assert_eq!(same, plan, "tick {}: both policies return the same plan", self.now);
            }
            self.moves += plan.moves.len() as u64;
            plan.moves.into_iter().for_each(|page_move| self.carry_out(page_move));
        }
    }

    /// Returns the snapshot that the policy receives.
    pub fn snapshot(&mut self) -> Snapshot {
        for ((class, lru), cost) in self.classes.iter_mut().zip(&self.lrus).zip(&self.costs) {
            class.cost_held = lru.slots.len() as u64 * cost;
            class.used_chunks = lru.slots.len() as u64;
            class.free_chunks = class.pages * class.chunks_per_page as u64 - class.used_chunks;
            class.tail_age_work = lru.items.get(lru.oldest).map_or(0, |it| self.now - it.used_at);
            class.tail_age_seconds = class.tail_age_work / Ticks::PER_SECOND;
        }
        let size = |class: &ClassSnapshot| ClassSize {
            class: class.class,
            chunks: class.pages * class.chunks_per_page as u64,
            chunks_per_page: class.chunks_per_page as u64,
            chunk_size_bytes: class.chunk_size_bytes as u64,
        };
        self.profiler.set_sizes(&self.classes.iter().map(size).collect::<Vec<_>>(), 0);
        self.classes.iter().for_each(|it| self.profiler.note_hits(it.class, it.hits));
        Snapshot {
            now: Ticks(self.now),
            turnovers: self.turnovers,
            pages_free: self.pages_free,
            memory_full: true,
            classes: self.classes.clone(),
            gets: self.gets,
            misses: self.misses,
            pages: Vec::new(),
            profiles: self.classes.iter().map(|it| self.profiler.profile(it.class)).collect(),
            recent: self.profiler.recent_gets(),
        }
    }

    fn carry_out(&mut self, page_move: PageMove) {
        let (victim, lru) =
            (&mut self.classes[page_move.victim.index()], &mut self.lrus[page_move.victim.index()]);
        assert!(victim.pages > 1 || lru.slots.is_empty(), "a class with items keeps a page");
        victim.pages -= 1;
        while lru.slots.len() as u64 > victim.pages * victim.chunks_per_page as u64 {
            lru.drop_oldest();
        }
        match page_move.receiver {
            Some(receiver) => self.classes[receiver.index()].pages += 1,
            None => self.pages_free += 1,
        }
    }
}

/// Returns a random key below `keys`. The probability of key k is about proportional to 1 / (k + 1).
pub fn zipf_key(random: &mut Random, keys: u64) -> u64 {
    ((keys as f64 + 1.0).powf(random.unit()) - 1.0) as u64
}
