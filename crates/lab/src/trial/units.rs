//! Stores the results of the parts of an experiment, so that a run that was stopped can continue with `--resume`.
//!
//! ```text
//!   run(NAME) --> has DIR/NAME.json a result with the same identity? --yes--> this result
//!                                                             '--no--> run --> DIR/NAME.json
//! ```
//!
//! A unit is one variant with one seed. The [identity](RunIdentity) contains all that determines the result of a unit.
//! Invariant: a file has a complete result, or does not exist.

use super::error::ExperimentError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use std::{fs, io};

/// All that determines the result of a run, except for measured times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunIdentity {
    /// The [`sources`](crate::registry::Entry::sources) of the experiment.
    pub sources: String,
    /// The table `setup` of the experiment's file, as JSON.
    pub setup: String,
    pub seed: u64,
    pub scale: f64,
    pub live: bool,
    /// The additional traces (`--traces`).
    pub traces: Vec<TraceIdentity>,
    /// The times of visits to chunks that were given (`--visit-ns`): pairs of a mover and nanoseconds.
    pub visit_ns: BTreeMap<String, f64>,
}

/// A file of the folder of `--traces`. A file that was written again has another identity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceIdentity {
    path: PathBuf,
    size_bytes: u64,
    /// Time of the last change, in nanoseconds since 1970.
    changed_nanos: Option<u128>,
}

impl TraceIdentity {
    /// Returns the identities of all files in a folder, in the order of their paths.
    pub fn of_folder(folder: &Path) -> io::Result<Vec<TraceIdentity>> {
        let mut traces = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let metadata = fs::metadata(&path)?;
            let changed = metadata.modified().ok();
            let since_1970 = changed.and_then(|changed| changed.duration_since(UNIX_EPOCH).ok());
            traces.push(TraceIdentity {
                path,
                size_bytes: metadata.len(),
                changed_nanos: since_1970.map(|duration| duration.as_nanos()),
            });
        }
        traces.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(traces)
    }
}

impl RunIdentity {
    /// Returns true if a result with this identity can replace a run with the identity `other`. Results of a program
    /// whose sources are unknown or modified cannot.
    pub fn is_reusable_for(&self, other: &RunIdentity) -> bool {
        let is_committed = !["unknown", "-modified"].iter().any(|word| self.sources.contains(word));
        is_committed && self == other
    }
}

/// The stored units of a run.
#[derive(Clone, Debug, Default)]
pub struct Units {
    /// Folder of the files. `None` stores nothing.
    directory: Option<PathBuf>,
    identity: RunIdentity,
    /// True if stored results are used.
    resumes: bool,
}

/// The content of a file.
#[derive(Serialize, Deserialize)]
struct Stored<T> {
    identity: RunIdentity,
    result: T,
}

impl Units {
    /// Creates units in a folder, which is created with the first result. With `resumes`, results of an earlier run are
    /// used.
    pub fn new(directory: PathBuf, identity: RunIdentity, resumes: bool) -> Units {
        Units { directory: Some(directory), identity, resumes }
    }

    /// Returns the stored result of a unit. If there is none, calls `run`, and stores its result. Names of units are
    /// unique within an experiment.
    pub fn run<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        run: impl FnOnce() -> Result<T, ExperimentError>,
    ) -> Result<T, ExperimentError> {
        match self.load(name) {
            Some(result) => Ok(result),
            None => self.save(name, run()?),
        }
    }

    /// Returns the stored result of a unit if it belongs to this run.
    pub fn load<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let directory = self.directory.as_ref().filter(|_| self.resumes)?;
        let json = fs::read(directory.join(file_name(name))).ok()?;
        let stored: Stored<T> = serde_json::from_slice(&json).ok()?;
        stored.identity.is_reusable_for(&self.identity).then_some(stored.result)
    }

    /// Stores and returns the result of a unit.
    pub fn save<T: Serialize>(&self, name: &str, result: T) -> Result<T, ExperimentError> {
        let Some(directory) = &self.directory else { return Ok(result) };
        let stored = Stored { identity: self.identity.clone(), result };
        let json = serde_json::to_vec(&stored).expect("a result can be serialized");
        let path = directory.join(file_name(name));
        write_whole(&path, &json).map_err(|error| ExperimentError::Unit(path, error))?;
        Ok(stored.result)
    }
}

