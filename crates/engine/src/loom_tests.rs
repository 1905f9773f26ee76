//! Models of two threads that use a whole engine. loom runs all their interleavings up to a bound of preemptions.
//!
//! The models run with `RUSTFLAGS="--cfg loom" cargo test -p slabwise-engine --release --lib loom`.

use crate::{
    ArithmeticConditions, ClassTable, Delta, Engine, EngineConfig, EvictionKind, Handle, ItemMeta,
    MoveOutcome, MoverKind, MoverStep, SpareConfig, StoreConditions, StoreMode, StoreOutcome,
};
use loom::sync::Arc;
use loom::thread;
use slabwise_base::{ClassId, Clock, Now};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const META: ItemMeta =
    ItemMeta { client_flags: 0, expiry: slabwise_base::Expiry::NEVER, cost: None };

/// Returns an engine with `page_count` pages and chunks of 512 and 1024 bytes.
fn engine(page_count: u64, eviction: EvictionKind) -> Arc<Engine> {
    engine_of(page_count, &[512, 1024], eviction)
}

/// Returns an engine with `page_count` pages and these chunk sizes in bytes.
fn engine_of(page_count: u64, chunk_sizes: &[usize], eviction: EvictionKind) -> Arc<Engine> {
    engine_with(EngineConfig { eviction, ..config(page_count, chunk_sizes) })
}

/// Returns a configuration with `page_count` pages of 4096 bytes and these chunk sizes in bytes.
fn config(page_count: u64, chunk_sizes: &[usize]) -> EngineConfig {
    let page_size_bytes = 4096;
    let mut config = EngineConfig::new(page_count * page_size_bytes);
    config.page_size_bytes = page_size_bytes as usize;
    config.spares = SpareConfig { holders_max: 2, memory_divisor: 1 };
    config.classes = ClassTable::explicit(chunk_sizes, 4096).expect("the class table is valid");
    config
}

fn is_stored(outcome: StoreOutcome) -> bool {
    matches!(outcome, StoreOutcome::Stored { .. })
}

fn engine_with(config: EngineConfig) -> Arc<Engine> {
    Arc::new(Engine::new(config).expect("a model can reserve an arena"))
}

/// Runs the model in all interleavings with at most three preemptions. Fails if loom finds only one interleaving.
fn explore(model: impl Fn() + Sync + Send + 'static) {
    let runs = std::sync::Arc::new(AtomicU64::new(0));
    let counted = std::sync::Arc::clone(&runs);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    // A page move reads many state words, so one interleaving has many steps. loom's default limit on them is too low.
    builder.max_branches = 4_000;
    builder.check(move || {
        counted.fetch_add(1, Relaxed);
        model();
    });
    let runs = runs.load(Relaxed);
    println!("{runs} interleavings");
    assert!(runs > 1, "loom explores more than one interleaving");
}

fn now() -> Now {
    Clock::manual().now()
}

fn read(engine: &Engine, key: &[u8]) -> Option<Vec<u8>> {
    engine.handle().get(key, now(), |view| view.value().flatten().copied().collect())
}

#[test]
fn loom_a_get_sees_a_consistent_value_during_a_store() {
    explore(|| {
        let engine = engine(1, EvictionKind::Segmented);
        engine.handle().set(b"k", b"aa", META, StoreMode::Set, now());
        let writer = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || {
                engine.handle().set(b"k", b"bb", META, StoreMode::Set, now());
            })
        };
        let value = read(&engine, b"k").expect("the key always has an item");
        assert!(value == b"aa" || value == b"bb", "{value:?} is a value that was stored");
        writer.join().expect("the writer does not panic");
        assert_eq!(read(&engine, b"k").as_deref(), Some(&b"bb"[..]));
        engine.check();
    });
}

