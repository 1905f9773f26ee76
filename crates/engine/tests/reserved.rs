//! Tests that the eviction kind `reserved` is Algorithm 1 of Coelho's thesis: which items enter the reserved queue, and
//! which item is evicted.

#[path = "support/one_class.rs"]
mod one_class;

use one_class::{CHUNK_SIZE_BYTES, PAGE_SIZE_BYTES};
use slabwise_base::{Clock, Cost};
use slabwise_engine::{
    Engine, EngineConfig, EvictionKind, Handle, ItemMeta, LruConfig, MoverStep, RankedHits,
    StoreMode, StoreOutcome,
};
use std::time::Duration;

/// The number of items that fit into the engine.
const CHUNKS: u64 = (PAGE_SIZE_BYTES / CHUNK_SIZE_BYTES) as u64;
/// The largest number of items in the reserved queue: a quarter of the chunks.
const RESERVED_MAX: u64 = CHUNKS / 4;
// Numbers of queues, as in `ClassStats::items`.
const HOT: usize = 0;
const WARM: usize = 1;
const COLD: usize = 2;
const RESERVED: usize = 3;
const LOW: u32 = 10;
const HIGH: u32 = 1_000;

/// An engine with one page of one class, and its items.
struct Fixture<'e> {
    engine: &'e Engine,
    handle: Handle<'e>,
    clock: Clock,
}

/// Returns an engine with one page. The percentages are the size of RESERVED in percent of the chunks, and the shares of
/// HOT and WARM in the bytes of HOT, WARM and COLD together.
fn engine(reserved_percent: u32, hot_percent: u32, warm_percent: u32) -> Engine {
    engine_with(reserved_percent, hot_percent, warm_percent, RankedHits::All)
}

fn engine_with(
    reserved_percent: u32,
    hot_percent: u32,
    warm_percent: u32,
    ranked_hits: RankedHits,
) -> Engine {
    let mut config = config(reserved_percent, hot_percent, warm_percent);
    config.eviction_options.reserved.ranked_hits = ranked_hits;
    Engine::new(config).expect("the arena can be reserved")
}

fn config(reserved_percent: u32, hot_percent: u32, warm_percent: u32) -> EngineConfig {
    let mut config = one_class::config(1, EvictionKind::Reserved);
    config.eviction_options.reserved.percent = reserved_percent;
    config.eviction_options.lru = LruConfig { hot_percent, warm_percent, ..LruConfig::default() };
    config
}

/// Returns an engine in which a quarter of the items are in RESERVED, and all other items stay in HOT.
fn engine_with_hot() -> Engine {
    engine(25, 100, 0)
}

