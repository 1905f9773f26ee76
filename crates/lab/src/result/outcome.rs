//! What an experiment found, beside what was published.
//!
//! Law: no figure is made up. A row without a figure of ours says why, and every published figure has a
//! row, if only one that says that nothing was measured for it.

use super::figure::Figure;
use super::measure::{Measure, Scaling};
use super::published::Published;
use super::row::Row;
use super::spec::Spec;
use super::spread::{least, mean, most};
use super::table::{number, table};
use serde::{Deserialize, Serialize};
use slabwise_text::Column;
use std::borrow::Cow;
use std::path::PathBuf;

#[cfg(test)]
impl Outcome {
    /// The rows that break the law: no figure, and no reason.
    pub fn unexplained(&self) -> Vec<&Row> {
        let is_silent = |row: &&Row| row.ours.is_none() && row.remark().is_none();
        self.rows.iter().filter(is_silent).collect()
    }
}

/// A curve for a plot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Series {
    /// What it shows.
    pub name: String,
    /// Of what.
    pub variant: String,
    /// What `x` counts.
    pub x_unit: Cow<'static, str>,
    /// What `y` counts.
    pub y_unit: Cow<'static, str>,
    /// Where.
    pub x: Vec<f64>,
    /// How much.
    pub y: Vec<f64>,
}

/// The commit that the program was built from.
pub const COMMIT: &str = env!("SLABWISE_COMMIT");

/// The result of an experiment; `result.json` is this.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The experiment's name.
    pub experiment: String,
    /// The source that the program was built from.
    pub commit: Cow<'static, str>,
    /// What everything random followed from.
    pub seed: u64,
    /// The size of the run; 1 is the published one.
    pub scale: f64,
    /// Whether real servers were measured.
    pub live: bool,
    /// Choices that a reader has to know: name and value.
    pub setup: Vec<(String, String)>,
    /// The findings.
    pub rows: Vec<Row>,
    /// The source, and all that was published.
    pub paper: Paper,
    /// Curves for plots.
    pub series: Vec<Series>,
    /// Traces that it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traces: Option<PathBuf>,
    /// What its report draws of these beside the file's figures.
    #[serde(default)]
    pub figures: Vec<Figure>,
}

/// What the findings are held against.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Paper {
    /// Authors, title, place.
    pub source: String,
    /// The figures.
    pub published: Vec<Published>,
}

impl Outcome {
    /// An outcome without findings.
    pub fn new(spec: &Spec, seed: u64, scale: f64, live: bool) -> Outcome {
        Outcome {
            experiment: spec.name.clone(),
            commit: COMMIT.into(),
            seed,
            scale,
            live,
            setup: Vec::new(),
            rows: Vec::new(),
            paper: Paper { source: spec.source.clone(), published: spec.published.clone() },
            series: Vec::new(),
            traces: None,
            figures: spec.figures_added.clone(),
        }
    }

    /// Notes a choice.
    pub fn choose(&mut self, name: &str, value: impl ToString) {
        self.setup.push((name.to_owned(), value.to_string()));
    }

    /// Adds a finding, or why there is none.
    pub fn add(&mut self, measure: Measure, variant: &str, found: Result<f64, String>) {
        let Measure { name, text, unit, scaling } = measure;
        let published = &self.paper.published;
        let published =
            published.iter().find(|figure| figure.measure == name && figure.variant == variant);
        let factor = if scaling == Scaling::WithRun { self.scale } else { 1.0 };
        let (ours, note) = match found {
            Ok(value) => (Some(value), None),
            Err(why) => (None, Some(why)),
        };
        self.rows.push(Row {
            measure: name.to_owned(),
            text: text.to_owned(),
            variant: variant.to_owned(),
            unit: unit.to_owned(),
            ours,
            published: published.map(|figure| figure.value),
            published_at_scale: published.map(|figure| figure.value * factor),
            place: published.map(|figure| figure.place.clone()),
            explained: published.and_then(|figure| figure.explained.clone()),
            note,
        });
    }

