//! Compares the misses and response times of page policies.
//!
//! ```text
//!   for each memory limit:   requests --> engine + tuner with a policy      --> RunRecord --> rows of variants
//!                                    \--> engine with an oracle allocation  -->   |           and comparisons
//!                                     \-> exact curves: the theoretical upper bound
//! ```
//!
//! All variants get the same requests and the same rate of gets and sets. They start with the same contents, except for
//! variants with `from_empty`, which start with an empty cache. An oracle allocation is computed from exact curves of
//! requests of the same run. If the file has a table `divide`, these are the requests directly before each computation.
//! Otherwise they are the requests of the *steady stretch*, which is the part of the run whose misses count as steady.
//! No page policy can use such future requests.
//!
//! Invariant: every variant and every comparison has its rows. A variant that cannot be run has a row with the reason.

mod findings;
mod memory;
mod report;
mod setup;
mod sweep;

#[cfg(test)]
mod tests;

pub use setup::PoliciesSetup;

use super::kind::{Experiment, Job};
use crate::experiment::kind::Progress;
use crate::result::Outcome;
use crate::trial::curves::Bound;
use crate::trial::error::ExperimentError;
use crate::trial::execute::{Controller, OracleAllocation};
use crate::trial::run::Run;
use crate::trial::run_record::RunRecord;
use crate::trial::setup::scaled;
use crate::trial::visits::add_visit;
use crate::vtime::{MoverName, VisitCost};
use findings::{Finding, Findings};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use setup::{OracleCurves, Variant};
use slabwise_policy::PagePolicy;
use std::collections::BTreeMap;

/// A run of a variant with one memory limit.
struct Trial<'s> {
    variant: &'s Variant,
    run: Run<'s>,
    /// Name of the run, which is unique in the experiment.
    name: String,
}

impl Experiment for PoliciesSetup {
    fn fill(&self, job: &Job<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
        let costs = visit_costs(self, job)?;
        if self.visit_ns.is_none() {
            costs.iter().for_each(|(&mover, &cost)| add_visit(outcome, mover, cost));
        }
        let trials = trials(self, job.size(), &costs, "");
        let all: Vec<&Run<'_>> = trials.iter().map(|trial| &trial.run).collect();
        outcome.page_share = self.cache.page_share(job.scale);
        report::describe(outcome, self, &all);
        if !self.sweeps.is_empty() {
            return sweep::run(self, job, &costs, outcome);
        }
        report::add(outcome, self, &self.findings(job, &costs, "")?);
        Ok(())
    }
}

impl PoliciesSetup {
    /// Runs all variants with all memory limits. `suffix` is the end of the names of the runs.
    fn findings(
        &self,
        job: &Job<'_>,
        costs: &BTreeMap<MoverName, VisitCost>,
        suffix: &str,
    ) -> Result<Findings<'_>, ExperimentError> {
        let setup = self;
        let trials = trials(setup, job.size(), costs, suffix);
        let (oracles, policies): (Vec<_>, Vec<_>) =
            trials.into_iter().partition(|trial| trial.variant.policy.is_none());
        let needs_curves = setup.bound || !oracles.is_empty();
        let runs: Vec<&Run<'_>> = oracles.iter().chain(&policies).map(|trial| &trial.run).collect();
        let (decisions, found) = rayon::join(
            || {
                if needs_curves {
                    curves_by_page_size(setup, &runs, &job.progress)
                } else {
                    Ok(BTreeMap::new())
                }
            },
            || {
                policies
                    .par_iter()
                    .map(|trial| trial.run_policy(job))
                    .collect::<Result<Vec<_>, _>>()
            },
        );
        let (decisions, found) = (decisions?, found?);
        let oracles: Result<Vec<_>, ExperimentError> =
            oracles.par_iter().map(|trial| trial.run_oracle(&decisions, job)).collect();
        let trials: Vec<Finding<'_>> = found.into_iter().chain(oracles?).collect();
        let bounds = if setup.bound { bounds(&trials, &runs, &decisions) } else { BTreeMap::new() };
        let curves = decisions.values().next().and_then(|decision| decision.curves.first());
        let working_sets = curves.map(|curves| curves.working_sets().to_vec()).unwrap_or_default();
        Ok(Findings { setup, scale: job.scale, trials, bounds, working_sets })
    }
}

/// Returns a trial for each memory limit and each variant. `suffix` is the end of the names of the runs.
fn trials<'s>(
    setup: &'s PoliciesSetup,
    size: (f64, u64),
    costs: &BTreeMap<MoverName, VisitCost>,
    suffix: &str,
) -> Vec<Trial<'s>> {
    let trial = |variant: &'s Variant, memory_mib| {
        let run = Run::new(&setup.workload, &setup.cache, &setup.time, variant.mover, size);
        let cost = costs[&variant.mover];
        let (preload, earlier): (&[u64], _) =
            if variant.from_empty { (&[], None) } else { (&setup.preload, setup.earlier) };
        let (windows, response) = (setup.windows, setup.response);
        let full_profile_gets = variant.full_profile_gets.map(|gets| scaled(gets, size.0));
        let has_no_move_budget = variant.has_no_move_budget;
        let eviction = variant.eviction.unwrap_or(setup.cache.eviction);
        let run = Run { memory_mib, eviction, preload, earlier, ..run };
        Run { windows, response, cost, full_profile_gets, has_no_move_budget, ..run }
    };
    let limits = setup.limits_mib();
    let trials = limits.iter().flat_map(|&memory_mib| {
        let variants = setup.variants.iter();
        variants.map(move |variant| Trial {
            variant,
            run: trial(variant, memory_mib),
            name: format!("{}, {memory_mib} MiB{suffix}", variant.name),
        })
    });
    trials.collect()
}

