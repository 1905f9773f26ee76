//! `curves`: how accurate are approximate miss-ratio curves?
//!
//! ```text
//!   keys --+--> exact stack distances -----> the exact curve
//!          +--> footprint: reuse times ----> its errors at every size
//!          +--> local footprint -----------> its errors at every size
//!          '--> sampled, as in a server ---> its errors at every size
//! ```
//!
//! All keys of a stream are in one class, with one chunk each. Counts do not decay, as in the exact curve. The sample has
//! the limit of a server with the stream's memory.

use super::kind::{Experiment, Job};
use crate::footprint::{Footprint, LocalFootprint};
use crate::result::{Outcome, measures, number};
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
    LARGEST: "largest_error", "largest error of the miss ratio", "points", Fixed;
    MEAN: "mean_error", "mean error of the miss ratio", "points", Fixed;
    CLIFF: "distance_deviations", "distance along sizes, if the error is over 1.5 points", "deviations", Fixed;
    DISTANCE: "distance_percent", "distance along sizes, if the error is over 1.5 points", "% of the size", Fixed;
    RATE: "sample_rate", "sampling rate", "%", Fixed;
    KEYS: "sampled_keys", "keys in the sample", "keys", Fixed;
}

/// The number of sizes at which curves are compared, evenly spaced up to the number of keys.
const SIZES: u64 = 1_000;
/// Miss ratios within this number of points count as equal along sizes.
const NEAR_POINTS: f64 = 0.5;
/// If the error of a miss ratio exceeds this number of points, the distance along sizes is measured.
const FAR_POINTS: f64 = 1.5;
const CLASS: ClassId = ClassId(0);

