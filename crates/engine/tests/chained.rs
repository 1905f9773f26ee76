//! Chained items have queues apart from the classes whose chunks they use: which item is evicted for which, and how
//! statistics report them.

use slabwise_base::{ClassId, Clock, Expiry, Now, Seconds};
use slabwise_engine::{
    ClassTable, CrawlStep, Crawler, Engine, EngineConfig, ItemMeta, MoverKind, MoverStep, Pinned,
    StoreMode, StoreOutcome,
};
use std::time::Duration;

const META: ItemMeta = ItemMeta { client_flags: 0, expiry: Expiry::NEVER, cost: None };
const PAGE_SIZE_BYTES: usize = 16 << 10;
const LARGEST_CHUNK_BYTES: usize = 1024;
const HEADER_SIZE_BYTES: usize = 29;

fn engine(pages: u64) -> Engine {
    engine_with(pages, MoverKind::WARM)
}

fn engine_with(pages: u64, mover: MoverKind) -> Engine {
    let mut config = EngineConfig::new(pages * PAGE_SIZE_BYTES as u64);
    config.page_size_bytes = PAGE_SIZE_BYTES;
    config.classes = ClassTable::explicit(&[128, 512, LARGEST_CHUNK_BYTES], PAGE_SIZE_BYTES)
        .expect("a valid table");
    config.index_within_limit = false;
    config.mover = mover;
    Engine::new(config).expect("the arena can be reserved")
}

fn store(engine: &Engine, key: &str, value_len: usize, now: Now) {
    let outcome =
        engine.handle().set(key.as_bytes(), &vec![7; value_len], META, StoreMode::Set, now);
    assert!(matches!(outcome, StoreOutcome::Stored { .. }), "{key}: {outcome:?}");
}

fn holds(engine: &Engine, key: &str, now: Now) -> bool {
    engine.handle().peek(key.as_bytes(), now, |_| ()).is_some()
}

/// Fills the cache with whole items in the largest chunks and one chained item, which is stored first, in the middle
/// or last. Then stores one more item. Returns whether the chained item is left, and which whole items are.
fn after_one_more(chained_at: u32) -> (bool, Vec<u32>) {
    let (engine, clock) = (engine(2), Clock::manual());
    // One page holds the chained item's head. The other page holds four full body chunks and the whole items.
    let whole_len = LARGEST_CHUNK_BYTES - 100;
    let chained_len = 4 * (LARGEST_CHUNK_BYTES - HEADER_SIZE_BYTES);
    for number in 0..11 {
        if number == chained_at {
            store(&engine, "chained", chained_len, clock.now());
        }
        clock.advance(Duration::from_secs(1));
        store(&engine, &format!("whole{number}"), whole_len, clock.now());
        clock.advance(Duration::from_secs(1));
    }
    let before = engine.stats(clock.now()).total.counters.evicted;
    assert_eq!(before, 0, "all items fit");
    let mut number = 11;
    while engine.stats(clock.now()).total.counters.evicted == 0 {
        store(&engine, &format!("whole{number}"), whole_len, clock.now());
        number += 1;
        assert!(number < 100, "an item must be evicted");
    }
    engine.check();
    let left = (0..11).filter(|number| holds(&engine, &format!("whole{number}"), clock.now()));
    (holds(&engine, "chained", clock.now()), left.collect())
}

#[test]
fn the_colder_of_a_whole_and_a_chained_item_is_evicted() {
    let (chained, whole) = after_one_more(0);
    assert!(!chained, "the chained item was the coldest");
    assert_eq!(whole.len(), 11, "its chunks are enough");
    let (chained, whole) = after_one_more(10);
    assert!(chained, "whole items were colder");
    assert_eq!(whole, (1..11).collect::<Vec<_>>());
}

#[test]
fn a_class_without_whole_items_evicts_chained_items() {
    let (engine, clock) = (engine(8), Clock::manual());
    // Each head uses one of the smallest chunks. The class holds nothing else.
    for number in 0..200 {
        store(&engine, &format!("chained{number}"), 3 * LARGEST_CHUNK_BYTES, clock.now());
        clock.advance(Duration::from_secs(1));
    }
    engine.check();
    assert!(holds(&engine, "chained199", clock.now()), "the newest is there");
    assert!(!holds(&engine, "chained0", clock.now()), "the oldest is not");
    // A whole item in the class of the heads gets a chunk only if a chained item is evicted.
    for number in 0..1_000 {
        store(&engine, &format!("small{number}"), 40, clock.now());
    }
    engine.check();
}

#[test]
fn a_body_chunk_that_cannot_move_evicts_only_its_own_item() {
    for mover in [MoverKind::WARM, MoverKind::STOCK] {
        let (engine, clock) = (engine_with(6, mover), Clock::manual());
        let body_len = LARGEST_CHUNK_BYTES - HEADER_SIZE_BYTES;
        for number in 0..20 {
            store(&engine, &format!("colder{number}"), 3 * body_len, clock.now());
            clock.advance(Duration::from_secs(1));
        }
        // The last body chunk of this item is the only chunk of its class.
        store(&engine, "alone", 2 * body_len + 300, clock.now());
        assert_eq!((engine.page_stats().held, engine.stats(clock.now()).items), (6, 21));
        engine.reassign(Some(ClassId(1)), None, "test", clock.now()).expect("it has a page");
        while engine.mover_step(64, clock.now()) != MoverStep::Done {}
        assert!(!holds(&engine, "alone", clock.now()));
        assert_eq!(engine.stats(clock.now()).items, 20, "{mover:?}: other items are not evicted");
        engine.check();
    }
}

