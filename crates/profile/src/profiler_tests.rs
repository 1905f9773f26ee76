//! Tests of the profiler: it is compared with lists of keys and with exact stack distances.

use super::{KEY_SIZE_BYTES, Profiler, ProfilerOptions};
use crate::{
    Access, AccessKind, ClassProfile, ClassSize, Distances, Mrc, Pointers, StackDistances,
};
use slabwise_base::random::mix;
use slabwise_base::{ClassId, Random};
use std::collections::{HashMap, HashSet};

pub(in crate::profiler) const EXACT: ProfilerOptions =
    ProfilerOptions { keys_max: 1 << 20, rate_max: 1.0, half_life_references: u64::MAX };

pub(in crate::profiler) fn access(key: u64, kind: AccessKind, class: Option<u8>) -> Access {
    Access { hash: mix(key), kind, class: class.map(ClassId), size_bytes: 0, at_nanos: 0 }
}

pub(in crate::profiler) fn size(class: u8, chunks: u64, chunks_per_page: u64) -> ClassSize {
    ClassSize { class: ClassId(class), chunks, chunks_per_page, chunk_size_bytes: 100 }
}

/// Counts the accesses of a client that gets a key and stores it after a miss. `is_known` is true if the get hits.
pub(in crate::profiler) fn get(profiler: &mut Profiler, key: u64, class: u8, is_known: bool) {
    match is_known {
        true => profiler.access(&access(key, AccessKind::Hit, Some(class))),
        false => {
            profiler.access(&access(key, AccessKind::Miss, None));
            profiler.access(&access(key, AccessKind::Store, Some(class)));
        }
    }
}

/// The reference implementation of a profiler: a list of keys and the counts of each of three classes.
#[derive(Default)]
struct Lists {
    /// The keys of each class, the most recently used first.
    lists: [Vec<u64>; 3],
    /// The class of each deleted key.
    deleted: HashMap<u64, usize>,
    /// The number of misses of each key that was never stored.
    waiting: HashMap<u64, usize>,
    /// The keys in lists that have missed since their last store.
    missed: HashSet<u64>,
    distances: [Distances; 3],
    profiles: [ClassProfile; 3],
}

/// The number of chunks and of chunks per page of each class.
const SIZES: [(u64, u64); 3] = [(20, 5), (3, 4), (0, 8)];

impl Lists {
    /// Removes a key from its list; returns its class and its distance.
    fn take(&mut self, key: u64) -> Option<(usize, u64)> {
        for (class, list) in self.lists.iter_mut().enumerate() {
            if let Some(index) = list.iter().position(|&known| known == key) {
                list.remove(index);
                return Some((class, index as u64));
            }
        }
        None
    }

    /// Returns the class and the distance of a key in a list.
    fn place(&self, key: u64) -> Option<(usize, u64)> {
        let place = |list: &Vec<u64>| list.iter().position(|&known| known == key);
        let places = self.lists.iter().map(place).enumerate();
        places.filter_map(|(class, place)| Some((class, place? as u64))).next()
    }

    fn miss(&mut self, key: u64) {
        if let Some((class, distance)) = self.place(key) {
            let ((chunks, page), profile) = (SIZES[class], &mut self.profiles[class]);
            self.distances[class].record(Some(distance));
            profile.misses += 1.0;
            profile.misses_by_eviction += 1.0;
            profile.shadow_hits += f64::from(distance >= chunks && distance < chunks + page);
            self.note_partitions(class, distance);
            self.missed.insert(key);
        } else if let Some(&class) = self.deleted.get(&key) {
            self.distances[class].record(None);
            self.profiles[class].misses += 1.0;
        } else {
            *self.waiting.entry(key).or_default() += 1;
        }
    }

    /// Counts a get in the shadow queues of the partitions. The classes are so small that both pointers are at the size.
    fn note_partitions(&mut self, class: usize, distance: u64) {
        let ((chunks, page), profile) = (SIZES[class], &mut self.profiles[class]);
        let is_shadow = distance >= chunks && distance < chunks + page;
        profile.partition_shadow_hits += f64::from(is_shadow);
        profile.pointers = Pointers { left_chunks: chunks as f64, right_chunks: chunks as f64 };
    }

    fn hit(&mut self, key: u64) {
        let (class, distance) = self.take(key).expect("a key that hits is in a list");
        if !self.missed.remove(&key) {
            self.distances[class].record(Some(distance));
            self.note_partitions(class, distance);
        }
        self.lists[class].insert(0, key);
    }

