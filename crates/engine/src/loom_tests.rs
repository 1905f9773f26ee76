//! All interleavings of two threads in the whole engine, up to a bound of preemptions.
//!
//! Run by `RUSTFLAGS="--cfg loom" cargo test -p slabwise-engine --release --lib loom`.

use crate::{
    ArithmeticConditions, ClassTable, Delta, Engine, EngineConfig, EvictionKind, ItemMeta,
    MoverKind, MoverStep, StoreConditions, StoreMode, StoreOutcome,
};
use loom::sync::Arc;
use loom::thread;
use slabwise_base::{ClassId, Clock, Now};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const META: ItemMeta =
    ItemMeta { client_flags: 0, expiry: slabwise_base::Expiry::NEVER, cost: None };

/// An engine with `pages` pages and chunks of 512 and 1024 bytes.
fn engine(pages: u64, eviction: EvictionKind) -> Arc<Engine> {
    engine_of(pages, &[512, 1024], eviction)
}

fn engine_of(pages: u64, chunk_sizes: &[usize], eviction: EvictionKind) -> Arc<Engine> {
    engine_with(EngineConfig { eviction, ..config(pages, chunk_sizes) })
}

fn config(pages: u64, chunk_sizes: &[usize]) -> EngineConfig {
    let page_size_bytes = 4096;
    let mut config = EngineConfig::new(pages * page_size_bytes);
    config.page_size_bytes = page_size_bytes as usize;
    config.classes = ClassTable::explicit(chunk_sizes, 4096).expect("a valid table");
    config
}

fn engine_with(config: EngineConfig) -> Arc<Engine> {
    Arc::new(Engine::new(config).expect("the model's arena has no limit"))
}

/// Runs the model in all interleavings. Fails if there is only one.
fn explore(model: impl Fn() + Sync + Send + 'static) {
    let runs = std::sync::Arc::new(AtomicU64::new(0));
    let counted = std::sync::Arc::clone(&runs);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    // A page move reads many state words, so that an interleaving has many steps.
    builder.max_branches = 4_000;
    builder.check(move || {
        counted.fetch_add(1, Relaxed);
        model();
    });
    let runs = runs.load(Relaxed);
    println!("{runs} interleavings");
    assert!(runs > 1, "loom explored only one interleaving");
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
        let seen = read(&engine, b"k").expect("the key always holds something");
        assert!(seen == b"aa" || seen == b"bb", "{seen:?}");
        writer.join().expect("the writer ends");
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
        assert!(deleter.join().expect("the deleter ends"), "it was there");
        assert_eq!(engine.stats(now()).total.used_chunks, 0, "no pins are left");
        engine.check();
    });
}

#[test]
fn loom_an_eviction_races_with_a_delete_of_its_victim() {
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
        evicter.join().expect("the evicter ends");
        assert_eq!(read(&engine, b"1"), None);
        assert!(read(&engine, b"5").is_some());
        engine.check();
    });
}

#[test]
fn loom_a_page_move_races_with_an_increment() {
    explore(|| {
        let engine = engine(2, EvictionKind::Segmented);
        engine.handle().set(b"n", b"41", META, StoreMode::Set, now());
        let small = engine.config().classes.ids().next().expect("a class");
        let mover = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || {
                engine.reassign(Some(small), None, "test", now()).expect("one page to move");
                for _ in 0..4 {
                    if engine.mover_step(8, now()) == MoverStep::Done {
                        break;
                    }
                }
            })
        };
        engine.handle().arithmetic(b"n", Delta::Increment(1), &Default::default(), now());
        mover.join().expect("the mover ends");
        assert_eq!(read(&engine, b"n").as_deref(), Some(&b"42"[..]), "a move loses no update");
        engine.check();
    });
}

#[test]
fn loom_a_pinned_item_is_moved_while_it_is_unpinned() {
    explore(|| {
        let engine = engine_with(EngineConfig { mover: MoverKind::STOCK, ..config(2, &[512]) });
        // Eight items fill one page, and one is on the other. Deletes leave one item on the first page.
        for key in 0..9 {
            engine.handle().set(&[b'a' + key], &[key; 400], META, StoreMode::Set, now());
        }
        for key in 1..8 {
            assert!(engine.handle().delete(&[b'a' + key], now()), "all were stored");
        }
        let mut handle = engine.handle();
        let held = handle.get(b"a", now(), |view| view.pin()).flatten().expect("it is there");
        let mover = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || {
                engine.reassign(Some(ClassId(0)), None, "test", now()).expect("a page to move");
                engine.mover_step(8, now());
            })
        };
        assert!(held.value().flatten().all(|&byte| byte == 0), "pinned bytes do not change");
        drop(held);
        let value = handle.get(b"a", now(), |view| view.value().flatten().count());
        assert_eq!(value, Some(400), "it is found on either page");
        mover.join().expect("the mover ends");
        while engine.mover_step(8, now()) != MoverStep::Idle {}
        let stats = engine.stats(now());
        assert_eq!((stats.mover.moved, stats.items, stats.total.used_chunks), (1, 2, 2));
        drop(handle);
        engine.check();
    });
}