/// Creates the folder of a file, writes another file there, and renames it. So `path` never contains a part of the bytes.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let partial = path.with_extension("json.partial");
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(&partial, bytes)?;
    fs::rename(&partial, path)
}

/// Returns the name of the file of a unit: its name, with the code of each character that is neither a letter nor a digit.
fn file_name(name: &str) -> String {
    let mut encoded = String::new();
    for letter in name.chars() {
        match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' => encoded.push(letter),
            _ => encoded.push_str(&format!("_{:02x}", u32::from(letter))),
        }
    }
    encoded + ".json"
}

#[cfg(test)]
mod tests {
    use super::{RunIdentity, TraceIdentity, Units, file_name};
    use crate::trial::error::ExperimentError;
    use std::cell::Cell;

    fn identity(seed: u64) -> RunIdentity {
        RunIdentity { sources: "0123abcd".to_owned(), seed, ..RunIdentity::default() }
    }

    #[test]
    fn a_unit_runs_once_per_identity() {
        let folder = tempfile::tempdir().expect("a temporary folder can be created");
        let runs = Cell::new(0);
        let run = |identity: RunIdentity, resumes: bool, name: &str| {
            let units = Units::new(folder.path().to_owned(), identity, resumes);
            let found = units.run(name, || {
                runs.set(runs.get() + 1);
                Ok(vec![1.5, 2.5])
            });
            assert_eq!(found.expect("the unit runs"), [1.5, 2.5]);
            runs.get()
        };
        assert_eq!(run(identity(1), true, "base, 1 us"), 1);
        assert_eq!(run(identity(1), true, "base, 1 us"), 1);
        assert_eq!(run(identity(1), true, "base; 1 us"), 2, "another name");
        assert_eq!(run(identity(1), false, "base, 1 us"), 3, "without --resume");
        assert_eq!(run(identity(2), true, "base, 1 us"), 4, "another seed");
        let modified = RunIdentity { sources: "0123abcd-modified".to_owned(), ..identity(1) };
        assert_eq!(run(modified.clone(), true, "base, 1 us"), 5);
        assert_eq!(run(modified, true, "base, 1 us"), 6, "modified sources");
    }

    #[test]
    fn a_failed_unit_is_not_stored() {
        let folder = tempfile::tempdir().expect("a temporary folder can be created");
        let units = Units::new(folder.path().to_owned(), identity(1), true);
        let failed: Result<u64, _> =
            units.run("base", || Err(ExperimentError::Option("no memory".to_owned())));
        assert!(failed.is_err());
        assert_eq!(units.run("base", || Ok(7)).expect("the unit runs"), 7);
        std::fs::write(folder.path().join(file_name("base")), "{")
            .expect("the file can be written");
        assert_eq!(units.run("base", || Ok(8)).expect("the unit runs again"), 8);
    }

    #[test]
    fn a_trace_that_was_written_again_has_another_identity() {
        let folder = tempfile::tempdir().expect("a temporary folder can be created");
        let identities =
            || TraceIdentity::of_folder(folder.path()).expect("the folder can be read");
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("the file can be written");
        };
        write("b.csv", "1,2");
        write("a.csv", "1");
        let first = identities();
        assert_eq!(first, identities());
        write("b.csv", "1,2,3");
        let second = identities();
        assert_eq!(first[0], second[0], "a.csv is unchanged");
        assert_ne!(first[1], second[1], "b.csv has changed");
    }
}