    fn store(&mut self, key: u64, class: usize) {
        self.take(key);
        self.missed.remove(&key);
        self.deleted.remove(&key);
        for _ in 0..self.waiting.remove(&key).unwrap_or(0) {
            self.distances[class].record(None);
            self.profiles[class].misses += 1.0;
        }
        self.lists[class].insert(0, key);
    }

    fn delete(&mut self, key: u64) {
        if let Some((class, _)) = self.take(key) {
            self.missed.remove(&key);
            self.deleted.insert(key, class);
        }
    }

    fn class_of(&self, key: u64) -> Option<u8> {
        self.lists.iter().position(|list| list.contains(&key)).map(|class| class as u8)
    }
}

#[test]
fn at_sampling_rate_1_counts_equal_those_of_lists() {
    for seed in 0..10 {
        let mut random = Random::new(seed);
        let (mut profiler, mut lists) = (Profiler::new(EXACT), Lists::default());
        let sizes = SIZES.map(|(chunks, page)| (chunks, page));
        let sizes =
            [0, 1, 2].map(|class| size(class, sizes[class as usize].0, sizes[class as usize].1));
        profiler.set_sizes(&sizes, 0);
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
                AccessKind::Store | AccessKind::Touch => Some(stored_in),
                AccessKind::Hit => class,
                AccessKind::Miss | AccessKind::Delete => None,
            };
            profiler.access(&access(key, kind, class));
            match kind {
                AccessKind::Hit => lists.hit(key),
                AccessKind::Miss => lists.miss(key),
                AccessKind::Store | AccessKind::Touch => lists.store(key, usize::from(stored_in)),
                AccessKind::Delete => lists.delete(key),
            }
        }
        profiler.check();
        for class in 0..3 {
            let found = profiler.profile(ClassId(class as u8));
            let mut expected = lists.profiles[class].clone();
            (expected.curve, expected.sample) = (found.curve.clone(), found.sample);
            assert_eq!(found, expected, "seed {seed}, class {class}: counts");
            let curve = lists.distances[class].mrc(1);
            let references = [&found.curve, &curve].map(Mrc::references);
            assert_eq!(references[0], references[1], "seed {seed}, class {class}: references");
            for chunks in 0..70 {
                let (found, expected) = (found.curve.misses(chunks), curve.misses(chunks));
                assert_eq!(found, expected, "seed {seed}, class {class}, {chunks} chunks");
            }
        }
    }
}

/// Returns a random key: with a probability of one half a key of the first tenth, otherwise any key.
fn skewed(random: &mut Random, keys: u64) -> u64 {
    match random.below(2) {
        0 => random.below(keys / 10),
        _ => random.below(keys),
    }
}

#[test]
fn curves_of_a_sample_in_bounded_memory_are_nearly_exact() {
    for seed in 0..3 {
        let mut random = Random::new(seed);
        let options = ProfilerOptions { keys_max: 4_000, ..EXACT };
        let mut profiler = Profiler::new(options);
        let mut exact = [(); 2].map(|()| (StackDistances::default(), Distances::default()));
        let mut hits = [0; 2];
        for all in 1..=300_000 {
            let class = random.below(2);
            let key = skewed(&mut random, [15_000, 30_000][class as usize]) * 2 + class;
            let (stack, distances) = &mut exact[class as usize];
            let distance = stack.reference(key);
            distances.record(distance);
            get(&mut profiler, key, class as u8, distance.is_some());
            hits[class as usize] += u64::from(distance.is_some());
            if all % 1_000 == 0 {
                (0..2).for_each(|it| profiler.note_hits(ClassId(it), hits[it as usize]));
            }
        }
        profiler.check();
        assert!(profiler.rate() < 0.12, "the rate is below 0.12, not {}", profiler.rate());
        assert!(profiler.keys() > 3_000, "over 3,000 keys are sampled, not {}", profiler.keys());
        let per_key = profiler.size_bytes() / profiler.keys();
        assert!(per_key < 75, "seed {seed}: a key takes less than 75 bytes, not {per_key}");
        for (class, (_, distances)) in exact.iter().enumerate() {
            let (found, curve) = (profiler.profile(ClassId(class as u8)).curve, distances.mrc(1));
            let off = found.references() / curve.references() - 1.0;
            assert!(off.abs() < 0.08, "seed {seed}, class {class}: references are off by {off}");
            for chunks in (0..30_000).step_by(500) {
                let off = found.miss_ratio(chunks) - curve.miss_ratio(chunks);
                assert!(
                    off.abs() < 0.05,
                    "seed {seed}, class {class}, {chunks} chunks: the miss ratio is off by {off}"
                );
            }
        }
    }
}