#[test]
fn loom_the_last_unpin_after_a_delete_frees_the_item() {
    explore(|| {
        let engine = engine(1, EvictionKind::Segmented);
        engine.handle().set(b"k", b"aa", META, StoreMode::Set, now());
        let deleter = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || engine.handle().delete(b"k", now()))
        };
        if let Some(pin) = engine.handle().get(b"k", now(), |view| view.pin()).flatten() {
            assert_eq!(pin.value().flatten().copied().collect::<Vec<u8>>(), b"aa");
        }
        assert!(deleter.join().expect("the deleter does not panic"), "the item was deleted");
        let used_chunks = engine.stats(now()).total.used_chunks;
        assert_eq!(used_chunks, 0, "a deleted item without pins is freed");
        engine.check();
    });
}

#[test]
fn loom_a_delete_during_an_eviction_of_the_same_item_keeps_the_new_item() {
    explore(|| {
        let engine = engine(1, EvictionKind::Lru);
        for key in [b"1", b"2", b"3", b"4"] {
            engine.handle().set(key, &[7; 600], META, StoreMode::Set, now());
        }
        let evicter = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || {
                engine.handle().set(b"5", &[8; 600], META, StoreMode::Set, now());
            })
        };
        engine.handle().delete(b"1", now());
        evicter.join().expect("the evicter does not panic");
        assert_eq!(read(&engine, b"1"), None, "the item was deleted or evicted");
        assert!(read(&engine, b"5").is_some(), "the new item was stored");
        engine.check();
    });
}

#[test]
fn loom_an_increment_during_a_page_move_is_not_lost() {
    explore(|| {
        let engine = engine(2, EvictionKind::Segmented);
        engine.handle().set(b"n", b"41", META, StoreMode::Set, now());
        let small = engine.config().classes.ids().next().expect("the class table has a class");
        let mover = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || {
                let begun = engine.reassign(Some(small), None, "test", now());
                begun.expect("the class has a page to move");
                for _ in 0..4 {
                    if engine.mover_step(8, now()) == MoverStep::Done {
                        break;
                    }
                }
            })
        };
        engine.handle().arithmetic(b"n", Delta::Increment(1), &Default::default(), now());
        mover.join().expect("the mover does not panic");
        assert_eq!(read(&engine, b"n").as_deref(), Some(&b"42"[..]), "the move keeps the update");
        engine.check();
    });
}

#[test]
fn loom_the_value_of_a_moved_item_stays_readable_through_an_old_pin() {
    explore(|| {
        let engine = engine_with(EngineConfig { mover: MoverKind::STOCK, ..config(2, &[512]) });
        // Eight items fill the first page, and the ninth item is on the second page. Then seven items of the first page
        // are deleted, so that each page holds one item.
        for key in 0..9 {
            engine.handle().set(&[b'a' + key], &[key; 400], META, StoreMode::Set, now());
        }
        for key in 1..8 {
            assert!(engine.handle().delete(&[b'a' + key], now()), "the item was stored");
        }
        let mut handle = engine.handle();
        let pin = handle.get(b"a", now(), |view| view.pin()).flatten();
        let pin = pin.expect("the item is in the index and can be pinned");
        let mover = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || {
                let begun = engine.reassign(Some(ClassId(0)), None, "test", now());
                begun.expect("the class has a page to move");
                engine.mover_step(8, now());
            })
        };
        assert!(pin.value().flatten().all(|&byte| byte == 0), "pinned bytes do not change");
        drop(pin);
        let value_len = handle.get(b"a", now(), |view| view.value().flatten().count());
        assert_eq!(value_len, Some(400), "the item is found before and after the move");
        mover.join().expect("the mover does not panic");
        while engine.mover_step(8, now()) != MoverStep::Idle {}
        let stats = engine.stats(now());
        assert_eq!((stats.mover.moved, stats.items, stats.total.used_chunks), (1, 2, 2));
        drop(handle);
        engine.check();
    });
}

