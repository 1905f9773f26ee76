//! The access observer receives each access to a key in the sample once, with the right kind and class.

mod support;

use slabwise_base::sampling::{THRESHOLD_ALL, THRESHOLD_NONE, is_sampled, rate_of, threshold_of};
use slabwise_base::{ClassId, Clock, Expiry, KeyHasher, Random, Seconds};
use slabwise_engine::AccessKind::{Delete, Hit, Miss, Store, Touch};
use slabwise_engine::{
    AccessKind, AccessObserver, ArithmeticConditions, ClassStats, CrawlStep, Crawler, Delta,
    Engine, GetOptions, Initial, ItemMeta, KeyAccess, Replacement, StoreConditions, StoreMode,
    Vivify,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{PAGE_SIZE_BYTES, small_engine};

const SMALL: Option<ClassId> = Some(ClassId(0));
const LARGE: Option<ClassId> = Some(ClassId(1));
const META: ItemMeta = ItemMeta { client_flags: 0, expiry: Expiry::NEVER, cost: None };

/// An access observer that records every access.
#[derive(Default)]
struct Recorder(Mutex<Vec<KeyAccess>>);

impl AccessObserver for Recorder {
    fn accessed(&self, access: &KeyAccess) {
        self.0.lock().expect("no thread has panicked while it held the lock").push(*access);
    }
}

impl Recorder {
    /// Returns the accesses since the last call.
    fn take(&self) -> Vec<KeyAccess> {
        std::mem::take(&mut *self.0.lock().expect("no thread has panicked while it held the lock"))
    }

    /// Returns the accesses since the last call. Panics if one of them is to another key.
    fn of(&self, engine: &Engine, key: &[u8]) -> Vec<(AccessKind, Option<ClassId>)> {
        let hash = KeyHasher::new(engine.config().hash_seed).hash(key);
        let observed = |access: KeyAccess| {
            assert_eq!(access.hash, hash, "all accesses are to the same key: {access:?}");
            let is_of_item = matches!(access.kind, Hit | Store | Touch);
            assert_eq!(access.size_bytes > 0, is_of_item, "the size of an item: {access:?}");
            (access.kind, access.class)
        };
        self.take().into_iter().map(observed).collect()
    }
}

/// Returns an engine with this number of pages, and the recorder of the accesses to all its keys.
fn observed_engine(pages: u64) -> (Engine, Arc<Recorder>) {
    let engine = small_engine(pages);
    let recorder = Arc::new(Recorder::default());
    engine.observers().set_access_observer(Arc::clone(&recorder) as Arc<dyn AccessObserver>);
    engine.observers().sample_accesses(THRESHOLD_ALL);
    (engine, recorder)
}

#[test]
fn every_get_that_marks_its_item_is_reported_as_a_hit_or_miss() {
    let (engine, recorder) = observed_engine(8);
    let now = Clock::manual().now();
    let mut handle = engine.handle();
    let later = Expiry::at(Seconds(1_000));
    let touching = GetOptions { touch: Some(later), ..GetOptions::default() };
    let unmarked = GetOptions { marks: false, ..GetOptions::default() };
    let observed = || recorder.of(&engine, b"k");

    assert!(handle.get(b"k", now, |_| ()).is_none());
    assert_eq!(observed(), [(Miss, None)]);
    for options in [GetOptions::default(), touching] {
        assert_eq!(handle.get_with(b"k", &options, now, |_, _| ()), Ok(None));
        assert_eq!(observed(), [(Miss, None)]);
    }
    assert_eq!(handle.get_and_touch(b"k", later, now, |_| ()), Ok(None));
    assert_eq!(observed(), [(Miss, None)]);
    assert_eq!(handle.touch(b"k", later, now), Ok(false));
    assert_eq!(handle.get_with(b"k", &unmarked, now, |_, _| ()), Ok(None));
    assert_eq!(observed(), [], "a touch that misses and a get that marks nothing are not reported");

    handle.set(b"k", b"1", META, StoreMode::Set, now);
    assert_eq!(observed(), [(Store, SMALL)]);
    assert!(handle.get(b"k", now, |_| ()).is_some());
    assert_eq!(observed(), [(Hit, SMALL)]);
    // The item has no expiry field, so the touch replaces the item by a copy. The observer does not receive a store.
    assert_eq!(handle.get_and_touch(b"k", later, now, |_| ()), Ok(Some(())));
    assert_eq!(observed(), [(Hit, SMALL)]);
    for options in [GetOptions::default(), touching] {
        assert_eq!(handle.get_with(b"k", &options, now, |_, _| ()), Ok(Some(())));
        assert_eq!(observed(), [(Hit, SMALL)]);
    }
    assert_eq!(handle.touch(b"k", later, now), Ok(true));
    assert_eq!(observed(), [(Touch, SMALL)]);
    assert_eq!(handle.get_with(b"k", &unmarked, now, |_, _| ()), Ok(Some(())));
    assert!(handle.peek(b"k", now, |_| ()).is_some());
    assert!(handle.inspect(b"k", now).is_some());
    assert_eq!(observed(), []);

    handle.get(b"k", now, |_| ()).expect("the key has an item");
    let sizes: Vec<u32> = recorder.take().iter().map(|access| access.size_bytes).collect();
    let known = engine.item_sizes().bins().map(|bin| bin.size_bytes as u32).collect::<Vec<_>>();
    assert_eq!(sizes, known, "the reported size is that of the only item");

    let vivify = Some(Vivify { expiry: later, cas: None });
    let options = GetOptions { vivify, ..GetOptions::default() };
    assert_eq!(handle.get_with(b"v", &options, now, |_, effects| effects.is_new), Ok(Some(true)));
    assert_eq!(recorder.of(&engine, b"v"), [(Miss, None)]);
    assert_eq!(handle.get_with(b"v", &options, now, |_, effects| effects.is_new), Ok(Some(false)));
    assert_eq!(recorder.of(&engine, b"v"), [(Hit, SMALL)]);
    // The gets that create an item or mark nothing are also counted as gets.
    assert_eq!((engine.gets_ever(), engine.misses_ever()), (13, 5));
}

#[test]
fn the_reported_hits_of_each_class_equal_its_hit_counters() {
    for seed in 0..10 {
        let (engine, recorder) = observed_engine(8);
        let now = Clock::manual().now();
        let mut random = Random::new(seed);
        let mut handle = engine.handle();
        let later = Expiry::at(Seconds(1_000));
        let mut observed = [0; 2];
        for _ in 0..2_000 {
            let key = format!("k{}", random.below(60));
            let key = key.as_bytes();
            match random.below(4) {
                0 => drop(handle.get(key, now, |_| ())),
                1 => drop(handle.get_and_touch(key, later, now, |_| ()).expect("there is memory")),
                2 => {
                    let vivify = Some(Vivify { expiry: later, cas: None });
                    let options = GetOptions {
                        touch: (random.below(2) == 0).then_some(later),
                        vivify: vivify.filter(|_| random.below(2) == 0),
                        marks: random.below(2) == 0,
                    };
                    handle.get_with(key, &options, now, |_, _| ()).expect("there is memory");
                }
                _ => {
                    let value_len = random.below(2) as usize * 400;
                    handle.set(key, &vec![b'v'; value_len], META, StoreMode::Set, now);
                }
            }
            for access in recorder.take() {
                if let (Hit, Some(class)) = (access.kind, access.class) {
                    observed[class.index()] += 1;
                }
            }
        }
        let counted: Vec<u64> =
            engine.class_stats(now).iter().map(ClassStats::reported_hits).collect();
        assert_eq!(counted[..2], observed, "seed {seed}: all counted hits are reported");
        assert!(observed.iter().all(|&hits| hits > 0), "seed {seed}: each class must have hits");
    }
}

#[test]
fn a_store_is_reported_once_and_a_refused_store_is_not() {
    let (engine, recorder) = observed_engine(8);
    let now = Clock::manual().now();
    let mut handle = engine.handle();
    let observed = || recorder.of(&engine, b"k");
    for mode in [StoreMode::Replace, StoreMode::Append, StoreMode::Cas(1)] {
        handle.set(b"k", b"1", META, mode, now);
    }
    assert_eq!(observed(), []);
    for mode in [StoreMode::Add, StoreMode::Set, StoreMode::Replace] {
        handle.set(b"k", b"1", META, mode, now);
        assert_eq!(observed(), [(Store, SMALL)], "{mode:?} is reported as a store");
    }
    for mode in [StoreMode::Append, StoreMode::Prepend] {
        handle.set(b"k", &[b'1'; 400], META, mode, now);
        assert_eq!(
            observed(),
            [(Store, LARGE)],
            "{mode:?} is reported in the class of the new item"
        );
    }
    handle.set(b"k", b"1", META, StoreMode::Add, now);
    handle.set(b"k", b"1", META, StoreMode::Cas(0), now);
    assert_eq!(observed(), []);
    let stale = StoreConditions { stale_allowed: true, ..StoreMode::Cas(0).into() };
    handle.set_if(b"k", b"9", META, &stale, now);
    assert_eq!(observed(), [(Store, SMALL)]);
    handle.arithmetic(b"k", Delta::Decrement(1), &Default::default(), now);
    assert_eq!(
        observed(),
        [(Touch, SMALL)],
        "a number that is changed in place is reported as a touch"
    );
    handle.arithmetic(b"k", Delta::Increment(100), &Default::default(), now);
    assert_eq!(observed(), [(Store, SMALL)], "a number that gets longer is reported as a store");
    handle.set(b"k", &[b'x'; 3 * PAGE_SIZE_BYTES], META, StoreMode::Set, now);
    assert_eq!(
        observed(),
        [(Store, LARGE)],
        "a store of a chained item is reported in the largest class"
    );
    assert!(handle.get(b"k", now, |_| ()).is_some());
    assert_eq!(observed(), [(Hit, LARGE)]);

    handle.arithmetic(b"n", Delta::Increment(1), &Default::default(), now);
    assert_eq!(recorder.take(), [], "an incr that misses is not reported");
    let initial = Some(Initial { value: 1, expiry: Expiry::NEVER });
    let conditions = ArithmeticConditions { initial, ..ArithmeticConditions::default() };
    handle.arithmetic(b"n", Delta::Increment(1), &conditions, now);
    assert_eq!(recorder.of(&engine, b"n"), [(Store, SMALL)]);
}

#[test]
fn deletes_are_reported_whether_they_hit_or_miss() {
    let (engine, recorder) = observed_engine(8);
    let now = Clock::manual().now();
    let mut handle = engine.handle();
    let observed = || recorder.of(&engine, b"k");
    let store = || {
        let mut handle = engine.handle();
        handle.set(b"k", b"1", META, StoreMode::Set, now);
        recorder.take();
    };
    assert!(!handle.delete(b"k", now));
    assert_eq!(observed(), [(Delete, None)]);
    handle.delete_if(b"k", None, Replacement::Nothing, now);
    assert_eq!(observed(), [(Delete, None)]);
    handle.discard(b"k", now);
    assert_eq!(observed(), []);
    store();
    assert!(handle.delete(b"k", now));
    assert_eq!(observed(), [(Delete, SMALL)]);
    store();
    handle.discard(b"k", now);
    assert_eq!(observed(), [(Delete, SMALL)]);
    store();
    handle.delete_if(b"k", Some(0), Replacement::Nothing, now);
    assert_eq!(observed(), [], "a delete that is refused because of the CAS value is not reported");
    handle.delete_if(b"k", None, Replacement::Nothing, now);
    assert_eq!(observed(), [(Delete, SMALL)]);
    store();
    handle.delete_if(b"k", None, Replacement::Stale { expiry: None, new_cas: None }, now);
    assert_eq!(observed(), [], "a delete that marks the item as stale is not reported");
    let empty = Replacement::Empty { meta: META, stale: false, new_cas: None };
    handle.delete_if(b"k", None, empty, now);
    assert_eq!(
        observed(),
        [(Store, SMALL)],
        "a delete that replaces the item by an empty one is reported as a store"
    );
}

#[test]
fn every_removal_of_an_expired_item_is_reported_as_a_delete() {
    // Stores an item, lets it expire, calls `remove`, and returns the reported accesses to the item's key.
    let reported = |remove: &dyn Fn(&Engine, &Clock)| {
        let (engine, recorder) = observed_engine(1);
        let clock = Clock::manual();
        let mut handle = engine.handle();
        let meta = ItemMeta { expiry: Expiry::at(Seconds(10)), ..META };
        handle.set(b"k", b"1", meta, StoreMode::Set, clock.now());
        clock.advance(Duration::from_secs(20));
        recorder.take();
        remove(&engine, &clock);
        let hash = KeyHasher::new(engine.config().hash_seed).hash(b"k");
        let mut observed = recorder.take();
        observed.retain(|access| access.hash == hash);
        observed.into_iter().map(|access| (access.kind, access.class)).collect::<Vec<_>>()
    };
    let by_get = reported(&|engine, clock| {
        assert!(engine.handle().get(b"k", clock.now(), |_| ()).is_none());
    });
    assert_eq!(by_get, [(Delete, SMALL), (Miss, None)]);
    let by_store = reported(&|engine, clock| {
        engine.handle().set(b"k", b"1", META, StoreMode::Set, clock.now());
    });
    assert_eq!(by_store, [(Delete, SMALL), (Store, SMALL)]);
    let by_maintainer = reported(&|engine, clock| {
        engine.maintain_step(10, clock.now());
    });
    assert_eq!(by_maintainer, [(Delete, SMALL)]);
    let by_crawler = reported(&|engine, clock| {
        let mut crawler = Crawler::new(engine.class_ids());
        while engine.crawl_step(&mut crawler, 100, clock.now(), &mut |_| ()) == CrawlStep::More {}
    });
    assert_eq!(by_crawler, [(Delete, SMALL)]);
    let by_eviction = reported(&|engine, clock| {
        for number in 0..PAGE_SIZE_BYTES / 128 {
            let key = format!("{number:07}");
            engine.handle().set(key.as_bytes(), b"1", META, StoreMode::Set, clock.now());
        }
    });
    assert_eq!(by_eviction, [(Delete, SMALL)]);
}

#[test]
fn only_accesses_to_keys_below_the_threshold_are_reported() {
    let (engine, recorder) = observed_engine(64);
    let now = Clock::manual().now();
    let hasher = KeyHasher::new(engine.config().hash_seed);
    let seed = 11;
    let mut random = Random::new(seed);
    let mut handle = engine.handle();
    for threshold in [THRESHOLD_NONE, threshold_of(0.1), threshold_of(0.5), THRESHOLD_ALL] {
        engine.observers().sample_accesses(threshold);
        let (mut expected, mut gets) = (Vec::new(), 0);
        for _ in 0..5_000 {
            let key = format!("k{}", random.below(500));
            let hash = hasher.hash(key.as_bytes());
            let found = handle.get(key.as_bytes(), now, |_| ()).is_some();
            gets += 1;
            if !found {
                handle.set(key.as_bytes(), b"v", META, StoreMode::Set, now);
            }
            if threshold != THRESHOLD_NONE && is_sampled(hash, threshold) {
                let kinds: &[AccessKind] = if found { &[Hit] } else { &[Miss, Store] };
                expected.extend(kinds.iter().map(|&kind| (hash, kind)));
            }
        }
        let observed = recorder.take().into_iter().map(|access| (access.hash, access.kind));
        assert!(
            observed.eq(expected.iter().copied()),
            "seed {seed}, threshold {threshold}: the accesses to keys in the sample are reported"
        );
        let share = expected.len() as f64 / f64::from(gets);
        let rate = rate_of(threshold);
        assert!(
            (share - rate).abs() < 0.1,
            "seed {seed}: a share of {share} of the accesses is reported at sampling rate {rate}"
        );
    }
}
