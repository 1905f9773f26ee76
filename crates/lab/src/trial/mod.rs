//! A trial is one run of a workload on one engine in virtual time.
//!
//! ```text
//!   setup: workload, cache, time --> run --execute--> run record --> rows
//!                                      ^ controller: a tuner, or an oracle allocation
//!   curves: the exact curve of each class --> the best partition of the pages, and its misses
//!   served: an engine configured as a server, which serves until its clients stop
//! ```

pub mod curves;
pub mod error;
pub mod execute;
pub mod run;
pub mod run_record;
pub mod served;
pub mod setup;
