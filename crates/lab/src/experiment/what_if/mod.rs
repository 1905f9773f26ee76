//! `what-if`: compares the miss ratios that a server predicts for other memory sizes with measured miss ratios.
//!
//! ```text
//!   requests --+--> server with the memory limit ----> predictions at some moments --+--> errors, and the share of
//!              '--> servers with other limits --------> measured miss ratios --------+    cases inside the error band
//! ```
//!
//! Predictions are for recent gets, whose weights decay. A measured miss ratio has the same half-life, in gets of all
//! keys. All servers of a stream get the same requests.

use super::kind::{Experiment, Job};
use crate::result::{Outcome, measures};
use crate::trial::error::ExperimentError;
use crate::trial::execute::default_profiling_options;
use crate::trial::served::{Served, ServedSetup, VALUE_LEN_MAX};
use crate::trial::setup::{WorkloadSetup, scaled};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use serde::Deserialize;
use slabwise_engine::Engine;
use slabwise_policy::partition::WhatIf;
use slabwise_replay::workload::Request;
use slabwise_text::grouped;
use std::f64::consts::LN_2;

#[cfg(test)]
mod tests;

/// The number of equal parts of a stream whose gets and misses are counted.
const PARTS: usize = 1_000;
/// The moments of predictions, as numbers of parts.
const MOMENTS: [usize; 3] = [500, 750, 1_000];

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WhatIfSetup {
    /// The memory sizes for which predictions are compared, in percent of the memory limit.
    pub memory_percent: Vec<u64>,
    /// Rate of gets and sets together, in virtual time.
    pub operations_per_second: f64,
    /// Virtual time of a visit of the mover to a chunk.
    pub visit_ns: f64,
    pub server: ServedSetup,
    streams: Vec<StreamSetup>,
}

/// A workload, and the memory limit of the server that predicts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StreamSetup {
    name: String,
    workload: WorkloadSetup,
    memory_mib: u64,
}

measures! {
    MEASURED: "measured", "measured miss ratio at the end", "%", Fixed;
    PREDICTED: "predicted", "predicted miss ratio at the end", "%", Fixed;
    ERROR: "error", "largest error of the predicted miss ratio", "percentage points", Fixed;
    BAND: "band", "mean width of the error band", "percentage points", Fixed;
    INSIDE: "inside", "measured miss ratios inside the error band", "%", Fixed;
}

/// The variant of the rows over all streams and memory sizes.
const ALL: &str = "all";

/// The predictions of a server at one moment.
struct Predicted {
    /// The number of parts of the stream before the moment.
    moment: usize,
    points: Vec<WhatIf>,
    /// The half-life of the predictions, in gets of all keys.
    half_life_gets: f64,
}

/// The gets and misses of each part of a stream, and the predictions at each moment.
struct Run {
    parts: Vec<(u64, u64)>,
    predicted: Vec<Predicted>,
}

impl Run {
    /// Returns the miss ratio of the first `end` parts, with weights that decay.
    fn miss_ratio(&self, end: usize, half_life_gets: f64) -> f64 {
        let (mut gets_all, mut misses_all) = (0.0, 0.0);
        for &(gets, misses) in &self.parts[..end] {
            let decay = (-(gets as f64) / half_life_gets).exp2();
            gets_all = gets_all * decay + gets as f64;
            misses_all = misses_all * decay + misses as f64;
        }
        misses_all / f64::max(gets_all, 1.0)
    }
}

impl Experiment for WhatIfSetup {
    fn fill(&self, job: &Job<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
        let moments = MOMENTS.map(|moment| format!("{} %", 100 * moment / PARTS));
        outcome
            .add_setup("moments of predictions", format!("{} of the requests", moments.join(", ")));
        let mut all = Cases::default();
        for stream in &self.streams {
            let bar = job.progress.spinner(&stream.name);
            let requests = read(stream, job.size())?;
            let memory_bytes = scaled(stream.memory_mib << 20, stream.factor(job.scale));
            let percents: Vec<u64> =
                std::iter::once(100).chain(self.memory_percent.iter().copied()).collect();
            let run =
                |&percent: &u64| self.serve(&requests, memory_bytes * percent / 100, job.seed);
            let runs: Vec<Run> = percents.par_iter().map(run).collect::<Result<_, _>>()?;
            bar.finish_and_clear();
            let (mib, count) = (memory_bytes >> 20, grouped(requests.len() as u64));
            outcome.add_setup(&stream.name, format!("{count} requests, {mib} MiB"));
            add_series(&stream.name, &percents, &runs, outcome);
            for (percent, run) in percents.iter().zip(&runs).skip(1) {
                let cases = Cases::of(*percent, &runs[0], run);
                cases.add_rows(&format!("{}, {percent} %", stream.name), outcome);
                all.0.extend(cases.0);
            }
        }
        all.add_rows(ALL, outcome);
        Ok(())
    }
}

