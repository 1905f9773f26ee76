//! `class-counts`: which number of classes is best?
//!
//! ```text
//!   training requests --> unpartitioned cache: one queue, chunks of exactly the item's size --items--> tables of k classes
//!   steady requests ----> its curve                                                                     |       |
//!                           '-----> prediction: the curve at the memory that a table leaves for items <-'       |
//!                                        :                                                                      v
//!                                   compared with measured misses, lost bytes and times <---- engine + tuner: RunRecord
//!                                   and with the best partition by the exact curves of each table
//! ```
//!
//! More classes have two effects: chunks fit their items better, and memory is partitioned into more queues, each on pages
//! of its own. The prediction includes the first, and models the second as a cost of each class, in pages. The experiment
//! estimates this cost in two ways: by the cost with the smallest prediction error, and by the slope of the page deficit
//! over the tables. The page deficit is the memory minus that at which the unpartitioned cache has the measured misses.
//!
//! Invariants: all tables of a workload get the same requests and the same pages, end with the same largest chunk, and
//! are computed from the training requests only.

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
        let trials = prepared.iter().flat_map(|it| it.tables.iter().map(move |table| (it, table)));
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
