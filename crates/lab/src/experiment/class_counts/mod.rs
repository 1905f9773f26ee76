//! `classes-vs-misses`: measures the misses with different numbers of classes, and compares the misses with a
//! prediction.
//!
//! ```text
//!   training requests --> unpartitioned cache --its items--> class tables of k classes --> engine + tuner --> misses
//!                                                                  |
//!   steady requests --> curve of the unpartitioned cache --> prediction for each class table
//! ```
//!
//! A larger number of classes has two effects. The chunks fit their items better, so more items fit into the memory.
//! And the memory is partitioned among more queues, each with its own pages. The prediction computes the first effect
//! from the class table, and reads the misses from the curve of the unpartitioned cache. It models the second effect as
//! a price of each class: the class needs a certain number of pages without a benefit.
//!
//! The experiment estimates the price in two ways. First, it makes a prediction for each of several prices, and
//! compares the predictions with the measured misses. Second, it measures the page deficit of each class table, and
//! computes by how many pages the deficit rises per additional class. The page deficit is the memory minus the memory
//! at which the unpartitioned cache would have the measured misses.
//!
//! Invariants: all class tables of a workload get the same requests, and have the same page size and the same largest
//! chunk. No class table depends on requests after the training requests.

mod report;
mod trial;
mod unpartitioned;

#[cfg(test)]
mod tests;

pub use trial::ClassCountsSetup;

use super::kind::{Experiment, Job};
use crate::result::Outcome;
use crate::trial::error::ExperimentError;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use slabwise_policy::PagePolicy;
use trial::{Finding, Prepared, measure, prepare};
use unpartitioned::Table;

impl Experiment for ClassCountsSetup {
    fn fill(&self, job: &Job<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
        let (setup, size, progress) = (self, job.size(), &job.progress);
        let policy = PagePolicy::with_options(&setup.policy, &[]);
        let policy = policy.map_err(|error| ExperimentError::Option(error.to_string()))?;
        let prepared =
            setup.streams.par_iter().map(|stream| prepare(setup, stream, size, progress));
        let prepared: Vec<Prepared<'_>> = prepared.collect::<Result<_, _>>()?;
        let trials = prepared
            .iter()
            .flat_map(|prepared| prepared.tables.iter().map(move |table| (prepared, table)));
        let trials: Vec<(&Prepared<'_>, &Table)> = trials.collect();
        let measure = |trial: &_| measure(setup, *trial, policy.clone(), size, progress);
        let found = trials.par_iter().map(measure);
        let mut found = found.collect::<Result<Vec<_>, _>>()?.into_iter();
        report::describe(outcome, setup, &prepared);
        for prepared in &prepared {
            let found: Vec<Finding<'_>> = found.by_ref().take(prepared.tables.len()).collect();
            report::add(outcome, setup, prepared, &found);
        }
        Ok(())
    }
}
