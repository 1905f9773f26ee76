//! Tests of changes of the class table: a profiler whose table changes is compared with one that had the new table from
//! the start.

use crate::profiler::tests::EXACT;
use crate::profiler::{KEY_SIZE_BYTES, Profiler, ProfilerOptions};
use crate::{Access, AccessKind, ClassProfile, ClassSize, Mrc};
use slabwise_base::random::mix;
use slabwise_base::{ClassId, Random};
use std::collections::HashSet;

const PAGE_SIZE_BYTES: u64 = 16 << 10;
/// All pages. Each class has an equal part of them.
const PAGES: u64 = 600;
/// The gets before a change of the table.
const GETS: u64 = 300_000;
const TABLE: [u64; 6] = [64, 128, 256, 512, 1_024, 2_048];
/// Tables that merge classes of [`TABLE`], split them, and shift their limits. Some classes remain.
const OTHER_TABLES: [&[u64]; 4] = [
    &[256, 2_048],
    &[64, 80, 96, 112, 128, 160, 192, 256, 320, 400, 512, 700, 900, 950, 1_024, 1_400, 2_048],
    &[80, 150, 330, 600, 920, 1_500, 2_048],
    &[64, 128, 300, 512, 930, 1_024, 2_048],
];

/// Returns the sizes of the classes of a table, whose numbers start at `first`.
fn sizes(table: &[u64], first: u8) -> Vec<ClassSize> {
    let size = |(index, &chunk_size_bytes)| ClassSize {
        class: ClassId(first + index as u8),
        chunks: PAGES / table.len() as u64 * (PAGE_SIZE_BYTES / chunk_size_bytes),
        chunks_per_page: PAGE_SIZE_BYTES / chunk_size_bytes,
        chunk_size_bytes,
    };
    table.iter().enumerate().map(size).collect()
}

/// A client whose items have several sizes and patterns of use.
struct Client {
    random: Random,
    stored: HashSet<u64>,
    gets: u64,
}

impl Client {
    fn new(seed: u64) -> Client {
        Client { random: Random::new(seed), stored: HashSet::new(), gets: 0 }
    }

    /// Returns the key of the next get and the size of its item.
    fn next(&mut self) -> (u64, u64) {
        self.gets += 1;
        match self.random.below(10) {
            // A loop over items of 900 bytes, and a scan of items of 1,000 bytes without reuse.
            0 | 1 => ((1 << 40) + self.gets % 1_500, 900),
            2 => ((2 << 40) + self.gets, 1_000),
            // Few items of 160 bytes.
            3 => ((3 << 40) + self.random.below(200), 160),
            // Keys with small numbers are used more often. Each key has its own size, from 50 to 2,000 bytes.
            _ => {
                let key = 8_000f64.powf(self.random.unit()) as u64;
                let size = 50.0 * 40f64.powf(Random::new(key).unit());
                (key, size as u64)
            }
        }
    }

    /// Sends gets to all profilers, with a store after each miss. No item is evicted.
    fn send(&mut self, profilers: &mut [&mut Profiler], gets: u64) {
        for _ in 0..gets {
            let (key, size_bytes) = self.next();
            let mut access = |kind, size_bytes: u64| {
                let size_bytes = size_bytes as u32;
                // The size determines the class.
                let class = (size_bytes > 0).then_some(ClassId(200));
                let access = Access { hash: mix(key), kind, class, size_bytes, at_nanos: 0 };
                profilers.iter_mut().for_each(|profiler| profiler.access(&access));
            };
            if self.stored.insert(key) {
                access(AccessKind::Miss, 0);
                access(AccessKind::Store, size_bytes);
            } else {
                access(AccessKind::Hit, size_bytes);
            }
        }
    }
}

/// Returns the largest difference of two curves, as a share of the references. Compares them at sizes from a quarter of
/// a page, but at least 16 sampled keys, to 64 pages. Smaller sizes depend on the few keys that were used last.
fn difference(found: &Mrc, expected: &Mrc, rate: f64, size: &ClassSize) -> f64 {
    let smallest = (size.chunks_per_page as f64 / 4.0).max(16.0 / rate);
    let chunks = (0..80).map(|step| (smallest * 1.072f64.powi(step)) as u64);
    let off = chunks.map(|chunks| found.miss_ratio(chunks) - expected.miss_ratio(chunks));
    off.map(f64::abs).fold(0.0, f64::max)
}

