//! The eviction observer receives every eviction once, with the last state of the item. The last test checks that
//! `inspect` has no effect.

mod support;

use slabwise_base::{Clock, Expiry, Random, Seconds};
use slabwise_engine::{
    Engine, Eviction, EvictionObserver, ItemInfo, ItemMeta, MoverStep, StoreMode, Validity,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::small_engine;

/// The data of one eviction, as the observer received them.
#[derive(Clone, Debug, PartialEq)]
struct Observed {
    key: Vec<u8>,
    value_len: usize,
    expiry: Expiry,
    last_access: Seconds,
    fetched: bool,
}

/// An eviction observer that records every eviction.
#[derive(Default)]
struct Recorder(Mutex<Vec<Observed>>);

impl EvictionObserver for Recorder {
    fn evicted(&self, eviction: &Eviction<'_>) {
        self.0.lock().expect("no thread has panicked while it held the lock").push(Observed {
            key: eviction.key.to_vec(),
            value_len: eviction.value_len,
            expiry: eviction.expiry,
            last_access: eviction.last_access,
            fetched: eviction.fetched,
        });
    }
}

/// Returns an engine with this number of pages, and the recorder of its evictions. The observation is disabled.
fn observed_engine(pages: u64) -> (Engine, Arc<Recorder>) {
    let engine = small_engine(pages);
    let recorder = Arc::new(Recorder::default());
    engine.observers().set_eviction_observer(Arc::clone(&recorder) as Arc<dyn EvictionObserver>);
    (engine, recorder)
}

#[test]
fn an_eviction_is_reported_with_the_last_state_of_the_item() {
    let (engine, recorder) = observed_engine(1);
    let clock = Clock::manual();
    let mut handle = engine.handle();
    let expiry = Expiry::at(Seconds(1_000));
    let meta = ItemMeta { client_flags: 7, expiry, cost: None };
    handle.set(b"victim", b"12345", meta, StoreMode::Set, clock.now());
    assert!(handle.get(b"victim", clock.now(), |_| ()).is_some());
    let fill = |from: u32, count: u32| {
        let mut handle = engine.handle();
        for number in from..from + count {
            let key = format!("k{number:07}");
            handle.set(key.as_bytes(), b"v", ItemMeta::default(), StoreMode::Set, clock.now());
        }
    };
    fill(0, 200);
    assert!(
        engine.stats(clock.now()).total.counters.evicted > 0,
        "the stores have filled the memory"
    );
    assert_eq!(
        *recorder.0.lock().expect("no thread has panicked while it held the lock"),
        [],
        "no eviction is recorded while the observation is disabled"
    );

    // The victim is stored again, so all other items are older.
    clock.advance(Duration::from_secs(2));
    handle.set(b"victim", b"12345", meta, StoreMode::Set, clock.now());
    let stored_at = clock.now().seconds;
    clock.advance(Duration::from_secs(2));
    engine.observers().observe_evictions(true);
    let before = engine.stats(clock.now()).total.counters.evicted;
    fill(1_000, 300);
    let evicted = engine.stats(clock.now()).total.counters.evicted - before;
    let seen = std::mem::take(
        &mut *recorder.0.lock().expect("no thread has panicked while it held the lock"),
    );
    assert_eq!(seen.len() as u64, evicted, "each eviction is recorded once");
    let victim = Observed {
        key: b"victim".to_vec(),
        value_len: 5,
        expiry,
        last_access: stored_at,
        fetched: false,
    };
    assert!(seen.contains(&victim), "the eviction of {victim:?} must be recorded: {seen:?}");

    engine.observers().observe_evictions(false);
    fill(2_000, 300);
    assert_eq!(*recorder.0.lock().expect("no thread has panicked while it held the lock"), []);
}

#[test]
fn the_removal_of_expired_items_is_not_observed_but_evictions_by_the_mover_are() {
    let (engine, recorder) = observed_engine(2);
    let clock = Clock::manual();
    engine.observers().observe_evictions(true);
    let mut handle = engine.handle();
    let ends = ItemMeta { client_flags: 0, expiry: Expiry::at(Seconds(10)), cost: None };
    for number in 0..300 {
        let key = format!("e{number:07}");
        handle.set(key.as_bytes(), b"v", ends, StoreMode::Set, clock.now());
    }
    let evicted_at_first = engine.stats(clock.now()).total.counters.evicted;
    recorder.0.lock().expect("no thread has panicked while it held the lock").clear();
    clock.advance(Duration::from_secs(20));
    for number in 0..200 {
        let key = format!("k{number:07}");
        handle.set(key.as_bytes(), b"v", ItemMeta::default(), StoreMode::Set, clock.now());
    }
    assert_eq!(
        *recorder.0.lock().expect("no thread has panicked while it held the lock"),
        [],
        "expired items are removed without evictions"
    );
    let small = engine.config().classes.ids().next();
    let large = engine.config().classes.ids().nth(1);
    engine.reassign(small, large, "test", clock.now()).expect("the class has a page to move");
    while engine.mover_step(64, clock.now()) == MoverStep::Working {}
    let evicted = engine.stats(clock.now()).total.counters.evicted - evicted_at_first;
    assert!(evicted > 0, "the move of a page of a full class evicts items");
    assert_eq!(
        recorder.0.lock().expect("no thread has panicked while it held the lock").len() as u64,
        evicted
    );
}

#[test]
fn inspect_changes_nothing_and_finds_expired_and_flushed_items() {
    let (engine, _) = observed_engine(64);
    let clock = Clock::manual();
    let seed = 7;
    let mut random = Random::new(seed);
    let mut handle = engine.handle();
    for number in 0..200 {
        let key = format!("k{number}");
        let value = vec![b'v'; random.below(3_000) as usize];
        let expiry = match random.below(3) {
            0 => Expiry::NEVER,
            1 => Expiry::at(Seconds(5)),
            _ => Expiry::at(Seconds(500)),
        };
        let meta = ItemMeta { client_flags: random.below(2) as u32, expiry, cost: None };
        let mut reservation = handle
            .reserve(key.as_bytes(), value.len(), meta, clock.now())
            .expect("there is memory");
        let announced = reservation.inspect();
        assert_eq!(reservation.fill(&value), value.len());
        handle.store(reservation, StoreMode::Set, clock.now());
        let seen = handle.inspect(key.as_bytes(), clock.now()).expect("the item is stored");
        assert_eq!(seen, announced, "seed {seed}: the stored item has the announced properties");
        assert_eq!(
            (seen.value_len, seen.expiry),
            (value.len(), expiry),
            "seed {seed}: inspect returns the stored length and expiry"
        );
    }
    clock.advance(Duration::from_secs(10));
    let before = engine.stats(clock.now());
    for number in 0..200 {
        let key = format!("k{number}");
        let ItemInfo { expiry, validity, .. } =
            handle.inspect(key.as_bytes(), clock.now()).expect("inspect removes no item");
        let ended = expiry == Expiry::at(Seconds(5));
        assert_eq!(
            validity,
            if ended { Validity::Expired } else { Validity::Live },
            "seed {seed}: the validity of {key}"
        );
    }
    assert_eq!(engine.stats(clock.now()), before, "inspect counts nothing and removes no item");
    engine.flush_all(None, clock.now());
    let before = engine.stats(clock.now());
    assert_eq!(
        handle.inspect(b"k0", clock.now()).expect("the item is stored").validity,
        Validity::Flushed
    );
    assert_eq!(handle.inspect(b"none", clock.now()), None);
    assert_eq!(engine.stats(clock.now()), before, "inspect counts nothing and removes no item");
}
