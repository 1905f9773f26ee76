//! Tests of chained items. They are queued in a class of their own, apart from the classes whose chunks they use. The
//! tests check the item that is evicted to free a chunk, and the statistics of chained items.

use slabwise_base::{ClassId, Clock, Expiry, Now, Seconds};
use slabwise_engine::{
    ClassTable, CrawlStep, Crawler, Engine, EngineConfig, ItemMeta, MoverKind, MoverStep, Pinned,
    StoreMode, StoreOutcome,
};
use std::time::Duration;

const META: ItemMeta = ItemMeta { client_flags: 0, expiry: Expiry::NEVER, cost: None };
const PAGE_SIZE_BYTES: usize = 16 << 10;
const LARGEST_CHUNK_BYTES: usize = 1024;
const HEADER_SIZE_BYTES: usize = 30;

fn engine(pages: u64) -> Engine {
    engine_with(pages, MoverKind::WARM)
}

fn engine_with(pages: u64, mover: MoverKind) -> Engine {
    let mut config = EngineConfig::new(pages * PAGE_SIZE_BYTES as u64);
    config.page_size_bytes = PAGE_SIZE_BYTES;
    config.classes = ClassTable::explicit(&[128, 512, LARGEST_CHUNK_BYTES], PAGE_SIZE_BYTES)
        .expect("the class table is valid");
    config.index_within_limit = false;
    config.mover = mover;
    Engine::new(config).expect("the arena can be reserved")
}

fn store(engine: &Engine, key: &str, value_len: usize, now: Now) {
    let outcome =
        engine.handle().set(key.as_bytes(), &vec![7; value_len], META, StoreMode::Set, now);
    assert!(
        matches!(outcome, StoreOutcome::Stored { .. }),
        "{key} must be stored, but: {outcome:?}"
    );
}

fn holds(engine: &Engine, key: &str, now: Now) -> bool {
    engine.handle().peek(key.as_bytes(), now, |_| ()).is_some()
}

/// Fills the cache with whole items in the largest chunks, and with one chained item, which is stored before whole item
/// number `chained_at`. Then stores more whole items until one item is evicted. Returns true if the chained item is
/// still stored, and the numbers of the first whole items that are still stored.
fn items_after_one_eviction(chained_at: u32) -> (bool, Vec<u32>) {
    let (engine, clock) = (engine(2), Clock::manual());
    // One page holds the head of the chained item. The other page holds its four bodies and the whole items.
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
    assert_eq!(before, 0, "all items fit into memory");
    let mut number = 11;
    while engine.stats(clock.now()).total.counters.evicted == 0 {
        store(&engine, &format!("whole{number}"), whole_len, clock.now());
        number += 1;
        assert!(number < 100, "one of the first 100 stores must evict an item");
    }
    engine.check();
    let left = (0..11).filter(|number| holds(&engine, &format!("whole{number}"), clock.now()));
    (holds(&engine, "chained", clock.now()), left.collect())
}

#[test]
fn the_colder_of_a_whole_and_a_chained_item_is_evicted() {
    let (chained, whole) = items_after_one_eviction(0);
    assert!(!chained, "the chained item was stored first, so it is evicted");
    assert_eq!(
        whole.len(),
        11,
        "the chunks of the chained item suffice, so no whole item is evicted"
    );
    let (chained, whole) = items_after_one_eviction(10);
    assert!(chained, "the chained item was stored after whole items, so it stays");
    assert_eq!(whole, (1..11).collect::<Vec<_>>());
}

#[test]
fn a_class_that_holds_only_heads_evicts_chained_items() {
    let (engine, clock) = (engine(8), Clock::manual());
    // The class of the smallest chunks holds the heads of these items, and nothing else.
    for number in 0..200 {
        store(&engine, &format!("chained{number}"), 3 * LARGEST_CHUNK_BYTES, clock.now());
        clock.advance(Duration::from_secs(1));
    }
    engine.check();
    assert!(holds(&engine, "chained199", clock.now()), "the newest item is stored");
    assert!(!holds(&engine, "chained0", clock.now()), "the oldest item was evicted");
    // The class of the heads has no free chunk. So each of these whole items gets a chunk only if a chained item is
    // evicted.
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
        // The last body of this item is the only used chunk of the class with 512-byte chunks.
        store(&engine, "alone", 2 * body_len + 300, clock.now());
        assert_eq!((engine.page_stats().held, engine.stats(clock.now()).items), (6, 21));
        engine
            .reassign(Some(ClassId(1)), None, "test", clock.now())
            .expect("the class has a page to move");
        while engine.mover_step(64, clock.now()) != MoverStep::Done {}
        assert!(!holds(&engine, "alone", clock.now()));
        assert_eq!(engine.stats(clock.now()).items, 20, "{mover:?}: no other item is evicted");
        engine.check();
    }
}

#[test]
fn moving_a_page_of_heads_evicts_the_coldest_chained_items() {
    let (engine, clock) = (engine(11), Clock::manual());
    let heads_a_page = PAGE_SIZE_BYTES / 128;
    let stored = heads_a_page + 16;
    for number in 0..stored {
        // Each item has a head and one body. The first heads fill a page, and the last 16 heads are on a second page.
        store(&engine, &format!("chained{number:03}"), LARGEST_CHUNK_BYTES - 34, clock.now());
        clock.advance(Duration::from_secs(1));
    }
    assert_eq!(engine.stats(clock.now()).items as usize, stored);
    engine.reassign(Some(ClassId(0)), None, "test", clock.now()).expect("the class has two pages");
    while engine.mover_step(64, clock.now()) != MoverStep::Done {}
    for number in 0..stored {
        let kept = number >= 16;
        assert_eq!(
            holds(&engine, &format!("chained{number:03}"), clock.now()),
            kept,
            "item {number}"
        );
    }
    engine.check();
}

