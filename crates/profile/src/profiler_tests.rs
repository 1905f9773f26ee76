//! The profiler against lists by the definition, and against exact stack distances.

use super::{CLASS_KEYS_MIN, HISTORY_FACTOR, Profiler, ProfilerOptions};
use crate::{Access, AccessKind, ClassProfile, ClassSize, Distances, StackDistances};
use slabwise_base::random::mix;
use slabwise_base::{ClassId, Random};
use std::collections::{HashMap, HashSet};

const EXACT: ProfilerOptions =
    ProfilerOptions { keys_max: 1 << 20, rate_max: 1.0, window_references: u64::MAX };

fn access(key: u64, kind: AccessKind, class: Option<u8>) -> Access {
    Access { hash: mix(key), kind, class: class.map(ClassId), at_nanos: 0 }
}

fn size(class: u8, chunks: u64, chunks_per_page: u64) -> ClassSize {
    ClassSize { class: ClassId(class), chunks, chunks_per_page }
}

/// A get, and after a miss a store, as a look-aside client makes them; hits are those of a cache that never
/// evicts.
fn get(profiler: &mut Profiler, key: u64, class: u8, is_known: bool) {
    match is_known {
        true => profiler.access(&access(key, AccessKind::Hit, Some(class))),
        false => {
            profiler.access(&access(key, AccessKind::Miss, None));
            profiler.access(&access(key, AccessKind::Store, Some(class)));
        }
    }
}

/// Classes as lists of keys, the newest in front, and counts by the definition.
#[derive(Default)]
struct Lists {
    lists: [Vec<u64>; 3],
    /// The class of a deleted key.
    deleted: HashMap<u64, usize>,
    /// Misses of keys that were never stored.
    waiting: HashMap<u64, usize>,
    distances: [Distances; 3],
    profiles: [ClassProfile; 3],
}

const SIZES: [(u64, u64); 3] = [(20, 5), (3, 4), (0, 8)];

impl Lists {
    fn take(&mut self, key: u64) -> Option<(usize, u64)> {
        for (class, list) in self.lists.iter_mut().enumerate() {
            if let Some(place) = list.iter().position(|&known| known == key) {
                list.remove(place);
                return Some((class, place as u64));
            }
        }
        None
    }

    fn miss(&mut self, key: u64) {
        if let Some((class, distance)) = self.take(key) {
            let ((chunks, page), profile) = (SIZES[class], &mut self.profiles[class]);
            self.distances[class].record(Some(distance));
            profile.misses += 1.0;
            profile.misses_by_eviction += 1.0;
            profile.shadow_hits += f64::from(distance >= chunks && distance < chunks + page);
            self.lists[class].insert(0, key);
        } else if let Some(&class) = self.deleted.get(&key) {
            self.distances[class].record(None);
            self.profiles[class].misses += 1.0;
        } else {
            *self.waiting.entry(key).or_default() += 1;
        }
    }

    fn hit(&mut self, key: u64) {
        let (class, distance) = self.take(key).expect("hits are of keys in a list");
        let (chunks, page) = SIZES[class];
        self.distances[class].record(Some(distance));
        self.profiles[class].tail_hits += f64::from(distance < chunks && distance + page >= chunks);
        self.lists[class].insert(0, key);
    }

    fn store(&mut self, key: u64, class: usize) {
        self.take(key);
        self.deleted.remove(&key);
        for _ in 0..self.waiting.remove(&key).unwrap_or(0) {
            self.distances[class].record(None);
            self.profiles[class].misses += 1.0;
        }
        self.lists[class].insert(0, key);
    }

    fn delete(&mut self, key: u64) {
        if let Some((class, _)) = self.take(key) {
            self.deleted.insert(key, class);
        }
    }

    fn class_of(&self, key: u64) -> Option<u8> {
        self.lists.iter().position(|list| list.contains(&key)).map(|class| class as u8)
    }
}