#[test]
fn a_touch_counts_like_a_store_and_is_not_a_reference() {
    let profile_with = |renewal| {
        let options = ProfilerOptions { keys_max: 100, rate_max: 1.0, half_life_references: 1_000 };
        let mut profiler = Profiler::new(options);
        for key in [1, 2, 3] {
            profiler.access(&access(key, AccessKind::Store, Some(0)));
        }
        profiler.access(&access(1, renewal, Some(0)));
        for key in [1, 2, 3] {
            profiler.access(&access(key, AccessKind::Hit, Some(0)));
        }
        profiler.profile(ClassId(0))
    };
    assert_eq!(profile_with(AccessKind::Touch), profile_with(AccessKind::Store));
    let with_a_hit = profile_with(AccessKind::Hit).curve.references();
    assert!(profile_with(AccessKind::Touch).curve.references() < with_a_hit);
}

#[test]
fn memory_stays_within_its_bound() {
    for (size_bytes, classes, keys) in
        [(1 << 20, 8, 400_000), (2_300_000, 63, 2_000_000), (2_300_000, 1, 300_000)]
    {
        // A quarter of the memory is reserved for histograms.
        let keys_max = size_bytes / 4 * 3 / KEY_SIZE_BYTES;
        let options = ProfilerOptions { keys_max, ..ProfilerOptions::default() };
        let mut profiler = Profiler::new(options);
        let (mut random, mut most) = (Random::new(size_bytes as u64), 0);
        for at in 0..600_000 {
            // Every class has distances of every size.
            let key = random.below(1 + random.clone().below(keys));
            let class = (key % classes) as u8;
            profiler.access(&access(key, AccessKind::Miss, None));
            profiler.access(&access(key, AccessKind::Store, Some(class)));
            if at % 1_000 == 0 {
                most = most.max(profiler.size_bytes());
            }
        }
        profiler.check();
        assert!(
            most <= size_bytes,
            "{classes} classes take at most {size_bytes} bytes, not {most}"
        );
        assert!(most * 2 > size_bytes, "{classes} classes use over half of the memory, not {most}");
    }
}

#[test]
fn invariants_hold_for_random_accesses() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let keys_max = 1 + random.below(300) as usize;
        let half_life_references = 1 + random.below(2_000);
        let mut profiler =
            Profiler::new(ProfilerOptions { keys_max, rate_max: 1.0, half_life_references });
        let (keys, mut hits, mut at_nanos) = (1 + random.below(3_000), 0, 0);
        for _ in 0..4_000 {
            let kinds = [AccessKind::Hit, AccessKind::Miss, AccessKind::Store, AccessKind::Delete];
            let kind = kinds[random.below(4) as usize];
            let class = (random.below(3) > 0).then(|| random.below(6) as u8);
            at_nanos += random.below(1_000_000_000);
            let key = random.below(keys);
            profiler.access(&Access { at_nanos, ..access(key, kind, class) });
            hits += random.below(2);
            match random.below(200) {
                4 => {
                    let window_gets = (random.below(3) > 0).then(|| 1 + random.below(500));
                    profiler.keep_footprints(window_gets);
                }
                0 => profiler.note_hits(ClassId(random.below(6) as u8), hits),
                1 => {
                    let mut sizes: Vec<ClassSize> = (0..6)
                        .map(|class| size(class, random.below(50), 1 + random.below(2)))
                        .collect();
                    sizes.truncate(random.below(7) as usize);
                    profiler.set_sizes(&sizes, 0);
                }
                2 => profiler.check(),
                3 => {
                    // If the invariants of the curve did not hold, its computation would panic.
                    let profile = profiler.profile(ClassId(random.below(6) as u8));
                    // Every shadow hit is a miss by eviction, and every miss by eviction is a miss.
                    let counts = [profile.misses, profile.misses_by_eviction, profile.shadow_hits];
                    assert!(counts.is_sorted_by(|a, b| a >= b), "seed {seed}: {counts:?} decrease");
                    let curves = [&profile.curve, &profile.footprint_curve].map(Mrc::references);
                    let are_finite = curves.iter().all(|references| references.is_finite());
                    assert!(are_finite, "seed {seed}: {curves:?} are finite");
                }
                _ => {}
            }
        }
    }
}

