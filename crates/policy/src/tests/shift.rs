//! Tests of policies under a workload whose item sizes change. The cache has two classes with LRU queues and exact
//! profiles. It steps the policy at the policy's trigger and carries out the moves at once.

use crate::{
    ClassProfile, ClassSnapshot, Inputs, PageMove, PagePolicy, PageSnapshot, Snapshot, Trigger,
};
use slabwise_base::{ClassId, PageId, Random, Ticks};
use slabwise_profile::{Distances, RecentGets, StackDistances};
use std::collections::{BTreeMap, HashMap};

const CHUNKS_PER_PAGE: u64 = 16;
const PAGES: u64 = 64;
const KEYS: u64 = 2_000;
const REQUESTS_PER_TICK: u64 = 4;
/// After each group of this many gets, the curves are computed from the gets of the group.
const CURVE_GETS: u64 = 4_000;

/// A class whose items are in LRU order, and its profile.
#[derive(Default)]
struct Lru {
    pages: u64,
    /// The key of each item, by the serial number of the item's last use.
    by_use: BTreeMap<u64, u64>,
    /// For each key, the serial number and the tick of the last use.
    items: HashMap<u64, (u64, u32)>,
    hits: u64,
    sets: u64,
    evicted: u64,
    out_of_memory: u64,
    stack: StackDistances,
    distances: Distances,
    profile: ClassProfile,
}

impl Lru {
    fn chunks(&self) -> u64 {
        self.pages * CHUNKS_PER_PAGE
    }

    /// Gets a key and stores it after a miss. Returns true if the get hit.
    fn request(&mut self, key: u64, serial: u64, now: u32, pages_free: &mut u64) -> bool {
        let distance = self.stack.reference(key);
        self.distances.record(distance);
        if let Some((used, _)) = self.items.insert(key, (serial, now)) {
            self.by_use.remove(&used);
            self.by_use.insert(serial, key);
            self.hits += 1;
            return true;
        }
        self.profile.misses += 1.0;
        if let Some(distance) = distance {
            self.profile.misses_by_eviction += 1.0;
            self.profile.stored_before += 1.0;
            let near = distance < self.chunks() + CHUNKS_PER_PAGE;
            self.profile.shadow_hits += f64::from(u8::from(near));
            // The class is so small that its pointers are always at its size.
            self.profile.partition_shadow_hits = self.profile.shadow_hits;
        }
        self.sets += 1;
        if self.items.len() as u64 > self.chunks() {
            if *pages_free > 0 {
                *pages_free -= 1;
                self.pages += 1;
            } else if self.by_use.is_empty() {
                self.items.clear();
                self.out_of_memory += 1;
                return false;
            } else {
                self.drop_oldest();
                self.evicted += 1;
            }
        }
        self.by_use.insert(serial, key);
        false
    }

    fn drop_oldest(&mut self) {
        let (_, key) = self.by_use.pop_first().expect("the class has items");
        self.items.remove(&key);
    }

    fn snapshot(&self, index: usize, now: u32) -> ClassSnapshot {
        let used_chunks = self.items.len() as u64;
        let oldest = self.by_use.first_key_value().and_then(|(_, key)| self.items.get(key));
        ClassSnapshot {
            pages: self.pages,
            used_chunks,
            free_chunks: self.chunks() - used_chunks,
            evicted: self.evicted,
            out_of_memory: self.out_of_memory,
            tail_age_work: oldest.map_or(0, |&(_, tick)| now - tick),
            tail_age_seconds: oldest.map_or(0, |&(_, tick)| (now - tick) / Ticks::PER_SECOND),
            hits: self.hits,
            sets: self.sets,
            inserted: self.sets,
            costs_known: self.sets,
            // An item of class 0 costs 1, an item of class 1 costs 2. Most policies ignore costs.
            cost_paid: self.sets * (1 + index as u64),
            cost_held: used_chunks * (1 + index as u64),
            ..ClassSnapshot::empty(ClassId(index as u8), 256, CHUNKS_PER_PAGE as usize)
        }
    }
}