impl<'e> Fixture<'e> {
    fn new(engine: &'e Engine) -> Fixture<'e> {
        Fixture { engine, handle: engine.handle(), clock: Clock::manual() }
    }

    fn set(&mut self, key: u64, cost: u32) {
        self.set_value(key, cost, &[7; 40]);
    }

    fn set_value(&mut self, key: u64, cost: u32, value: &[u8]) {
        let meta = ItemMeta { cost: Some(Cost::from_units(cost)), ..ItemMeta::default() };
        let now = self.clock.now();
        let outcome = self.handle.set(&key.to_le_bytes(), value, meta, StoreMode::Set, now);
        assert!(matches!(outcome, StoreOutcome::Stored { .. }), "key {key}: {outcome:?}");
    }

    fn set_all(&mut self, keys: std::ops::Range<u64>, cost: u32) {
        keys.for_each(|key| self.set(key, cost));
    }

    /// Gets a key and returns true if it has an item.
    fn get(&mut self, key: u64) -> bool {
        self.handle.get(&key.to_le_bytes(), self.clock.now(), |_| ()).is_some()
    }

    /// Returns the number of items in HOT, WARM, COLD and RESERVED.
    fn queues(&self) -> [u64; 4] {
        self.engine.check();
        self.engine.stats(self.clock.now()).total.items
    }

    /// Deletes the item of a key and returns the queue that held it: 0 for HOT, 1 for WARM, 2 for COLD, 3 for RESERVED.
    /// `None`: the key has no item.
    fn delete(&mut self, key: u64) -> Option<usize> {
        let before = self.queues();
        self.handle.delete(&key.to_le_bytes(), self.clock.now());
        let after = self.queues();
        (0..4).find(|&queue| before[queue] != after[queue])
    }

    /// Fills the engine: the items from key 0 have a high cost and enter RESERVED, the others have a low cost. Then hits
    /// an item of low cost, whose entry into RESERVED moves item 0 to HOT and raises M to `HIGH`.
    fn fill_and_raise_threshold(&mut self) {
        self.set_all(0..RESERVED_MAX, HIGH);
        self.set_all(RESERVED_MAX..CHUNKS, LOW);
        assert_eq!(self.queues()[RESERVED], RESERVED_MAX);
        assert!(self.get(CHUNKS - 1));
        assert_eq!(self.queues()[RESERVED], RESERVED_MAX);
    }
}

/// Lines 35 to 38.
#[test]
fn while_chunks_are_free_new_items_enter_reserved_until_it_is_full() {
    let engine = engine_with_hot();
    let mut cache = Fixture::new(&engine);
    cache.set_all(0..CHUNKS, LOW);
    assert_eq!(cache.queues(), [CHUNKS - RESERVED_MAX, 0, 0, RESERVED_MAX]);
    assert_eq!(
        [cache.delete(RESERVED_MAX - 1), cache.delete(RESERVED_MAX)],
        [Some(RESERVED), Some(HOT)]
    );
}

/// Line 35: if a chunk is free, an item enters RESERVED only above the threshold, or if RESERVED is empty.
#[test]
fn a_new_item_below_the_threshold_enters_reserved_only_if_it_is_empty() {
    let engine = engine_with_hot();
    let mut cache = Fixture::new(&engine);
    cache.fill_and_raise_threshold();
    assert_eq!(cache.delete(1), Some(RESERVED));
    cache.set(100, LOW);
    assert_eq!(cache.delete(100), Some(HOT), "RESERVED has room, but the rank is below M");
    for key in (2..RESERVED_MAX).chain([CHUNKS - 1]) {
        assert_eq!(cache.delete(key), Some(RESERVED));
    }
    assert_eq!(cache.queues()[RESERVED], 0);
    cache.set(100, LOW);
    cache.set(101, LOW);
    assert_eq!([cache.delete(101), cache.delete(100)], [Some(HOT), Some(RESERVED)]);
}

/// Line 7: an item that is hit enters only a full queue. An item in HOT is no exception.
#[test]
fn a_hit_item_does_not_enter_reserved_if_it_has_room() {
    let engine = engine_with_hot();
    let mut cache = Fixture::new(&engine);
    cache.set_all(0..CHUNKS, HIGH);
    assert_eq!(cache.delete(0), Some(RESERVED));
    assert!((RESERVED_MAX..CHUNKS).all(|key| cache.get(key)));
    assert_eq!(cache.queues()[RESERVED], RESERVED_MAX - 1);
}

/// Lines 7 to 13: an item in HOT needs a rank above M, like an item in any other queue.
#[test]
fn a_hit_item_in_hot_enters_a_full_reserved_only_above_the_threshold() {
    let engine = engine_with_hot();
    let mut cache = Fixture::new(&engine);
    cache.fill_and_raise_threshold();
    // Item 0 has the rank of M, and the other item a lower rank. The inflation is 0, because nothing was evicted.
    assert!(cache.get(0) && cache.get(RESERVED_MAX));
    assert_eq!([cache.delete(0), cache.delete(RESERVED_MAX)], [Some(HOT), Some(HOT)]);
    assert_eq!(cache.delete(CHUNKS - 1), Some(RESERVED), "M was 0 when this item was hit");
}

/// Lines 17 to 32: after an eviction, a new item below the threshold enters HOT although RESERVED has room. An item
/// above the threshold displaces the tail.
#[test]
fn after_an_eviction_a_new_item_enters_reserved_only_above_the_threshold() {
    let engine = engine_with_hot();
    let mut cache = Fixture::new(&engine);
    cache.fill_and_raise_threshold();
    assert_eq!(cache.delete(1), Some(RESERVED));
    // The first of these items takes the free chunk, the others take chunks of victims.
    cache.set_all(100..104, LOW);
    assert_eq!(cache.queues(), [CHUNKS - RESERVED_MAX + 1, 0, 0, RESERVED_MAX - 1]);
    cache.set(104, HIGH);
    assert_eq!(cache.queues(), [CHUNKS - RESERVED_MAX + 1, 0, 0, RESERVED_MAX - 1]);
    assert_eq!([cache.delete(104), cache.delete(2)], [Some(RESERVED), Some(HOT)]);
}

/// Section 4.3.3: if COLD is empty, the victim is the tail of WARM, then of HOT, then of RESERVED.
#[test]
fn victims_are_in_cold_then_warm_then_hot_then_reserved() {
    // HOT holds one item. Its tail moves to WARM if it is active, and to COLD otherwise.
    let engine = engine(25, 5, 100);
    let mut cache = Fixture::new(&engine);
    cache.fill_and_raise_threshold();
    let queued = |cache: &Fixture<'_>, queue: usize| cache.queues()[queue];
    for round in 0.. {
        assert!(round < 3 * CHUNKS, "COLD becomes empty: {:?}", cache.queues());
        // Two hits make an item active.
        for key in (0..CHUNKS + round).flat_map(|key| [key; 2]) {
            cache.get(key);
        }
        cache.set(CHUNKS + round, LOW);
        if queued(&cache, COLD) == 0 {
            let [hot, warm, ..] = cache.queues();
            assert!(hot > 0 && warm > 1, "{:?}", cache.queues());
            cache.set(1_000, LOW);
            assert_eq!(cache.queues()[WARM], warm - 1, "{:?}", cache.queues());
            break;
        }
    }
    for (reserved_percent, queue) in [(25, HOT), (100, RESERVED)] {
        let engine = self::engine(reserved_percent, 100, 0);
        let mut cache = Fixture::new(&engine);
        cache.set_all(0..CHUNKS, HIGH);
        let before = cache.queues();
        assert_eq!([before[WARM], before[COLD]], [0, 0]);
        let oldest = if queue == HOT { RESERVED_MAX } else { 0 };
        cache.set(100, LOW);
        assert_eq!(
            cache.delete(oldest),
            None,
            "the tail of queue {queue} is the victim: {before:?}"
        );
    }
}

/// Lines 6 and 19 to 21: a hit that leaves an item in its queue raises the item's rank, and so L at its eviction, unless
/// only hits of RESERVED give ranks.
#[test]
fn a_hit_just_before_an_eviction_raises_the_inflation_only_if_all_hits_give_ranks() {
    for (ranked_hits, inflation) in [(RankedHits::All, 2 * LOW), (RankedHits::InReserved, LOW)] {
        let engine = engine_with(25, 0, 0, ranked_hits);
        let mut cache = Fixture::new(&engine);
        cache.fill_and_raise_threshold();
        let class = engine.config().classes.ids().next().expect("the engine has a class");
        // The first victim gives L its rank. The second victim is hit after that.
        cache.set(100, LOW);
        assert_eq!(engine.inflation(class), LOW);
        assert!(cache.get(RESERVED_MAX + 1));
        cache.set(101, LOW);
        assert_eq!(engine.inflation(class), inflation, "{ranked_hits:?}");
    }
}

/// The class has lost pages, so RESERVED is above its size. Its oldest items enter HOT, one for each victim.
#[test]
fn reserved_shrinks_with_its_class() {
    let (pages, percent) = (4, 50);
    let mut config = config(percent, 100, 0);
    config.memory_limit_bytes = pages * PAGE_SIZE_BYTES as u64;
    let engine = Engine::new(config).expect("the arena can be reserved");
    let mut cache = Fixture::new(&engine);
    cache.set_all(0..pages * CHUNKS, HIGH);
    assert_eq!(cache.queues()[RESERVED], pages * CHUNKS / 2);
    engine.set_memory_limit(2 * PAGE_SIZE_BYTES as u64).expect("the limit is within the arena");
    while engine.mover_step(64, cache.clock.now()) != MoverStep::Idle {
        cache.clock.advance(Duration::from_millis(1));
    }
    let reserved_max = CHUNKS;
    let [hot, _, _, reserved] = cache.queues();
    assert!(hot > 0 && reserved > reserved_max, "{:?}", cache.queues());
    // A new item below the threshold needs a chunk. The victim is in HOT, as long as HOT has an item.
    cache.set(1_000, LOW);
    assert_eq!(cache.queues(), [hot + 1, 0, 0, reserved - 1], "the tail is in HOT");
    cache.set_all(1_001..1_000 + 2 * CHUNKS, LOW);
    assert_eq!(cache.queues()[RESERVED], reserved_max);
}

#[test]
fn with_a_size_of_no_items_no_item_enters_reserved() {
    let engine = engine(0, 100, 0);
    let mut cache = Fixture::new(&engine);
    for key in 0..3 * CHUNKS {
        cache.set(key, HIGH + key as u32);
        assert!(cache.get(key));
    }
    assert_eq!(cache.queues(), [CHUNKS, 0, 0, 0]);
}

/// The class of chained items has no chunks.
#[test]
fn no_chained_item_enters_reserved() {
    let mut config = config(25, 100, 0);
    config.memory_limit_bytes = 4 * PAGE_SIZE_BYTES as u64;
    config.item_size_bytes_max = PAGE_SIZE_BYTES as u64;
    let engine = Engine::new(config).expect("the arena can be reserved");
    let mut cache = Fixture::new(&engine);
    for key in 0..4 * CHUNKS {
        cache.set_value(key, HIGH + key as u32, &[7; 2 * CHUNK_SIZE_BYTES]);
        assert!(cache.get(key));
    }
    let [hot, _, _, reserved] = cache.queues();
    assert!(hot > 1 && reserved == 0, "{:?}", cache.queues());
    assert!(engine.stats(cache.clock.now()).total.counters.evicted > 0);
}