/// Checks that the curves of the two profilers are nearly equal. Returns the sum of the differences of all classes, each
/// weighted by its share of the references.
///
/// `curve` returns one of the two curves of a profile.
fn check_curves(
    [found, expected]: [&Profiler; 2],
    classes: &[ClassSize],
    curve: fn(ClassProfile) -> Mrc,
    at: &str,
) -> f64 {
    found.check();
    let references = |profiler: &Profiler| -> f64 {
        classes.iter().map(|size| curve(profiler.profile(size.class)).references()).sum()
    };
    let all = references(expected);
    let lost = references(found) / all - 1.0;
    assert!(lost.abs() < 0.02, "{at}: the number of references changes by {lost}");
    let rate = found.rate();
    let mut mean = 0.0;
    for size in classes {
        let [found, expected] = [found, expected].map(|it| curve(it.profile(size.class)));
        let share = expected.references() / all;
        let off = difference(&found, &expected, rate, size);
        let more = found.references() / all - share;
        let bytes = size.chunk_size_bytes;
        assert!(
            more.abs() < 0.02,
            "{at}, class of {bytes} bytes: a share of {share} changes by {more}"
        );
        mean += share * off;
    }
    mean
}

/// Changes [`TABLE`] to `table` after [`GETS`] gets. Returns the mean difference from the curves of a profiler that had
/// the new table from the start: at once, and after as many gets again.
fn differences(
    seed: u64,
    rate_max: f64,
    table: &[u64],
    curve: fn(ClassProfile) -> Mrc,
) -> [f64; 2] {
    let options = ProfilerOptions { keys_max: 50_000, rate_max, half_life_references: 100_000 };
    let [mut changed, mut new] = [Profiler::new(options), Profiler::new(options)];
    changed.keep_footprints(Some(GETS / 4));
    new.keep_footprints(Some(GETS / 4));
    // The new classes have other numbers, or partly the same.
    let [before, after] = [sizes(&TABLE, 0), sizes(table, (seed % 3) as u8)];
    changed.set_sizes(&before, PAGES % before.len() as u64);
    new.set_sizes(&after, PAGES % after.len() as u64);
    let mut client = Client::new(seed);
    client.send(&mut [&mut changed, &mut new], GETS);
    changed.set_sizes(&after, PAGES % after.len() as u64);
    assert_eq!(changed.keys(), new.keys(), "seed {seed}, table {table:?}: no key is forgotten");
    let at = format!("seed {seed}, rate {rate_max}, table {table:?}");
    let first = check_curves([&changed, &new], &after, curve, &at);
    client.send(&mut [&mut changed, &mut new], GETS);
    let later = check_curves([&changed, &new], &after, curve, &at);
    println!("{at}: mean difference {first:.4}, later {later:.4}");
    [first, later]
}

#[test]
fn after_a_change_curves_are_nearly_those_of_a_profiler_with_the_new_table() {
    for table in OTHER_TABLES {
        for seed in 0..2 {
            let [first, later] = differences(seed, 1.0, table, |profile| profile.curve);
            assert!(first < 0.06, "seed {seed}, table {table:?}: curves differ by {first}");
            assert!(later < 0.015, "seed {seed}, table {table:?}: curves differ by {later} later");
        }
    }
}

#[test]
fn after_a_change_curves_of_a_sample_are_nearly_those_with_the_new_table() {
    for table in OTHER_TABLES {
        for seed in 0..2 {
            let [first, _] = differences(seed, 0.2, table, |profile| profile.curve);
            assert!(first < 0.06, "seed {seed}, table {table:?}: curves differ by {first}");
        }
    }
}

