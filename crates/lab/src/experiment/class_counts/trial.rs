//! One table on one workload: the engine under it, and the best split of its classes.

use super::learned::Learned;
use super::prediction::Table;
use super::setup::ClassCountsSetup;
use crate::trial::class_curves::ClassCurves;
use crate::trial::course::Course;
use crate::trial::divider::Divider;
use crate::trial::error::ExperimentError;
use crate::trial::exact_curves::{Counts, ExactCurves};
use crate::trial::execute::execute;
use crate::trial::progress::Progress;
use crate::trial::run::Run;
use crate::trial::setup::CacheSetup;
use crate::vtime::{MoverName, VisitCost};
use slabwise_policy::PagePolicy;
use slabwise_replay::workload::Request;

pub struct Trial<'s> {
    pub learned: &'s Learned<'s>,
    pub table: &'s Table,
    pub cache: CacheSetup,
}

pub struct Finding<'s> {
    pub table: &'s Table,
    pub course: Course,
    /// The miss ratio of the best split by exact curves.
    pub best_split: f64,
}

impl<'s> Trial<'s> {
    pub fn go(
        &self,
        setup: &ClassCountsSetup,
        policy: PagePolicy,
        size: (f64, u64),
        progress: &Progress,
    ) -> Result<Finding<'s>, ExperimentError> {
        let Trial { learned, table, cache } = self;
        let stream = learned.stream;
        let run = Run::new(&stream.workload, cache, &setup.time, MoverName::Warm, size);
        let cost = VisitCost::new(setup.visit_ns)?;
        let run = Run { windows: setup.windows, answer: setup.answer, cost, ..run };
        let best_split = self.best_split(&run, setup)?;
        let bar = progress.bar(&format!("{}, {}", stream.name, table.name));
        let course = execute(&run, Divider::Policy(Box::new(policy)), &bar)?;
        Ok(Finding { table, course, best_split })
    }

    /// What the best split of this table's classes would miss, each an LRU of its own.
    fn best_split(&self, run: &Run<'_>, setup: &ClassCountsSetup) -> Result<f64, ExperimentError> {
        let config = run.engine_config();
        let mut exact = ExactCurves::new(&config);
        let mut requests = run.requests(&config)?;
        let (from, to) = self.learned.stream.steady.at(run.scale);
        let mut done = 0;
        while done < to {
            let (counts, next) = if done < from { (Counts::No, from) } else { (Counts::Yes, to) };
            let batch: &[Request] = requests.next(next - done)?;
            batch.iter().for_each(|request| exact.reference(request, counts));
            done += batch.len() as u64;
        }
        let curves = ClassCurves::new(exact.take(), run, &setup.answer);
        Ok(curves.bound(config.memory_limit_bytes / config.page_size_bytes as u64).miss_ratio)
    }
}
