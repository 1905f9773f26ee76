//! Compares the curves of samples and footprints with those of exact stack distances, on generated references.
//!
//! Invariant: at every size the miss ratio is within [`POINTS_MAX`] of the exact one at a nearby size, and the mean
//! error is at most [`MEAN_POINTS_MAX`]. A nearby size of a sample is within three standard deviations plus one step of
//! the distances; of a footprint, within 1 % of the size.

use super::{Footprint, LocalFootprint};
use slabwise_base::random::mix;
use slabwise_base::{ClassId, Random};
use slabwise_profile::{
    Access, AccessKind, Distances, Mrc, Profiler, ProfilerOptions, Sample, StackDistances,
};

const POINTS_MAX: f64 = 0.015;
const MEAN_POINTS_MAX: f64 = 0.005;
const CLASS: ClassId = ClassId(0);

/// The expected standard deviation, in misses, of the curve of a sample at a size.
///
/// Two errors contribute, which are independent to a first order:
///
/// - *sizes* have their own deviation; the error in misses is half the fall of the curve across it;
/// - *counts*: either all references to a key are in the sample or none. So at most one of the `misses r` sampled misses
///   per sampled key is independent, and the error is `misses sqrt((1 - r) / min(misses r, keys))`.
///
/// The result is the root of the sum of their squares. It ignores that some keys are referenced more often: the
/// profiler corrects the effect of hot keys on the count of references, and at sizes of interest hot keys hit.
fn deviation(curve: &Mrc, chunks: u64, sample: Sample) -> f64 {
    let Sample { rate, keys } = sample;
    let missed = 1.0 - rate;
    let off_chunks = sample.size_deviation(chunks);
    let below = curve.misses((chunks as f64 - off_chunks).max(0.0) as u64);
    let above = curve.misses((chunks as f64 + off_chunks) as u64);
    let by_sizes = (below - above) / 2.0;
    let misses = curve.misses(chunks);
    let independent = (misses * rate).min(keys as f64).max(1.0);
    let by_counts = misses * (missed / independent).sqrt();
    by_sizes.hypot(by_counts)
}

/// Draws ranks from 0; the probability of the `n`th is proportional to 1 / n.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(keys: u64) -> Zipf {
        let mut sum = 0.0;
        let add = |rank| {
            sum += 1.0 / rank as f64;
            sum
        };
        Zipf((1..=keys).map(add).collect())
    }

    fn key(&self, random: &mut Random) -> u64 {
        let at = random.unit() * self.0.last().expect("there are keys");
        self.0.partition_point(|&sum| sum <= at) as u64
    }
}

/// The curves of one stream of keys by each method, and the sample of the sampled one.
struct Curves {
    exact: Mrc,
    footprint: Mrc,
    local_footprint: Mrc,
    sampled: Mrc,
    sample: Sample,
}

fn curves(keys: impl Iterator<Item = u64>, keys_max: usize) -> Curves {
    let (mut stack, mut distances) = (StackDistances::default(), Distances::default());
    let (mut footprint, mut local_footprint) = (Footprint::default(), LocalFootprint::default());
    let options = ProfilerOptions { keys_max, rate_max: 1.0, window_references: u64::MAX };
    let mut profiler = Profiler::new(options);
    profiler.note_hits(CLASS, 0);
    let mut hits = 0;
    for key in keys {
        let distance = stack.reference(key);
        distances.record(distance);
        footprint.reference(key);
        local_footprint.reference(key);
        let access =
            Access { hash: mix(key), kind: AccessKind::Hit, class: Some(CLASS), at_nanos: 0 };
        if distance.is_some() {
            hits += 1;
            profiler.access(&access);
        } else {
            profiler.access(&Access { kind: AccessKind::Miss, class: None, ..access });
            profiler.access(&Access { kind: AccessKind::Store, ..access });
        }
        profiler.note_hits(CLASS, hits);
    }
    profiler.check();
    let profile = profiler.profile(CLASS);
    Curves {
        exact: distances.mrc(1),
        footprint: footprint.mrc(),
        local_footprint: local_footprint.mrc(),
        sampled: profile.curve,
        sample: profile.sample,
    }
}