/// Adds the predicted curve at the end of the stream, its error band, and the measured miss ratios.
fn add_series(stream: &str, percents: &[u64], runs: &[Run], outcome: &mut Outcome) {
    let Some(last) = runs[0].predicted.last() else { return };
    let points = |value: fn(&WhatIf) -> f64| -> Vec<(f64, f64)> {
        let of = |it: &WhatIf| (it.memory_percent as f64, 100.0 * value(it));
        last.points.iter().map(of).collect()
    };
    let measured = |(&percent, run): (&u64, &Run)| {
        (percent as f64, 100.0 * run.miss_ratio(last.moment, last.half_life_gets))
    };
    let mut measured: Vec<_> = percents.iter().zip(runs).map(measured).collect();
    measured.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (name, points) in [
        ("predicted", points(|it| it.miss_ratio)),
        ("lower end of the band", points(|it| it.miss_ratio_low)),
        ("upper end of the band", points(|it| it.miss_ratio_high)),
        ("measured", measured),
    ] {
        let units = ["memory, % of the limit", "%"];
        outcome.add_series("miss ratio", format!("{stream}, {name}"), units, points);
    }
}

impl StreamSetup {
    /// Returns the factor on the memory. The scale does not change the keys of a recorded workload.
    fn factor(&self, scale: f64) -> f64 {
        if self.workload.is_recorded { 1.0 } else { scale }
    }
}

fn read(stream: &StreamSetup, (scale, seed): (f64, u64)) -> Result<Vec<Request>, ExperimentError> {
    let workload = stream.workload.open(scale, seed)?.with_value_len_max(VALUE_LEN_MAX);
    Ok(workload.collect::<Result<_, _>>()?)
}

impl WhatIfSetup {
    /// Serves all requests with a server that has this memory limit.
    fn serve(
        &self,
        requests: &[Request],
        limit_bytes: u64,
        seed: u64,
    ) -> Result<Run, ExperimentError> {
        let engine = Engine::new(self.server.engine_config(limit_bytes, seed));
        let engine = engine.map_err(|error| ExperimentError::Option(error.to_string()))?;
        let times = (self.operations_per_second, self.visit_ns);
        let profiling = default_profiling_options(limit_bytes);
        let mut served = Served::with_profiling(&self.server, &engine, times, profiling)?;
        let mut run = Run { parts: Vec::new(), predicted: Vec::new() };
        for index in 0..PARTS {
            let end = |index: usize| index * requests.len() / PARTS;
            let part = &requests[end(index)..end(index + 1)];
            let (gets, misses) = (served.gets, served.misses);
            served.serve(part);
            run.parts.push((served.gets - gets, served.misses - misses));
            let moment = run.parts.len();
            if MOMENTS.contains(&moment) {
                run.predicted.extend(served.what_if().map(|(points, recent)| Predicted {
                    moment,
                    points,
                    // The weights of all gets add up to the half-life divided by the natural logarithm of 2.
                    half_life_gets: recent.all * LN_2,
                }));
            }
        }
        Ok(run)
    }
}

/// A prediction and the measured miss ratio, in percent.
#[derive(Clone, Copy, Debug)]
struct Case {
    measured: f64,
    predicted: f64,
    low: f64,
    high: f64,
}

impl Case {
    fn is_inside(&self) -> bool {
        (self.low..=self.high).contains(&self.measured)
    }
}

/// Predictions with their measured miss ratios.
#[derive(Default)]
struct Cases(Vec<Case>);

impl Cases {
    /// Compares the predictions of the run `base` for this memory size with the run that had this size.
    fn of(percent: u64, base: &Run, run: &Run) -> Cases {
        let each = base.predicted.iter().filter_map(|predicted| {
            let point = predicted.points.iter().find(|point| point.memory_percent == percent)?;
            Some(Case {
                measured: 100.0 * run.miss_ratio(predicted.moment, predicted.half_life_gets),
                predicted: 100.0 * point.miss_ratio,
                low: 100.0 * point.miss_ratio_low,
                high: 100.0 * point.miss_ratio_high,
            })
        });
        Cases(each.collect())
    }

    fn add_rows(&self, variant: &str, outcome: &mut Outcome) {
        let count = self.0.len() as f64;
        let widths: f64 = self.0.iter().map(|case| case.high - case.low).sum();
        let inside = self.0.iter().filter(|case| case.is_inside()).count() as f64;
        if let (Some(last), true) = (self.0.last(), variant != ALL) {
            outcome.add_all(variant, [(MEASURED, last.measured), (PREDICTED, last.predicted)]);
        }
        let values =
            [(ERROR, self.error_max()), (BAND, widths / count), (INSIDE, 100.0 * inside / count)];
        outcome.add_all(variant, values);
    }

    /// Returns the largest error in percentage points.
    fn error_max(&self) -> f64 {
        let errors = self.0.iter().map(|case| (case.predicted - case.measured).abs());
        errors.fold(0.0, f64::max)
    }
}