#[test]
fn loom_a_page_move_keeps_items_while_their_class_allocates_and_frees() {
    explore(|| {
        let engine = engine_of(3, &[1024], EvictionKind::Segmented);
        for key in [b"1", b"2"] {
            engine.handle().set(key, &[7; 600], META, StoreMode::Set, now());
        }
        let mover = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || {
                let begun = engine.reassign(Some(ClassId(0)), None, "test", now());
                begun.expect("the class has a page to move");
                while engine.mover_step(8, now()) == MoverStep::Working {}
            })
        };
        let mut handle = engine.handle();
        let outcome = handle.set(b"3", &[8; 600], META, StoreMode::Set, now());
        assert!(is_stored(outcome), "an item is stored while a chunk is free: {outcome:?}");
        assert!(handle.delete(b"1", now()), "the item is found before and after the move");
        mover.join().expect("the mover does not panic");
        while engine.mover_step(8, now()) != MoverStep::Idle {}
        assert_eq!(read(&engine, b"2"), Some(vec![7; 600]));
        assert_eq!(read(&engine, b"3"), Some(vec![8; 600]));
        let stats = engine.stats(now());
        assert_eq!((stats.mover.moved, stats.items, stats.total.used_chunks), (1, 2, 2));
        engine.check();
    });
}

/// Returns a cache of one page of small chunks that evicts nothing.
fn engine_without_eviction() -> Arc<Engine> {
    engine_with(EngineConfig { eviction_enabled: false, ..config(1, &[512, 1024]) })
}

/// Stores items in all small chunks: the keys `a`, `b` and so on.
fn fill(handle: &mut Handle<'_>) {
    for key in 0..8 {
        handle.set(&[b'a' + key], &[key; 400], META, StoreMode::Set, now());
    }
}

/// Starts a thread that stores an item with a handle of its own.
fn store_in_thread(engine: &Arc<Engine>, key: &'static [u8]) -> thread::JoinHandle<StoreOutcome> {
    let engine = Arc::clone(engine);
    thread::spawn(move || engine.handle().set(key, &[8; 400], META, StoreMode::Set, now()))
}

/// The only free chunk of a cache without eviction is the spare chunk of a handle. This handle and another one need it.
#[test]
fn loom_a_spare_chunk_is_used_by_its_holder_or_by_another_handle() {
    explore(|| {
        let engine = engine_without_eviction();
        let mut handle = engine.handle();
        fill(&mut handle);
        assert!(handle.delete(b"a", now()), "the item was stored");
        assert_eq!(engine.space().spares.count(ClassId(0)), 1, "its chunk is spare");
        let other = store_in_thread(&engine, b"y");
        let own = handle.set(b"x", &[9; 400], META, StoreMode::Set, now());
        let other = other.join().expect("the other thread does not panic");
        assert!(is_stored(own) != is_stored(other), "{own:?}, {other:?}: one store gets the chunk");
        engine.check();
        drop(handle);
        engine.check();
    });
}

/// The only free chunks of a cache without eviction are two spare chunks of an idle handle. Two other handles need one
/// each.
#[test]
fn loom_two_handles_find_the_spare_chunks_of_an_idle_handle() {
    explore(|| {
        let engine = engine_without_eviction();
        let mut idle = engine.handle();
        fill(&mut idle);
        assert!(idle.delete(b"a", now()) && idle.delete(b"b", now()), "the items were stored");
        assert_eq!(engine.space().spares.count(ClassId(0)), 2, "their chunks are spare");
        let other = store_in_thread(&engine, b"y");
        let one = engine.handle().set(b"x", &[9; 400], META, StoreMode::Set, now());
        let other = other.join().expect("the other thread does not panic");
        assert!(is_stored(one) && is_stored(other), "{one:?}, {other:?}: both stores get a chunk");
        engine.check();
        drop(idle);
        engine.check();
    });
}

/// The chunk of a deleted item becomes spare while the cache changes to exact LRU order. The next store gets this chunk
/// and evicts nothing.
#[test]
fn loom_a_chunk_becomes_spare_during_a_change_to_exact_order() {
    explore(|| {
        let engine = engine(1, EvictionKind::Segmented);
        let mut handle = engine.handle();
        for key in 0..8 {
            handle.set(&[b'a' + key], &[key; 400], META, StoreMode::Set, now());
        }
        let changer = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || engine.set_segmented(false))
        };
        assert!(handle.delete(b"a", now()), "the item was stored");
        changer.join().expect("the other thread does not panic");
        engine.handle().set(b"x", &[9; 400], META, StoreMode::Set, now());
        let stats = engine.stats(now());
        assert_eq!((stats.items, stats.total.counters.evicted), (8, 0), "no item was evicted");
        engine.check();
        drop(handle);
        engine.check();
    });
}

