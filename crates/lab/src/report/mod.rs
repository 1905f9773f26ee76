//! Reports: what an experiment found, as one page that needs nothing else.
//!
//! ```text
//!   experiments/NAME.toml --> figures --\
//!   result.json --> Outcome -------------+--> drawing --> chart (SVG) --> page --> report.html
//!                                      |                                  index --> index.html
//!                                      '--> picture --> figure-N.svg
//! ```
//!
//! A figure names series or rows; what it draws is found in the outcome, so a report can be drawn again from its
//! `result.json` at any time.
//!
//! Invariants: every number on a page is from the outcome; a figure that has nothing to draw says so; no text gets
//! onto a page unescaped; a page asks nothing of the network.

mod chart;
mod page;

#[cfg(test)]
mod tests;

use crate::result::{Outcome, Spec};
use chart::Drawing;
use page::Entry;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ReportError(String);

pub const RESULT_FILE: &str = "result.json";
const REPORT_FILE: &str = "report.html";
/// More than any experiment has.
const PICTURES_MAX: usize = 100;
const INDEX_FILE: &str = "index.html";

/// Writes the report of an outcome; gives its path. Where there is an index over several, its page leads back.
/// Beside it each figure is a picture of its own, `figure-1.svg` and on.
pub fn write(
    spec: &Spec,
    outcome: &Outcome,
    directory: &Path,
    index: Option<&str>,
) -> Result<PathBuf, ReportError> {
    for number in 1..=PICTURES_MAX {
        // An earlier run's may be of other figures; mostly there is none.
        let _ = fs::remove_file(directory.join(format!("figure-{number}.svg")));
    }
    for (number, figure) in (1..).zip(page::figures(spec, outcome)) {
        if let Some(drawing) = Drawing::of(figure, outcome) {
            let picture = page::picture(&figure.title, &drawing, figure.logarithmic);
            write_page(directory.join(format!("figure-{number}.svg")), &picture.into_string())?;
        }
    }
    write_page(directory.join(REPORT_FILE), &page::page(spec, outcome, index).into_string())
}

#[derive(Debug)]
pub struct Index {
    pub path: PathBuf,
    /// Results that it cannot show, and why: another program's do not keep ours from being drawn.
    pub left_out: Vec<ReportError>,
}

/// Draws the reports of all results of these experiments in a folder and the folders right in it again, and an index over
/// them in the order of the experiments.
pub fn redraw(specs: &[Spec], directory: &Path) -> Result<Index, ReportError> {
    let (mut entries, mut left_out) = (Vec::new(), Vec::new());
    for folder in folders(directory)? {
        let path = folder.join(RESULT_FILE);
        if !path.exists() {
            continue;
        }
        let (spec, outcome) = match read(specs, path) {
            Ok(read) => read,
            Err(error) => {
                left_out.push(error);
                continue;
            }
        };
        let up = if folder == directory { "" } else { "../" };
        let index = format!("{up}{INDEX_FILE}");
        let page = write(spec, &outcome, &folder, Some(&index))?;
        let page = page.strip_prefix(directory).unwrap_or(&page).to_owned();
        entries.push(Entry { spec, outcome, page });
    }
    if entries.is_empty() {
        let shown = directory.display();
        let nothing =
            format!("no result.json in {shown} or in a folder of it: lab run writes them");
        return Err(left_out.into_iter().next().unwrap_or(ReportError(nothing)));
    }
    entries.sort_by_key(|entry| specs.iter().position(|spec| spec.name == entry.spec.name));
    let page = page::index(&entries, &left_out).into_string();
    Ok(Index { path: write_page(directory.join(INDEX_FILE), &page)?, left_out })
}

fn read(specs: &[Spec], path: PathBuf) -> Result<(&Spec, Outcome), ReportError> {
    let bytes = fs::read(&path).map_err(|error| unreadable(&path, &error))?;
    let shown = path.display();
    let outcome: Outcome = serde_json::from_slice(&bytes).map_err(|error| {
        let text =
            format!("{shown} is no result of this program: {error}; run the experiment again");
        ReportError(text)
    })?;
    let spec = specs.iter().find(|spec| spec.name == outcome.experiment);
    let name = &outcome.experiment;
    let unknown = || {
        let what = "which is no experiment of this program: lab list has them";
        ReportError(format!("{shown} is of '{name}', {what}"))
    };
    Ok((spec.ok_or_else(unknown)?, outcome))
}

fn unreadable(path: &Path, error: &std::io::Error) -> ReportError {
    let shown = path.display();
    ReportError(format!("cannot read {shown}: {error}; give the folder that lab run wrote to"))
}

fn folders(directory: &Path) -> Result<Vec<PathBuf>, ReportError> {
    let failed = |error| unreadable(directory, &error);
    let entries = fs::read_dir(directory).map_err(failed)?.collect::<Result<Vec<_>, _>>();
    let inner = entries.map_err(failed)?.into_iter().map(|entry| entry.path());
    let mut inner: Vec<PathBuf> = inner.filter(|path| path.is_dir()).collect();
    inner.sort();
    inner.insert(0, directory.to_owned());
    Ok(inner)
}

fn write_page(path: PathBuf, text: &str) -> Result<PathBuf, ReportError> {
    match fs::write(&path, text) {
        Ok(()) => Ok(path),
        Err(error) => Err(ReportError(format!("cannot write {}: {error}", path.display()))),
    }
}
