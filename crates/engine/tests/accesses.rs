//! What an observer of accesses is shown: each access to a key in the sample once, as what it was.

mod support;

use slabwise_base::sampling::{THRESHOLD_ALL, THRESHOLD_NONE, is_sampled, rate_of, threshold_of};
use slabwise_base::{ClassId, Clock, Expiry, KeyHasher, Random, Seconds};
use slabwise_engine::AccessKind::{Delete, Hit, Miss, Store, Touch};
use slabwise_engine::{
    AccessKind, AccessObserver, ArithmeticConditions, ClassStats, CrawlStep, Crawler, Delta,
    Engine, GetOptions, Initial, ItemMeta, KeyAccess, Leave, StoreConditions, StoreMode, Vivify,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{PAGE_SIZE_BYTES, small_engine};

const SMALL: Option<ClassId> = Some(ClassId(0));
const LARGE: Option<ClassId> = Some(ClassId(1));
const META: ItemMeta = ItemMeta { client_flags: 0, expiry: Expiry::NEVER, cost: None };

#[derive(Default)]
struct Witness(Mutex<Vec<KeyAccess>>);

impl AccessObserver for Witness {
    fn accessed(&self, access: &KeyAccess) {
        self.0.lock().expect("no panic").push(*access);
    }
}

impl Witness {
    fn take(&self) -> Vec<KeyAccess> {
        std::mem::take(&mut *self.0.lock().expect("no panic"))
    }

    /// What was shown since the last look, all of one key.
    fn of(&self, engine: &Engine, key: &[u8]) -> Vec<(AccessKind, Option<ClassId>)> {
        let hash = KeyHasher::new(engine.config().hash_seed).hash(key);
        let shown = |access: KeyAccess| {
            assert_eq!(access.hash, hash, "{access:?}");
            (access.kind, access.class)
        };
        self.take().into_iter().map(shown).collect()
    }
}

fn observed(pages: u64) -> (Engine, Arc<Witness>) {
    let engine = small_engine(pages);
    let witness = Arc::new(Witness::default());
    engine.tap().set_access_observer(Arc::clone(&witness) as Arc<dyn AccessObserver>);
    engine.tap().sample_accesses(THRESHOLD_ALL);
    (engine, witness)
}

#[test]
fn reads_are_hits_and_misses_however_they_are_asked_for() {
    let (engine, witness) = observed(8);
    let now = Clock::manual().now();
    let mut handle = engine.handle();
    let later = Expiry::at(Seconds(1_000));
    let touching = GetOptions { touch: Some(later), ..GetOptions::default() };
    let unmarked = GetOptions { marks: false, ..GetOptions::default() };
    let shown = || witness.of(&engine, b"k");

    assert!(handle.get(b"k", now, |_| ()).is_none());
    assert_eq!(shown(), [(Miss, None)]);
    for options in [GetOptions::default(), touching] {
        assert_eq!(handle.get_with(b"k", &options, now, |_, _| ()), Ok(None));
        assert_eq!(shown(), [(Miss, None)]);
    }
    assert_eq!(handle.get_and_touch(b"k", later, now, |_| ()), Ok(None));
    assert_eq!(shown(), [(Miss, None)]);
    assert_eq!(handle.touch(b"k", later, now), Ok(false));
    assert_eq!(handle.get_with(b"k", &unmarked, now, |_, _| ()), Ok(None));
    assert_eq!(shown(), [], "a touch is no get, and what leaves no mark is not shown");

    handle.set(b"k", b"1", META, StoreMode::Set, now);
    assert_eq!(shown(), [(Store, SMALL)]);
    assert!(handle.get(b"k", now, |_| ()).is_some());
    assert_eq!(shown(), [(Hit, SMALL)]);
    // It stores no expiry at first: the item is written anew, which is no store.
    assert_eq!(handle.get_and_touch(b"k", later, now, |_| ()), Ok(Some(())));
    assert_eq!(shown(), [(Hit, SMALL)]);
    for options in [GetOptions::default(), touching] {
        assert_eq!(handle.get_with(b"k", &options, now, |_, _| ()), Ok(Some(())));
        assert_eq!(shown(), [(Hit, SMALL)]);
    }
    assert_eq!(handle.touch(b"k", later, now), Ok(true));
    assert_eq!(shown(), [(Touch, SMALL)]);
    assert_eq!(handle.get_with(b"k", &unmarked, now, |_, _| ()), Ok(Some(())));
    assert!(handle.peek(b"k", now, |_| ()).is_some());
    assert!(handle.inspect(b"k", now).is_some());
    assert_eq!(shown(), []);

    let vivify = Some(Vivify { expiry: later, cas: None });
    let options = GetOptions { vivify, ..GetOptions::default() };
    assert_eq!(handle.get_with(b"v", &options, now, |_, met| met.is_new), Ok(Some(true)));
    assert_eq!(witness.of(&engine, b"v"), [(Miss, None)]);
    assert_eq!(handle.get_with(b"v", &options, now, |_, met| met.is_new), Ok(Some(false)));
    assert_eq!(witness.of(&engine, b"v"), [(Hit, SMALL)]);
    // The vivifying get, and those that left no mark, are counted without being such hits.
    assert_eq!((engine.gets_ever(), engine.misses_ever()), (12, 5));
}

#[test]
fn the_hits_that_a_class_counts_are_those_that_are_shown() {
    for seed in 0..10 {
        let (engine, witness) = observed(8);
        let now = Clock::manual().now();
        let mut random = Random::new(seed);
        let mut handle = engine.handle();
        let later = Expiry::at(Seconds(1_000));
        let mut shown = [0; 2];
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
            for access in witness.take() {
                if let (Hit, Some(class)) = (access.kind, access.class) {
                    shown[class.index()] += 1;
                }
            }
        }
        let counted: Vec<u64> =
            engine.class_stats(now).iter().map(ClassStats::shown_hits).collect();
        assert_eq!(counted[..2], shown, "seed {seed}");
        assert!(shown.iter().all(|&hits| hits > 0), "seed {seed}");
    }
}