#[test]
fn loom_a_page_drains_while_its_chunks_become_spare() {
    explore(|| {
        let engine = engine(2, EvictionKind::Segmented);
        let mut handle = engine.handle();
        for key in [b"1", b"2"] {
            handle.set(key, &[7; 400], META, StoreMode::Set, now());
        }
        let mover = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || {
                let begun = engine.reassign(Some(ClassId(0)), None, "test", now());
                begun.expect("the class has a page to move");
                while engine.mover_step(8, now()) == MoverStep::Working {}
            })
        };
        assert!(handle.delete(b"1", now()), "the item is found before and after the move");
        mover.join().expect("the mover does not panic");
        while engine.mover_step(8, now()) != MoverStep::Idle {}
        let stats = engine.stats(now());
        assert_eq!((stats.mover.moved, stats.items, stats.total.used_chunks), (1, 1, 1));
        assert_eq!(read(&engine, b"2"), Some(vec![7; 400]));
        engine.check();
    });
}

#[test]
fn loom_an_unpin_during_the_abort_of_a_move_frees_its_chunk() {
    explore(|| {
        let engine = engine_of(2, &[1024], EvictionKind::Segmented);
        let clock = Clock::manual();
        let before = clock.now();
        let mut handle = engine.handle();
        handle.set(b"1", &[7; 600], META, StoreMode::Set, before);
        let pin = handle.get(b"1", before, |view| view.pin()).flatten();
        let pin = pin.expect("the item is in the index and can be pinned");
        assert!(handle.delete(b"1", before), "the item is deleted while it is pinned");
        let begun = engine.reassign(Some(ClassId(0)), None, "test", before);
        begun.expect("the class has a page to move");
        clock.advance(Duration::from_secs(3));
        let late = clock.now();
        let mover = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || while engine.mover_step(8, late) == MoverStep::Working {})
        };
        drop(pin);
        mover.join().expect("the mover does not panic");
        let stats = engine.stats(late);
        assert_eq!(stats.mover.moved + stats.mover.aborted, 1, "the move is done or aborted");
        assert_eq!(stats.total.used_chunks, 0, "a deleted item without pins is freed");
        engine.check();
        let outcome = handle.set(b"2", &[8; 600], META, StoreMode::Set, late);
        assert!(
            is_stored(outcome),
            "the class can allocate after the move or its abort: {outcome:?}"
        );
        engine.check();
    });
}

#[test]
fn loom_lookups_during_bucket_splits_find_their_items() {
    explore(|| {
        let engine = engine(2, EvictionKind::Segmented);
        for key in [b"1", b"2", b"3"] {
            engine.handle().set(key, b"old", META, StoreMode::Set, now());
        }
        let grower = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || {
                // There are two stripes, which have two buckets each. A stripe splits a bucket when it has more items
                // than buckets. So with more than four items in all, at least one bucket is split.
                for key in [b"4", b"5", b"6"] {
                    engine.handle().set(key, b"new", META, StoreMode::Set, now());
                }
            })
        };
        assert_eq!(read(&engine, b"1").as_deref(), Some(&b"old"[..]));
        assert!(engine.handle().delete(b"2", now()), "the item is found");
        assert_eq!(read(&engine, b"3").as_deref(), Some(&b"old"[..]));
        grower.join().expect("the grower does not panic");
        assert!(engine.space().index.bucket_count() > 4, "a bucket was split");
        for key in [b"4", b"5", b"6"] {
            assert_eq!(read(&engine, key).as_deref(), Some(&b"new"[..]));
        }
        engine.check();
    });
}

