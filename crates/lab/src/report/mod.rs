//! Writes the report of an outcome as a single HTML page, or the reports of all outcomes as Markdown.
//!
//! ```text
//!   experiments/NAME.toml --> figures --\
//!   result.json --> Outcome -------------+--> drawing --> chart (SVG) --> page --> report.html
//!                                      |                                  index --> index.html
//!                                      |--> picture --> figure-N.svg
//!                                      '--> markdown --> README.md, NAME.md
//! ```
//!
//! A figure refers to series or rows of the outcome by name. So a report can be drawn again from its `result.json`.
//!
//! Invariants:
//! - Every number on a page is from the outcome.
//! - A figure without data has a text that says so.
//! - All text is escaped.
//! - A page loads nothing from the network.
//! - In the reports of a folder, a difference has a cause only if a result in the folder has the row that shows it.

mod causes;
mod chart;
mod counts;
mod entry;
mod file;
mod markdown;
mod page;

#[cfg(test)]
mod tests;

use crate::result::{Outcome, Spec};
use chart::Drawing;
use counts::CountsTable;
use entry::Entry;
use file::{ReportError, write_page};
use std::fs;
use std::path::{Path, PathBuf};

/// Name of the file that stores an outcome.
pub const RESULT_FILE: &str = "result.json";
const REPORT_FILE: &str = "report.html";
/// No experiment has more figures than this number.
const PICTURES_MAX: usize = 100;
const INDEX_FILE: &str = "index.html";

/// Writes the report of an outcome into `directory`, and each figure as a picture with the name `figure-1.svg` and so
/// on. If `index` is given, the report links to the page with this relative address. Returns the path of the report.
pub fn write(
    spec: &Spec,
    outcome: &Outcome,
    directory: &Path,
    index: Option<&str>,
) -> Result<PathBuf, ReportError> {
    for number in 1..=PICTURES_MAX {
        // Pictures of an earlier run may show other figures.
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

/// The index of all reports of a folder, after it was written.
#[derive(Debug)]
pub struct Index {
    /// Path of the index page.
    pub path: PathBuf,
    /// The counts of published values by verdict, as a table of text.
    pub counts: String,
    /// One error per result that could not be read, for example because another version of the program wrote the
    /// result.
    pub skipped: Vec<ReportError>,
    /// The causes of differences that refer to a row which the results do not have, although they have its experiment.
    pub causes_without_row: Vec<String>,
}

/// Writes the reports of all results in a folder and its direct subfolders again. Also writes an index of the reports,
/// which lists the experiments in the order of `specs`. If `markdown` is given, also writes the reports as Markdown to
/// this folder.
pub fn redraw(
    specs: &[Spec],
    directory: &Path,
    markdown: Option<&Path>,
) -> Result<Index, ReportError> {
    let (mut entries, mut skipped) = (Vec::new(), Vec::new());
    for folder in folders(directory)? {
        let path = folder.join(RESULT_FILE);
        if !path.exists() {
            continue;
        }
        let (spec, outcome) = match read(specs, path) {
            Ok(read) => read,
            Err(error) => {
                skipped.push(error);
                continue;
            }
        };
        let page = folder.strip_prefix(directory).unwrap_or(&folder).join(REPORT_FILE);
        entries.push(Entry { spec, outcome, page });
    }
    let causes_without_row = causes::remove_causes_without_row(&mut entries);
    for Entry { spec, outcome, page } in &entries {
        let folder = page.parent().unwrap_or(Path::new(""));
        let up = if folder == Path::new("") { "" } else { "../" };
        let index = format!("{up}{INDEX_FILE}");
        write(spec, outcome, &directory.join(folder), Some(&index))?;
    }
    if entries.is_empty() {
        let shown = directory.display();
        let empty = format!(
            "{shown} and its subfolders contain no result.json; `slabwise lab run` writes such files"
        );
        return Err(skipped.into_iter().next().unwrap_or(ReportError(empty)));
    }
    entries.sort_by_key(|entry| specs.iter().position(|spec| spec.name == entry.spec.name));
    let page = page::index(&entries, &skipped).into_string();
    if let Some(markdown) = markdown {
        markdown::write(&entries, markdown)?;
    }
    let counts = CountsTable::of(&entries).text();
    let path = write_page(directory.join(INDEX_FILE), &page)?;
    Ok(Index { path, counts, skipped, causes_without_row })
}

fn read(specs: &[Spec], path: PathBuf) -> Result<(&Spec, Outcome), ReportError> {
    let bytes = fs::read(&path).map_err(|error| unreadable(&path, &error))?;
    let shown = path.display();
    let mut outcome: Outcome = serde_json::from_slice(&bytes).map_err(|error| {
        let text = format!(
            "{shown} is not a result of this version of slabwise: {error}; run the experiment again"
        );
        ReportError(text)
    })?;
    let spec = specs.iter().find(|spec| spec.name == outcome.experiment);
    let name = &outcome.experiment;
    let unknown = || {
        let remedy = "`slabwise lab list` lists the experiments";
        ReportError(format!("{shown} is a result of the unknown experiment '{name}'; {remedy}"))
    };
    let spec = spec.ok_or_else(unknown)?;
    outcome.reclassify(spec);
    Ok((spec, outcome))
}

fn unreadable(path: &Path, error: &std::io::Error) -> ReportError {
    let shown = path.display();
    let remedy = "specify the folder to which `slabwise lab run` wrote its results";
    ReportError(format!("cannot read {shown}: {error}; {remedy}"))
}

/// Returns the folder itself, and then its direct subfolders in the order of their names.
fn folders(directory: &Path) -> Result<Vec<PathBuf>, ReportError> {
    let failed = |error| unreadable(directory, &error);
    let entries = fs::read_dir(directory).map_err(failed)?.collect::<Result<Vec<_>, _>>();
    let inner = entries.map_err(failed)?.into_iter().map(|entry| entry.path());
    let mut inner: Vec<PathBuf> = inner.filter(|path| path.is_dir()).collect();
    inner.sort();
    inner.insert(0, directory.to_owned());
    Ok(inner)
}
