//! Why there is no report.

use std::path::PathBuf;

/// Why there is no report. Each text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A folder or file could not be read.
    #[error("cannot read {path}: {source}; give the folder that lab run wrote to")]
    Read {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file is no result.
    #[error("{path} is no result of this program: {source}; run the experiment again")]
    NoResult {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A result of an experiment that this program does not have.
    #[error(
        "{path} is of '{experiment}', which is no experiment of this program: lab list has them"
    )]
    Unknown {
        /// Which.
        path: PathBuf,
        /// What it is of.
        experiment: String,
    },
    /// There is nothing to report on.
    #[error("no result.json in {path} or in a folder of it: lab run writes them")]
    Nothing {
        /// The folder.
        path: PathBuf,
    },
    /// A page could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}
