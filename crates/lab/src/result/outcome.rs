//! The outcome of an experiment: rows and series, next to the published figures.
//!
//! Invariant: a row without a value of ours has the reason, and every published figure has a row.

use super::spec::{Figure, Published, Spec};
use serde::{Deserialize, Serialize};
use slabwise_text::{Column, grouped};
use std::borrow::Cow;
use std::path::PathBuf;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scaling {
    /// The value does not depend on the scale, as a ratio, a time, or a count per page.
    Fixed,
    /// The value grows with the run: the published figure is multiplied by the scale before the comparison.
    WithRun,
}

#[derive(Clone, Copy, Debug)]
pub struct Measure {
    pub name: &'static str,
    pub text: &'static str,
    pub unit: &'static str,
    pub scaling: Scaling,
}

/// Defines constants of type [`Measure`]: `ID: "name_in_files", "text of the row", "unit", Fixed | WithRun;`.
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

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Row {
    pub measure: String,
    pub text: String,
    pub variant: String,
    pub unit: String,
    pub ours: Option<f64>,
    pub published: Option<f64>,
    pub published_at_scale: Option<f64>,
    pub place: Option<String>,
    /// Why our value differs from the published one, if known.
    pub explained: Option<String>,
    /// Why there is no value of ours, or how to read it.
    pub note: Option<String>,
}

impl Row {
    /// Returns how to read our value, or why there is none.
    pub fn remark(&self) -> Option<&str> {
        let why_none = self.explained.as_deref().filter(|_| self.ours.is_none());
        self.note.as_deref().or(why_none)
    }
}

/// The mean; 0 of an empty list.
pub fn mean(figures: &[f64]) -> f64 {
    figures.iter().sum::<f64>() / figures.len().max(1) as f64
}

pub fn least(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(f64::INFINITY, f64::min)
}

pub fn most(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

pub fn table(rows: &[Row], scale: f64) -> String {
    // At scale 1 both columns of the paper are equal.
    let is_scaled = scale != 1.0;
    let line = |[text, variant, paper, at_scale, ours, unit, note]: [String; 7]| {
        let at_scale = is_scaled.then_some(at_scale);
        let papers = [text, variant, paper].into_iter().chain(at_scale);
        papers.chain([ours, unit, note]).collect::<Vec<String>>()
    };
    let head = ["", "", "paper", &format!("paper, at {scale}"), "ours", "", ""];
    let cells = rows.iter().map(|row| {
        let place = row.place.as_deref().map_or_else(String::new, |place| format!("[{place}]"));
        let note = [row.remark().unwrap_or_default(), &place].join(" ");
        line([
            row.text.clone(),
            row.variant.clone(),
            shown(row.published),
            shown(row.published_at_scale),
            shown(row.ours),
            row.unit.clone(),
            note.trim().to_owned(),
        ])
    });
    let (left, right) = (Column::left(0), Column::right(0));
    let numbers = vec![right; if is_scaled { 3 } else { 2 }];
    let columns = [vec![left; 2], numbers, vec![left; 2]].concat();
    slabwise_text::table(&columns, std::iter::once(line(head.map(str::to_owned))).chain(cells))
}

pub fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), number)
}

