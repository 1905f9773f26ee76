//! Runs a workload on an engine in virtual time. Such a run is called a trial.
//!
//! ```text
//!   setup: workload, cache, time --> run --execute--> run record --> rows
//!                                      ^ controller: a tuner, or an oracle allocation
//!   curves: the exact curve of each class --> the best partition of the pages, and its misses
//!   units: the stored results of trials, for `--resume`
//!   served: an engine that is configured as a server, for experiments that compare servers
//! ```

pub mod curves;
pub mod error;
pub mod execute;
pub mod run;
pub mod run_record;
pub mod served;
pub mod setup;
pub mod units;
pub mod visits;
