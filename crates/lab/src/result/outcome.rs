//! The outcome of an experiment: rows that compare our values with the published values, and series for curves.
//!
//! Invariants:
//! - A row without our value gives the reason: the run never reached the measured event, or the experiment's file says
//!   why no run measures the value. [`Outcome::unaccounted`] finds violations.
//! - Every published value has a row, except in a run with `--live`.

use super::spec::{Figure, Published, Spec};
use super::verdict::{Cause, Classification, Origin, Verdict};
use serde::{Deserialize, Serialize};
use slabwise_text::{Column, grouped};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scaling {
    /// The value does not depend on the scale of a run. Examples are a ratio, a time, and a count per page.
    Fixed,
    /// The value grows with the length of a run. The published value is multiplied by the scale before the comparison.
    WithRun,
    /// The value grows with the size of a page. The published value is multiplied by [`Outcome::page_share`].
    WithPageSize,
    /// A number of pages, which grows with the memory and falls with the size of a page.
    WithPages,
}

/// A quantity that an experiment measures.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// Name of the measure in `experiments/*.toml` and in `result.json`.
    pub name: &'static str,
    /// Label of the measure in tables and figures.
    pub text: &'static str,
    /// Unit of the values, empty for a number without unit.
    pub unit: &'static str,
    pub scaling: Scaling,
}

/// Defines one constant of type [`Measure`] per line: `ID: "name_in_files", "label", "unit", Fixed | WithRun;`.
macro_rules! measures {
    ($($id:ident: $name:literal, $text:literal, $unit:literal, $scaling:ident;)+) => {
        $(
            #[doc = $text]
            pub const $id: $crate::result::outcome::Measure = $crate::result::outcome::Measure {
                name: $name,
                text: $text,
                unit: $unit,
                scaling: $crate::result::outcome::Scaling::$scaling,
            };
        )+
    };
}
pub(crate) use measures;

/// One value that this run measured, or one published value, or both values for comparison.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Row {
    /// [`Measure::name`] of the row's measure.
    pub measure: String,
    /// [`Measure::text`] of the row's measure.
    pub text: String,
    /// The configuration that was measured, for example the name of a page policy.
    pub variant: String,
    /// [`Measure::unit`] of the row's measure.
    pub unit: String,
    /// The value that this run measured. `None` if the run could not measure it.
    pub ours: Option<f64>,
    /// The published value at scale 1. `None` if no value was published.
    pub published: Option<f64>,
    /// The published value that [`Row::ours`] is compared with: multiplied by the scale if the measure grows with the
    /// run.
    pub published_at_scale: Option<f64>,
    /// The part of the source that contains the published value, for example "table 3".
    pub place: Option<String>,
    /// What is known about the published value.
    #[serde(flatten)]
    pub classification: Classification,
    /// The smallest and the largest value of several runs whose mean is [`Row::ours`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<[f64; 2]>,
    /// A remark on our value, or the reason why there is no such value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Row {
    /// Returns true if both rows have the same measure and variant.
    pub fn is_like(&self, other: &Row) -> bool {
        (&self.measure, &self.variant) == (&other.measure, &other.variant)
    }

    /// Returns the result of the comparison with the published value. `None` if no value was published.
    pub fn verdict(&self) -> Option<Verdict> {
        let published = self.published_at_scale.or(self.published)?;
        Some(Verdict::of(&self.classification, self.ours, published))
    }

    /// Returns all remarks on the row, separated by semicolons: the spread, the note, a tolerance other than the default,
    /// the origin and the cause of a difference.
    pub fn remarks(&self) -> String {
        let spread = self.spread.map(|[minimum, maximum]| {
            format!("{} to {}", format_number(minimum), format_number(maximum))
        });
        let is_different = self.verdict() == Some(Verdict::CauseShown);
        let Classification { origin, cause, tolerance } = &self.classification;
        let tolerance = tolerance.text(&self.unit).filter(|_| self.published.is_some());
        let cause = cause.as_ref().filter(|_| is_different).map(Cause::to_string);
        let remarks = [spread, self.note.clone(), tolerance, origin.text(), cause];
        remarks.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

/// Returns the mean of the values, or 0 if the list is empty.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Returns the smallest value, or infinity if the list is empty.
pub fn minimum(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Returns the largest value, or negative infinity if the list is empty.
pub fn maximum(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// Formats the rows as a table of text. At another scale than 1 the table also has the published values at that scale.
pub fn table(rows: &[Row], scale: f64) -> String {
    let is_scaled = scale != 1.0;
    let line = |[text, variant, paper, at_scale, ours, unit, verdict, note]: [String; 8]| {
        let at_scale = is_scaled.then_some(at_scale);
        let papers = [text, variant, paper].into_iter().chain(at_scale);
        papers.chain([ours, unit, verdict, note]).collect::<Vec<String>>()
    };
    let head = ["", "", "paper", &format!("paper, at {scale}"), "ours", "", "", ""];
    let cells = rows.iter().map(|row| {
        let place = row.place.as_deref().map_or_else(String::new, |place| format!("[{place}]"));
        let note = [row.remarks(), place].join(" ");
        line([
            row.text.clone(),
            row.variant.clone(),
            format_number_or_dash(row.published),
            format_number_or_dash(row.published_at_scale),
            format_number_or_dash(row.ours),
            row.unit.clone(),
            row.verdict().map_or("", Verdict::label).to_owned(),
            note.trim().to_owned(),
        ])
    });
    let (left, right) = (Column::left(0), Column::right(0));
    let numbers = vec![right; if is_scaled { 3 } else { 2 }];
    let columns = [vec![left; 2], numbers, vec![left; 3]].concat();
    slabwise_text::table(&columns, std::iter::once(line(head.map(str::to_owned))).chain(cells))
}

/// Formats a number like [`format_number`], and a missing number as "-".
pub fn format_number_or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), format_number)
}