    /// Adds several findings on one variant.
    pub fn add_all(&mut self, variant: &str, found: impl IntoIterator<Item = (Measure, f64)>) {
        found.into_iter().for_each(|(measure, value)| self.add(measure, variant, Ok(value)));
    }

    /// Adds the mean of several runs, with the least and the most of them.
    pub fn add_mean(&mut self, measure: Measure, variant: &str, runs: &[f64]) {
        self.add(measure, variant, Ok(mean(runs)));
        if runs.len() > 1 {
            self.note(format!("{} to {}", number(least(runs)), number(most(runs))));
        }
    }

    /// Adds a curve through these points.
    pub fn draw(
        &mut self,
        name: impl Into<String>,
        variant: impl Into<String>,
        [x_unit, y_unit]: [&'static str; 2],
        points: impl IntoIterator<Item = (f64, f64)>,
    ) {
        let (x, y) = points.into_iter().unzip();
        let (x_unit, y_unit) = (x_unit.into(), y_unit.into());
        self.series.push(Series {
            name: name.into(),
            variant: variant.into(),
            x_unit,
            y_unit,
            x,
            y,
        });
    }

    /// Says how the last row is to be read.
    pub fn note(&mut self, note: impl Into<String>) {
        if let Some(row) = self.rows.last_mut() {
            row.note = Some(note.into());
        }
    }

    /// Gives every published figure that has no row one that says so.
    pub fn complete(&mut self) {
        let missing = self.paper.published.iter().filter(|figure| {
            let is_it = |row: &Row| row.measure == figure.measure && row.variant == figure.variant;
            !self.rows.iter().any(is_it)
        });
        let rows = missing.map(|figure| Row {
            measure: figure.measure.clone(),
            text: figure.measure.replace('_', " "),
            variant: figure.variant.clone(),
            unit: String::new(),
            ours: None,
            published: Some(figure.value),
            published_at_scale: None,
            place: Some(figure.place.clone()),
            explained: figure.explained.clone(),
            note: figure.explained.is_none().then(|| "not measured by this version".to_owned()),
        });
        let rows: Vec<Row> = rows.collect();
        self.rows.extend(rows);
    }

    /// For people: the set-up, and the rows as an aligned table.
    pub fn text(&self) -> String {
        let setup = self.setup.iter().map(|(name, value)| [name.clone(), value.clone()]);
        let setup = slabwise_text::table(&[Column::left(0); 2], setup);
        format!("{}\n\n{setup}\n{}", self.paper.source, table(&self.rows, self.scale))
    }
}

#[cfg(test)]
mod tests {
    use super::{Measure, Outcome, Scaling};
    use crate::experiment::two_phase::TwoPhaseSetup;
    use crate::registry;

    const AT_TARGET: Measure = Measure {
        name: "allocation_at_target",
        text: "allocation at its target",
        unit: "requests",
        scaling: Scaling::WithRun,
    };

    #[test]
    fn every_published_figure_has_a_row_and_a_row_without_a_figure_says_why() {
        let (spec, _) = registry::parsed::<TwoPhaseSetup>("two-phase");
        let mut outcome = Outcome::new(&spec, 1, 0.1, false);
        outcome.add(AT_TARGET, "base", Err("never".to_owned()));
        outcome.add(AT_TARGET, "fast", Ok(1_700_000.0));
        outcome.complete();
        assert_eq!(outcome.rows[1].published_at_scale, Some(1_650_000.0));
        assert_eq!(outcome.rows.len(), spec.published.len());
        assert!(outcome.unexplained().is_empty(), "{:?}", outcome.unexplained());
        let text = outcome.text();
        let line = text.lines().find(|line| line.contains("1,700,000")).expect("a line");
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[4..8], ["fast", "16,500,000", "1,650,000", "1,700,000"], "{text}");
    }
}