struct Found {
    keys: u64,
    references: u64,
    exact: Mrc,
    approximate: [(&'static str, Mrc); 3],
    rate: f64,
    sampled_keys: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CurvesSetup {
    pub streams: Vec<StreamSetup>,
}

impl Experiment for CurvesSetup {
    fn fill(&self, job: &Job<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
        outcome
            .choose("sizes compared", format!("{SIZES}, evenly spaced up to the number of keys"));
        let memory = "2 % of the stream's memory plus 1 MiB, as in a server; counts do not decay";
        outcome.choose("memory of the sample", memory);
        let streams = &self.streams;
        let found = streams.par_iter().map(|stream| curves(stream, job));
        let found: Vec<Found> = found.collect::<Result<_, ExperimentError>>()?;
        for (stream, found) in streams.iter().zip(found) {
            let (keys, references) = (number(found.keys as f64), number(found.references as f64));
            let memory_mib = stream.memory_mib;
            let text =
                format!("{references} references to {keys} keys; a cache of {memory_mib} MiB");
            outcome.choose(&stream.name, text);
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
    let options = ProfilerOptions { window_references: u64::MAX, ..options };
    let mut profiler = Profiler::new(options);
    profiler.note_hits(CLASS, 0);
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
            at_nanos: 0,
        };
        if distance.is_some() {
            hits += 1;
            profiler.access(&access);
        } else {
            profiler.access(&Access { kind: AccessKind::Miss, class: None, ..access });
            profiler.access(&Access { kind: AccessKind::Store, ..access });
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
        ],
        rate: profiler.rate(),
        sampled_keys: profiler.keys() as u64,
    })
}

struct Errors {
    /// The largest error in points.
    largest: f64,
    /// The size of the largest error.
    chunks: u64,
    mean: f64,
    /// Sizes with an error of more than [`FAR_POINTS`], each with the distance in chunks to a size without.
    far: Vec<(u64, f64)>,
}

impl Errors {
    fn of(found: &Mrc, exact: &Mrc, keys: u64) -> Errors {
        let error = |chunks| (found.miss_ratio(chunks) - exact.miss_ratio(chunks)).abs() * 100.0;
        let sizes = || (1..=SIZES).map(|size| (keys * size / SIZES).max(1));
        let by_error = |a: &u64, b: &u64| error(*a).total_cmp(&error(*b));
        let chunks = sizes().max_by(by_error).unwrap_or(1);
        // A cliff may be at a size above the number of keys.
        let away = |chunks| distance(found, exact.miss_ratio(chunks), chunks, 4 * keys);
        Errors {
            largest: error(chunks),
            chunks,
            mean: sizes().map(error).sum::<f64>() / SIZES as f64,
            far: sizes()
                .filter(|&size| error(size) > FAR_POINTS)
                .map(|at| (at, away(at)))
                .collect(),
        }
    }

    /// The largest distance along sizes, divided by the unit at its size; 0 without large errors.
    fn distance(&self, unit: impl Fn(f64) -> f64) -> f64 {
        let distances = self.far.iter().map(|&(chunks, away)| away / unit(chunks as f64));
        distances.fold(0.0, f64::max)
    }
}

/// The distance from `chunks` to the nearest size up to `chunks_max` at which a curve is within [`NEAR_POINTS`] of a
/// miss ratio. These sizes are a range, because curves do not rise.
fn distance(curve: &Mrc, ratio: f64, chunks: u64, chunks_max: u64) -> f64 {
    let least = |is_reached: &dyn Fn(f64) -> bool| {
        let (mut from, mut to) = (0, chunks_max);
        while from < to {
            let middle = from.midpoint(to);
            if is_reached(curve.miss_ratio(middle)) { to = middle } else { from = middle + 1 }
        }
        from
    };
    let near = NEAR_POINTS / 100.0;
    let first = least(&|found| found <= ratio + near);
    let last = least(&|found| found < ratio - near).saturating_sub(1).max(first);
    first.saturating_sub(chunks).max(chunks.saturating_sub(last)) as f64
}

fn add(outcome: &mut Outcome, stream: &str, found: &Found) {
    for (kind, curve) in &found.approximate {
        let name = format!("{stream}, {kind}");
        let errors = Errors::of(curve, &found.exact, found.keys);
        let at = format!("at {} chunks", number(errors.chunks as f64));
        outcome.add(LARGEST, &name, Ok(errors.largest));
        outcome.note(at);
        let percent = errors.distance(|chunks| chunks / 100.0);
        outcome.add_all(&name, [(MEAN, errors.mean), (DISTANCE, percent)]);
        if *kind == "sampled" {
            // The number of sampled keys among `c` keys has the mean `c r` and the variance `c r (1 - r)`.
            let missed = (1.0 - found.rate) / found.rate;
            let deviation = |chunks: f64| (chunks * missed).sqrt().max(1.0);
            let (rate, keys) = (found.rate * 100.0, found.sampled_keys as f64);
            let cliff = errors.distance(deviation);
            outcome.add_all(&name, [(CLIFF, cliff), (RATE, rate), (KEYS, keys)]);
        }
    }
    let sizes: Vec<u64> = (0..=SIZES).map(|size| found.keys * size / SIZES).collect();
    let approximate = found.approximate.iter().map(|(kind, curve)| (*kind, curve));
    for (kind, curve) in [("exact", &found.exact)].into_iter().chain(approximate) {
        let points = sizes.iter().map(|&size| (size as f64, curve.miss_ratio(size) * 100.0));
        outcome.draw("miss ratio", format!("{stream}, {kind}"), ["chunks", "%"], points);
    }
}

#[cfg(test)]
mod tests {
    use super::Errors;
    use slabwise_profile::{Mrc, Point};

    #[test]
    fn the_error_of_a_shifted_cliff_is_a_distance() {
        let cliff = |at| {
            let points = [(0, 10.0), (at - 1, 10.0), (at, 0.0)];
            Mrc::new(points.map(|(chunks, misses)| Point { chunks, misses }).into())
        };
        let errors = Errors::of(&cliff(560), &cliff(500), 1_000);
        assert_eq!((errors.largest, errors.mean, errors.far.len()), (100.0, 6.0, 60));
        // One curve falls at 500, the other at 560.
        assert_eq!(errors.distance(|_| 1.0), 60.0);
        let none = Errors::of(&cliff(500), &cliff(500), 1_000);
        assert_eq!((none.largest, none.mean, none.distance(|_| 1.0)), (0.0, 0.0, 0.0));
    }
}