/// Formats a number: from 1,000 as an integer with thousands separators, below that with two decimals unless the number
/// is whole.
pub fn format_number(value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    match value.abs() {
        size if size >= 1000.0 => format!("{sign}{}", grouped(size.round_ties_even() as u64)),
        size if value.fract() == 0.0 => format!("{sign}{size:.0}"),
        _ => format!("{value:.2}"),
    }
}

/// Name of the series whose horizontal coordinates are the chunk sizes of a variant.
pub const CHUNK_SIZES: &str = "chunk sizes";

/// The points of one curve in a figure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Series {
    /// Name of the quantity, which figures use to find the series.
    pub name: String,
    /// The configuration that was measured, for example the name of a page policy.
    pub variant: String,
    pub x_unit: Cow<'static, str>,
    pub y_unit: Cow<'static, str>,
    /// Horizontal coordinate of each point.
    pub x: Vec<f64>,
    /// Vertical coordinate of each point, in the order of `x`.
    pub y: Vec<f64>,
}

/// The git commit of the sources, or "unknown" if the program was not built in a git repository.
pub const COMMIT: &str = env!("SLABWISE_COMMIT");

/// The result of an experiment, as stored in `result.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Name of the experiment.
    pub experiment: String,
    /// [`COMMIT`] of the program that wrote the result.
    pub commit: Cow<'static, str>,
    /// The [`sources`](crate::registry::Entry::sources) of the run.
    #[serde(default)]
    pub sources: String,
    /// Seed of all random numbers of the run.
    pub seed: u64,
    /// Number of seeds over which rows are means: [`Outcome::seed`] and the following ones.
    #[serde(default = "one")]
    pub seeds: NonZeroU32,
    /// Factor on the published numbers of requests and keys and on the memory. Scale 1 is the published size.
    pub scale: f64,
    /// The size of a page divided by the published size. Below 1 if the memory is too small for pages of that size.
    #[serde(default = "whole")]
    pub page_share: f64,
    /// True if the requests were sent to real servers (`--live`).
    pub live: bool,
    /// Conditions of the run that a reader needs: pairs of a name and a text.
    pub setup: Vec<(String, String)>,
    pub rows: Vec<Row>,
    pub paper: Paper,
    pub series: Vec<Series>,
    /// Folder of the additional traces (`--traces`). `None` without the option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traces: Option<PathBuf>,
    /// The times of visits to chunks that were given (`--visit-ns`): pairs of a mover and nanoseconds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub visit_ns: BTreeMap<String, f64>,
    /// One figure per additional trace. The report draws them after the figures of the experiment's file.
    #[serde(default)]
    pub figures: Vec<Figure>,
}

