//! What an experiment is to the command line: a set-up that is read from a file, and a way to run it.

use crate::result::{Figure, Outcome, Spec};
use crate::trial::error::ExperimentError;
use crate::trial::progress::Progress;
use std::path::Path;

pub struct Job<'s> {
    pub spec: &'s Spec,
    /// The size of the run; 1 is the published one.
    pub scale: f64,
    pub seed: u64,
    pub live: bool,
    pub progress: Progress,
}

impl Job<'_> {
    pub fn size(&self) -> (f64, u64) {
        (self.scale, self.seed)
    }

    pub fn outcome(&self) -> Outcome {
        Outcome::new(self.spec, self.seed, self.scale, self.live)
    }
}

#[cfg(test)]
impl<'s> Job<'s> {
    pub fn of(spec: &'s Spec, scale: f64, seed: u64) -> Job<'s> {
        Job { spec, scale, seed, live: false, progress: Progress::default() }
    }
}

pub trait Experiment {
    /// The scale of a live run where none is given, if it is another than the file's.
    fn live_scale(&self) -> Option<f64> {
        None
    }

    /// Whether it can be run against real servers.
    fn has_live(&self) -> bool {
        false
    }

    /// Adds the traces of a folder, each with a figure. False for an experiment that takes none.
    fn add_traces(
        &mut self,
        _figures: &mut Vec<Figure>,
        _directory: &Path,
    ) -> Result<bool, ExperimentError> {
        Ok(false)
    }

    fn run(&self, job: &Job<'_>) -> Result<Outcome, ExperimentError>;
}
