//! Why there is no report.

use std::path::PathBuf;

/// Why there is no report. Each text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("cannot read {path}: {source}; give the folder that lab run wrote to")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path} is no result of this program: {source}; run the experiment again")]
    NoResult { path: PathBuf, source: serde_json::Error },
    #[error(
        "{path} is of '{experiment}', which is no experiment of this program: lab list has them"
    )]
    Unknown { path: PathBuf, experiment: String },
    #[error("no result.json in {path} or in a folder of it: lab run writes them")]
    Nothing { path: PathBuf },
    #[error("cannot write {path}: {source}")]
    Write { path: PathBuf, source: std::io::Error },
}
