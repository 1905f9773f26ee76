//! The trait through which the command line runs an experiment, and the progress that it shows.

use crate::result::{Figure, Outcome, Spec};
use crate::trial::error::ExperimentError;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::path::Path;
use std::time::Duration;

pub struct Job<'s> {
    pub spec: &'s Spec,
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
    /// The scale of a live run without `--scale`, if it differs from that of the file.
    fn live_scale(&self) -> Option<f64> {
        None
    }

    fn has_live(&self) -> bool {
        false
    }

    /// Adds the traces of a folder, each with a figure. Returns false if the experiment takes no traces.
    fn add_traces(
        &mut self,
        _figures: &mut Vec<Figure>,
        _directory: &Path,
    ) -> Result<bool, ExperimentError> {
        Ok(false)
    }

    fn fill(&self, job: &Job<'_>, outcome: &mut Outcome) -> Result<(), ExperimentError>;

    /// Returns the outcome. A live run has no rows for published figures that it does not measure.
    fn run(&self, job: &Job<'_>) -> Result<Outcome, ExperimentError> {
        let mut outcome = Outcome::new(job.spec, job.seed, job.scale, job.live);
        self.fill(job, &mut outcome)?;
        if !job.live {
            outcome.complete();
        }
        Ok(outcome)
    }
}

/// Progress bars on stderr; hidden if stderr is not a terminal.
#[derive(Debug, Default)]
pub struct Progress {
    bars: MultiProgress,
}

impl Progress {
    /// A bar over requests. The caller sets its length.
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