/// The order in which the keys of class 0 are requested. Class 1 always has random keys.
#[derive(Clone, Copy)]
enum Order {
    /// The keys are random.
    Any,
    /// This many keys are requested in a loop.
    Loop(u64),
}

/// A cache of two classes with a page pool and a policy.
struct Cache {
    policy: PagePolicy,
    classes: [Lru; 2],
    pages_free: u64,
    gets: u64,
    misses: u64,
    /// The count of the trigger's events (or the tick) at the last step.
    stepped_at: u64,
    moves: usize,
    random: Random,
}

impl Cache {
    fn new(policy: &str, seed: u64) -> Cache {
        let policy = PagePolicy::parse(policy).expect("the text is valid");
        let classes = <[Lru; 2]>::default();
        let random = Random::new(seed);
        let (pages_free, gets, misses, stepped_at, moves) = (PAGES, 0, 0, 0, 0);
        Cache { policy, classes, pages_free, gets, misses, stepped_at, moves, random }
    }

    fn now(&self) -> u32 {
        (self.gets / REQUESTS_PER_TICK) as u32
    }

    /// Returns true if the policy's trigger has fired since the last step. The caller must then step the policy.
    fn is_due(&mut self) -> bool {
        let each = || self.classes.iter();
        let (count, period) = match self.policy.trigger() {
            Trigger::Never => return false,
            Trigger::EveryTicks(ticks) => (u64::from(self.now()), u64::from(ticks)),
            Trigger::EveryGets(gets) => (self.gets, gets),
            Trigger::EveryWork { memory_divisor, .. } => {
                (each().map(|class| class.sets).sum(), PAGES * CHUNKS_PER_PAGE / memory_divisor)
            }
            Trigger::EveryMisses(misses) => (self.misses, misses),
            Trigger::EveryEvictions(evictions) => {
                (each().map(|class| class.evicted + class.out_of_memory).sum(), evictions)
            }
            // Both numbers of shadow hits are the same here.
            Trigger::EveryShadowHits(hits) | Trigger::EveryShadowHitsWithPartitions(hits) => {
                (each().map(|class| class.profile.shadow_hits as u64).sum(), hits)
            }
        };
        let is_due = count - self.stepped_at >= period;
        if is_due {
            self.stepped_at = count;
        }
        is_due
    }

    /// Returns the pages of both classes, as if each page had items with adjacent positions in the LRU order.
    fn pages(&self) -> Vec<PageSnapshot> {
        let mut pages = Vec::new();
        for (index, class) in self.classes.iter().enumerate() {
            let ticks = class.by_use.values().map(|key| Ticks(class.items[key].1));
            let ticks: Vec<Ticks> = ticks.collect();
            let last = |page: u64| {
                let end = ((page + 1) * CHUNKS_PER_PAGE).min(ticks.len() as u64);
                (page * CHUNKS_PER_PAGE < end).then(|| ticks[end as usize - 1])
            };
            pages.extend((0..class.pages).map(|page| PageSnapshot {
                page: PageId((index as u64 * PAGES + page) as u32),
                class: ClassId(index as u8),
                accessed_at: last(page),
            }));
        }
        pages
    }

    fn step(&mut self) {
        let now = self.now();
        let classes = self.classes.iter().enumerate();
        let profiles = self.classes.iter().map(|class| class.profile.clone());
        let has_profiles = self.policy.inputs() != Inputs::Counts;
        let snapshot = Snapshot {
            now: Ticks(now),
            turnovers: self.classes.iter().map(|class| class.sets).sum::<u64>() as f64
                / (PAGES * CHUNKS_PER_PAGE) as f64,
            pages_free: self.pages_free,
            memory_full: true,
            classes: classes.map(|(index, class)| class.snapshot(index, now)).collect(),
            gets: self.gets,
            misses: self.misses,
            pages: self.pages(),
            profiles: if has_profiles { profiles.collect() } else { Vec::new() },
            recent: RecentGets::default(),
        };
        let plan = self.policy.step(&snapshot, &mut self.random);
        self.moves += plan.moves.len();
        plan.moves.into_iter().for_each(|page_move| self.carry_out(page_move));
    }

