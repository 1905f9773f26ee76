//! Tests with little memory. An operation never evicts the item that it changes. A store succeeds as long as an item
//! can be evicted. After the memory limit was lowered, the cache reaches the new limit even under load. Every search
//! for memory ends.

use slabwise_base::{Clock, Expiry, Now, Seconds};
use slabwise_engine::{
    ArithmeticOutcome, ClassTable, Delta, Engine, EngineConfig, ItemMeta, MoverKind, MoverStep,
    SizeModel, StoreMode, StoreOutcome,
};
use std::time::Duration;

const META: ItemMeta = ItemMeta { client_flags: 0, expiry: Expiry::NEVER, cost: None };
const PAGE_SIZE_BYTES: usize = 16 << 10;

fn config(pages: u64, chunk_sizes: &[usize]) -> EngineConfig {
    let mut config = EngineConfig::new(pages * PAGE_SIZE_BYTES as u64);
    config.page_size_bytes = PAGE_SIZE_BYTES;
    config.classes =
        ClassTable::explicit(chunk_sizes, PAGE_SIZE_BYTES).expect("the class table is valid");
    config.index_within_limit = false;
    config
}

fn key(number: u32) -> [u8; 8] {
    let mut key = *b"k0000000";
    let digits = format!("{number:07}");
    key[1..].copy_from_slice(digits.as_bytes());
    key
}

fn store(engine: &Engine, number: u32, value: &[u8], now: Now) -> StoreOutcome {
    engine.handle().set(&key(number), value, META, StoreMode::Set, now)
}

/// Returns a cache whose only page is full of items with this value. Item 0 is the coldest, then item 1, and so on.
fn full_cache(value: &[u8]) -> (Engine, Now) {
    let engine = Engine::new(config(1, &[128])).expect("the arena can be reserved");
    let now = Clock::manual().now();
    for number in 0..(PAGE_SIZE_BYTES / 128) as u32 {
        assert!(matches!(store(&engine, number, value, now), StoreOutcome::Stored { .. }));
    }
    assert_eq!(engine.stats(now).total.free_chunks, 0);
    (engine, now)
}

#[test]
fn an_operation_never_evicts_the_item_that_it_changes() {
    let (engine, now) = full_cache(b"9");
    let later = Expiry::at(Seconds(now.seconds.0 + 100));
    assert_eq!(engine.handle().touch(&key(0), later, now), Ok(true));
    engine.check();

    let (engine, now) = full_cache(b"9");
    let grown = engine.handle().arithmetic(&key(0), Delta::Increment(1), &Default::default(), now);
    assert!(
        matches!(grown, ArithmeticOutcome::Value { value: 10, .. }),
        "incr must succeed, but: {grown:?}"
    );
    engine.check();

    // The append evicts item 0, the coldest. The item that it changes, item 1, is the next coldest.
    let (engine, now) = full_cache(b"9");
    let appended = engine.handle().set(&key(1), b"0", META, StoreMode::Append, now);
    assert!(
        matches!(appended, StoreOutcome::Stored { .. }),
        "append must succeed, but: {appended:?}"
    );
    engine.check();
}

#[test]
fn a_store_evicts_the_coldest_unpinned_item() {
    let chunks = (PAGE_SIZE_BYTES / 128) as u32;
    for pinned_count in [1, 63, 64, 65, 100, chunks - 1] {
        let (engine, now) = full_cache(b"value");
        let pin = |number| {
            let pinned = engine.handle().peek(&key(number), now, |view| view.pin()).flatten();
            pinned.expect("the item is stored")
        };
        let mut pins: Vec<_> = (0..pinned_count).map(pin).collect();
        let outcome = store(&engine, 9_000, b"value", now);
        assert!(
            matches!(outcome, StoreOutcome::Stored { .. }),
            "if {pinned_count} items are pinned, a store must succeed, but: {outcome:?}"
        );
        let is_evicted = engine.handle().peek(&key(pinned_count), now, |_| ()).is_none();
        assert!(is_evicted, "item {pinned_count}, the coldest unpinned item, is evicted");
        engine.check();

        // If every item is pinned, the search ends and the store is refused.
        pins.extend((pinned_count + 1..chunks).chain([9_000]).map(pin));
        assert_eq!(store(&engine, 9_001, b"value", now), StoreOutcome::OutOfMemory);
        engine.check();
    }
}

