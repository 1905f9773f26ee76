//! The trait that every type of experiment implements, and the progress bars of a run.

use crate::result::{Figure, Outcome, Spec};
use crate::trial::error::ExperimentError;
use crate::trial::execute::{Controller, execute};
use crate::trial::run::Run;
use crate::trial::run_record::RunRecord;
use crate::trial::units::Units;
use crate::trial::visits::VisitTimes;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::path::Path;
use std::time::Duration;

/// The conditions under which the command line runs an experiment.
pub struct Job<'s> {
    pub spec: &'s Spec,
    pub scale: f64,
    pub seed: u64,
    /// True if requests are sent to real servers (`--live`).
    pub live: bool,
    /// The times of visits to chunks that the command line gives (`--visit-ns`).
    pub visits: VisitTimes,
    /// The stored results of parts of the experiment.
    pub units: Units,
    pub progress: Progress,
}

impl Job<'_> {
    /// Sets the time of a visit in a run.
    pub fn set_visit_cost(&self, run: &mut Run<'_>) -> Result<(), ExperimentError> {
        self.visits.apply(run, &self.units)
    }

    /// Executes a run, which is a unit of this name. The name identifies the run within the experiment.
    pub fn execute(
        &self,
        name: &str,
        run: &Run<'_>,
        controller: Controller<'_>,
    ) -> Result<RunRecord, ExperimentError> {
        self.units.run(name, || execute(run, controller, &self.progress.bar(name)))
    }

    /// Returns the scale and the seed.
    pub fn size(&self) -> (f64, u64) {
        (self.scale, self.seed)
    }
}

#[cfg(test)]
impl<'s> Job<'s> {
    pub fn of(spec: &'s Spec, scale: f64, seed: u64) -> Job<'s> {
        let (visits, units, progress) = Default::default();
        Job { spec, scale, seed, live: false, visits, units, progress }
    }
}

/// A type of experiment.
pub trait Experiment {
    /// Returns the scale of a run with `--live` and without `--scale`. `None` means the scale of a run without
    /// `--live`.
    fn live_scale(&self) -> Option<f64> {
        None
    }

    /// Returns true if the experiment can use real servers (`--live`).
    fn has_live(&self) -> bool {
        false
    }

    /// Adds every trace of a folder as a workload, with a figure of its own. Returns false if the experiment cannot use
    /// traces.
    fn add_traces(
        &mut self,
        _figures: &mut Vec<Figure>,
        _directory: &Path,
    ) -> Result<bool, ExperimentError> {
        Ok(false)
    }

    /// Runs the experiment, and adds its conditions, rows and series to the outcome.
    fn fill(&self, job: &Job<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError>;

    /// Runs the experiment with one seed and returns its outcome, or returns the stored outcome. Adds rows for the
    /// published values that were not measured, except in a run with `--live`.
    fn run(&self, job: &Job<'_>) -> Result<Outcome, ExperimentError> {
        const OUTCOME: &str = "outcome";
        let stored = job.units.load(OUTCOME);
        if let Some(mut outcome) =
            stored.filter(|outcome: &Outcome| outcome.has_values_of(job.spec))
        {
            outcome.reclassify(job.spec);
            return Ok(outcome);
        }
        let mut outcome = Outcome::new(job.spec, job.seed, job.scale, job.live);
        self.fill(job, &mut outcome)?;
        if !job.live {
            outcome.add_unmeasured_rows();
        }
        job.units.save(OUTCOME, outcome)
    }
}

/// Progress bars on stderr. They are hidden if stderr is not a terminal.
#[derive(Debug, Default)]
pub struct Progress {
    bars: MultiProgress,
}

impl Progress {
    /// Adds a bar that counts requests. The caller sets the length of the bar.
    pub fn bar(&self, name: &str) -> ProgressBar {
        let template =
            "{prefix:>14} {bar:30} {human_pos}/{human_len} requests, {per_sec}, {eta} left";
        let bar = ProgressBar::new(0).with_style(style(template));
        self.bars.add(bar.with_prefix(name.to_owned()))
    }

    /// Adds a spinner with a text that describes the current work.
    pub fn spinner(&self, message: &str) -> ProgressBar {
        let bar = ProgressBar::new_spinner().with_style(style("{spinner} {msg} ({elapsed})"));
        let bar = self.bars.add(bar.with_message(message.to_owned()));
        bar.enable_steady_tick(Duration::from_millis(200));
        bar
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is valid")
}
