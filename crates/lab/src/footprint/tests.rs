//! Compares the curves of samples and footprints with exact curves, for generated references.
//!
//! Invariant: at every size the miss ratio differs by at most [`ERROR_MAX`] from the exact miss ratio at a nearby size,
//! and the mean error is at most [`MEAN_ERROR_MAX`]. For a sample, a nearby size is within three standard deviations of
//! the number of sampled keys plus one step of the stack distances. For a footprint, a nearby size is within 1 % of the
//! size.

use super::{Footprint, LocalFootprint};
use slabwise_base::random::mix;
use slabwise_base::{ClassId, Random};
use slabwise_profile::{
    Access, AccessKind, Distances, Mrc, Profiler, ProfilerOptions, Sample, StackDistances,
};

/// Largest accepted error of a miss ratio, as a fraction of the references: 1.5 percentage points.
const ERROR_MAX: f64 = 0.015;
/// Largest accepted mean error of a miss ratio, as a fraction of the references: 0.5 percentage points.
const MEAN_ERROR_MAX: f64 = 0.005;
const CLASS: ClassId = ClassId(0);

/// Returns the expected standard deviation of the sampled curve at a size, in misses.
///
/// Two errors contribute. They are independent of each other in a first approximation:
///
/// - *Size.* The sampled number of keys has a standard deviation, so the size in chunks has one too. The resulting
///   error is half of the difference between the misses at the size minus and plus this deviation.
/// - *Count.* Either all references to a key are sampled or none. With the sampling rate r, the number of independent
///   observations is at most the number of sampled misses, `misses r`, and at most the number of sampled keys. The
///   resulting error is `misses sqrt((1 - r) / min(misses r, keys))`.
///
/// The result is the square root of the sum of the squares of the two errors. The formula ignores that some keys are
/// referenced more often than others: the profiler corrects the effect of such keys on the number of references, and
/// the caches of these tests are large enough to hold such keys.
fn deviation(curve: &Mrc, chunks: u64, sample: Sample) -> f64 {
    let Sample { rate, keys } = sample;
    let size_deviation = sample.size_deviation(chunks);
    let below = curve.misses((chunks as f64 - size_deviation).max(0.0) as u64);
    let above = curve.misses((chunks as f64 + size_deviation) as u64);
    let size_error = (below - above) / 2.0;
    let misses = curve.misses(chunks);
    let independent = (misses * rate).min(keys as f64).max(1.0);
    let count_error = misses * ((1.0 - rate) / independent).sqrt();
    size_error.hypot(count_error)
}

/// Draws keys from 0; the probability of key k is proportional to 1 / (k + 1). The element k is the sum of these
/// weights up to key k.
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
        let at = random.unit() * self.0.last().expect("the distribution has at least one key");
        self.0.partition_point(|&sum| sum <= at) as u64
    }
}

/// The curves of one stream of keys, by each method.
struct Curves {
    exact: Mrc,
    footprint: Mrc,
    local_footprint: Mrc,
    sampled: Mrc,
    /// The sample from which `sampled` was computed.
    sample: Sample,
}

