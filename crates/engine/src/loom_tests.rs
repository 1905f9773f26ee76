//! Every interleaving of two threads in the whole engine, up to a bound of preemptions.
//!
//! Run by `RUSTFLAGS="--cfg loom" cargo test -p slabwise-engine --release --lib loom`.

use crate::{
    ArithmeticConditions, ClassTable, Delta, Engine, EngineConfig, EvictionKind, ItemMeta,
    MoverStep, StoreConditions, StoreMode,
};
use loom::sync::Arc;
use loom::thread;
use slabwise_base::{Clock, Now};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const META: ItemMeta = ItemMeta { client_flags: 0, expiry: slabwise_base::Expiry::NEVER };

/// A tiny engine: two classes of one to four chunks a page, `pages` pages.
fn engine(pages: u64, eviction: EvictionKind) -> Arc<Engine> {
    let page_size_bytes = 4096;
    let mut config = EngineConfig::new(pages * page_size_bytes);
    config.page_size_bytes = page_size_bytes as usize;
    config.classes = ClassTable::explicit(&[512, 1024], 4096).expect("a valid table");
    config.eviction = eviction;
    Arc::new(Engine::new(config).expect("the model's arena has no limit"))
}

/// Runs the model in every order; a model that has only one explores nothing, and fails.
fn explore(model: impl Fn() + Sync + Send + 'static) {
    let runs = std::sync::Arc::new(AtomicU64::new(0));
    let counted = std::sync::Arc::clone(&runs);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
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
        engine.handle().arithmetic(b"n", Delta::Increment(1), now());
        mover.join().expect("the mover ends");
        assert_eq!(read(&engine, b"n").as_deref(), Some(&b"42"[..]), "nothing is lost in a move");
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
        engine.handle().arithmetic_if(b"k", Delta::Increment(1), &conditions, now());
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
