//! The errors that stop an experiment.

use crate::vtime::InvalidVisitCost;
use crate::wire::ServerError;
use slabwise_engine::EngineError;
use slabwise_policy::sizes::SizesError;
use slabwise_replay::ReplayError;
use slabwise_replay::workload::WorkloadError;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// An option on the command line or a value in the experiment's file is invalid. The text is the complete message.
    #[error("{0}")]
    Option(String),
    /// The result of a part of the experiment cannot be stored.
    #[error("cannot write {0}: {1}; choose another folder with --out")]
    Unit(PathBuf, std::io::Error),
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    VisitCost(#[from] InvalidVisitCost),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error(transparent)]
    Sizes(#[from] SizesError),
}
