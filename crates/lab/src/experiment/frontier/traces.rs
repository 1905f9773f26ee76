//! Traces from a folder beside the file's own streams.

use super::setup::{FrontierSetup, StreamSetup};
use crate::result::Figure;
use crate::trial::error::ExperimentError;
use crate::trial::setup::WorkloadSetup;
use std::path::Path;

/// Requests of a trace that are looked at: with their numbers they take 0.8 GiB, half as much again while they are read, and
/// what each run at a time holds comes on top.
const REQUESTS_MAX: u64 = 20_000_000;

/// Adds every file in the folder as a stream, in the order of their names, each with a figure. Hidden files are none.
pub fn add(
    setup: &mut FrontierSetup,
    figures: &mut Vec<Figure>,
    directory: &Path,
) -> Result<(), ExperimentError> {
    let shown = directory.display();
    let failed =
        |error: std::io::Error| ExperimentError::Option(format!("--traces {shown}: {error}"));
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if path.is_file() && name.is_none_or(|name| !name.starts_with('.')) {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(ExperimentError::Option(format!("--traces {shown}: no file is in it")));
    }
    paths.sort();
    let names = setup.names().into_iter();
    let variants: Vec<String> =
        names.filter(|name| !name.contains(", ")).map(str::to_owned).collect();
    for path in paths {
        let (Some(whole), Some(name)) =
            (path.to_str(), path.file_name().and_then(|it| it.to_str()))
        else {
            let text = format!("--traces: {} is not UTF-8: rename it", path.display());
            return Err(ExperimentError::Option(text));
        };
        if setup.streams.iter().any(|stream| stream.name == name) {
            let text = format!("--traces: a workload here is called {name}, too: rename the file");
            return Err(ExperimentError::Option(text));
        }
        figures.push(Figure::of_curves(name, "miss ratio", &format!("{name}: "), &variants));
        setup.streams.push(StreamSetup {
            name: name.to_owned(),
            workload: WorkloadSetup::recorded(&format!("trace:{whole}"), REQUESTS_MAX),
        });
    }
    Ok(())
}