/// Returns the time that each mover of the variants needs to visit a chunk.
fn visit_costs(
    setup: &PoliciesSetup,
    job: &Job<'_>,
) -> Result<BTreeMap<MoverName, VisitCost>, ExperimentError> {
    let spinner = job.progress.spinner("measuring the time of a visit to a chunk");
    let mut costs = BTreeMap::new();
    for mover in setup.variants.iter().map(|variant| variant.mover) {
        if costs.contains_key(&mover) {
            continue;
        }
        let run = Run::new(&setup.workload, &setup.cache, &setup.time, mover, job.size());
        let mut run = Run { preload: &setup.preload, earlier: setup.earlier, ..run };
        match setup.visit_ns {
            Some(visit_ns) => run.cost = VisitCost::new(visit_ns)?,
            None => job.set_visit_cost(&mut run)?,
        }
        costs.insert(mover, run.cost);
    }
    spinner.finish_and_clear();
    Ok(costs)
}

/// Computes the exact curves for the oracle allocations, once for each page size, because runs with less memory may
/// have smaller pages. The keys of the result are page sizes in bytes.
fn curves_by_page_size(
    setup: &PoliciesSetup,
    runs: &[&Run<'_>],
    progress: &Progress,
) -> Result<BTreeMap<usize, OracleCurves>, ExperimentError> {
    let by_size = runs.iter().map(|run| (run.engine_config().page_size_bytes, *run));
    let by_size: BTreeMap<usize, &Run<'_>> = by_size.collect();
    let by_size: Vec<_> = by_size.into_iter().collect();
    let decided = by_size.par_iter().map(|(page_size_bytes, run)| {
        Ok((*page_size_bytes, OracleCurves::of(setup, run, &progress.bar("exact curves"))?))
    });
    decided.collect()
}

/// Returns the bound for every memory limit in MiB. The bound has as many pages as the variant that owns the most pages
/// at the end of its run, because the first pages of classes may exceed the limit.
fn bounds(
    trials: &[Finding<'_>],
    runs: &[&Run<'_>],
    decisions: &BTreeMap<usize, OracleCurves>,
) -> BTreeMap<u64, Bound> {
    let pages = |memory_mib| {
        let records = trials.iter().filter(|trial| trial.memory_mib == memory_mib);
        let records = records.filter_map(|trial| trial.record.as_ref().ok());
        let last = records.filter_map(|record| record.pages.last());
        last.map(|pages| pages.iter().sum::<u64>()).max()
    };
    let bound = |run: &&Run<'_>| {
        let decisions = &decisions[&run.engine_config().page_size_bytes];
        let pages = pages(run.memory_mib)?;
        Some((run.memory_mib, decisions.curves.first()?.bound(pages)))
    };
    runs.iter().filter_map(bound).collect()
}

impl<'s> Trial<'s> {
    fn finding(&self, record: Result<RunRecord, String>) -> Finding<'s> {
        Finding { variant: self.variant, memory_mib: self.run.memory_mib, record }
    }

    /// Runs the trial with this controller.
    fn run(
        &self,
        controller: Controller<'_>,
        job: &Job<'_>,
    ) -> Result<Finding<'s>, ExperimentError> {
        let record = job.execute(&self.name, &self.run, controller)?;
        Ok(self.finding(Ok(record)))
    }

    /// Runs the trial with the page policy of the variant.
    fn run_policy(&self, job: &Job<'_>) -> Result<Finding<'s>, ExperimentError> {
        match policy(self.variant, self.run.scale) {
            Ok(policy) => self.run(Controller::Policy(Box::new(policy)), job),
            Err(reason) => Ok(self.finding(Err(reason))),
        }
    }

    /// Runs the trial with an oracle allocation.
    fn run_oracle(
        &self,
        decisions: &BTreeMap<usize, OracleCurves>,
        job: &Job<'_>,
    ) -> Result<Finding<'s>, ExperimentError> {
        let config = self.run.engine_config();
        let limit_pages = config.memory_limit_bytes / config.page_size_bytes as u64;
        let OracleCurves { at, curves } = &decisions[&config.page_size_bytes];
        let partition = |decision: usize, owned: &[u64]| {
            curves[decision].fewest_misses(owned.iter().sum::<u64>().max(limit_pages))
        };
        let oracle = OracleAllocation { at, partition: &partition };
        self.run(Controller::Oracle(oracle), job)
    }
}

/// Creates the page policy of a variant, or returns an error text.
fn policy(variant: &Variant, scale: f64) -> Result<PagePolicy, String> {
    let name = variant.policy.as_deref().unwrap_or("none");
    let counts = variant.scaled_options.iter();
    let counts = counts.map(|(name, count)| (name, scaled(*count, scale).to_string()));
    let counts: Vec<_> = counts.collect();
    let options = variant.options.iter().chain(counts.iter().map(|(name, count)| (*name, count)));
    let options: Vec<_> = options.map(|(name, value)| (name.as_str(), value.as_str())).collect();
    PagePolicy::with_options(name, &options).map_err(|error| error.to_string())
}