#[test]
fn gets_between_a_miss_and_its_store_count_as_misses_of_the_curve() {
    const CHUNKS: usize = 300;
    for (seed, more_gets) in [(1, 0), (2, 1), (3, 4)] {
        let mut random = Random::new(seed);
        let mut profiler = Profiler::new(EXACT);
        let (mut cache, mut gets, mut misses) = (Vec::new(), 0.0, 0.0);
        for _ in 0..30_000 {
            let key = random.below(1_000);
            gets += 1.0;
            match cache.iter().position(|&known| known == key) {
                Some(index) => {
                    cache.remove(index);
                    profiler.access(&access(key, AccessKind::Hit, Some(0)));
                }
                None => {
                    // The gets of other clients miss before the first client has stored the value.
                    for _ in 0..=more_gets {
                        profiler.access(&access(key, AccessKind::Miss, None));
                    }
                    (gets, misses) = (gets + f64::from(more_gets), misses + 1.0);
                    misses += f64::from(more_gets);
                    profiler.access(&access(key, AccessKind::Store, Some(0)));
                }
            }
            cache.insert(0, key);
            cache.truncate(CHUNKS);
        }
        profiler.check();
        let curve = profiler.profile(ClassId(0)).curve;
        assert_eq!(curve.references(), gets, "seed {seed}: every get is a reference");
        let off = curve.miss_ratio(CHUNKS as u64) - misses / gets;
        assert!(off.abs() < 0.01, "seed {seed}, {more_gets} more gets: miss ratio off by {off}");
    }
}

#[test]
fn reported_hits_correct_the_effect_of_a_hot_key() {
    // One key has half of all references. A sample of one key in ten has this key or does not have it.
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let options = ProfilerOptions { rate_max: 0.1, ..EXACT };
        let mut profiler = Profiler::new(options);
        profiler.note_hits(ClassId(0), 0);
        let hot = random.next_u64();
        let (mut known, mut hits) = (HashSet::new(), 0);
        for all in 1..=40_000 {
            let key = if random.below(2) == 0 { hot } else { random.below(5_000) };
            let hit = !known.insert(key);
            hits += u64::from(hit);
            get(&mut profiler, key, 0, hit);
            if all % 100 == 0 {
                profiler.note_hits(ClassId(0), hits);
            }
        }
        let curve = profiler.profile(ClassId(0)).curve;
        let all = curve.references();
        assert!(
            (all / 40_000.0 - 1.0).abs() < 0.02,
            "seed {seed}: the curve has about 40,000 references, not {all}"
        );
        // In a cache of 100 chunks, the gets of the hot key and 2 % of the other gets hit.
        let ratio = curve.miss_ratio(100);
        assert!((ratio - 0.49).abs() < 0.06, "seed {seed}: miss ratio {ratio}");
    }
}

#[test]
fn a_hot_key_of_one_class_does_not_change_the_curve_of_another_class() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let mut profiler = Profiler::new(ProfilerOptions { rate_max: 0.1, ..EXACT });
        (0..2).for_each(|class| profiler.note_hits(ClassId(class), 0));
        let hot = random.next_u64();
        let (mut known, mut gets, mut hits) = (HashSet::new(), 0.0, [0; 2]);
        for _ in 0..60_000 {
            let (class, key) = match random.below(3) {
                0 => (0, hot),
                1 => (0, random.below(2_000)),
                _ => (1, 10_000 + random.below(3_000)),
            };
            gets += f64::from(class);
            let hit = !known.insert(key);
            hits[class as usize] += u64::from(hit);
            get(&mut profiler, key, class, hit);
            profiler.note_hits(ClassId(class), hits[class as usize]);
        }
        let curve = profiler.profile(ClassId(1)).curve;
        let off = curve.references() / gets - 1.0;
        assert!(off.abs() < 0.02, "seed {seed}: references are off by {off}");
        let misses = curve.misses(600) / gets;
        assert!(
            (misses - 0.8).abs() < 0.12,
            "seed {seed}: with chunks for a fifth of the keys the miss ratio is about 0.8, not {misses}"
        );
    }
}