#[test]
fn what_is_stored_is_shown_once_and_what_is_refused_never() {
    let (engine, witness) = observed(8);
    let now = Clock::manual().now();
    let mut handle = engine.handle();
    let shown = || witness.of(&engine, b"k");
    for mode in [StoreMode::Replace, StoreMode::Append, StoreMode::Cas(1)] {
        handle.set(b"k", b"1", META, mode, now);
    }
    assert_eq!(shown(), []);
    for mode in [StoreMode::Add, StoreMode::Set, StoreMode::Replace] {
        handle.set(b"k", b"1", META, mode, now);
        assert_eq!(shown(), [(Store, SMALL)], "{mode:?}");
    }
    for mode in [StoreMode::Append, StoreMode::Prepend] {
        handle.set(b"k", &[b'1'; 400], META, mode, now);
        assert_eq!(shown(), [(Store, LARGE)], "{mode:?}");
    }
    handle.set(b"k", b"1", META, StoreMode::Add, now);
    handle.set(b"k", b"1", META, StoreMode::Cas(0), now);
    assert_eq!(shown(), []);
    let stale = StoreConditions { stale_allowed: true, ..StoreMode::Cas(0).into() };
    handle.set_if(b"k", b"9", META, &stale, now);
    assert_eq!(shown(), [(Store, SMALL)]);
    handle.arithmetic(b"k", Delta::Decrement(1), &Default::default(), now);
    assert_eq!(shown(), [(Touch, SMALL)], "changed where it lies");
    handle.arithmetic(b"k", Delta::Increment(100), &Default::default(), now);
    assert_eq!(shown(), [(Store, SMALL)], "it is longer");
    handle.set(b"k", &[b'x'; 3 * PAGE_SIZE_BYTES], META, StoreMode::Set, now);
    assert_eq!(shown(), [(Store, LARGE)], "chained");
    assert!(handle.get(b"k", now, |_| ()).is_some());
    assert_eq!(shown(), [(Hit, LARGE)]);

    handle.arithmetic(b"n", Delta::Increment(1), &Default::default(), now);
    assert_eq!(witness.take(), [], "no number, and no get");
    let initial = Some(Initial { value: 1, expiry: Expiry::NEVER });
    let conditions = ArithmeticConditions { initial, ..ArithmeticConditions::default() };
    handle.arithmetic(b"n", Delta::Increment(1), &conditions, now);
    assert_eq!(witness.of(&engine, b"n"), [(Store, SMALL)]);
}

