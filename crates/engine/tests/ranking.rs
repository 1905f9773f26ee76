//! Compares the eviction kinds that rank items with a model of the published algorithms, and tests all kinds that know
//! costs.

#[path = "support/one_class.rs"]
mod one_class;

use one_class::{CHUNK_SIZE_BYTES, PAGE_SIZE_BYTES};
use slabwise_base::{Clock, Cost, Random};
use slabwise_engine::{
    Engine, EvictionKind, GdWheelConfig, Handle, ItemMeta, StoreMode, StoreOutcome,
};
use std::collections::{BTreeSet, HashMap};

const PAGES: u64 = 4;
const KEYS: u64 = 400;
const OPERATIONS: usize = 12_000;

fn engine(eviction: EvictionKind, wheel_sizes: [u16; 3]) -> Engine {
    let mut config = one_class::config(PAGES, eviction);
    config.eviction_options.gd_wheel = GdWheelConfig { wheel_sizes };
    Engine::new(config).expect("the arena can be reserved")
}

/// The item that is evicted if several items have the lowest rank.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ties {
    /// The item that got this rank first.
    InOrder,
    /// Any of these items.
    Any,
}

/// A model of the algorithm GreedyDual. It stores all items in a set that is sorted by rank. Among items of equal rank,
/// the item that got the rank first is evicted first.
#[derive(Default)]
struct GreedyDual {
    /// The rank of the last victim.
    inflation: u64,
    /// The number of ranks assigned so far.
    sequence: u64,
    /// Rank, sequence number and key of each item.
    order: BTreeSet<(u64, u64, u64)>,
    /// Rank and sequence number of each item, by key.
    items: HashMap<u64, (u64, u64)>,
}

impl GreedyDual {
    fn insert(&mut self, key: u64, worth: u64) {
        self.sequence += 1;
        let rank = self.inflation + worth;
        self.items.insert(key, (rank, self.sequence));
        self.order.insert((rank, self.sequence, key));
    }

    fn hit(&mut self, key: u64, worth: u64) {
        let (rank, sequence) = self.items[&key];
        if rank != self.inflation + worth {
            self.order.remove(&(rank, sequence, key));
            self.insert(key, worth);
        }
    }

    /// Removes one of the items of the lowest rank: the first item that the engine has evicted, according to
    /// `is_evicted`.
    fn evict(&mut self, mut is_evicted: impl FnMut(u64) -> bool) {
        let &(lowest, ..) = self.order.first().expect("the model is not empty");
        let mut candidates = self.order.iter().take_while(|(rank, ..)| *rank == lowest);
        let victim = candidates.find(|(_, _, key)| is_evicted(*key));
        let victim = *victim.expect("the engine has evicted an item of the lowest rank");
        self.order.remove(&victim);
        self.items.remove(&victim.2);
        self.inflation = lowest;
    }
}

fn set(handle: &mut Handle<'_>, key: u64, cost: u32, clock: &Clock) {
    let meta = ItemMeta { cost: Some(Cost::from_units(cost)), ..ItemMeta::default() };
    let outcome = handle.set(&key.to_le_bytes(), &[7; 40], meta, StoreMode::Set, clock.now());
    assert!(
        matches!(outcome, StoreOutcome::Stored { .. }),
        "the item must be stored, but: {outcome:?}"
    );
}

/// Draws the number of a key. Lower numbers are more frequent.
fn draw_key(random: &mut Random) -> u64 {
    let bound = 1 + random.below(KEYS);
    random.below(bound)
}

/// Draws a cost from 1 to 256. The logarithm of its upper bound is uniformly distributed.
fn draw_cost(random: &mut Random) -> u32 {
    let bound = 1 << random.below(9);
    1 + random.below(bound) as u32
}