#[test]
fn loom_a_page_drains_while_its_class_allocates_and_frees() {
    explore(|| {
        let engine = engine_of(3, &[1024], EvictionKind::Segmented);
        for key in [b"1", b"2"] {
            engine.handle().set(key, &[7; 600], META, StoreMode::Set, now());
        }
        let mover = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || {
                engine.reassign(Some(ClassId(0)), None, "test", now()).expect("a page to move");
                while engine.mover_step(8, now()) == MoverStep::Working {}
            })
        };
        let mut handle = engine.handle();
        let outcome = handle.set(b"3", &[8; 600], META, StoreMode::Set, now());
        assert!(matches!(outcome, StoreOutcome::Stored { .. }), "there is room: {outcome:?}");
        assert!(handle.delete(b"1", now()), "it is found before and after the move");
        mover.join().expect("the mover ends");
        while engine.mover_step(8, now()) != MoverStep::Idle {}
        assert_eq!(read(&engine, b"2"), Some(vec![7; 600]));
        assert_eq!(read(&engine, b"3"), Some(vec![8; 600]));
        let stats = engine.stats(now());
        assert_eq!((stats.mover.moved, stats.items, stats.total.used_chunks), (1, 2, 2));
        engine.check();
    });
}

#[test]
fn loom_a_move_is_aborted_while_the_last_unpin_frees_a_chunk() {
    explore(|| {
        let engine = engine_of(2, &[1024], EvictionKind::Segmented);
        let clock = Clock::manual();
        let before = clock.now();
        let mut handle = engine.handle();
        handle.set(b"1", &[7; 600], META, StoreMode::Set, before);
        let held = handle.get(b"1", before, |view| view.pin()).flatten().expect("it is there");
        assert!(handle.delete(b"1", before));
        engine.reassign(Some(ClassId(0)), None, "test", before).expect("a page to move");
        clock.advance(Duration::from_secs(3));
        let late = clock.now();
        let mover = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || while engine.mover_step(8, late) == MoverStep::Working {})
        };
        drop(held);
        mover.join().expect("the mover ends");
        let stats = engine.stats(late);
        assert_eq!(stats.mover.moved + stats.mover.aborted, 1, "the move is done or aborted");
        assert_eq!(stats.total.used_chunks, 0, "no pins are left");
        engine.check();
        // The class can allocate in both cases.
        let outcome = handle.set(b"2", &[8; 600], META, StoreMode::Set, late);
        assert!(matches!(outcome, StoreOutcome::Stored { .. }), "{outcome:?}");
        engine.check();
    });
}

#[test]
fn loom_lookups_race_with_bucket_splits() {
    explore(|| {
        let engine = engine(2, EvictionKind::Segmented);
        for key in [b"1", b"2", b"3"] {
            engine.handle().set(key, b"old", META, StoreMode::Set, now());
        }
        let grower = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || {
                // With two stripes of two buckets, more than four items split some.
                for key in [b"4", b"5", b"6"] {
                    engine.handle().set(key, b"new", META, StoreMode::Set, now());
                }
            })
        };
        assert_eq!(read(&engine, b"1").as_deref(), Some(&b"old"[..]));
        assert!(engine.handle().delete(b"2", now()), "it was stored");
        assert_eq!(read(&engine, b"3").as_deref(), Some(&b"old"[..]));
        grower.join().expect("the grower ends");
        assert!(engine.space().index.bucket_count() > 4, "a bucket was split");
        for key in [b"4", b"5", b"6"] {
            assert_eq!(read(&engine, key).as_deref(), Some(&b"new"[..]));
        }
        engine.check();
    });
}

/// A store without memory tries to take a page whose item is pinned, while another thread aborts that move and begins
/// its own.
#[test]
fn loom_a_store_that_takes_a_page_aborts_only_its_own_move() {
    explore(|| {
        let engine = engine_of(2, &[256, 512, 1024], EvictionKind::Segmented);
        let clock = Clock::manual();
        let (free, before) = (ClassId(0), clock.now());
        for (key, len) in [(b"f", 100), (b"h", 300)] {
            let outcome = engine.handle().set(key, &vec![7; len], META, StoreMode::Set, before);
            assert!(matches!(outcome, StoreOutcome::Stored { .. }), "each class has a page");
        }
        clock.advance(Duration::from_secs(3));
        let now = clock.now();
        let mut handle = engine.handle();
        let held = handle.get(b"h", before, |view| view.pin()).flatten().expect("it is there");
        let storer = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || {
                engine.handle().set(b"l", &[7; 700], META, StoreMode::Set, before);
            })
        };
        engine.mover_step(8, now);
        let begun = engine.reassign(Some(free), None, "test", now).is_ok();
        engine.mover_step(8, now);
        storer.join().expect("the storer ends");
        let mover = engine.stats(now).mover;
        assert_eq!(mover.moved, u64::from(begun), "the begun move was completed: {mover:?}");
        drop(held);
        drop(handle);
        engine.check();
    });
}

/// Stores an item after a flush, and increments it with another kind of CAS value while the maintainer removes
/// flushed items.
fn an_item_stored_after_a_flush_survives_a_cas_change(before: Option<u64>, after: Option<u64>) {
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
        maintainer.join().expect("the maintainer ends");
        assert_eq!(
            read(&engine, b"k").as_deref(),
            Some(&b"2"[..]),
            "it was stored after the flush"
        );
        engine.check();
    });
}

#[test]
fn loom_a_client_supplied_cas_does_not_make_an_item_flushed() {
    an_item_stored_after_a_flush_survives_a_cas_change(None, Some(1));
}

#[test]
fn loom_an_assigned_cas_does_not_make_an_item_flushed() {
    an_item_stored_after_a_flush_survives_a_cas_change(Some(1), None);
}
