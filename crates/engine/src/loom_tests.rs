//! Every interleaving of two threads in the whole engine, up to a bound of preemptions.
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

/// A tiny engine: two classes of one to four chunks a page, `pages` pages.
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

/// Runs the model in every order; a model that has only one explores nothing, and fails.
fn explore(model: impl Fn() + Sync + Send + 'static) {
    let runs = std::sync::Arc::new(AtomicU64::new(0));
    let counted = std::sync::Arc::clone(&runs);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    // Steps of one order: a page that is moved reads many state words.
    builder.max_branches = 4_000;
    builder.check(move || {
        counted.fetch_add(1, Relaxed);
        model();
    });
    let runs = runs.load(Relaxed);
    println!("{runs} orders");
    assert!(runs > 1, "nothing was explored");
}

fn now() -> Now {
    Clock::manual().now()
}

fn read(engine: &Engine, key: &[u8]) -> Option<Vec<u8>> {
    engine.handle().get(key, now(), |view| view.value().flatten().copied().collect())
}

#[test]
fn loom_a_get_sees_a_whole_value_while_it_is_replaced() {
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
fn loom_a_pin_outlives_a_delete_and_the_last_holder_frees() {
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
        assert_eq!(engine.stats(now()).total.used_chunks, 0, "nobody holds it any more");
        engine.check();
    });
}

#[test]
fn loom_an_eviction_meets_a_delete_of_its_victim() {
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
fn loom_a_page_move_meets_a_get_and_a_number() {
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
        assert_eq!(read(&engine, b"n").as_deref(), Some(&b"42"[..]), "nothing is lost in a move");
        engine.check();
    });
}

#[test]
fn loom_a_held_item_is_carried_while_its_holder_lets_go() {
    explore(|| {
        let engine = engine_with(EngineConfig { mover: MoverKind::STOCK, ..config(2, &[512]) });
        // Eight fill a page, and one is on the other; one is left on the first.
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
        assert!(held.value().flatten().all(|&byte| byte == 0), "held bytes stand still");
        drop(held);
        let value = handle.get(b"a", now(), |view| view.value().flatten().count());
        assert_eq!(value, Some(400), "it is found wherever it is");
        mover.join().expect("the mover ends");
        while engine.mover_step(8, now()) != MoverStep::Idle {}
        let stats = engine.stats(now());
        assert_eq!((stats.mover.moved, stats.items, stats.total.used_chunks), (1, 2, 2));
        drop(handle);
        engine.check();
    });
}

#[test]
fn loom_a_page_drains_while_its_class_takes_and_frees_chunks() {
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
        assert!(handle.delete(b"1", now()), "it was carried, or not yet");
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
fn loom_a_page_is_handed_back_while_the_last_holder_frees_a_chunk_of_it() {
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
        let impatient = clock.now();
        let mover = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || while engine.mover_step(8, impatient) == MoverStep::Working {})
        };
        drop(held);
        mover.join().expect("the mover ends");
        let stats = engine.stats(impatient);
        assert_eq!(stats.mover.moved + stats.mover.aborted, 1, "carried out, or given up");
        assert_eq!(stats.total.used_chunks, 0, "nobody holds it any more");
        engine.check();
        // Handed back or gone: the class takes chunks either way.
        let outcome = handle.set(b"2", &[8; 600], META, StoreMode::Set, impatient);
        assert!(matches!(outcome, StoreOutcome::Stored { .. }), "{outcome:?}");
        engine.check();
    });
}

#[test]
fn loom_a_look_up_meets_buckets_that_split() {
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

/// A store without memory tries in vain to seize a page whose item is held, while another thread gives
/// that move up and begins one of its own.
#[test]
fn loom_a_store_that_seizes_a_page_gives_up_no_move_but_its_own() {
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
        assert_eq!(mover.moved, u64::from(begun), "what was begun was carried out: {mover:?}");
        drop(held);
        drop(handle);
        engine.check();
    });
}

/// After a flush, a number is given a CAS value of another kind while the maintainer looks for what the
/// flush ended.
fn a_flush_is_over_when_the_cas_changes(before: Option<u64>, after: Option<u64>) {
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
fn loom_a_living_item_never_looks_flushed_while_a_client_gives_its_cas() {
    a_flush_is_over_when_the_cas_changes(None, Some(1));
}

#[test]
fn loom_a_living_item_never_looks_flushed_while_the_engine_gives_its_cas() {
    a_flush_is_over_when_the_cas_changes(Some(1), None);
}