    fn carry_out(&mut self, page_move: PageMove) {
        let victim = &mut self.classes[page_move.victim.index()];
        victim.pages -= 1;
        while victim.items.len() as u64 > victim.chunks() {
            victim.drop_oldest();
        }
        match page_move.receiver {
            Some(receiver) => self.classes[receiver.index()].pages += 1,
            None => self.pages_free += 1,
        }
    }

    /// Runs this many requests, `share` percent of them to class 1. Returns the miss ratio in percent.
    fn run(&mut self, requests: u64, share: u64, order: Order) -> f64 {
        let misses_before = self.misses;
        for _ in 0..requests {
            let class = usize::from(self.random.below(100) < share);
            let key = match order {
                Order::Loop(keys) if class == 0 => {
                    (self.classes[0].hits + self.classes[0].sets) % keys
                }
                // Keys with low numbers are requested more often.
                _ => (self.random.unit() * self.random.unit() * KEYS as f64) as u64,
            };
            let now = self.now();
            let hit = self.classes[class].request(key, self.gets, now, &mut self.pages_free);
            self.gets += 1;
            self.misses += u64::from(!hit);
            if self.gets.is_multiple_of(CURVE_GETS) {
                for class in &mut self.classes {
                    let distances = std::mem::take(&mut class.distances);
                    class.profile.curve = distances.mrc(CHUNKS_PER_PAGE as usize);
                    class.profile.footprint_curve = class.profile.curve.clone();
                }
            }
            if self.is_due() {
                self.step();
            }
        }
        100.0 * (self.misses - misses_before) as f64 / requests as f64
    }
}

/// Returns the miss ratio in percent and the number of moves of 8,000 requests. Before them, the load shifts from class
/// 0 to class 1, and the policy adapts to it for 16,000 requests.
fn after_a_shift(policy: &str, seed: u64) -> (f64, usize) {
    let mut cache = Cache::new(policy, seed);
    cache.run(8_000, 5, Order::Any);
    cache.run(16_000, 85, Order::Any);
    cache.moves = 0;
    (cache.run(8_000, 85, Order::Any), cache.moves)
}

#[test]
fn after_a_shift_of_load_each_policy_moves_no_page_few_pages_or_many() {
    for seed in 1..=2 {
        let (calcified, _) = after_a_shift("none", seed);
        let classic = after_a_shift("automove_classic", seed);
        assert_eq!(classic, (calcified, 0), "seed {seed}: automove_classic moves no page");
        let settled = [
            "automove",
            "tail_age",
            "space_time",
            "psa:misses=100",
            "cost_partition:misses=100",
            "cost_per_byte",
            "reserved_cost:samples=1",
            "cliffhanger:credit_bytes=1024",
        ];
        for policy in settled {
            let (misses, moves) = after_a_shift(policy, seed);
            let found = format!(
                "{policy}, seed {seed}: miss ratio {misses} %, without moves {calcified} %; {moves} moves"
            );
            assert!(misses < 0.6 * calcified && moves < 50, "misses fall and moves stop: {found}");
        }
        for policy in ["eager", "twemcache_random", "twemcache_lra"] {
            let (misses, moves) = after_a_shift(policy, seed);
            let found = format!(
                "{policy}, seed {seed}: miss ratio {misses} %, without moves {calcified} %; {moves} moves"
            );
            assert!(
                misses < 0.7 * calcified && moves > 200,
                "misses fall and moves go on: {found}"
            );
        }
    }
}

#[test]
fn cliffhanger_with_curves_misses_less_under_a_loop_than_without_cliffs() {
    for seed in 1..=2 {
        let misses = |policy| {
            let mut cache = Cache::new(policy, seed);
            cache.run(8_000, 95, Order::Any);
            cache.run(32_000, 50, Order::Loop(400));
            cache.run(8_000, 50, Order::Loop(400))
        };
        let with = misses("cliffhanger:credit_bytes=1024:cliffs=curve");
        let without = misses("cliffhanger:credit_bytes=1024:cliffs=off");
        assert!(
            with < 0.8 * without,
            "seed {seed}: miss ratio {with} % with cliffs, {without} % without"
        );
    }
}