#[test]
fn moving_a_page_of_heads_evicts_the_coldest_chained_items() {
    let (engine, clock) = (engine(11), Clock::manual());
    let heads_a_page = PAGE_SIZE_BYTES / 128;
    let stored = heads_a_page + 16;
    for number in 0..stored {
        // Each item has a head and one body chunk. The last 16 heads fill a page.
        store(&engine, &format!("chained{number:03}"), LARGEST_CHUNK_BYTES - 34, clock.now());
        clock.advance(Duration::from_secs(1));
    }
    assert_eq!(engine.stats(clock.now()).items as usize, stored);
    engine.reassign(Some(ClassId(0)), None, "test", clock.now()).expect("it has two pages");
    while engine.mover_step(64, clock.now()) != MoverStep::Done {}
    for number in 0..stored {
        let kept = number >= 16;
        assert_eq!(holds(&engine, &format!("chained{number:03}"), clock.now()), kept, "{number}");
    }
    engine.check();
}

/// Returns a cache with one page of pinned items of a class and otherwise full of chained items, and the number of
/// chained items.
fn full_beside_pinned(pinned: usize, mover: MoverKind) -> (Engine, usize) {
    let (engine, now) = (engine_with(6, mover), Clock::manual().now());
    for number in 0..pinned {
        store(&engine, &format!("held{number}"), 400, now);
    }
    let mut number = 0;
    while engine.stats(now).total.counters.evicted == 0 {
        store(&engine, &format!("chained{number}"), 3 * LARGEST_CHUNK_BYTES, now);
        number += 1;
    }
    (engine, number - 1)
}

fn pin_all(engine: &Engine, pinned: usize, now: Now) -> Vec<Pinned<'_>> {
    let pin = |number| {
        let key = format!("held{number}");
        engine
            .handle()
            .get(key.as_bytes(), now, |view| view.pin())
            .flatten()
            .expect("the item is stored")
    };
    (0..pinned).map(pin).collect()
}

#[test]
fn moving_a_pinned_page_evicts_no_chained_items() {
    for mover in [MoverKind::WARM, MoverKind::STOCK] {
        let (engine, chained) = full_beside_pinned(3, mover);
        let now = Clock::manual().now();
        let pins = pin_all(&engine, 3, now);
        engine.reassign(Some(ClassId(1)), None, "test", now).expect("it has a page");
        for _ in 0..10 {
            engine.mover_step(64, now);
        }
        let left = engine.stats(now).items as usize - pins.len();
        assert_eq!(left, chained, "{mover:?}: evicting them would not empty the page");
        drop(pins);
        engine.check();
    }
}

#[test]
fn a_class_of_pinned_items_takes_one_page_of_chained_items() {
    let per_page = PAGE_SIZE_BYTES / 512;
    let (engine, chained) = full_beside_pinned(per_page, MoverKind::WARM);
    let now = Clock::manual().now();
    let pins = pin_all(&engine, per_page, now);
    store(&engine, "one more", 400, now);
    let left = engine.stats(now).items as usize - pins.len() - 1;
    let a_page_of_bodies = PAGE_SIZE_BYTES / LARGEST_CHUNK_BYTES / 3;
    assert!(left + a_page_of_bodies + 2 >= chained, "of {chained} only {left} are left");
    drop(pins);
    engine.check();
}

#[test]
fn chained_items_are_counted_in_the_largest_class() {
    let (engine, clock) = (engine(8), Clock::manual());
    let now = clock.now();
    store(&engine, "chained", 5 * LARGEST_CHUNK_BYTES, now);
    let mut handle = engine.handle();
    let largest = engine.config().classes.largest();
    assert_eq!(handle.get(b"chained", now, |view| view.class()), Some(largest));
    clock.advance(Duration::from_secs(5));

    let classes = engine.class_stats(clock.now());
    let shown = classes.last().expect("a class");
    assert_eq!(shown.items.iter().sum::<u64>(), 1);
    assert_eq!((shown.sets, shown.get_hits()), (1, 1));
    assert!(
        shown.tail_age_ticks.iter().flatten().any(|&age| age > 0),
        "the class reports the item's age"
    );
    assert!(shown.item_bytes > 5 * LARGEST_CHUNK_BYTES as u64);
    assert_eq!(engine.stats(clock.now()).items, 1, "the item is counted once");

    let mut seen = Vec::new();
    let mut crawler = Crawler::new([largest]);
    while engine.crawl_step(&mut crawler, 64, now, &mut |item| seen.push(item.class))
        != CrawlStep::Done
    {}
    assert_eq!(seen, [largest], "a crawl of that class visits it");
    let mut crawler = Crawler::new(engine.config().classes.ids().filter(|&id| id != largest));
    let unexpected = &mut |item: slabwise_engine::CrawledItem<'_>| panic!("{item:?}");
    while engine.crawl_step(&mut crawler, 64, now, unexpected) != CrawlStep::Done {}

    let earlier = engine.stats(now);
    assert!(earlier.total.sets > 0, "the store is counted");
    assert_eq!(
        engine.stats(now).since(&earlier).total.sets,
        0,
        "a difference of readings covers it"
    );
}

#[test]
fn a_get_frees_an_expired_chained_item() {
    let (engine, clock) = (engine(8), Clock::manual());
    let expiry = Expiry::at(Seconds(clock.now().seconds.0 + 1));
    let meta = ItemMeta { expiry, ..META };
    let value = [7; 5 * LARGEST_CHUNK_BYTES];
    let mut handle = engine.handle();
    handle.set(b"chained", &value, meta, StoreMode::Set, clock.now());
    clock.advance(Duration::from_secs(2));
    assert!(handle.get(b"chained", clock.now(), |_| ()).is_none());
    let stats = engine.stats(clock.now());
    assert_eq!((stats.get_expired, stats.get_misses, stats.total.used_chunks), (1, 1, 0));
    engine.check();
}
