//! What an experiment found, beside what was published.
//!
//! Law: no figure is made up. A row without a figure of ours says why, and every published figure has a
//! row, if only one that says that nothing was measured for it.

use super::spec::{Published, Spec};
use crate::report::Figure;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt::Write;
use std::path::PathBuf;

/// How a measure changes with the scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scaling {
    /// Not: a ratio, a time, a count for one page.
    Fixed,
    /// It grows with the run: the published figure is multiplied by the scale before it is compared.
    WithRun,
}

/// Something that is measured.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    /// Its name in files.
    pub name: &'static str,
    /// The same for people.
    pub text: &'static str,
    /// The unit.
    pub unit: &'static str,
    /// How it changes with the scale.
    pub scaling: Scaling,
}

/// One measure on one variant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// What was measured.
    pub measure: String,
    /// The same for people.
    pub text: String,
    /// On what.
    pub variant: String,
    /// The unit.
    pub unit: String,
    /// What we found.
    pub ours: Option<f64>,
    /// What was published.
    pub published: Option<f64>,
    /// The same as this run should find it, smaller as it is.
    pub published_at_scale: Option<f64>,
    /// Where that stands.
    pub place: Option<String>,
    /// Why ours differs from it, where that is known.
    pub explained: Option<String>,
    /// Why there is no figure of ours, or how it is to be read.
    pub note: Option<String>,
}

impl Row {
    /// How ours is to be read, or why there is none: every row without a figure has one.
    pub fn remark(&self) -> Option<&str> {
        let why_none = self.explained.as_deref().filter(|_| self.ours.is_none());
        self.note.as_deref().or(why_none)
    }
}

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
        let mut text = format!("{}\n\n", self.paper.source);
        let names = self.setup.iter().map(|(name, _)| name.chars().count());
        let width = names.max().unwrap_or(0);
        for (name, value) in &self.setup {
            let _ = writeln!(text, "{name:width$}  {value}");
        }
        text.push('\n');
        text.push_str(&table(&self.rows, self.scale));
        text
    }
}

/// Rows in columns as wide as they need to be.
fn table(rows: &[Row], scale: f64) -> String {
    let paper = if scale == 1.0 { "paper".to_owned() } else { format!("paper, at {scale}") };
    let head = ["", "", "paper", &paper, "ours", "", ""].map(str::to_owned);
    let cells = rows.iter().map(|row| {
        let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
        let place = row.place.as_deref().map_or_else(String::new, |place| format!("[{place}]"));
        let note = [row.remark().unwrap_or_default(), &place].join(" ");
        [
            row.text.clone(),
            row.variant.clone(),
            shown(row.published),
            shown(row.published_at_scale),
            shown(row.ours),
            row.unit.clone(),
            note.trim().to_owned(),
        ]
    });
    let mut lines = vec![head];
    lines.extend(cells);
    // At full scale both columns of the paper are the same.
    let columns: &[usize] = if scale == 1.0 { &[0, 1, 2, 4, 5, 6] } else { &[0, 1, 2, 3, 4, 5, 6] };
    let mut text = String::new();
    for line in &lines {
        for &column in columns {
            let width = lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
            let cell = &line[column];
            let _ = match column {
                2..=4 => write!(text, "{cell:>width$}  "),
                _ => write!(text, "{cell:<width$}  "),
            };
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

/// A number with as many digits as one wants to read.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => {
            let digits = format!("{:.0}", value.abs());
            let groups = digits.as_bytes().rchunks(3).rev();
            let groups = groups.map(|group| String::from_utf8_lossy(group).into_owned());
            let sign = if value < 0.0 { "-" } else { "" };
            format!("{sign}{}", groups.collect::<Vec<_>>().join(","))
        }
        size if value.fract() == 0.0 => format!("{}{size:.0}", if value < 0.0 { "-" } else { "" }),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Measure, Outcome, Scaling, number};
    use crate::experiment::spec::Spec;

    const AT_TARGET: Measure = Measure {
        name: "allocation_at_target",
        text: "allocation at its target",
        unit: "requests",
        scaling: Scaling::WithRun,
    };

    #[test]
    fn numbers_are_grouped() {
        let shown = [314_608.4, 47.95, 15.0, -1_234_567.0, 0.0].map(number);
        assert_eq!(shown, ["314,608", "47.95", "15", "-1,234,567", "0"]);
    }

    #[test]
    fn every_published_figure_has_a_row_and_a_row_without_a_figure_says_why() {
        let spec = Spec::named("two-phase").expect("it is there");
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
