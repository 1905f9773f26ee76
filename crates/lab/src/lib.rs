//! The laboratory: workloads, the client that replays them to any server that speaks memcached's protocol,
//! and published experiments, run again on this engine.
//!
//! ```text
//! workload (seeded stream of requests) --> replay (look-aside over the wire, checks every hit) --> report
//!                                      \-> virtual_time (the engine itself, nothing waits) \
//!                                       '---------------------- experiment --------------> outcome
//!                                                             \-> demo (both at once, in a terminal)
//! ```
//!
//! The lab never starts inside a server; it is driven by the command line through [`main`].
#![forbid(unsafe_code)]

mod demo;
#[cfg(test)]
mod exact_lru;
mod experiment;
mod replay;
mod report;
mod simulation;
mod virtual_time;
pub mod workload;

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command `replay`, `lab` or `demo` with the arguments after it. Failures end in one line on
/// stderr that says what to do.
pub fn main(command: &str, args: Vec<OsString>) -> ExitCode {
    match command {
        "replay" => replay::main(args),
        "lab" => experiment::main(args),
        "demo" => demo::main(args),
        other => panic!("the lab was sent the command {other}"),
    }
}
