//! `curves`: measures the errors of approximate miss-ratio curves.
//!
//! ```text
//!   keys --+--> exact stack distances -----> the exact curve
//!          +--> footprint: reuse times ----> its errors at every size
//!          +--> local footprint -----------> its errors at every size
//!          +--> sampled, as in a server ---> its errors at every size
//!          '--> reuse times, as `lama` uses them: its errors, and its difference from the curve of the footprint
//! ```
//!
//! All items of a stream are in one class, and each item takes one chunk. The counts of the sampled curve do not decay,
//! because the counts of the exact curve do not decay either. The sample takes as much memory as in a server with the
//! memory limit of the stream.

use super::kind::{Experiment, Job};
use crate::footprint::{Footprint, LocalFootprint};
use crate::result::{Outcome, format_number, measures};
use crate::trial::error::ExperimentError;
use crate::trial::execute::profiling_options;
use crate::trial::setup::{StreamSetup, scaled};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use serde::Deserialize;
use slabwise_base::ClassId;
use slabwise_base::random::mix;
use slabwise_profile::{
    Access, AccessKind, Distances, Mrc, Profiler, ProfilerOptions, StackDistances,
};

measures! {
    LARGEST: "largest_error", "largest error of the miss ratio", "percentage points", Fixed;
    MEAN: "mean_error", "mean error of the miss ratio", "percentage points", Fixed;
    DISTANCE_DEVIATIONS: "distance_deviations", "largest distance to a size with a small error", "deviations", Fixed;
    DISTANCE_PERCENT: "distance_percent", "largest distance to a size with a small error", "% of the size", Fixed;
    RATE: "sample_rate", "sampling rate", "%", Fixed;
    KEYS: "sampled_keys", "keys in the sample", "keys", Fixed;
    FORMULA: "formula_difference", "largest difference from the published formula", "percentage points", Fixed;
    FORMULA_MEAN: "formula_difference_mean", "mean difference from the published formula", "percentage points", Fixed;
}

/// Number of sizes at which curves are compared. The sizes are evenly spaced up to the number of keys.
const SIZES: u64 = 1_000;
/// An error of at most this number of percentage points is small.
const SMALL_ERROR_POINTS: f64 = 0.5;
/// An error above this number of percentage points is large. At a cliff, a small error of the size causes a large error
/// of the miss ratio. So at each size with a large error, the experiment measures the distance to the nearest size with
/// a small error.
const LARGE_ERROR_POINTS: f64 = 1.5;
const CLASS: ClassId = ClassId(0);
/// The options of a profiler that keeps every key.
const EVERY_KEY: ProfilerOptions =
    ProfilerOptions { keys_max: 1 << 26, rate_max: 1.0, half_life_references: u64::MAX };

