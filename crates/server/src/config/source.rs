//! The source of the settings: the command line, the file of `-o conf_file`, and the number of processors. The server
//! keeps it to read the file again on SIGHUP ([`reread`](super::reread)).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;

/// What settings result from.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The arguments, without the program's name.
    pub command_line: Vec<OsString>,
    /// The absolute path of the file of `-o conf_file`, if it is given.
    pub conf_file: Option<PathBuf>,
    /// The options of both.
    pub options: GivenOptions,
    /// The number of processors that the server may use, at least 1.
    pub processors: usize,
}

impl Source {
    /// Returns the source of a command line without options.
    pub fn without_options(processors: usize) -> Source {
        let options = GivenOptions::default();
        Source { command_line: Vec::new(), conf_file: None, options, processors }
    }
}

/// The names of the options that were given, such as `-m` and `-o http`, each with its values in the order in which they
/// were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GivenOptions(BTreeMap<String, Vec<String>>);

impl GivenOptions {
    /// Adds an option with its value, which is empty for a switch.
    pub(super) fn add(&mut self, name: &str, value: &str) {
        self.0.entry(name.to_owned()).or_default().push(value.to_owned());
    }

    /// Returns the names of the options whose values differ, or that only one of the two has.
    pub(crate) fn differing(&self, other: &GivenOptions) -> Vec<String> {
        let names: BTreeSet<&String> = self.0.keys().chain(other.0.keys()).collect();
        let differs = |name: &&String| self.0.get(*name) != other.0.get(*name);
        names.into_iter().filter(differs).cloned().collect()
    }
}