#[test]
fn at_rate_1_every_count_is_that_of_lists() {
    for seed in 0..10 {
        let mut random = Random::new(seed);
        let (mut profiler, mut lists) = (Profiler::new(EXACT), Lists::default());
        let sizes = SIZES.map(|(chunks, page)| (chunks, page));
        let sizes =
            [0, 1, 2].map(|class| size(class, sizes[class as usize].0, sizes[class as usize].1));
        profiler.set_sizes(&sizes);
        for _ in 0..6_000 {
            let key = random.below(60).min(random.below(60));
            let class = lists.class_of(key);
            let kind = match (random.below(12), class) {
                (0, _) => AccessKind::Delete,
                (1..4, _) => AccessKind::Store,
                (4..8, Some(_)) => AccessKind::Hit,
                _ => AccessKind::Miss,
            };
            let stored_in = random.below(3) as u8;
            let class = match kind {
                AccessKind::Store => Some(stored_in),
                AccessKind::Hit => class,
                AccessKind::Miss | AccessKind::Delete => None,
            };
            profiler.access(&access(key, kind, class));
            match kind {
                AccessKind::Hit => lists.hit(key),
                AccessKind::Miss => lists.miss(key),
                AccessKind::Store => lists.store(key, usize::from(stored_in)),
                AccessKind::Delete => lists.delete(key),
            }
        }
        profiler.check();
        for class in 0..3 {
            let found = profiler.profile(ClassId(class as u8));
            let mut expected = lists.profiles[class].clone();
            expected.curve = found.curve.clone();
            assert_eq!(found, expected, "seed {seed}, class {class}");
            let curve = lists.distances[class].mrc(1);
            assert_eq!(found.curve.references(), curve.references(), "seed {seed}, class {class}");
            for chunks in 0..70 {
                let (found, expected) = (found.curve.misses(chunks), curve.misses(chunks));
                assert_eq!(found, expected, "seed {seed}, class {class}, {chunks} chunks");
            }
        }
    }
}

/// Skewed keys: half of all references go to a tenth of the keys.
fn skewed(random: &mut Random, keys: u64) -> u64 {
    match random.below(2) {
        0 => random.below(keys / 10),
        _ => random.below(keys),
    }
}

#[test]
fn a_sample_in_bounded_memory_tells_nearly_the_same() {
    for seed in 0..3 {
        let mut random = Random::new(seed);
        let options = ProfilerOptions { keys_max: 4_000, ..EXACT };
        let mut profiler = Profiler::new(options);
        let mut exact = [(); 2].map(|()| (StackDistances::default(), Distances::default()));
        for all in 1..=300_000 {
            let class = random.below(2);
            let key = skewed(&mut random, [15_000, 30_000][class as usize]) * 2 + class;
            let (stack, distances) = &mut exact[class as usize];
            let distance = stack.reference(key);
            distances.record(distance);
            get(&mut profiler, key, class as u8, distance.is_some());
            if all % 1_000 == 0 {
                profiler.note_gets(all);
            }
        }
        profiler.check();
        assert!(profiler.rate() < 0.12, "rate {}", profiler.rate());
        assert!(profiler.keys() > 3_000, "{} keys", profiler.keys());
        let per_key = profiler.size_bytes() / profiler.keys();
        assert!(per_key < 75, "seed {seed}: {per_key} bytes a key");
        for (class, (_, distances)) in exact.iter().enumerate() {
            let (found, curve) = (profiler.profile(ClassId(class as u8)).curve, distances.mrc(1));
            let off = found.references() / curve.references() - 1.0;
            assert!(off.abs() < 0.08, "seed {seed}, class {class}: references {off} off");
            for chunks in (0..30_000).step_by(500) {
                let off = found.miss_ratio(chunks) - curve.miss_ratio(chunks);
                assert!(
                    off.abs() < 0.035,
                    "seed {seed}, class {class}, {chunks} chunks: {off} off"
                );
            }
        }
    }
}

#[test]
fn all_gets_correct_what_a_hot_key_does_to_a_sample() {
    // One key has half of all references: a sample of one key in ten has it, or has not.
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let options = ProfilerOptions { rate_max: 0.1, ..EXACT };
        let mut profiler = Profiler::new(options);
        profiler.note_gets(0);
        let hot = random.next_u64();
        let mut known = HashSet::new();
        for all in 1..=40_000 {
            let key = if random.below(2) == 0 { hot } else { random.below(5_000) };
            get(&mut profiler, key, 0, !known.insert(key));
            if all % 100 == 0 {
                profiler.note_gets(all);
            }
        }
        let curve = profiler.profile(ClassId(0)).curve;
        let all = curve.references();
        assert!((all / 40_000.0 - 1.0).abs() < 0.02, "seed {seed}: {all} of 40,000 references");
        // A cache of 100 chunks hits the hot key and 2 % of the rest.
        let ratio = curve.miss_ratio(100);
        assert!((ratio - 0.49).abs() < 0.06, "seed {seed}: miss ratio {ratio}");
    }
}

#[test]
fn a_hot_key_of_one_class_does_not_bend_the_curve_of_another() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let mut profiler = Profiler::new(ProfilerOptions { rate_max: 0.1, ..EXACT });
        profiler.note_gets(0);
        let hot = random.next_u64();
        let (mut known, mut gets) = (HashSet::new(), 0.0);
        for all in 1..=60_000 {
            let (class, key) = match random.below(3) {
                0 => (0, hot),
                1 => (0, random.below(2_000)),
                _ => (1, 10_000 + random.below(3_000)),
            };
            gets += f64::from(class);
            get(&mut profiler, key, class, !known.insert(key));
            profiler.note_gets(all);
        }
        let curve = profiler.profile(ClassId(1)).curve;
        let all = curve.references();
        // A hot key that is not in the sample may be taken for one of either class: hits, if it is wrong.
        assert!(all / gets > 0.85, "seed {seed}: {all} of {gets} references");
        let misses = curve.misses(600) / gets;
        assert!((misses - 0.8).abs() < 0.12, "seed {seed}: {misses} miss in a fifth of the memory");
    }
}

