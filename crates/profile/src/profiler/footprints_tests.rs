//! Tests of footprints: their curves are compared with curves of stack distances, and their memory is bounded.

use crate::profiler::{KEY_SIZE_BYTES, Profiler, ProfilerOptions};
use crate::{Access, AccessKind, ClassSize, Mrc};
use slabwise_base::random::mix;
use slabwise_base::{ClassId, Random};

const EXACT: ProfilerOptions =
    ProfilerOptions { keys_max: 1 << 20, rate_max: 1.0, half_life_references: u64::MAX };

fn access(key: u64, kind: AccessKind, class: Option<u8>) -> Access {
    Access { hash: mix(key), kind, class: class.map(ClassId), size_bytes: 0, at_nanos: 0 }
}

/// Gets of random keys of two classes; each key is stored after its first get.
struct Stream {
    random: Random,
    /// The keys that were stored.
    known: std::collections::HashSet<u64>,
    /// The hits of each class.
    hits: [u64; 2],
}

impl Stream {
    fn new(seed: u64) -> Stream {
        Stream { random: Random::new(seed), known: Default::default(), hits: [0; 2] }
    }

    /// Runs `gets` gets. Each class has its own number of keys.
    fn run(&mut self, profiler: &mut Profiler, gets: u64, keys: [u64; 2]) {
        self.note_hits(profiler);
        for _ in 0..gets {
            let class = self.random.below(2);
            let bound = keys[class as usize];
            let key = 2 * self.random.below(bound).min(self.random.below(bound)) + class;
            let class = Some(class as u8);
            if self.known.insert(key) {
                profiler.access(&access(key, AccessKind::Miss, None));
                profiler.access(&access(key, AccessKind::Store, class));
            } else {
                self.hits[usize::from(key % 2 == 1)] += 1;
                profiler.access(&access(key, AccessKind::Hit, class));
            }
        }
        self.note_hits(profiler);
    }

    fn note_hits(&self, profiler: &mut Profiler) {
        (0..2).for_each(|class| profiler.note_hits(ClassId(class), self.hits[class as usize]));
    }
}

/// Returns the greatest difference of two curves' miss ratios at sizes up to `chunks_max`.
fn largest_error(one: &Mrc, other: &Mrc, chunks_max: usize) -> f64 {
    let sizes = (0..chunks_max as u64).step_by(100);
    sizes.map(|at| (one.miss_ratio(at) - other.miss_ratio(at)).abs()).fold(0.0, f64::max)
}

#[test]
fn under_a_steady_load_curves_of_footprints_equal_curves_of_stack_distances() {
    for seed in 0..3 {
        // With sampling, the two curves have different errors.
        for (rate_max, most) in [(1.0, 0.02), (0.2, 0.08)] {
            // The half-life of the counts of stack distances, in sampled references.
            let half_life_references = 30_000;
            let options = ProfilerOptions { rate_max, half_life_references, ..EXACT };
            let mut profiler = Profiler::new(options);
            // A footprint covers the last 50,000 to 100,000 sampled gets. Of the 400,000 sampled gets of the rate 1.0,
            // it does not cover the first references to keys. Of the rate 0.2 it covers all 80,000 sampled gets.
            profiler.keep_footprints(Some(50_000));
            Stream::new(seed).run(&mut profiler, 400_000, [4_000, 8_000]);
            let mut all = 0.0;
            for class in 0..2 {
                let profile = profiler.profile(ClassId(class));
                let off = largest_error(&profile.footprint_curve, &profile.curve, 9_000);
                assert!(
                    off < most,
                    "seed {seed}, rate {rate_max}, class {class}: the miss ratios differ by {off}"
                );
                all += profile.footprint_curve.references();
            }
            // At any rate, a window has 50,000 sampled gets, and the curve covers one to two windows.
            let gets = all * profiler.rate();
            assert!(
                (49_000.0..101_000.0).contains(&gets),
                "seed {seed}, rate {rate_max}: the curves cover 50,000 to 100,000 sampled gets, not {gets}"
            );
        }
    }
}

