//! When told variants hear of splits, and the exact curves that decide them.

use super::setup::PoliciesSetup;
use crate::trial::class_curves::ClassCurves;
use crate::trial::error::ExperimentError;
use crate::trial::exact_curves::{Counts, ExactCurves};
use crate::trial::run::Run;
use crate::trial::setup::{place_at, scaled};
use indicatif::ProgressBar;
use slabwise_replay::workload::{Op, Request, key_of};

/// Splits are decided before these requests, each by its curves.
#[derive(Clone, Debug)]
pub struct Decisions {
    /// The requests, ascending.
    pub at: Vec<u64>,
    /// The curves of every class, for each of them.
    pub curves: Vec<ClassCurves>,
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
