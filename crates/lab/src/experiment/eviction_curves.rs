//! `eviction-curves`: measures the error of LRU curves for a cache with segmented queues.
//!
//! ```text
//!   keys --+--> segmented caches of several sizes: their miss ratios
//!          +--> miniature simulation of these caches -------> its error
//!          '--> exact stack distances: the curve of an LRU --> its error
//! ```
//!
//! A server with segmented queues does not evict as an LRU does, but its page policies use the miss-ratio curve of an
//! LRU. The experiment measures the error of the LRU curve, and the error of the curve of a miniature simulation. All
//! items of a stream are in one class, and each item takes one chunk.

use super::kind::{Experiment, Job};
use crate::result::{Outcome, format_number, measures};
use crate::trial::error::ExperimentError;
use crate::trial::setup::StreamSetup;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use serde::Deserialize;
use slabwise_base::random::mix;
use slabwise_profile::{Distances, KeyMap, Mrc, StackDistances};
use slabwise_simulation::{MiniatureSimulation, Segmented, Simulation};

/// Number of sizes at which curves are compared. The sizes are evenly spaced below the number of keys.
const SIZES: u64 = 6;
/// Sampling rate of the miniature simulation.
const RATE: f64 = 0.1;

measures! {
    LARGEST: "largest_error", "largest error of the miss ratio", "percentage points", Fixed;
    MEAN: "mean_error", "mean error of the miss ratio", "percentage points", Fixed;
}

/// The curves of a stream.
struct Found {
    /// The compared sizes, in chunks.
    sizes: Vec<u64>,
    /// Name and curve of each method. The first curve is that of the segmented caches, which is exact.
    curves: [(&'static str, Mrc); 3],
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvictionCurvesSetup {
    pub streams: Vec<StreamSetup>,
}

impl Experiment for EvictionCurvesSetup {
    fn fill(&self, job: &Job<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
        outcome.add_setup(
            "sizes compared",
            format!("{SIZES}, evenly spaced below the number of keys"),
        );
        outcome.add_setup(
            "sampling rate of the miniature",
            format!("{} %", format_number(RATE * 100.0)),
        );
        let streams = &self.streams;
        let found = streams.par_iter().map(|stream| simulate(stream, job));
        let found: Vec<Found> = found.collect::<Result<_, ExperimentError>>()?;
        for (stream, found) in streams.iter().zip(found) {
            add(outcome, &stream.name, &found);
        }
        Ok(())
    }
}

fn simulate(stream: &StreamSetup, job: &Job<'_>) -> Result<Found, ExperimentError> {
    let (scale, seed) = job.size();
    let bar = job.progress.bar(&stream.name);
    let mut numbers: KeyMap<u32> = KeyMap::default();
    let mut references = 0;
    for key in stream.keys(scale, seed)? {
        let next = numbers.len() as u32;
        numbers.entry(key?).or_insert(next);
        references += 1;
    }
    bar.set_length(references);
    let count = numbers.len() as u64;
    let sizes: Vec<u64> = (1..=SIZES).map(|size| (count * size / (SIZES + 1)).max(1)).collect();
    let cache =
        |chunks| -> Box<dyn Simulation> { Box::new(Segmented::new(count as usize, chunks)) };
    let mut segmented = MiniatureSimulation::new(&sizes, 1.0, cache);
    let mut miniature = MiniatureSimulation::new(&sizes, RATE, cache);
    let (mut stack, mut distances) = (StackDistances::default(), Distances::default());
    for key in stream.keys(scale, seed)? {
        let key = key?;
        let (number, hash) = (numbers[&key], mix(key ^ seed));
        segmented.get(number, hash);
        miniature.get(number, hash);
        distances.record(stack.reference(key));
        bar.inc(1);
    }
    bar.finish_and_clear();
    let (segmented, miniature) = (segmented.mrc(references), miniature.mrc(references));
    let lru = distances.mrc(1);
    let curves = [("segmented", segmented), ("miniature", miniature), ("LRU", lru)];
    Ok(Found { sizes, curves })
}

/// Adds the rows and series of a stream.
fn add(outcome: &mut Outcome, stream: &str, found: &Found) {
    let percentages = |curve: &Mrc| {
        let percentage = |&size| curve.miss_ratio(size) * 100.0;
        found.sizes.iter().map(percentage).collect::<Vec<f64>>()
    };
    let exact = percentages(&found.curves[0].1);
    for (kind, curve) in &found.curves {
        let ratios = percentages(curve);
        let variant = format!("{stream}, {kind}");
        if *kind != "segmented" {
            let errors = || ratios.iter().zip(&exact).map(|(found, exact)| (found - exact).abs());
            outcome.add(LARGEST, &variant, Ok(errors().fold(0.0, f64::max)));
            outcome.add(MEAN, &variant, Ok(errors().sum::<f64>() / SIZES as f64));
        }
        let points = found.sizes.iter().map(|&size| size as f64).zip(ratios);
        outcome.add_series("miss ratio", variant, ["chunks", "%"], points);
    }
}