#[test]
fn after_a_change_of_keys_curves_of_footprints_change_faster_than_curves_of_distances() {
    let mut profiler = Profiler::new(EXACT);
    profiler.keep_footprints(Some(20_000));
    let mut stream = Stream::new(7);
    stream.run(&mut profiler, 200_000, [8_000, 8_000]);
    stream.run(&mut profiler, 40_001, [50, 50]);
    let profile = profiler.profile(ClassId(0));
    assert!(profile.footprint_curve.miss_ratio(50) < 0.01, "only new keys count: {profile:?}");
    assert!(profile.curve.miss_ratio(50) > 0.5, "old keys still count: {profile:?}");
}

#[test]
fn footprints_are_kept_on_request_and_restart_with_a_new_window() {
    let mut profiler = Profiler::new(EXACT);
    let mut stream = Stream::new(1);
    stream.run(&mut profiler, 20_000, [100, 100]);
    assert_eq!(profiler.profile(ClassId(0)).footprint_curve, Mrc::empty());
    profiler.keep_footprints(Some(5_000));
    stream.run(&mut profiler, 20_000, [100, 100]);
    let before = profiler.profile(ClassId(0));
    assert!(before.footprint_curve.references() > 2_000.0);
    profiler.keep_footprints(Some(5_000));
    assert_eq!(profiler.profile(ClassId(0)), before, "the same request again changes no curve");
    profiler.keep_footprints(Some(6_000));
    assert_eq!(profiler.profile(ClassId(0)).footprint_curve, Mrc::empty());
    stream.run(&mut profiler, 12_000, [100, 100]);
    let curve = profiler.profile(ClassId(0)).footprint_curve;
    assert!(curve.miss_ratio(100) < 0.01, "no reuse time starts before the request: {curve:?}");
    profiler.keep_footprints(None);
    assert_eq!(profiler.profile(ClassId(0)).footprint_curve, Mrc::empty());
}

#[test]
fn a_deleted_key_is_a_first_reference_again() {
    let mut profiler = Profiler::new(EXACT);
    profiler.keep_footprints(Some(1_000));
    for kind in [AccessKind::Store, AccessKind::Hit, AccessKind::Delete, AccessKind::Miss] {
        let class = (kind != AccessKind::Miss).then_some(0);
        profiler.access(&access(9, kind, class));
    }
    let curve = profiler.profile(ClassId(0)).footprint_curve;
    assert_eq!((curve.misses(0), curve.misses(1), curve.misses(100)), (2.0, 1.0, 1.0));
}

#[test]
fn memory_stays_within_its_bound() {
    for (size_bytes, classes, keys) in [(1 << 20, 8, 400_000), (2_300_000, 63, 2_000_000)] {
        let keys_max = size_bytes / 4 * 3 / KEY_SIZE_BYTES;
        let options = ProfilerOptions { keys_max, ..ProfilerOptions::default() };
        let mut profiler = Profiler::new(options);
        profiler.keep_footprints(Some(100_000));
        let size = |class| super::tests::size(class, keys, 100);
        let sizes: Vec<ClassSize> = (0..classes as u8).map(size).collect();
        let (mut random, mut most) = (Random::new(size_bytes as u64), 0);
        for at in 0..600_000 {
            // Every class has reuse times of every length.
            let key = random.below(1 + random.clone().below(keys));
            profiler.access(&access(key, AccessKind::Miss, None));
            profiler.access(&access(key, AccessKind::Store, Some((key % classes) as u8)));
            if at % 1_000 == 0 {
                most = most.max(profiler.size_bytes());
                profiler.set_sizes(&sizes, 0);
            }
        }
        profiler.set_sizes(&sizes, 0);
        profiler.check();
        assert!(
            most <= size_bytes,
            "{classes} classes take at most {size_bytes} bytes, not {most}"
        );
        let reserved = options.keys_max - profiler.keys_max;
        assert!(
            reserved * KEY_SIZE_BYTES >= profiler.reuses_size_bytes(),
            "the memory of {reserved} keys holds all reuse times"
        );
    }
}