/// Shows the seeds of an outcome.
pub struct SeedText<'o>(pub &'o Outcome);

impl fmt::Display for SeedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { seed, seeds, .. } = self.0;
        match seeds.get() {
            1 => write!(f, "seed {seed}"),
            count => write!(f, "seeds {seed} to {}", seed + u64::from(count) - 1),
        }
    }
}

fn whole() -> f64 {
    1.0
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

/// The publication that the experiment repeats, with all published values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Paper {
    /// Authors, title, venue, year and section.
    pub source: String,
    pub published: Vec<Published>,
}

impl Paper {
    /// Returns the published value of a measure and a variant.
    fn value(&self, measure: &str, variant: &str) -> Option<&Published> {
        self.published.iter().find(|value| value.measure == measure && value.variant == variant)
    }
}

impl Outcome {
    /// Creates an outcome without rows and series.
    pub fn new(spec: &Spec, seed: u64, scale: f64, live: bool) -> Outcome {
        Outcome {
            experiment: spec.name.clone(),
            commit: COMMIT.into(),
            sources: String::new(),
            seed,
            seeds: NonZeroU32::MIN,
            scale,
            page_share: 1.0,
            live,
            setup: Vec::new(),
            rows: Vec::new(),
            paper: Paper { source: spec.source.clone(), published: spec.published.clone() },
            series: Vec::new(),
            traces: None,
            visit_ns: BTreeMap::new(),
            figures: spec.figures_added.clone(),
        }
    }

    /// Adds a condition of the run, which the table and the report show above the rows.
    pub fn add_setup(&mut self, name: &str, value: impl ToString) {
        self.setup.push((name.to_owned(), value.to_string()));
    }

    /// Adds a row with our value, or with the reason why there is no value. The row also gets the published value of
    /// the same measure and variant.
    pub fn add(&mut self, measure: Measure, variant: &str, found: Result<f64, String>) {
        let Measure { name, text, unit, scaling } = measure;
        let published = self.paper.value(name, variant);
        let factor = match scaling {
            Scaling::Fixed => 1.0,
            Scaling::WithRun => self.scale,
            Scaling::WithPageSize => self.page_share,
            Scaling::WithPages => self.scale / self.page_share,
        };
        let note = found.as_ref().err().cloned();
        self.rows.push(Row {
            measure: name.to_owned(),
            text: text.to_owned(),
            variant: variant.to_owned(),
            unit: unit.to_owned(),
            ours: found.ok(),
            published: published.map(|published| published.value),
            published_at_scale: published.map(|published| published.value * factor),
            place: published.map(|published| published.place.clone()),
            classification: published.map(|it| it.classification.clone()).unwrap_or_default(),
            spread: None,
            note,
        });
    }

    /// Adds one row per measure, all of the same variant.
    pub fn add_all(&mut self, variant: &str, found: impl IntoIterator<Item = (Measure, f64)>) {
        found.into_iter().for_each(|(measure, value)| self.add(measure, variant, Ok(value)));
    }

    /// Adds a row with the mean over the values of several runs, and with their spread if there are several.
    pub fn add_mean(&mut self, measure: Measure, variant: &str, runs: &[f64]) {
        self.add(measure, variant, Ok(mean(runs)));
        if let Some(row) = self.rows.last_mut().filter(|_| runs.len() > 1) {
            row.spread = Some([minimum(runs), maximum(runs)]);
        }
    }