#[test]
fn stores_succeed_while_a_page_drains() {
    let mut config = config(8, &[128]);
    config.size_model = SizeModel::Memcached;
    config.first_page_beyond_limit = true;
    let engine = Engine::new(config).expect("the arena can be reserved");
    let now = Clock::manual().now();
    for number in 0..8 * 128 {
        store(&engine, number, b"value", now);
    }
    engine.reassign(None, None, "test", now).expect("the class has a page to move");
    for number in 0..2_000 {
        let outcome = store(&engine, 10_000 + number, b"value", now);
        assert!(
            matches!(outcome, StoreOutcome::Stored { .. }),
            "store {number} must succeed, but: {outcome:?}"
        );
        engine.mover_step(1, now);
    }
    engine.check();
}

#[test]
fn a_lowered_limit_is_reached_under_load() {
    let engine = Engine::new(config(64, &[128, 1024])).expect("the arena can be reserved");
    let now = Clock::manual().now();
    for number in 0..64 * 128 {
        store(&engine, number, b"value", now);
    }
    engine.set_memory_limit(8 * PAGE_SIZE_BYTES as u64).expect("the limit can always be lowered");
    for number in 0..100_000 {
        store(&engine, number, b"value", now);
        engine.mover_step(8, now);
    }
    assert!(
        engine.page_stats().held <= 8,
        "the cache must be within the new limit: {:?}",
        engine.page_stats()
    );
    engine.check();
}

#[test]
fn without_eviction_the_mover_stays_idle_after_the_limit_was_lowered() {
    let mut config = config(16, &[128]);
    config.eviction_enabled = false;
    let engine = Engine::new(config).expect("the arena can be reserved");
    let clock = Clock::manual();
    for number in 0..16 * 128 {
        store(&engine, number, b"value", clock.now());
    }
    engine.set_memory_limit(4 * PAGE_SIZE_BYTES as u64).expect("the limit can always be lowered");
    for _ in 0..100 {
        assert_eq!(
            engine.mover_step(64, clock.now()),
            MoverStep::Idle,
            "no page can be emptied without eviction"
        );
        clock.advance(Duration::from_secs(1));
    }
    assert_eq!(engine.stats(clock.now()).items, 16 * 128, "no item was lost");
    engine.check();
}

#[test]
fn a_blocked_move_is_given_up_and_the_page_is_usable() {
    let (engine, _) = full_cache(b"value");
    let clock = Clock::manual();
    let mut handle = engine.handle();
    let pin =
        handle.get(&key(3), clock.now(), |view| view.pin()).flatten().expect("the item is stored");
    engine.reassign(None, None, "test", clock.now()).expect("the class has a page to move");
    let mut steps = Vec::new();
    for _ in 0..100 {
        steps.push(engine.mover_step(64, clock.now()));
        if steps.last() == Some(&MoverStep::GivenUp) {
            break;
        }
        clock.advance(Duration::from_millis(100));
    }
    let has_paused = steps.iter().any(|step| matches!(step, MoverStep::Pause(_)));
    assert!(has_paused, "the mover pauses while a chunk is pinned: {steps:?}");
    assert_eq!(steps.last(), Some(&MoverStep::GivenUp), "the mover gives the move up in the end");
    drop(pin);
    assert!(matches!(store(&engine, 9_000, b"value", clock.now()), StoreOutcome::Stored { .. }));
    engine.check();
}

/// Moves one page of a class that has two pages and `free` free chunks. Returns the number of items after the move.
fn items_after_a_move(mover: MoverKind, free: u32) -> u64 {
    let chunks = 2 * (PAGE_SIZE_BYTES / 128) as u32;
    let engine = Engine::new(EngineConfig { mover, ..config(2, &[128]) })
        .expect("the arena can be reserved");
    let now = Clock::manual().now();
    for number in 0..chunks {
        assert!(matches!(store(&engine, number, b"value", now), StoreOutcome::Stored { .. }));
    }
    for number in 0..free {
        // Deletes every second item, beginning with the first page.
        assert!(engine.handle().delete(&key(2 * number), now));
    }
    engine.reassign(None, None, "test", now).expect("the class has a page to move");
    while engine.mover_step(64, now) != MoverStep::Done {}
    engine.check();
    engine.stats(now).items
}

#[test]
fn every_mover_evicts_only_the_items_that_do_not_fit() {
    let page = (PAGE_SIZE_BYTES / 128) as u64;
    let kinds =
        [MoverKind::WARM, MoverKind::STOCK, MoverKind::BASE, MoverKind::BASE_NEXT, MoverKind::FAST];
    for mover in kinds {
        assert_eq!(items_after_a_move(mover, 0), page, "{mover:?}: a page of items is left");
        assert_eq!(items_after_a_move(mover, page as u32), page, "{mover:?}: no item is lost");
    }
}