pub fn number(value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    match value.abs() {
        size if size >= 1000.0 => format!("{sign}{}", grouped(size.round_ties_even() as u64)),
        size if value.fract() == 0.0 => format!("{sign}{size:.0}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
impl Outcome {
    /// Returns the rows that violate the invariant: they have neither a value nor a reason.
    pub fn unexplained(&self) -> Vec<&Row> {
        let is_unexplained = |row: &&Row| row.ours.is_none() && row.remark().is_none();
        self.rows.iter().filter(is_unexplained).collect()
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Series {
    pub name: String,
    pub variant: String,
    pub x_unit: Cow<'static, str>,
    pub y_unit: Cow<'static, str>,
    pub x: Vec<f64>,
    pub y: Vec<f64>,
}

pub const COMMIT: &str = env!("SLABWISE_COMMIT");

/// The result of an experiment, as stored in `result.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    pub experiment: String,
    pub commit: Cow<'static, str>,
    pub seed: u64,
    /// The scale of the run; 1 is the published size.
    pub scale: f64,
    pub live: bool,
    pub setup: Vec<(String, String)>,
    pub rows: Vec<Row>,
    pub paper: Paper,
    pub series: Vec<Series>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traces: Option<PathBuf>,
    /// The figures of the traces, which the report draws after those of the experiment's file.
    #[serde(default)]
    pub figures: Vec<Figure>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Paper {
    pub source: String,
    pub published: Vec<Published>,
}

impl Outcome {
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

    /// Records a choice of the set-up that a reader has to know.
    pub fn choose(&mut self, name: &str, value: impl ToString) {
        self.setup.push((name.to_owned(), value.to_string()));
    }

    /// Adds a row with a value, or with the reason why there is none.
    pub fn add(&mut self, measure: Measure, variant: &str, found: Result<f64, String>) {
        let Measure { name, text, unit, scaling } = measure;
        let published = &self.paper.published;
        let published =
            published.iter().find(|figure| figure.measure == name && figure.variant == variant);
        let factor = if scaling == Scaling::WithRun { self.scale } else { 1.0 };
        let note = found.as_ref().err().cloned();
        self.rows.push(Row {
            measure: name.to_owned(),
            text: text.to_owned(),
            variant: variant.to_owned(),
            unit: unit.to_owned(),
            ours: found.ok(),
            published: published.map(|figure| figure.value),
            published_at_scale: published.map(|figure| figure.value * factor),
            place: published.map(|figure| figure.place.clone()),
            explained: published.and_then(|figure| figure.explained.clone()),
            note,
        });
    }

    pub fn add_all(&mut self, variant: &str, found: impl IntoIterator<Item = (Measure, f64)>) {
        found.into_iter().for_each(|(measure, value)| self.add(measure, variant, Ok(value)));
    }

    /// Adds a row with the mean of several runs, and a note with their minimum and maximum.
    pub fn add_mean(&mut self, measure: Measure, variant: &str, runs: &[f64]) {
        self.add(measure, variant, Ok(mean(runs)));
        if runs.len() > 1 {
            self.note(format!("{} to {}", number(least(runs)), number(most(runs))));
        }
    }

    pub fn draw(
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

    pub fn note(&mut self, note: impl Into<String>) {
        if let Some(row) = self.rows.last_mut() {
            row.note = Some(note.into());
        }
    }

    pub fn complete(&mut self) {
        let missing = self.paper.published.iter().filter(|figure| {
            let is_it = |row: &Row| row.measure == figure.measure && row.variant == figure.variant;
            !self.rows.iter().any(is_it)
        });
        let rows = missing.map(|figure| Row {
            measure: figure.measure.clone(),
            text: figure.measure.replace('_', " "),
            variant: figure.variant.clone(),
            published: Some(figure.value),
            place: Some(figure.place.clone()),
            explained: figure.explained.clone(),
            note: figure.explained.is_none().then(|| "not measured by this version".to_owned()),
            ..Row::default()
        });
        let rows: Vec<Row> = rows.collect();
        self.rows.extend(rows);
    }

    pub fn text(&self) -> String {
        let setup = self.setup.iter().map(|(name, value)| [name.clone(), value.clone()]);
        let setup = slabwise_text::table(&[Column::left(0); 2], setup);
        format!("{}\n\n{setup}\n{}", self.paper.source, table(&self.rows, self.scale))
    }
}

#[cfg(test)]
mod tests {
    use super::{Measure, Outcome, Scaling, number};
    use crate::experiment::two_phase::TwoPhaseSetup;
    use crate::registry;

    #[test]
    fn numbers_have_thousands_separators() {
        let shown = [314_608.4, 47.95, 15.0, -1_234_567.0, 0.0].map(number);
        assert_eq!(shown, ["314,608", "47.95", "15", "-1,234,567", "0"]);
    }

    const AT_TARGET: Measure = Measure {
        name: "allocation_at_target",
        text: "allocation at its target",
        unit: "requests",
        scaling: Scaling::WithRun,
    };

    #[test]
    fn every_published_figure_has_a_row_with_a_value_or_a_reason() {
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
