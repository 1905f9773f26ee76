//! What an experiment is to the command line: a set-up that is read from a file, and a way to run it; and what it shows
//! while it runs.

use crate::result::{Figure, Outcome, Spec};
use crate::trial::error::ExperimentError;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::path::Path;
use std::time::Duration;

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

    /// Measures, and puts what is found into an empty outcome.
    fn fill(&self, job: &Job<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError>;

    /// Its outcome. What was published is of the mechanism inside, so a live run has no rows for what it leaves out.
    fn run(&self, job: &Job<'_>) -> Result<Outcome, ExperimentError> {
        let mut outcome = Outcome::new(job.spec, job.seed, job.scale, job.live);
        self.fill(job, &mut outcome)?;
        if !job.live {
            outcome.complete();
        }
        Ok(outcome)
    }
}

/// How far a run is: bars on stderr if that is a terminal, else nothing.
#[derive(Debug, Default)]
pub struct Progress {
    bars: MultiProgress,
}

impl Progress {
    /// A bar over requests; its length comes later.
    pub fn bar(&self, name: &str) -> ProgressBar {
        let template =
            "{prefix:>14} {bar:30} {human_pos}/{human_len} requests, {per_sec}, {eta} left";
        let bar = ProgressBar::new(0).with_style(style(template));
        self.bars.add(bar.with_prefix(name.to_owned()))
    }

    pub fn spinner(&self, what: &str) -> ProgressBar {
        let bar = ProgressBar::new_spinner().with_style(style("{spinner} {msg} ({elapsed})"));
        let bar = self.bars.add(bar.with_message(what.to_owned()));
        bar.enable_steady_tick(Duration::from_millis(200));
        bar
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the bar's template is fixed")
}