/// The largest and the mean error of the miss ratio over sizes up to `chunks_max`. The largest error is the distance
/// from the range of the exact curve within `reach` of the size, because the exact curve can be steep.
fn errors(found: &Mrc, exact: &Mrc, reach: impl Fn(u64) -> u64, chunks_max: u64) -> (f64, f64) {
    let (mut worst, mut sum, mut count) = (0.0f64, 0.0, 0.0);
    for step in 1..=1_000 {
        let chunks = step * chunks_max / 1_000;
        let reach = reach(chunks);
        let most = exact.miss_ratio(chunks.saturating_sub(reach));
        let least = exact.miss_ratio(chunks + reach);
        let ratio = found.miss_ratio(chunks);
        worst = worst.max(ratio - most).max(least - ratio);
        sum += (ratio - exact.miss_ratio(chunks)).abs();
        count += 1.0;
    }
    (worst, sum / count)
}

fn assert_near(name: &str, seed: u64, curves: &Curves, chunks_max: u64) {
    // The number of sampled keys among `chunks` keys has a binomial distribution with the mean `chunks * rate`.
    let rate = curves.sample.rate;
    let deviation = |chunks: u64| (chunks as f64 * (1.0 - rate) / rate).sqrt();
    let sampled = errors(
        &curves.sampled,
        &curves.exact,
        |at| (3.0 * deviation(at)) as u64 + at / 128,
        chunks_max,
    );
    let by_windows = |curve| errors(curve, &curves.exact, |at| at / 100, chunks_max);
    let found = [
        ("sampled", sampled),
        ("footprint", by_windows(&curves.footprint)),
        ("local footprint", by_windows(&curves.local_footprint)),
    ];
    for (method, (worst, mean)) in found {
        let what = format!("{method} curve of {name}, seed {seed}, rate {rate}");
        assert!(worst <= POINTS_MAX, "{what}: largest error {worst}");
        assert!(mean <= MEAN_POINTS_MAX, "{what}: mean error {mean}");
    }
}

#[test]
fn curves_of_a_zipf_distribution_are_near_the_exact_one() {
    let zipf = Zipf::new(100_000);
    for seed in 0..3 {
        let mut random = Random::new(seed);
        let curves = curves((0..300_000).map(|_| mix(seed) ^ zipf.key(&mut random)), 10_000);
        assert_near("a Zipf distribution", seed, &curves, 100_000);
    }
}

#[test]
fn curves_of_a_zipf_distribution_with_a_scan_are_near_the_exact_one() {
    let zipf = Zipf::new(50_000);
    for seed in 0..3 {
        let mut random = Random::new(seed);
        let mut scanned = 0;
        let mut key = || match random.below(5) {
            // A fifth of the references scans through keys repeatedly.
            0 => {
                scanned += 1;
                1_000_000 + scanned % 20_000
            }
            _ => zipf.key(&mut random),
        };
        let curves = curves((0..300_000).map(|_| mix(seed) ^ key()), 10_000);
        assert_near("a scan in a Zipf distribution", seed, &curves, 100_000);
    }
}

#[test]
fn curves_of_a_loop_are_near_the_exact_one() {
    for seed in 0..3 {
        let curves = curves((0..300_000).map(|at| mix(seed) ^ (at % 60_000)), 30_000);
        assert_near("a loop", seed, &curves, 120_000);
    }
}

#[test]
fn the_deviation_of_samples_is_the_expected_one() {
    let zipf = Zipf::new(10_000);
    let mut random = Random::new(1);
    let skewed: Vec<u64> = (0..50_000).map(|_| zipf.key(&mut random)).collect();
    let looped: Vec<u64> = (0..50_000).map(|at| at % 10_000).collect();
    for (name, keys, sizes) in [
        ("a Zipf distribution", skewed, [500, 2_500, 7_500]),
        ("a loop", looped, [5_000, 9_900, 10_100]),
    ] {
        let (mut ratios, mut exact) = ([0.0; 3], None);
        for seed in 0..30 {
            let curves = curves(keys.iter().map(|key| mix(seed) ^ key), 1_000);
            let exact = exact.get_or_insert(curves.exact);
            for (ratio, chunks) in ratios.iter_mut().zip(sizes) {
                let off = curves.sampled.misses(chunks) - exact.misses(chunks);
                *ratio += (off / deviation(exact, chunks, curves.sample)).powi(2) / 30.0;
            }
        }
        let ratios = ratios.map(f64::sqrt);
        eprintln!("{name} {ratios:?}");
        assert!(ratios.iter().all(|ratio| (0.3..2.0).contains(ratio)), "{name}: {ratios:?}");
    }
}