    /// Adds the series of one variant. Each point is a pair of x and y.
    pub fn add_series(
        &mut self,
        name: impl Into<String>,
        variant: impl Into<String>,
        [x_unit, y_unit]: [&'static str; 2],
        points: impl IntoIterator<Item = (f64, f64)>,
    ) {
        let (name, variant) = (name.into(), variant.into());
        let (x_unit, y_unit) = (x_unit.into(), y_unit.into());
        let (x, y) = points.into_iter().unzip();
        self.series.push(Series { name, variant, x_unit, y_unit, x, y });
    }

    /// Sets the note of the row that was added last.
    pub fn note_last_row(&mut self, note: impl Into<String>) {
        if let Some(row) = self.rows.last_mut() {
            row.note = Some(note.into());
        }
    }

    /// Adds a row without our value for every published value that has no row yet.
    pub fn add_unmeasured_rows(&mut self) {
        let missing = self.paper.published.iter().filter(|value| {
            let is_match = |row: &Row| row.measure == value.measure && row.variant == value.variant;
            !self.rows.iter().any(is_match)
        });
        let rows = missing.map(|value| Row {
            measure: value.measure.clone(),
            text: value.measure.replace('_', " "),
            variant: value.variant.clone(),
            published: Some(value.value),
            place: Some(value.place.clone()),
            classification: value.classification.clone(),
            ..Row::default()
        });
        let rows: Vec<Row> = rows.collect();
        self.rows.extend(rows);
    }

    /// Returns the rows that have neither our value nor a reason why it is missing.
    pub fn unaccounted(&self) -> impl Iterator<Item = &Row> {
        let is_unaccounted = |row: &&Row| {
            let has_reason =
                row.note.is_some() || matches!(row.classification.origin, Origin::NotMeasured(_));
            row.ours.is_none() && !has_reason
        };
        self.rows.iter().filter(is_unaccounted)
    }

    /// Returns true if the rows are compared with the published values of the file.
    pub fn has_values_of(&self, spec: &Spec) -> bool {
        let key = |value: &Published| {
            (
                value.measure.clone(),
                value.variant.clone(),
                value.value.to_bits(),
                value.place.clone(),
            )
        };
        self.paper.published.iter().map(key).eq(spec.published.iter().map(key))
    }

    /// Replaces what is known about the published values by the remarks of the experiment's file.
    pub fn reclassify(&mut self, spec: &Spec) {
        self.paper = Paper { source: spec.source.clone(), published: spec.published.clone() };
        for row in &mut self.rows {
            let value = self.paper.value(&row.measure, &row.variant);
            row.classification =
                value.map(|value| value.classification.clone()).unwrap_or_default();
        }
    }

    /// Formats the source, the conditions of the run and the rows for the terminal.
    pub fn text(&self) -> String {
        let setup = self.setup.iter().map(|(name, value)| [name.clone(), value.clone()]);
        let setup = slabwise_text::table(&[Column::left(0); 2], setup);
        format!("{}\n\n{setup}\n{}", self.paper.source, table(&self.rows, self.scale))
    }
}

#[cfg(test)]
mod tests {
    use super::{Measure, Outcome, Scaling, format_number};
    use crate::experiment::two_phase::TwoPhaseSetup;
    use crate::registry;

    #[test]
    fn large_numbers_have_thousands_separators() {
        let formatted = [314_608.4, 47.95, 15.0, -1_234_567.0, 0.0].map(format_number);
        assert_eq!(formatted, ["314,608", "47.95", "15", "-1,234,567", "0"]);
    }

    const AT_TARGET: Measure = Measure {
        name: "allocation_at_target",
        text: "requests until the target partition is reached",
        unit: "requests",
        scaling: Scaling::WithRun,
    };

    #[test]
    fn every_published_value_has_a_row_and_rows_without_value_and_reason_are_unaccounted() {
        let (spec, _) = registry::parsed::<TwoPhaseSetup>("two-phase");
        let mut outcome = Outcome::new(&spec, 1, 0.1, false);
        outcome.add(AT_TARGET, "lama, base", Err("not reached in this run".to_owned()));
        outcome.add(AT_TARGET, "lama, fast", Ok(1_700_000.0));
        outcome.add_unmeasured_rows();
        assert_eq!(outcome.rows[1].published_at_scale, Some(1_650_000.0));
        assert_eq!(outcome.rows.len(), spec.published.len());
        let unaccounted = outcome.unaccounted().count();
        assert_eq!(unaccounted, spec.published.len() - 2, "the other rows have no reason");
        let text = outcome.text();
        let line = text.lines().find(|line| line.contains("1,700,000"));
        let line = line.expect("the table has a line with our value of `fast`");
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[8..12], ["fast", "16,500,000", "1,650,000", "1,700,000"], "{text}");
    }
}