#[test]
fn old_references_fade() {
    let options = ProfilerOptions { window_references: 1_000, ..EXACT };
    let mut profiler = Profiler::new(options);
    // A loop of 100 keys, then one of 10.
    (0..20_000).for_each(|at| get(&mut profiler, at % 100, 0, at >= 100));
    let curve = profiler.profile(ClassId(0)).curve;
    assert!(curve.miss_ratio(99) > 0.999 && curve.miss_ratio(100) < 0.001, "{curve:?}");
    (0..2_000).for_each(|at| get(&mut profiler, at % 10, 0, true));
    let old = profiler.profile(ClassId(0)).curve.miss_ratio(50);
    assert!((old - 0.25).abs() < 0.01, "two half-lives later {old} is left");
}

#[test]
fn the_time_of_a_miss_ends_with_the_store() {
    let mut profiler = Profiler::new(EXACT);
    let mut at = |key, kind, class: Option<u8>, at_nanos| {
        profiler.access(&Access { at_nanos, ..access(key, kind, class) });
    };
    // Counted from the first of two misses.
    at(1, AccessKind::Miss, None, 1_000);
    at(1, AccessKind::Miss, None, 3_000);
    at(1, AccessKind::Store, Some(0), 5_000);
    // A store that no miss came before, and one a minute later, tell nothing.
    at(1, AccessKind::Store, Some(0), 9_000);
    at(2, AccessKind::Miss, None, 10_000);
    at(2, AccessKind::Store, Some(0), 60_000_000_000);
    at(3, AccessKind::Miss, None, 20_000);
    at(3, AccessKind::Store, Some(0), 28_000);
    profiler.set_hit_time_us(ClassId(0), 0.5);
    profiler.set_cost(ClassId(0), 7.0);
    let profile = profiler.profile(ClassId(0));
    assert_eq!((profile.miss_time_us, profile.hit_time_us, profile.cost), (6.0, 0.5, 7.0));
}

#[test]
fn classes_that_are_not_listed_or_have_other_chunks_are_forgotten() {
    let mut profiler = Profiler::new(EXACT);
    profiler.set_sizes(&[size(0, 10, 10), size(1, 10, 10), size(2, 10, 10)]);
    (0..90).for_each(|key| get(&mut profiler, key, (key % 3) as u8, false));
    (0..9).for_each(|key| profiler.access(&access(key, AccessKind::Delete, None)));
    profiler.set_sizes(&[size(0, 50, 10), size(2, 10, 20)]);
    profiler.check();
    assert_eq!(profiler.keys(), 30);
    let references = [0, 1, 2].map(|class| profiler.profile(ClassId(class)).curve.references());
    assert_eq!(references, [30.0, 0.0, 0.0]);
    assert_eq!(profiler.profile(ClassId(77)), ClassProfile::default());
}

#[test]
fn history_ends_where_no_cache_of_several_times_the_memory_reaches() {
    let mut profiler = Profiler::new(EXACT);
    // Three pages in all: twelve pages of a class are its history.
    profiler.set_sizes(&[size(0, 10, 10), size(1, 200, 100)]);
    let reach = [HISTORY_FACTOR * 3 * 10, HISTORY_FACTOR * 3 * 100];
    (0..5_000).for_each(|key| get(&mut profiler, key, (key % 2) as u8, false));
    assert_eq!(profiler.keys() as u64, reach[0] + reach[1]);
    profiler.set_sizes(&[size(0, 10, 10), size(1, 0, 100)]);
    profiler.check();
    assert_eq!(profiler.keys(), CLASS_KEYS_MIN.max(4 * 10) + 4 * 100);
}

#[test]
fn keys_that_nobody_stores_are_few() {
    let mut profiler = Profiler::new(ProfilerOptions { keys_max: 800, ..EXACT });
    (0..500).for_each(|key| get(&mut profiler, key, 0, false));
    for key in 0..100_000 {
        profiler.access(&access(1_000 + key, AccessKind::Miss, None));
    }
    profiler.check();
    assert_eq!((profiler.keys(), profiler.rate()), (600, 1.0));
}

#[test]
fn a_hit_of_a_key_that_was_there_before_is_no_reference() {
    let mut profiler = Profiler::new(EXACT);
    get(&mut profiler, 1, 0, true);
    assert_eq!(profiler.profile(ClassId(0)).curve.references(), 0.0);
    get(&mut profiler, 1, 0, true);
    assert_eq!(profiler.profile(ClassId(0)).curve.points().len(), 2);
}
