//! The laboratory: published experiments, run again on this engine and, where they can be, on real servers.
//!
//! ```text
//! registry: every experiment's file and set-up      cli: runs them one after the other
//! experiment/NAME: set-up --> trials --> rows       demo: a server beside memcached's rules, in a terminal
//! trial: one run of a workload on one engine        report: an outcome as a page
//! vtime: the engine on virtual time                 result: rows, series, figures, an experiment's file
//! wire: live servers    simulation: caches by bytes    footprint: curves from reuse times
//! ```
//!
//! The lab never starts inside a server; it is driven by the command line through [`main`].
#![forbid(unsafe_code)]

mod cli;
mod demo;
#[cfg(test)]
#[path = "../../../tests/support/exact_lru.rs"]
mod exact_lru;
mod experiment;
mod footprint;
mod registry;
mod report;
mod result;
mod simulation;
mod trial;
mod vtime;
mod wire;

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command `lab` or `demo` with the arguments after it. Failures end in one line on
/// stderr that says what to do.
pub fn main(command: &str, args: Vec<OsString>) -> ExitCode {
    match command {
        "lab" => cli::main(args),
        "demo" => demo::main(args),
        other => panic!("the lab was sent the command {other}"),
    }
}
