//! Why an experiment stops.

use crate::vtime::NoVisitCost;
use crate::wire::ServerError;
use slabwise_engine::EngineError;
use slabwise_policy::sizes::SizesError;
use slabwise_replay::ReplayError;
use slabwise_replay::workload::WorkloadError;

/// What ends an experiment before its result. Each text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    #[error("{0}")]
    Option(String),
    /// The workload could not be opened or read on.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The engine could not be made.
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    NoVisitCost(#[from] NoVisitCost),
    /// A server could not be run.
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error(transparent)]
    Sizes(#[from] SizesError),
}