/// A store needs memory, so it begins to move a page whose item is pinned. Meanwhile another thread aborts this move
/// and begins a move of its own.
#[test]
fn loom_a_store_that_takes_a_page_aborts_only_its_own_move() {
    explore(|| {
        let engine = engine_of(2, &[256, 512, 1024], EvictionKind::Segmented);
        let clock = Clock::manual();
        let (small, before) = (ClassId(0), clock.now());
        for (key, len) in [(b"f", 100), (b"h", 300)] {
            let outcome = engine.handle().set(key, &vec![7; len], META, StoreMode::Set, before);
            assert!(is_stored(outcome), "there is a page for each class: {outcome:?}");
        }
        clock.advance(Duration::from_secs(3));
        let now = clock.now();
        let mut handle = engine.handle();
        let pin = handle.get(b"h", before, |view| view.pin()).flatten();
        let pin = pin.expect("the item is in the index and can be pinned");
        // Both items are now equally old, and the mover takes a page of the class with larger chunks.
        assert!(read(&engine, b"f").is_some());
        let storer = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || {
                engine.handle().set(b"l", &[7; 700], META, StoreMode::Set, before);
            })
        };
        engine.mover_step(8, now);
        let has_begun = engine.reassign(Some(small), None, "test", now).is_ok();
        engine.mover_step(8, now);
        storer.join().expect("the storer does not panic");
        // The store gives up only moves that it has begun itself.
        let log = engine.move_log();
        let second = log.iter().filter(|it| it.reason == "test").map(|it| it.outcome);
        assert_eq!(Vec::from_iter(second), vec![MoveOutcome::Moved; usize::from(has_begun)]);
        drop(pin);
        drop(handle);
        engine.check();
    });
}

/// Stores an item after a flush with the CAS value `before`. Then increments the item with the CAS value `after`, while
/// the maintainer removes flushed items. Panics if the maintainer removes the item. `None` means that the engine
/// assigns the CAS value.
fn explore_cas_change_after_flush(before: Option<u64>, after: Option<u64>) {
    explore(move || {
        let engine = engine(1, EvictionKind::Segmented);
        engine.handle().set(b"k", b"0", META, StoreMode::Set, now());
        engine.flush_all(None, now());
        let conditions = StoreConditions { new_cas: before, ..StoreMode::Set.into() };
        engine.handle().set_if(b"k", b"1", META, &conditions, now());
        let maintainer = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || engine.maintain_step(1, now()))
        };
        let conditions = ArithmeticConditions { new_cas: after, ..ArithmeticConditions::default() };
        engine.handle().arithmetic(b"k", Delta::Increment(1), &conditions, now());
        maintainer.join().expect("the maintainer does not panic");
        let value = read(&engine, b"k");
        let expected = Some(&b"2"[..]);
        assert_eq!(value.as_deref(), expected, "an item that was stored after a flush is kept");
        engine.check();
    });
}

#[test]
fn loom_an_item_with_a_new_client_supplied_cas_value_is_not_removed_as_flushed() {
    explore_cas_change_after_flush(None, Some(1));
}

#[test]
fn loom_an_item_with_a_new_assigned_cas_value_is_not_removed_as_flushed() {
    explore_cas_change_after_flush(Some(1), None);
}

/// Changes an item by `change` while a flush invalidates it. Panics if the item survives: the change may happen before
/// the flush, or find no item after it.
fn explore_change_during_flush(change: fn(&mut Handle<'_>)) {
    explore(move || {
        let engine = engine(1, EvictionKind::Segmented);
        engine.handle().set(b"k", b"1", META, StoreMode::Set, now());
        let flush = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || engine.flush_all(None, now()))
        };
        change(&mut engine.handle());
        flush.join().expect("the flush does not panic");
        assert_eq!(read(&engine, b"k"), None, "the item must not survive the flush");
        engine.check();
    });
}

#[test]
fn loom_an_incremented_item_does_not_survive_a_flush() {
    explore_change_during_flush(|handle| {
        handle.arithmetic(b"k", Delta::Increment(1), &ArithmeticConditions::default(), now());
    });
}

#[test]
fn loom_an_appended_item_does_not_survive_a_flush() {
    explore_change_during_flush(|handle| {
        handle.set(b"k", b"2", META, StoreMode::Append, now());
    });
}

#[test]
fn loom_an_item_with_a_chosen_cas_value_does_not_survive_a_flush() {
    explore_change_during_flush(|handle| {
        let conditions = ArithmeticConditions { new_cas: Some(7), ..Default::default() };
        handle.arithmetic(b"k", Delta::Increment(1), &conditions, now());
    });
}
