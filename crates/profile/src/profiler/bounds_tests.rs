//! Tests of the keys and classes that a profiler forgets.

use super::{CLASS_KEYS_MIN, Profiler};
use crate::profiler::tests::{EXACT, access, get, size};
use crate::profiler::{HISTORY_FACTOR, ProfilerOptions};
use crate::{AccessKind, ClassProfile};
use slabwise_base::ClassId;

#[test]
fn classes_without_size_or_with_other_chunks_are_forgotten() {
    let mut profiler = Profiler::new(EXACT);
    profiler.set_sizes(&[size(0, 10, 10), size(1, 10, 10), size(2, 10, 10)], 0);
    (0..90).for_each(|key| get(&mut profiler, key, (key % 3) as u8, false));
    (0..9).for_each(|key| profiler.access(&access(key, AccessKind::Delete, None)));
    profiler.set_sizes(&[size(0, 50, 10), size(2, 10, 20)], 0);
    profiler.check();
    assert_eq!(profiler.keys(), 30);
    let references = [0, 1, 2].map(|class| profiler.profile(ClassId(class)).curve.references());
    assert_eq!(references, [30.0, 0.0, 0.0]);
    assert_eq!(profiler.profile(ClassId(77)), ClassProfile::default());
}

#[test]
fn hits_do_not_recreate_a_removed_class() {
    let mut profiler = Profiler::new(EXACT);
    let listed = [size(0, 50, 10), size(1, 50, 10)];
    profiler.set_sizes(&listed, 0);
    (0..60).for_each(|key| get(&mut profiler, key, (key % 2) as u8, false));
    profiler.set_sizes(&listed[..1], 0);
    let keys = profiler.keys();
    for key in 0..60 {
        for kind in [AccessKind::Hit, AccessKind::Store, AccessKind::Delete] {
            profiler.access(&access(key, kind, Some(1)));
        }
        (0..2).for_each(|_| get(&mut profiler, 2 * key, 0, true));
    }
    profiler.check();
    assert_eq!((keys, profiler.keys()), (30, 60), "only class 0 has more keys");
    assert_eq!(profiler.profile(ClassId(1)), ClassProfile::default());
    // After its size is reported again, the class starts without keys and counts.
    profiler.set_sizes(&listed, 0);
    (0..60).for_each(|key| get(&mut profiler, 1_000 + key, 1, false));
    assert_eq!(profiler.profile(ClassId(1)).curve.references(), 60.0);
}

#[test]
fn history_is_limited_to_a_multiple_of_the_memory() {
    let mut profiler = Profiler::new(EXACT);
    // The cache has three pages, so the history of a class is the keys that twelve of its pages hold.
    profiler.set_sizes(&[size(0, 10, 10), size(1, 200, 100)], 0);
    let reach = [HISTORY_FACTOR * 3 * 10, HISTORY_FACTOR * 3 * 100];
    (0..5_000).for_each(|key| get(&mut profiler, key, (key % 2) as u8, false));
    assert_eq!(profiler.keys() as u64, reach[0] + reach[1]);
    profiler.set_sizes(&[size(0, 10, 10), size(1, 0, 100)], 0);
    profiler.check();
    assert_eq!(profiler.keys(), CLASS_KEYS_MIN.max(4 * 10) + 4 * 100);
}

#[test]
fn the_history_decreases_before_the_sampling_rate() {
    // Four times the memory holds 400 keys, twice the memory 200.
    for (keys_max, keys, rate) in [(401, 400, 1.0), (350, 300, 1.0), (250, 200, 1.0)] {
        let mut profiler = Profiler::new(ProfilerOptions { keys_max, ..EXACT });
        profiler.set_sizes(&[size(0, 100, 10)], 0);
        (0..5_000).for_each(|key| get(&mut profiler, key, 0, false));
        assert_eq!(
            (profiler.keys(), profiler.rate()),
            (keys, rate),
            "at most {keys_max} keys are allowed"
        );
    }
    let mut profiler = Profiler::new(ProfilerOptions { keys_max: 100, ..EXACT });
    profiler.set_sizes(&[size(0, 100, 10)], 0);
    (0..5_000).for_each(|key| get(&mut profiler, key, 0, false));
    let rate = profiler.rate();
    assert!(
        (0.3..0.6).contains(&rate),
        "a history of 200 keys needs a rate of about 0.5, not {rate}"
    );
}

#[test]
fn keys_that_are_never_stored_are_limited() {
    let mut profiler = Profiler::new(ProfilerOptions { keys_max: 800, ..EXACT });
    (0..500).for_each(|key| get(&mut profiler, key, 0, false));
    for key in 0..100_000 {
        profiler.access(&access(1_000 + key, AccessKind::Miss, None));
    }
    profiler.check();
    assert_eq!((profiler.keys(), profiler.rate()), (600, 1.0));
    assert_eq!(profiler.recent_gets().unstored, 100_000.0, "gets of forgotten keys count, too");
    get(&mut profiler, 100_999, 0, false);
    assert_eq!(
        profiler.recent_gets().unstored,
        99_999.0,
        "the gets of a stored key count in its class"
    );
    assert_eq!(profiler.profile(ClassId(0)).curve.references(), 502.0);
}