/// The curves of a stream.
struct Found {
    /// Number of different keys.
    keys: u64,
    references: u64,
    exact: Mrc,
    /// The name and the curve of each approximate method.
    approximate: [(&'static str, Mrc); 4],
    /// Sampling rate of the sampled curve.
    rate: f64,
    /// Number of keys in the sample.
    sampled_keys: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CurvesSetup {
    pub streams: Vec<StreamSetup>,
}

impl Experiment for CurvesSetup {
    fn fill(&self, job: &Job<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
        outcome.add_setup(
            "sizes compared",
            format!("{SIZES}, evenly spaced up to the number of keys"),
        );
        let memory = "2 % of the cache's memory plus 1 MiB; counts do not decay";
        outcome.add_setup("memory of the sample", memory);
        let distance = format!(
            "for sizes with an error over {LARGE_ERROR_POINTS} percentage points: to the nearest size with an error of \
             at most {SMALL_ERROR_POINTS}; in percent of the size, or in standard deviations of the sampled number of \
             keys"
        );
        outcome.add_setup("distance to a size with a small error", distance);
        let streams = &self.streams;
        let found = streams.par_iter().map(|stream| curves(stream, job));
        let found: Vec<Found> = found.collect::<Result<_, ExperimentError>>()?;
        for (stream, found) in streams.iter().zip(found) {
            let (keys, references) =
                (format_number(found.keys as f64), format_number(found.references as f64));
            let memory_mib = stream.memory_mib;
            let text =
                format!("{references} references to {keys} keys; a cache of {memory_mib} MiB");
            outcome.add_setup(&stream.name, text);
            add(outcome, &stream.name, &found);
        }
        Ok(())
    }
}

fn curves(stream: &StreamSetup, job: &Job<'_>) -> Result<Found, ExperimentError> {
    let (scale, seed) = job.size();
    let bar = job.progress.bar(&stream.name);
    bar.set_length(scaled(stream.requests, scale));
    let (mut stack, mut distances) = (StackDistances::default(), Distances::default());
    let (mut footprint, mut local_footprint) = (Footprint::default(), LocalFootprint::default());
    let options = profiling_options(scaled(stream.memory_mib << 20, scale)).profiler;
    let options = ProfilerOptions { half_life_references: u64::MAX, ..options };
    let mut profiler = Profiler::new(options);
    profiler.note_hits(CLASS, 0);
    let mut reuse_times = Profiler::new(EVERY_KEY);
    reuse_times.keep_footprints(Some(scaled(stream.requests, scale)));
    let (mut references, mut hits) = (0, 0);
    for key in stream.keys(scale, seed)? {
        let key = key?;
        let distance = stack.reference(key);
        distances.record(distance);
        footprint.reference(key);
        local_footprint.reference(key);
        let access = Access {
            hash: mix(key ^ seed),
            kind: AccessKind::Hit,
            class: Some(CLASS),
            size_bytes: 0,
            at_nanos: 0,
        };
        hits += u64::from(distance.is_some());
        for profiler in [&mut profiler, &mut reuse_times] {
            if distance.is_some() {
                profiler.access(&access);
            } else {
                profiler.access(&Access { kind: AccessKind::Miss, class: None, ..access });
                profiler.access(&Access { kind: AccessKind::Store, ..access });
            }
        }
        references += 1;
        if references % 65_536 == 0 {
            bar.set_position(references);
        }
    }
    profiler.note_hits(CLASS, hits);
    bar.finish_and_clear();
    let keys = stack.keys();
    Ok(Found {
        keys,
        references,
        exact: distances.mrc((keys / (4 * SIZES)).max(1) as usize),
        approximate: [
            ("footprint", footprint.mrc()),
            ("local footprint", local_footprint.mrc()),
            ("sampled", profiler.profile(CLASS).curve),
            ("reuse times", reuse_times.profile(CLASS).footprint_curve),
        ],
        rate: profiler.rate(),
        sampled_keys: profiler.keys() as u64,
    })
}

/// The errors of an approximate curve, in percentage points of the miss ratio.
struct Errors {
    /// The largest error.
    largest: f64,
    /// The size in chunks at which the error is largest.
    chunks: u64,
    /// The mean error over all compared sizes.
    mean: f64,
    /// The sizes with a large error. Each size has the distance to the nearest size with a small error, in chunks.
    large: Vec<(u64, f64)>,
}

impl Errors {
    /// Compares a curve with the exact curve at [`SIZES`] sizes up to `keys` chunks.
    fn of(found: &Mrc, exact: &Mrc, keys: u64) -> Errors {
        let error = |chunks| (found.miss_ratio(chunks) - exact.miss_ratio(chunks)).abs() * 100.0;
        let sizes = || (1..=SIZES).map(|size| (keys * size / SIZES).max(1));
        let by_error = |a: &u64, b: &u64| error(*a).total_cmp(&error(*b));
        let chunks = sizes().max_by(by_error).unwrap_or(1);
        // The approximate curve may have its cliff at a size above the number of keys.
        let distance = |chunks| distance(found, exact.miss_ratio(chunks), chunks, 4 * keys);
        Errors {
            largest: error(chunks),
            chunks,
            mean: sizes().map(error).sum::<f64>() / SIZES as f64,
            large: sizes()
                .filter(|&size| error(size) > LARGE_ERROR_POINTS)
                .map(|size| (size, distance(size)))
                .collect(),
        }
    }

    /// Returns the largest distance from a size with a large error to a size with a small error. The distance is
    /// divided by `unit(size)`. Returns 0 if no error is large.
    fn distance(&self, unit: impl Fn(f64) -> f64) -> f64 {
        let distances = self.large.iter().map(|&(chunks, distance)| distance / unit(chunks as f64));
        distances.fold(0.0, f64::max)
    }
}

/// Returns the distance from `chunks` to the nearest size up to `chunks_max` at which the miss ratio of the curve
/// differs from `ratio` by a small error. All sizes with a small error form a range, because curves do not rise.
fn distance(curve: &Mrc, ratio: f64, chunks: u64, chunks_max: u64) -> f64 {
    // The smallest size whose miss ratio satisfies a condition that all larger sizes satisfy too.
    let smallest_size = |is_satisfied: &dyn Fn(f64) -> bool| {
        let (mut from, mut to) = (0, chunks_max);
        while from < to {
            let middle = from.midpoint(to);
            if is_satisfied(curve.miss_ratio(middle)) { to = middle } else { from = middle + 1 }
        }
        from
    };
    let small_error = SMALL_ERROR_POINTS / 100.0;
    let first = smallest_size(&|found| found <= ratio + small_error);
    let end = smallest_size(&|found| found < ratio - small_error);
    let last = end.saturating_sub(1).max(first);
    first.saturating_sub(chunks).max(chunks.saturating_sub(last)) as f64
}

/// Adds the rows and series of a stream.
fn add(outcome: &mut Outcome, stream: &str, found: &Found) {
    for (kind, curve) in &found.approximate {
        let name = format!("{stream}, {kind}");
        let errors = Errors::of(curve, &found.exact, found.keys);
        let at = format!("at {} chunks", format_number(errors.chunks as f64));
        outcome.add(LARGEST, &name, Ok(errors.largest));
        outcome.note_last_row(at);
        let percent = errors.distance(|chunks| chunks / 100.0);
        outcome.add_all(&name, [(MEAN, errors.mean), (DISTANCE_PERCENT, percent)]);
        if *kind == "sampled" {
            // With the sampling rate r, the number of sampled keys among c keys has the mean c r and the variance
            // c r (1 - r). Divided by r, its standard deviation is sqrt(c (1 - r) / r) chunks.
            let variance_per_chunk = (1.0 - found.rate) / found.rate;
            let deviation = |chunks: f64| (chunks * variance_per_chunk).sqrt().max(1.0);
            let (rate, keys) = (found.rate * 100.0, found.sampled_keys as f64);
            let deviations = errors.distance(deviation);
            outcome.add_all(&name, [(DISTANCE_DEVIATIONS, deviations), (RATE, rate), (KEYS, keys)]);
        }
    }
    let [(_, formula), .., (kind, by_reuse_times)] = &found.approximate;
    let difference = Errors::of(by_reuse_times, formula, found.keys);
    let name = format!("{stream}, {kind}");
    outcome.add(FORMULA, &name, Ok(difference.largest));
    outcome.note_last_row(format!("at {} chunks", format_number(difference.chunks as f64)));
    outcome.add(FORMULA_MEAN, &name, Ok(difference.mean));
    let sizes: Vec<u64> = (0..=SIZES).map(|size| found.keys * size / SIZES).collect();
    let approximate = found.approximate.iter().map(|(kind, curve)| (*kind, curve));
    for (kind, curve) in [("exact", &found.exact)].into_iter().chain(approximate) {
        let points = sizes.iter().map(|&size| (size as f64, curve.miss_ratio(size) * 100.0));
        outcome.add_series("miss ratio", format!("{stream}, {kind}"), ["chunks", "%"], points);
    }
}

#[cfg(test)]
mod tests {
    use super::{CurvesSetup, Errors, FORMULA};
    use crate::experiment::{Experiment, Job};
    use crate::registry;
    use slabwise_profile::{Mrc, Point};

    /// Checks that `lama` uses curves that hardly differ from those of the published formula.
    #[test]
    fn for_every_workload_the_curve_of_reuse_times_is_that_of_the_published_formula() {
        const SEED: u64 = 3;
        let (spec, setup) = registry::parsed::<CurvesSetup>("curves");
        let names: Vec<&str> = setup.streams.iter().map(|stream| stream.name.as_str()).collect();
        for name in slabwise_replay::workload::NAMES {
            assert!(names.contains(&name), "curves.toml has the workload {name}: {names:?}");
        }
        let outcome = setup.run(&Job::of(&spec, 0.02, SEED)).expect("the experiment runs");
        let rows = outcome.rows.iter().filter(|row| row.measure == FORMULA.name);
        let found: Vec<(&str, f64)> =
            rows.map(|row| (&*row.variant, row.ours.expect("the row has a value"))).collect();
        assert_eq!(found.len(), names.len());
        for (stream, points) in found {
            // The two formulas differ in the last windows of the stream. In a short part of a recorded trace, the keys
            // change so fast that this difference is large.
            let limit = if stream.starts_with("cache2k") { 10.0 } else { 0.2 };
            assert!(points < limit, "seed {SEED}, {stream}: {points} percentage points");
        }
    }

    #[test]
    fn a_shifted_cliff_has_its_shift_as_distance() {
        let cliff = |at| {
            let points = [(0, 10.0), (at - 1, 10.0), (at, 0.0)];
            Mrc::new(points.map(|(chunks, misses)| Point { chunks, misses }).into())
        };
        let errors = Errors::of(&cliff(560), &cliff(500), 1_000);
        assert_eq!((errors.largest, errors.mean, errors.large.len()), (100.0, 6.0, 60));
        // The exact curve falls at 500 chunks, and the approximate curve at 560 chunks.
        assert_eq!(errors.distance(|_| 1.0), 60.0);
        let equal = Errors::of(&cliff(500), &cliff(500), 1_000);
        assert_eq!((equal.largest, equal.mean, equal.distance(|_| 1.0)), (0.0, 0.0, 0.0));
    }
}
