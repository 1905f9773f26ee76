//! `class-counts`: how many classes are best?
//!
//! ```text
//!   training requests --> whole cache: one queue, chunks of just their size --items it holds--> tables of k classes
//!   steady requests ----> its curve                                                              |       |
//!                           '-----> prediction: the curve, at what a table leaves of the memory <'       |
//!                                        :                                                               v
//!                                   beside misses, bytes lost and times measured <---- engine + tuner: Course
//!                                   and the best split of every table's own exact curves
//! ```
//!
//! Classes pull two ways: with more of them chunks fit their items better, and the memory is split into more queues,
//! each on pages of its own. The prediction knows the first, and the second by a price: so many pages a class. What
//! prices would have been right is told in two ways: by which of them the prediction comes nearest, and by the slope of
//! the pages that are missing, table by table, where the whole cache's curve is asked how much memory the measured
//! misses are.
//!
//! Invariants: all tables of a workload see the same requests on the same pages, and end with the same largest chunk; each is
//! made of the training alone.

mod report;
mod trial;
mod whole;

#[cfg(test)]
mod tests;

pub use trial::ClassCountsSetup;

use super::kind::{Experiment, Job};
use crate::result::Outcome;
use crate::trial::error::ExperimentError;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use slabwise_policy::PagePolicy;
use trial::{Finding, Learned, learn, measure};
use whole::Table;

impl Experiment for ClassCountsSetup {
    fn fill(&self, job: &Job<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError> {
        let (setup, size, progress) = (self, job.size(), &job.progress);
        let policy = PagePolicy::with_options(&setup.policy, &[]);
        let policy = policy.map_err(|error| ExperimentError::Option(error.to_string()))?;
        let learned = setup.streams.par_iter().map(|stream| learn(setup, stream, size, progress));
        let learned: Vec<Learned<'_>> = learned.collect::<Result<_, _>>()?;
        let trials = learned.iter().flat_map(|it| it.tables.iter().map(move |table| (it, table)));
        let trials: Vec<(&Learned<'_>, &Table)> = trials.collect();
        let measure = |trial: &_| measure(setup, *trial, policy.clone(), size, progress);
        let found = trials.par_iter().map(measure);
        let mut found = found.collect::<Result<Vec<_>, _>>()?.into_iter();
        report::describe(outcome, setup, &learned);
        for learned in &learned {
            let found: Vec<Finding<'_>> = found.by_ref().take(learned.tables.len()).collect();
            report::add(outcome, setup, learned, &found);
        }
        Ok(())
    }
}