#[test]
fn old_references_decay() {
    let options = ProfilerOptions { half_life_references: 1_000, ..EXACT };
    let mut profiler = Profiler::new(options);
    // First the gets are a loop over 100 keys, then a loop over 10 keys.
    (0..20_000).for_each(|at| get(&mut profiler, at % 100, 0, at >= 100));
    let curve = profiler.profile(ClassId(0)).curve;
    assert!(
        curve.miss_ratio(99) > 0.999 && curve.miss_ratio(100) < 0.001,
        "the cliff is at 100 chunks: {curve:?}"
    );
    (0..2_000).for_each(|at| get(&mut profiler, at % 10, 0, true));
    let old = profiler.profile(ClassId(0)).curve.miss_ratio(50);
    assert!(
        (old - 0.25).abs() < 0.01,
        "after two half-lives the miss ratio is about 0.25, not {old}"
    );
}

#[test]
fn hits_at_sizes_between_two_sampled_distances_are_estimated() {
    // About 20 of 1,000 keys are sampled, so sampled distances are 50 chunks apart. The hit ratio with 25 chunks is
    // 2.5 %, with 75 chunks 7.5 %.
    let mut means = [0.0; 2];
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let mut profiler = Profiler::new(ProfilerOptions { rate_max: 0.02, ..EXACT });
        let offset = random.next_u64();
        for at in 0..40_000 {
            get(&mut profiler, offset ^ random.below(1_000), 0, at > 10_000);
        }
        let curve = profiler.profile(ClassId(0)).curve;
        for (mean, chunks) in means.iter_mut().zip([25, 75]) {
            *mean += (1.0 - curve.miss_ratio(chunks)) / 20.0;
        }
    }
    assert!((0.015..0.035).contains(&means[0]), "hit ratio with 25 chunks: {means:?}");
    assert!((0.055..0.1).contains(&means[1]), "hit ratio with 75 chunks: {means:?}");
}

#[test]
fn decaying_counts_change_by_at_most_the_references_counted() {
    let options = ProfilerOptions { half_life_references: 50, ..EXACT };
    let mut profiler = Profiler::new(options);
    profiler.note_hits(ClassId(0), 0);
    let mut last = 0.0;
    // The sample has one of three gets. In 100 half-lives, the weights are scaled twice.
    for at in 0..5_000 {
        get(&mut profiler, at % 30, 0, at >= 30);
        profiler.note_hits(ClassId(0), 3 * (at + 1));
        let all = profiler.profile(ClassId(0)).curve.references();
        assert!(
            at < 30 || (all - last).abs() <= 3.0,
            "get {at} changes {last} references to {all}"
        );
        last = all;
    }
    // The expected number of references is the sum of a geometric series.
    let expected = 3.0 / (1.0 - (-1.0f64 / 50.0).exp2());
    assert!(
        (last / expected - 1.0).abs() < 1e-6,
        "the curve has {expected} references, not {last}"
    );
}

#[test]
fn the_miss_time_is_measured_from_the_first_miss_to_the_store() {
    let mut profiler = Profiler::new(EXACT);
    let mut at = |key, kind, class: Option<u8>, at_nanos| {
        profiler.access(&Access { at_nanos, ..access(key, kind, class) });
    };
    // Of two misses, the first counts.
    at(1, AccessKind::Miss, None, 1_000);
    at(1, AccessKind::Miss, None, 3_000);
    at(1, AccessKind::Store, Some(0), 5_000);
    // A store without a miss is not timed. A store a minute after its miss is not timed either.
    at(1, AccessKind::Store, Some(0), 9_000);
    at(2, AccessKind::Miss, None, 10_000);
    at(2, AccessKind::Store, Some(0), 60_000_000_000);
    at(3, AccessKind::Miss, None, 20_000);
    at(3, AccessKind::Store, Some(0), 28_000);
    // A store after a hit is not timed either, because the item was created between the miss and the hit.
    at(4, AccessKind::Store, Some(0), 30_000);
    at(4, AccessKind::Miss, None, 31_000);
    at(4, AccessKind::Hit, Some(0), 32_000);
    at(4, AccessKind::Store, Some(0), 99_000);
    let profile = profiler.profile(ClassId(0));
    assert_eq!(profile.miss_time_us, 6.0);
}

#[test]
fn the_first_hit_of_an_unknown_key_is_not_a_reference() {
    let mut profiler = Profiler::new(EXACT);
    get(&mut profiler, 1, 0, true);
    assert_eq!(profiler.profile(ClassId(0)).curve.references(), 0.0);
    get(&mut profiler, 1, 0, true);
    assert_eq!(profiler.profile(ClassId(0)).curve.points().len(), 2);
}
