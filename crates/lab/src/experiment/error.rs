//! Why an experiment stops.

use super::server::ServerError;
use crate::report::ReportError;
use crate::virtual_time::NoVisitCost;
use slabwise_engine::EngineError;
use slabwise_policy::sizes::SizesError;
use slabwise_replay::ReplayError;
use slabwise_replay::workload::WorkloadError;
use std::path::PathBuf;

/// What ends an experiment before its result. Each text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// There is no such experiment.
    #[error("no experiment is called '{name}': choose one of {known}, or all")]
    UnknownName {
        /// The name as given.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// An option that cannot be honoured.
    #[error("{0}")]
    Option(String),
    /// The workload could not be opened or read on.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The engine could not be made.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Virtual time cannot run.
    #[error(transparent)]
    NoVisitCost(#[from] NoVisitCost),
    /// A server could not be run.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// A replay broke off.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// There is no class table for such items.
    #[error(transparent)]
    Sizes(#[from] SizesError),
    /// There is no report.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// Of all experiments, some could not run.
    #[error("not run: {}; what is above says why, and --resume runs only them", .failed.join(", "))]
    Incomplete {
        /// Their names.
        failed: Vec<String>,
    },
    /// The result could not be written.
    #[error("cannot write {path}: {source}; give another --out")]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}