#[test]
fn after_a_change_footprint_curves_are_nearly_those_with_the_new_table() {
    for table in OTHER_TABLES {
        let seed = 7;
        let [first, later] = differences(seed, 1.0, table, |profile| profile.footprint_curve);
        assert!(first < 0.06, "seed {seed}, table {table:?}: curves differ by {first}");
        assert!(later < 0.015, "seed {seed}, table {table:?}: curves differ by {later} later");
    }
}

#[test]
fn many_changes_keep_the_invariants_and_the_bound_of_memory() {
    for seed in 0..4 {
        let size_bytes_max = 1 << 20;
        let keys_max = size_bytes_max / 4 * 3 / KEY_SIZE_BYTES;
        let options = ProfilerOptions { keys_max, ..ProfilerOptions::default() };
        let mut profiler = Profiler::new(options);
        profiler.keep_footprints((seed % 2 == 0).then_some(10_000));
        let (mut random, mut client) = (Random::new(seed), Client::new(seed));
        for _ in 0..40 {
            let mut table: Vec<u64> =
                (0..random.below(12)).map(|_| 48 + 8 * random.below(250)).collect();
            table.push(2_048);
            table.sort_unstable();
            table.dedup();
            profiler.set_sizes(&sizes(&table, random.below(4) as u8), random.below(1_000));
            profiler.check();
            client.send(&mut [&mut profiler], 4_000);
            let size_bytes = profiler.size_bytes();
            assert!(
                size_bytes <= size_bytes_max,
                "seed {seed}: at most {size_bytes_max} bytes, not {size_bytes}"
            );
        }
        profiler.check();
    }
}

#[test]
fn a_class_that_remains_keeps_its_counts() {
    let mut profiler = Profiler::new(ProfilerOptions { keys_max: 50_000, ..EXACT });
    profiler.set_sizes(&sizes(&[100, 200, 400], 0), 0);
    let get = |profiler: &mut Profiler, key: u64, size_bytes| {
        let access = |kind, class| Access { hash: mix(key), kind, class, size_bytes, at_nanos: 0 };
        profiler.access(&Access { size_bytes: 0, ..access(AccessKind::Miss, None) });
        profiler.access(&access(AccessKind::Store, Some(ClassId(0))));
    };
    for key in 0..300 {
        get(&mut profiler, key, [90, 150, 190][key as usize % 3]);
    }
    profiler.set_sizes(
        &sizes(&[100, 160, 200, 400], 0)
            .iter()
            .map(|size| match size.class.0 {
                // The class of 160 bytes is new, and has a new number.
                1 => ClassSize { class: ClassId(7), ..*size },
                number => ClassSize { class: ClassId(number.saturating_sub(1)), ..*size },
            })
            .collect::<Vec<_>>(),
        0,
    );
    let of = |number| profiler.profile(ClassId(number));
    let references = [0, 1, 7].map(|number| of(number).curve.references());
    assert_eq!(references, [100.0, 100.0, 100.0]);
    let misses = [0, 1, 7].map(|number| of(number).misses);
    assert_eq!(misses, [100.0, 200.0, 0.0], "counts since the start do not move");
    assert_eq!([0, 1, 7].map(|number| of(number).sample.keys), [100; 3]);
}

#[test]
fn hits_of_retired_classes_count_in_the_class_for_the_size() {
    let mut profiler = Profiler::new(EXACT);
    let [before, after] = [sizes(&[100, 400], 0), sizes(&[200, 400], 5)];
    let access = |kind, class, size_bytes| Access {
        hash: mix(1),
        kind,
        class: Some(ClassId(class)),
        size_bytes,
        at_nanos: 0,
    };
    profiler.set_sizes(&before, 0);
    profiler.access(&access(AccessKind::Store, 1, 150));
    profiler.set_sizes(&after, 0);
    // The engine still has the item in the retired class, and then in its new class.
    (0..3).for_each(|_| profiler.access(&access(AccessKind::Hit, 1, 150)));
    (0..4).for_each(|_| profiler.access(&access(AccessKind::Hit, 5, 150)));
    let profile = profiler.profile(ClassId(5));
    assert_eq!((profile.hits_in_retired, profile.curve.references()), (3.0, 7.0));
    assert_eq!(profiler.profile(ClassId(1)), ClassProfile::default());
}