#[test]
fn deletes_are_shown_whether_there_was_an_item_or_not() {
    let (engine, witness) = observed(8);
    let now = Clock::manual().now();
    let mut handle = engine.handle();
    let shown = || witness.of(&engine, b"k");
    let store = || {
        let mut handle = engine.handle();
        handle.set(b"k", b"1", META, StoreMode::Set, now);
        witness.take();
    };
    assert!(!handle.delete(b"k", now));
    assert_eq!(shown(), [(Delete, None)]);
    handle.delete_if(b"k", None, Leave::Nothing, now);
    assert_eq!(shown(), [(Delete, None)]);
    handle.discard(b"k", now);
    assert_eq!(shown(), []);
    store();
    assert!(handle.delete(b"k", now));
    assert_eq!(shown(), [(Delete, SMALL)]);
    store();
    handle.discard(b"k", now);
    assert_eq!(shown(), [(Delete, SMALL)]);
    store();
    handle.delete_if(b"k", Some(0), Leave::Nothing, now);
    assert_eq!(shown(), [], "another CAS value");
    handle.delete_if(b"k", None, Leave::Nothing, now);
    assert_eq!(shown(), [(Delete, SMALL)]);
    store();
    handle.delete_if(b"k", None, Leave::Stale { expiry: None, new_cas: None }, now);
    assert_eq!(shown(), [], "the item stays where it is");
    let empty = Leave::Empty { meta: META, stale: false, new_cas: None };
    handle.delete_if(b"k", None, empty, now);
    assert_eq!(shown(), [(Store, SMALL)], "an item without a value is in its place");
}

#[test]
fn an_item_that_has_ended_is_shown_as_deleted_by_whoever_removes_it() {
    let ended = |remove: &dyn Fn(&Engine, &Clock)| {
        let (engine, witness) = observed(1);
        let clock = Clock::manual();
        let mut handle = engine.handle();
        let meta = ItemMeta { expiry: Expiry::at(Seconds(10)), ..META };
        handle.set(b"k", b"1", meta, StoreMode::Set, clock.now());
        clock.advance(Duration::from_secs(20));
        witness.take();
        remove(&engine, &clock);
        let hash = KeyHasher::new(engine.config().hash_seed).hash(b"k");
        let mut shown = witness.take();
        shown.retain(|access| access.hash == hash);
        shown.into_iter().map(|access| (access.kind, access.class)).collect::<Vec<_>>()
    };
    let got = ended(&|engine, clock| {
        assert!(engine.handle().get(b"k", clock.now(), |_| ()).is_none());
    });
    assert_eq!(got, [(Delete, SMALL), (Miss, None)]);
    let stored = ended(&|engine, clock| {
        engine.handle().set(b"k", b"1", META, StoreMode::Set, clock.now());
    });
    assert_eq!(stored, [(Delete, SMALL), (Store, SMALL)]);
    let maintained = ended(&|engine, clock| {
        engine.maintain_step(10, clock.now());
    });
    assert_eq!(maintained, [(Delete, SMALL)]);
    let crawled = ended(&|engine, clock| {
        let mut crawler = Crawler::new(engine.class_ids());
        while engine.crawl_step(&mut crawler, 100, clock.now(), &mut |_| ()) == CrawlStep::More {}
    });
    assert_eq!(crawled, [(Delete, SMALL)]);
    let evicted = ended(&|engine, clock| {
        for number in 0..PAGE_SIZE_BYTES / 128 {
            let key = format!("{number:07}");
            engine.handle().set(key.as_bytes(), b"1", META, StoreMode::Set, clock.now());
        }
    });
    assert_eq!(evicted, [(Delete, SMALL)]);
}

#[test]
fn a_key_is_shown_always_or_never_and_the_rest_only_when_the_threshold_rises() {
    let (engine, witness) = observed(64);
    let now = Clock::manual().now();
    let hasher = KeyHasher::new(engine.config().hash_seed);
    let seed = 11;
    let mut random = Random::new(seed);
    let mut handle = engine.handle();
    for threshold in [THRESHOLD_NONE, threshold_of(0.1), threshold_of(0.5), THRESHOLD_ALL] {
        engine.tap().sample_accesses(threshold);
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
        let shown = witness.take().into_iter().map(|access| (access.hash, access.kind));
        assert!(shown.eq(expected.iter().copied()), "seed {seed}, threshold {threshold}");
        let share = expected.len() as f64 / f64::from(gets);
        let rate = rate_of(threshold);
        assert!((share - rate).abs() < 0.1, "seed {seed}: {share} at rate {rate}");
    }
}
