//! The laboratory: published experiments, run again on this engine and, where they can be, on real servers.
//!
//! ```text
//! slabwise_replay::workload --> virtual_time (the engine itself, nothing waits) --.
//!                          \--> slabwise_replay::drive (over the wire) -----------+--> experiment --> outcome
//!                                                                                  '--> demo (both at once)
//! ```
//!
//! The lab never starts inside a server; it is driven by the command line through [`main`].
#![forbid(unsafe_code)]

mod demo;
#[cfg(test)]
#[path = "../../replay/src/exact_lru.rs"]
mod exact_lru;
mod experiment;
mod report;
mod simulation;
mod virtual_time;

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command `lab` or `demo` with the arguments after it. Failures end in one line on
/// stderr that says what to do.
pub fn main(command: &str, args: Vec<OsString>) -> ExitCode {
    match command {
        "lab" => experiment::main(args),
        "demo" => demo::main(args),
        other => panic!("the lab was sent the command {other}"),
    }
}