/// Returns a full cache, and the number of its chained items. One page has `pinned` items in chunks of 512 bytes, which
/// the caller may pin; all other memory holds chained items.
fn full_cache(pinned: usize, mover: MoverKind) -> (Engine, usize) {
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
fn moving_a_page_of_pinned_items_evicts_no_chained_items() {
    for mover in [MoverKind::WARM, MoverKind::STOCK] {
        let (engine, chained) = full_cache(3, mover);
        let now = Clock::manual().now();
        let pins = pin_all(&engine, 3, now);
        engine.reassign(Some(ClassId(1)), None, "test", now).expect("the class has a page to move");
        for _ in 0..10 {
            engine.mover_step(64, now);
        }
        let chained_left = engine.stats(now).items as usize - pins.len();
        assert_eq!(
            chained_left, chained,
            "{mover:?}: no chained item is evicted, because this would not empty the page"
        );
        drop(pins);
        engine.check();
    }
}

#[test]
fn a_class_of_pinned_items_gets_one_page_from_the_chained_items() {
    let per_page = PAGE_SIZE_BYTES / 512;
    let (engine, chained) = full_cache(per_page, MoverKind::WARM);
    let now = Clock::manual().now();
    let pins = pin_all(&engine, per_page, now);
    store(&engine, "one more", 400, now);
    let chained_left = engine.stats(now).items as usize - pins.len() - 1;
    let a_page_of_bodies = PAGE_SIZE_BYTES / LARGEST_CHUNK_BYTES / 3;
    assert!(
        chained_left + a_page_of_bodies + 2 >= chained,
        "of {chained} chained items, only {chained_left} are left"
    );
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
    let shown = classes.last().expect("there is a class");
    assert_eq!(shown.items.iter().sum::<u64>(), 1);
    assert_eq!((shown.sets, shown.get_hits()), (1, 1));
    assert!(
        shown.tail_age_work.iter().flatten().any(|&age| age > 0),
        "the largest class reports the age of the chained item"
    );
    assert!(shown.item_bytes > 5 * LARGEST_CHUNK_BYTES as u64);
    assert_eq!(
        engine.stats(clock.now()).items,
        1,
        "the chained item is counted once in the whole cache"
    );

    let mut seen = Vec::new();
    let mut crawler = Crawler::new([largest]);
    while engine.crawl_step(&mut crawler, 64, now, &mut |item| seen.push(item.class))
        != CrawlStep::Done
    {}
    assert_eq!(seen, [largest], "a crawl of the largest class visits the chained item");
    let mut crawler = Crawler::new(engine.config().classes.ids().filter(|&id| id != largest));
    let unexpected = &mut |item: slabwise_engine::CrawledItem<'_>| {
        panic!("a crawl of the other classes visits no item, but: {item:?}")
    };
    while engine.crawl_step(&mut crawler, 64, now, unexpected) != CrawlStep::Done {}

    let earlier = engine.stats(now);
    assert!(earlier.total.sets > 0, "the store is counted");
    assert_eq!(
        engine.stats(now).since(&earlier).total.sets,
        0,
        "a difference of readings does not count the earlier store"
    );
}

#[test]
fn a_get_of_an_expired_chained_item_frees_its_chunks() {
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

#[test]
fn a_store_and_a_hit_are_accesses_to_the_pages_of_all_bodies() {
    let (engine, clock) = (engine(4), Clock::manual());
    engine.note_page_accesses(true, clock.now());
    // Returns the times of the last accesses of all pages, if they are the same.
    let accessed_at = || {
        let pages = engine.owned_pages();
        assert!(pages.len() > 2, "head and bodies have several pages: {pages:?}");
        let first = pages[0].accessed_at;
        pages.iter().all(|page| page.accessed_at == first).then_some(first).flatten()
    };
    let bodies_per_page = PAGE_SIZE_BYTES / LARGEST_CHUNK_BYTES;
    store(&engine, "chained", 2 * bodies_per_page * LARGEST_CHUNK_BYTES - 2048, clock.now());
    assert_eq!(accessed_at(), Some(clock.now().ticks), "a store");
    let stored_at = clock.now().ticks;
    clock.advance(Duration::from_secs(1));
    assert!(holds(&engine, "chained", clock.now()));
    assert_eq!(accessed_at(), Some(stored_at), "a lookup that does not count as a use");
    assert!(engine.handle().get(b"chained", clock.now(), |_| ()).is_some());
    assert_eq!(accessed_at(), Some(clock.now().ticks), "a hit");
    // Without records, a hit changes no time.
    let hit_at = clock.now();
    engine.note_page_accesses(false, hit_at);
    clock.advance(Duration::from_secs(1));
    assert!(engine.handle().get(b"chained", clock.now(), |_| ()).is_some());
    assert_eq!(accessed_at(), Some(hit_at.ticks));
}
