//! `eviction-curves`: what is told of a cache that evicts by segmented queues.
//!
//! ```text
//!   keys --+--> segmented caches of several sizes: their miss ratios
//!          +--> the same in miniature ------------> how far off
//!          '--> exact stack distances: an LRU's --> how far off
//! ```
//!
//! The server evicts by segmented queues, and its profile is an LRU's. This tells what that leaves out, and what
//! miniature simulation would know of it. All keys of a stream are one class, a chunk each.

use super::curves::keys;
use super::error::ExperimentError;
use super::outcome::{Measure, Outcome, Scaling, Series, number};
use super::progress::Progress;
use super::spec::{CurvesSetup, Spec, StreamSetup};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use slabwise_base::random::mix;
use slabwise_profile::{Distances, MiniatureSimulation, Mrc, Segmented, StackDistances};
use std::collections::HashSet;

/// Sizes that are simulated, evenly below all keys.
const SIZES: u64 = 6;
/// Keys in the miniature.
const RATE: f64 = 0.1;

const fn measure(name: &'static str, text: &'static str) -> Measure {
    Measure { name, text, unit: "points", scaling: Scaling::Fixed }
}

const LARGEST: Measure = measure("largest_error", "largest error of the miss ratio");
const MEAN: Measure = measure("mean_error", "mean error of the miss ratio");

/// Curves of one stream.
struct Found {
    sizes: Vec<u64>,
    segmented: Mrc,
    miniature: Mrc,
    lru: Mrc,
}

/// Runs it.
pub fn run(
    spec: &Spec,
    setup: &CurvesSetup,
    scale: f64,
    seed: u64,
    progress: &Progress,
) -> Result<Outcome, ExperimentError> {
    let mut outcome = Outcome::new(spec, seed, scale, false);
    outcome.choose("sizes compared", format!("{SIZES}, evenly below all keys"));
    outcome.choose("keys in the miniature", format!("{} %", number(RATE * 100.0)));
    let found = setup.streams.par_iter().map(|stream| {
        let found = simulate(stream, scale, seed, progress)?;
        Ok((stream, found))
    });
    let found: Result<Vec<_>, ExperimentError> = found.collect();
    for (stream, found) in found? {
        add(&mut outcome, &stream.name, &found);
    }
    outcome.complete();
    Ok(outcome)
}

fn simulate(
    stream: &StreamSetup,
    scale: f64,
    seed: u64,
    progress: &Progress,
) -> Result<Found, ExperimentError> {
    let bar = progress.bar(&stream.name);
    let mut known = HashSet::new();
    let mut references = 0;
    for key in keys(stream, scale, seed)? {
        known.insert(key?);
        references += 1;
    }
    bar.set_length(references);
    let count = known.len() as u64;
    let sizes: Vec<u64> = (1..=SIZES).map(|size| (count * size / (SIZES + 1)).max(1)).collect();
    let mut segmented = MiniatureSimulation::<Segmented>::new(&sizes, 1.0);
    let mut miniature = MiniatureSimulation::<Segmented>::new(&sizes, RATE);
    let (mut stack, mut distances) = (StackDistances::default(), Distances::default());
    for key in keys(stream, scale, seed)? {
        let key = key?;
        let hash = mix(key ^ seed);
        segmented.get(hash);
        miniature.get(hash);
        distances.record(stack.reference(key));
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(Found {
        sizes,
        segmented: segmented.mrc(references),
        miniature: miniature.mrc(references),
        lru: distances.mrc(1),
    })
}

fn add(outcome: &mut Outcome, stream: &str, found: &Found) {
    let points = |curve: &Mrc| {
        let ratio = |&size| curve.miss_ratio(size) * 100.0;
        found.sizes.iter().map(ratio).collect::<Vec<f64>>()
    };
    let exact = points(&found.segmented);
    for (kind, curve) in
        [("segmented", &found.segmented), ("miniature", &found.miniature), ("LRU", &found.lru)]
    {
        let ratios = points(curve);
        let variant = format!("{stream}, {kind}");
        if kind != "segmented" {
            let errors = || ratios.iter().zip(&exact).map(|(found, exact)| (found - exact).abs());
            outcome.add(LARGEST, &variant, Ok(errors().fold(0.0, f64::max)));
            outcome.add(MEAN, &variant, Ok(errors().sum::<f64>() / SIZES as f64));
        }
        outcome.series.push(Series {
            name: "miss ratio".to_owned(),
            variant,
            x_unit: "chunks".into(),
            y_unit: "%".into(),
            x: found.sizes.iter().map(|&size| size as f64).collect(),
            y: ratios,
        });
    }
}
