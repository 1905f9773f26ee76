//! What exact curves say before any run: the splits that told variants hear of, and the bound of all.

use super::spec::PoliciesSetup;
use crate::experiment::error::ExperimentError;
use crate::experiment::exact_curves::{Counts, ExactCurve, ExactCurves};
use crate::experiment::run::Run;
use crate::experiment::spec::{AnswerSetup, place_at, scaled};
use crate::experiment::split::Split;
use indicatif::ProgressBar;
use slabwise_profile::Mrc;
use slabwise_replay::workload::{Op, Request, key_of};

/// Splits are decided before these requests, each by its curves.
#[derive(Clone, Debug)]
pub struct Decisions {
    /// The requests, ascending.
    pub at: Vec<u64>,
    /// The curves of every class, for each of them.
    pub curves: Vec<ClassCurves>,
}

/// The curves of all classes over one stretch of requests.
#[derive(Clone, Debug)]
pub struct ClassCurves {
    mrcs: Vec<Mrc>,
    /// What a miss takes more than a hit, in microseconds, by class.
    miss_costs_us: Vec<f64>,
    chunks_per_page: Vec<u64>,
    hit_us: f64,
}

/// What no division of this memory can do better.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// The least miss ratio.
    pub miss_ratio: f64,
    /// The least mean time of an answer, in microseconds.
    pub answer_us: f64,
}

impl Decisions {
    /// Passes once over the requests of `run`. All of its engines with pages of this size decide alike.
    pub fn of(
        setup: &PoliciesSetup,
        run: &Run<'_>,
        progress: &ProgressBar,
    ) -> Result<Decisions, ExperimentError> {
        let total = scaled(setup.workload.requests, run.scale);
        let stretches = counted(setup, run.scale, total);
        let config = run.engine_config();
        let mut exact = ExactCurves::new(&config);
        let mut requests = run.requests(&config)?;
        preload(setup, run, |key| requests.value_len(key), &mut exact);
        let (mut at, mut curves) = (Vec::new(), Vec::new());
        let end = stretches.last().map_or(0, |&(_, to, _)| to);
        progress.set_length(end);
        let mut done = 0;
        for (from, to, decided_at) in stretches {
            while done < to {
                let (counts, next) =
                    if done < from { (Counts::No, from) } else { (Counts::Yes, to) };
                let batch = requests.next(next - done)?;
                for request in batch {
                    exact.reference(request, counts);
                }
                done += batch.len() as u64;
                progress.set_position(done);
            }
            at.push(decided_at);
            curves.push(ClassCurves::new(exact.take(), run, &setup.answer));
        }
        progress.finish_and_clear();
        Ok(Decisions { at, curves })
    }
}

/// The stretches of requests that count, and the request before which each decides.
fn counted(setup: &PoliciesSetup, scale: f64, total: u64) -> Vec<(u64, u64, u64)> {
    let Some(divide) = &setup.divide else {
        let (from, to) = setup.steady.at(scale);
        return vec![(from, to.min(total), 0)];
    };
    let at_scale = |requests| place_at(requests, scale);
    let times = (0..).map(|round| divide.first + round * divide.every).map(at_scale);
    let times = times.take_while(|&at| at < total);
    let times = times.take(if divide.every == 0 { 1 } else { usize::MAX });
    times.map(|at| (at.saturating_sub(at_scale(divide.training_requests)), at, at)).collect()
}

/// What the cache holds before the first request is on the stacks, too.
fn preload(
    setup: &PoliciesSetup,
    run: &Run<'_>,
    value_len: impl Fn(u64) -> u32,
    exact: &mut ExactCurves<'_>,
) {
    for (part, &keys) in setup.preload.iter().enumerate() {
        for rank in (0..scaled(keys, run.scale)).rev() {
            let key = key_of(part, rank);
            let request = Request { key, value_len: value_len(key), op: Op::Set, cost: None };
            exact.reference(&request, Counts::No);
        }
    }
}

impl ClassCurves {
    /// These curves of the classes of a run's engine.
    pub fn new(curves: Vec<ExactCurve>, run: &Run<'_>, answer: &AnswerSetup) -> ClassCurves {
        let config = run.engine_config();
        let chunks = |&size: &u32| config.page_size_bytes as u64 / u64::from(size);
        let cost = |curve: &ExactCurve| answer.of_miss_us(curve.value_len_mean) - answer.hit_us;
        ClassCurves {
            miss_costs_us: curves.iter().map(cost).collect(),
            mrcs: curves.into_iter().map(|curve| curve.mrc).collect(),
            chunks_per_page: config.classes.sizes().iter().map(chunks).collect(),
            hit_us: answer.hit_us,
        }
    }

    /// The split of `pages` pages with the fewest misses.
    pub fn fewest_misses(&self, pages: u64) -> Split {
        Split::best(&self.mrcs, &self.chunks_per_page, &vec![1.0; self.mrcs.len()], pages)
    }

    /// What no division of `pages` pages can do better over these requests.
    pub fn bound(&self, pages: u64) -> Bound {
        let references: f64 = self.mrcs.iter().map(Mrc::references).sum();
        let cost = |split: &Split, costs: &[f64]| -> f64 {
            let classes = self.mrcs.iter().zip(&self.chunks_per_page).zip(&split.pages).zip(costs);
            let cost =
                classes.map(|(((mrc, chunks), pages), cost)| mrc.misses(chunks * pages) * cost);
            cost.sum::<f64>() / references.max(1.0)
        };
        let ones = vec![1.0; self.mrcs.len()];
        let quickest = Split::best(&self.mrcs, &self.chunks_per_page, &self.miss_costs_us, pages);
        Bound {
            miss_ratio: cost(&self.fewest_misses(pages), &ones),
            answer_us: self.hit_us + cost(&quickest, &self.miss_costs_us),
        }
    }
}
