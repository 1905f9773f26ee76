//! Writes reports as Markdown, with the figures as SVG files, so that they can be stored in a repository.
//!
//! ```text
//!   README.md            counts of published values, list of experiments
//!   NAME.md              figures, table of published values, set-up
//!   NAME-figure-1.svg    a figure
//! ```

use super::chart::Drawing;
use super::counts::CountsTable;
use super::entry::Entry;
use super::file::{ReportError, write_page};
use super::page;
use crate::result::{Outcome, Row, SeedText, Verdict, format_number_or_dash};
use std::fmt::Write;
use std::path::Path;

/// Writes the reports of all entries, and an overview.
pub fn write(entries: &[Entry<'_>], directory: &Path) -> Result<(), ReportError> {
    std::fs::create_dir_all(directory).map_err(|error| {
        ReportError(format!(
            "cannot create {}: {error}; choose another folder with --markdown",
            directory.display()
        ))
    })?;
    for entry in entries {
        let name = &entry.spec.name;
        write_page(directory.join(format!("{name}.md")), &experiment(entry, directory)?)?;
    }
    write_page(directory.join("README.md"), &overview(entries))?;
    Ok(())
}

/// Returns the overview: counts of verdicts, and one line per experiment.
fn overview(entries: &[Entry<'_>]) -> String {
    let mut text = "# Reproduction of the published results\n\n".to_owned();
    text += "`slabwise lab run` ran each experiment at the scale and with the seeds of the second table, and `slabwise \
             lab report --markdown` wrote these pages. [docs/lab.md](../lab.md) explains the experiments. A scale below 1 \
             means that an experiment ran with this part of the published requests, keys and memory. The sources are the \
             last commits that had changed the engine and the experiment when it ran; texts of set-ups and remarks may be \
             newer. Processor times, and so the GETs per page, depend on \
             the machine. Some published values have several rows.\n\n";
    text += "Each published value has one of these verdicts:\n\n\
             - *agrees*: a run measured the value, and differs from the published value by at most 10 % of it, or by at \
             most the tolerance that the row names.\n\
             - *differs, cause shown*: a run measured another value, and a row of an experiment shows why.\n\
             - *differs, unexplained*: a run measured another value, or never reached the measured event.\n\
             - *forced*: the set-up allows no other value. This is no evidence.\n\
             - *fitted*: the experiment chooses an input so that this value, or the values that determine it, are as \
             published, and the value agrees. This is no evidence.\n\
             - *not measured*: no run measures the value, for the given reason.\n\n";
    let counts = CountsTable::of(entries);
    text += &table(&counts.cells(), 1);
    let _ = write!(text, "\n{}\n\n", counts.sentence());
    let head = ["experiment", "title", "scale", "seeds", "sources"].map(str::to_owned).to_vec();
    let lines = entries.iter().map(|entry| {
        let Entry { spec, outcome, .. } = entry;
        vec![
            format!("[{0}]({0}.md)", spec.name),
            spec.title.clone(),
            outcome.scale.to_string(),
            SeedText(outcome).to_string(),
            outcome.sources.clone(),
        ]
    });
    text += &table(&std::iter::once(head).chain(lines).collect::<Vec<_>>(), 5);
    text
}

/// Returns the page of an experiment, and writes its figures.
fn experiment(entry: &Entry<'_>, directory: &Path) -> Result<String, ReportError> {
    let Entry { spec, outcome, .. } = entry;
    let mut text = format!("# {}\n\n{}\n\n", spec.name, page::size_text(outcome));
    let _ = write!(text, "{}.\n\nSource: {}.\n\n", spec.title, outcome.paper.source);
    let _ = writeln!(text, "{}, sources {}.", SeedText(outcome), outcome.sources);
    let published: Vec<&Row> = outcome.rows.iter().filter(|row| row.published.is_some()).collect();
    if !published.is_empty() {
        text += "\n## Published values and our values\n\n";
        text += &comparison(&published, outcome);
    }
    for (number, figure) in (1..).zip(page::figures(spec, outcome)) {
        let Some(drawing) = Drawing::of(figure, outcome) else { continue };
        let file = format!("{}-figure-{number}.svg", spec.name);
        let picture = page::picture(&figure.title, &drawing, figure.logarithmic);
        write_page(directory.join(&file), &picture.into_string())?;
        let place = figure.place.as_ref().map_or_else(String::new, |place| format!(" ({place})"));
        let _ = write!(text, "\n## {}{place}\n\n![{0}]({file})\n", figure.title);
    }
    let ours: Vec<&Row> = outcome.rows.iter().filter(|row| row.published.is_none()).collect();
    if !ours.is_empty() {
        text += "\n## Values without a published value\n\n";
        text += &findings(&ours);
    }
    text += "\n## Set-up\n\n";
    let head = ["condition", "value"].map(str::to_owned).to_vec();
    let lines = outcome.setup.iter().map(|(name, value)| vec![name.clone(), value.clone()]);
    text += &table(&std::iter::once(head).chain(lines).collect::<Vec<_>>(), 2);
    Ok(text)
}

fn comparison(rows: &[&Row], outcome: &Outcome) -> String {
    let is_scaled = outcome.scale != 1.0;
    let mut head = vec!["measure", "variant", "place", "published"];
    head.extend(is_scaled.then_some("at this scale"));
    head.extend(["ours", "unit", "verdict", "remark"]);
    let lines = rows.iter().map(|row| {
        let mut cells = vec![
            row.text.clone(),
            row.variant.clone(),
            row.place.clone().unwrap_or_default(),
            format_number_or_dash(row.published),
        ];
        cells.extend(is_scaled.then(|| format_number_or_dash(row.published_at_scale)));
        cells.extend([
            format_number_or_dash(row.ours),
            row.unit.clone(),
            row.verdict().map_or("", Verdict::label).to_owned(),
            row.remarks(),
        ]);
        cells
    });
    let head = head.into_iter().map(str::to_owned).collect();
    table(&std::iter::once(head).chain(lines).collect::<Vec<_>>(), 3)
}

fn findings(rows: &[&Row]) -> String {
    let head = ["measure", "variant", "ours", "unit", "remark"].map(str::to_owned).to_vec();
    let lines = rows.iter().map(|row| {
        let ours = format_number_or_dash(row.ours);
        vec![row.text.clone(), row.variant.clone(), ours, row.unit.clone(), row.remarks()]
    });
    table(&std::iter::once(head).chain(lines).collect::<Vec<_>>(), 5)
}

/// Formats a table whose first row is its head. Columns from `texts` on whose cells are numbers are aligned to the right.
fn table(rows: &[Vec<String>], texts: usize) -> String {
    let Some((head, lines)) = rows.split_first() else { return String::new() };
    let is_number = |column: usize| {
        column >= texts && lines.iter().all(|line| !line[column].contains(char::is_alphabetic))
    };
    let rule: Vec<String> = (0..head.len())
        .map(|column| if is_number(column) { "---:" } else { "---" }.to_owned())
        .collect();
    let mut text = String::new();
    for line in [head, &rule].into_iter().chain(lines) {
        let cells: Vec<String> = line.iter().map(|cell| cell.replace('|', "\\|")).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}