#[test]
fn without_free_chunks_stock_drops_hot_items_and_warm_keeps_them() {
    // Returns the number of hot items after a move of the page that holds them.
    let hot_items_after_move = |mover| {
        let engine = Engine::new(EngineConfig { mover, ..config(2, &[128]) })
            .expect("the arena can be reserved");
        let (clock, page) = (Clock::manual(), (PAGE_SIZE_BYTES / 128) as u32);
        for number in 0..2 * page {
            store(&engine, number, b"value", clock.now());
        }
        let mut handle = engine.handle();
        // Two gets mark an item as active. All these items are on the page that was filled first.
        for _ in 0..2 {
            for number in 0..page / 8 {
                assert!(handle.get(&key(number), clock.now(), |_| ()).is_some());
            }
        }
        engine.reassign(None, None, "test", clock.now()).expect("the class has a page to move");
        while engine.mover_step(64, clock.now()) != MoverStep::Done {}
        (0..page / 8)
            .filter(|&number| handle.peek(&key(number), clock.now(), |_| ()).is_some())
            .count()
    };
    assert_eq!(hot_items_after_move(MoverKind::WARM), PAGE_SIZE_BYTES / 128 / 8);
    assert_eq!(hot_items_after_move(MoverKind::STOCK), 0);
}

#[test]
fn the_maintainer_moves_active_items_from_the_cold_tail() {
    let (engine, now) = full_cache(b"value");
    let mut handle = engine.handle();
    while engine.maintain_step(1_000, now) > 0 {}
    for _ in 0..2 {
        assert!(handle.get(&key(0), now, |_| ()).is_some());
    }
    assert!(
        engine.maintain_step(1, now) > 0,
        "the maintainer moves the active item from the tail of the cold queue"
    );
    assert_eq!(engine.stats(now).total.counters.moves_to_warm, 1);
    engine.check();
}

#[test]
fn pins_above_the_limit_are_refused_and_earlier_pins_stay_valid() {
    let (engine, now) = full_cache(b"value");
    let mut handle = engine.handle();
    let mut pins = Vec::new();
    while let Some(pin) = handle.get(&key(5), now, |view| view.pin()).flatten() {
        pins.push(pin);
        assert!(pins.len() < 10_000, "the number of pins of an item must have a limit");
    }
    for _ in 0..3 * pins.len() {
        assert!(handle.get(&key(5), now, |view| view.pin().is_none()).expect("the item is stored"));
    }
    assert!(handle.delete(&key(5), now));
    assert!(
        pins.iter().all(|pin| pin.value().flatten().eq(b"value")),
        "the bytes of the deleted item are unchanged while it is pinned"
    );
    let used = engine.stats(now).total.used_chunks;
    drop(pins);
    assert_eq!(
        engine.stats(now).total.used_chunks,
        used - 1,
        "the chunk of the deleted item is freed with the last pin"
    );
    engine.check();
}

#[test]
#[should_panic(expected = "must be at most the page size")]
fn a_configuration_with_chunks_larger_than_a_page_panics() {
    let mut config = config(4, &[128, 1024]);
    config.page_size_bytes = 4096;
    config.classes =
        ClassTable::explicit(&[128, 8192], 8192).expect("the table is valid for pages of 8 KiB");
    let _engine = Engine::new(config);
}

#[test]
fn an_upload_evicts_items_only_as_its_bytes_arrive() {
    let engine = Engine::new(config(64, &[128, 1024])).expect("the arena can be reserved");
    let now = Clock::manual().now();
    for number in 0..64 * 128 {
        store(&engine, number, b"value", now);
    }
    let items = engine.stats(now).items;
    let len = 32 * PAGE_SIZE_BYTES;
    let mut upload = engine
        .handle()
        .reserve(b"large", len, META, now)
        .expect("the value needs only half of the memory");
    assert!(engine.stats(now).items + 10 > items, "the reservation allocates only the head");
    let taken = upload.fill(&[7; 2_000]);
    assert_eq!((taken, upload.filled()), (2_000, 2_000));
    assert!(
        engine.stats(now).items + 300 > items,
        "only the bodies of the received bytes are allocated"
    );
    drop(upload);
    engine.check();
}

#[test]
#[should_panic(expected = "written to a buffer of")]
fn an_upload_that_writes_more_than_its_buffer_panics() {
    let engine = Engine::new(config(8, &[512, 1024])).expect("the arena can be reserved");
    let now = Clock::manual().now();
    let mut reservation =
        engine.handle().reserve(b"key", 5_000, META, now).expect("there is memory for the item");
    reservation.advance(3_000);
}