/// Computes the curves of a stream. The profiler samples at most `keys_max` keys.
fn curves(keys: impl Iterator<Item = u64>, keys_max: usize) -> Curves {
    let (mut stack, mut distances) = (StackDistances::default(), Distances::default());
    let (mut footprint, mut local_footprint) = (Footprint::default(), LocalFootprint::default());
    let options = ProfilerOptions { keys_max, rate_max: 1.0, half_life_references: u64::MAX };
    let mut profiler = Profiler::new(options);
    profiler.note_hits(CLASS, 0);
    let mut hits = 0;
    for key in keys {
        let distance = stack.reference(key);
        distances.record(distance);
        footprint.reference(key);
        local_footprint.reference(key);
        let access = Access {
            hash: mix(key),
            kind: AccessKind::Hit,
            class: Some(CLASS),
            size_bytes: 0,
            at_nanos: 0,
        };
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

/// Returns the largest and the mean error of the miss ratio over 1,000 sizes up to `chunks_max`. For the largest error,
/// a miss ratio is compared with the exact miss ratios at all sizes within `nearby(size)` chunks, because the exact
/// curve can be steep.
fn errors(found: &Mrc, exact: &Mrc, nearby: impl Fn(u64) -> u64, chunks_max: u64) -> (f64, f64) {
    let (mut largest, mut sum, mut count) = (0.0f64, 0.0, 0.0);
    for step in 1..=1_000 {
        let chunks = step * chunks_max / 1_000;
        let nearby = nearby(chunks);
        let highest = exact.miss_ratio(chunks.saturating_sub(nearby));
        let lowest = exact.miss_ratio(chunks + nearby);
        let ratio = found.miss_ratio(chunks);
        largest = largest.max(ratio - highest).max(lowest - ratio);
        sum += (ratio - exact.miss_ratio(chunks)).abs();
        count += 1.0;
    }
    (largest, sum / count)
}

/// Checks the invariant of this file for all curves of a stream.
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
    let of_footprint = |curve| errors(curve, &curves.exact, |at| at / 100, chunks_max);
    let found = [
        ("sampled", sampled),
        ("footprint", of_footprint(&curves.footprint)),
        ("local footprint", of_footprint(&curves.local_footprint)),
    ];
    for (method, (largest, mean)) in found {
        let context = format!("{method} curve of {name}, seed {seed}, rate {rate}");
        assert!(largest <= ERROR_MAX, "{context}: largest error {largest}, limit {ERROR_MAX}");
        assert!(mean <= MEAN_ERROR_MAX, "{context}: mean error {mean}, limit {MEAN_ERROR_MAX}");
    }
}

#[test]
fn curves_of_a_zipf_distribution_are_near_the_exact_curve() {
    let zipf = Zipf::new(100_000);
    for seed in 0..3 {
        let mut random = Random::new(seed);
        let curves = curves((0..300_000).map(|_| mix(seed) ^ zipf.key(&mut random)), 10_000);
        assert_near("a Zipf distribution", seed, &curves, 100_000);
    }
}

#[test]
fn curves_of_a_zipf_distribution_with_a_scan_are_near_the_exact_curve() {
    let zipf = Zipf::new(50_000);
    for seed in 0..3 {
        let mut random = Random::new(seed);
        let mut scanned = 0;
        let mut key = || match random.below(5) {
            // A fifth of the references belongs to a scan that reads 20,000 other keys in a loop.
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
fn curves_of_a_loop_are_near_the_exact_curve() {
    for seed in 0..3 {
        let curves = curves((0..300_000).map(|at| mix(seed) ^ (at % 60_000)), 30_000);
        assert_near("a loop", seed, &curves, 120_000);
    }
}

#[test]
fn sampled_curves_have_the_expected_standard_deviation() {
    let zipf = Zipf::new(10_000);
    let mut random = Random::new(1);
    let skewed: Vec<u64> = (0..50_000).map(|_| zipf.key(&mut random)).collect();
    let looped: Vec<u64> = (0..50_000).map(|at| at % 10_000).collect();
    for (name, keys, sizes) in [
        ("a Zipf distribution", skewed, [500, 2_500, 7_500]),
        ("a loop", looped, [5_000, 9_900, 10_100]),
    ] {
        // One element per size: the standard deviation over 30 samples, divided by the expected standard deviation.
        let (mut ratios, mut exact) = ([0.0; 3], None);
        for seed in 0..30 {
            let curves = curves(keys.iter().map(|key| mix(seed) ^ key), 1_000);
            let exact = exact.get_or_insert(curves.exact);
            for (ratio, chunks) in ratios.iter_mut().zip(sizes) {
                let error = curves.sampled.misses(chunks) - exact.misses(chunks);
                *ratio += (error / deviation(exact, chunks, curves.sample)).powi(2) / 30.0;
            }
        }
        let ratios = ratios.map(f64::sqrt);
        let context = format!("{name}: measured divided by expected deviations {ratios:?}");
        eprintln!("{context}");
        assert!(ratios.iter().all(|ratio| (0.3..2.0).contains(ratio)), "{context}");
    }
}
