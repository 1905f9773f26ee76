//! How far a run is: bars on stderr if that is a terminal, else nothing.

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::time::Duration;

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
    let style = ProgressStyle::with_template(template);
    style.unwrap_or_else(|error| panic!("the bar's template is fixed: {error}"))
}