/// Runs gets, with a store after each miss. Each key has its own cost, and `worth` computes the worth of an item from
/// its cost. Checks that engine and model evict the same keys. The eviction kind is `gd_wheel` if `wheel_sizes` is
/// given, and `greedydual_size` otherwise.
fn check_against_model(wheel_sizes: Option<[u16; 3]>, seed: u64, worth: impl Fn(u32) -> u64) {
    println!("{wheel_sizes:?} seed {seed}");
    let (eviction, ties) = match wheel_sizes {
        Some(_) => (EvictionKind::GdWheel, Ties::InOrder),
        None => (EvictionKind::GreedyDualSize, Ties::Any),
    };
    let wheel_sizes = wheel_sizes.unwrap_or([256, 256, 1]);
    let engine = engine(eviction, wheel_sizes);
    let (clock, mut handle) = (Clock::manual(), engine.handle());
    let mut random = Random::new(seed);
    let costs: Vec<u32> = (0..KEYS).map(|_| draw_cost(&mut random)).collect();
    let mut model = GreedyDual::default();
    let chunks = PAGES as usize * PAGE_SIZE_BYTES / CHUNK_SIZE_BYTES;
    for _ in 0..OPERATIONS {
        let key = draw_key(&mut random);
        let cost = costs[key as usize];
        if handle.get(&key.to_le_bytes(), clock.now(), |_| ()).is_some() {
            assert!(
                model.items.contains_key(&key),
                "the engine has not evicted key {key}, but the model has"
            );
            model.hit(key, worth(cost));
            continue;
        }
        assert!(
            !model.items.contains_key(&key),
            "the engine has evicted key {key}, but the model has not"
        );
        if model.items.len() == chunks {
            set(&mut handle, key, cost, &clock);
            let mut checks = 0;
            model.evict(|key| {
                checks += 1;
                handle.peek(&key.to_le_bytes(), clock.now(), |_| ()).is_none()
            });
            assert!(
                checks == 1 || ties == Ties::Any,
                "among items of equal rank, the one that got the rank first is evicted"
            );
        } else {
            set(&mut handle, key, cost, &clock);
        }
        model.insert(key, worth(cost));
    }
    assert!(model.inflation > 300, "ranks have wrapped around on the small wheels");
    engine.check();
}

#[test]
fn gd_wheel_evicts_in_the_order_of_a_heap() {
    for seed in 0..4 {
        check_against_model(Some([256, 256, 1]), seed, u64::from);
        check_against_model(Some([4, 8, 16]), seed, |cost| u64::from(cost).min(15 * 32));
        check_against_model(Some([16, 4, 1]), seed, |cost| u64::from(cost).min(3 * 16));
        check_against_model(Some([64, 1, 1]), seed, |cost| u64::from(cost).min(63));
    }
}

/// Returns the ratio of cost to size for an item of this test, rounded as `greedydual_size` rounds it.
fn rounded_ratio(cost: u32) -> u64 {
    const ITEM_SIZE_BYTES: u64 = 30 + 2 + 4 + 8 + 40;
    let ratio = (u64::from(cost) << 16) / ITEM_SIZE_BYTES;
    let shift = ratio.ilog2() - 4;
    ratio >> shift << shift
}

#[test]
fn greedydual_size_evicts_in_the_order_of_a_heap() {
    for seed in 0..4 {
        check_against_model(None, seed, rounded_ratio);
    }
}

/// Returns the number of all misses, and the number of misses of expensive keys. Every eighth key is expensive.
fn count_misses(eviction: EvictionKind, cost_of: impl Fn(u64) -> u32) -> (u64, u64) {
    let engine = engine(eviction, [256, 256, 1]);
    let (clock, mut handle) = (Clock::manual(), engine.handle());
    let mut random = Random::new(3);
    let (mut all, mut expensive) = (0, 0);
    for _ in 0..OPERATIONS {
        clock.advance(std::time::Duration::from_millis(20));
        let key = draw_key(&mut random);
        if handle.get(&key.to_le_bytes(), clock.now(), |_| ()).is_none() {
            (all, expensive) = (all + 1, expensive + u64::from(key.is_multiple_of(8)));
            set(&mut handle, key, cost_of(key), &clock);
        }
    }
    engine.check();
    (all, expensive)
}

#[test]
fn every_cost_aware_kind_keeps_expensive_items() {
    let cost_of = |key: u64| if key.is_multiple_of(8) { 400 } else { 20 };
    let (lru, lru_expensive) = count_misses(EvictionKind::Segmented, cost_of);
    for (eviction, share_max) in [
        (EvictionKind::CostBands, 0.4),
        (EvictionKind::GdWheel, 0.4),
        (EvictionKind::GreedyDualSize, 0.4),
        (EvictionKind::Reserved, 0.95),
    ] {
        let (all, expensive) = count_misses(eviction, cost_of);
        println!(
            "{eviction:?}: {all} misses, {expensive} of them of expensive keys; segmented: {lru} and {lru_expensive}"
        );
        assert!(
            (expensive as f64) < share_max * lru_expensive as f64,
            "{eviction:?} misses expensive keys {expensive} times"
        );
    }
}

#[test]
fn equal_costs_do_not_change_evictions() {
    let without = count_misses(EvictionKind::Segmented, |_| 0);
    for cost in [0, 1, 20, 1_000_000] {
        assert_eq!(
            count_misses(EvictionKind::CostBands, |_| cost),
            without,
            "cost_bands evicts as segmented does if all items have cost {cost}"
        );
    }
}
