//! The lab repeats published experiments on this engine and, where possible, on real servers.
//!
//! ```text
//! registry: every experiment's file and set-up      cli: runs experiments one after the other
//! experiment/NAME: set-up --> trials --> rows       demo: a server next to memcached's rules, in a terminal
//! trial: one run of a workload on one engine        report: an outcome as a page
//! vtime: the engine in virtual time                 result: rows, series, figures, an experiment's file
//! wire: live servers    simulation: caches by bytes    footprint: curves from reuse times
//! ```
//!
//! The command line starts the lab through [`main`]; a server never does.
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

/// Runs the command `lab` or `demo` with the arguments that follow it. A failure prints one line to stderr that names
/// the remedy.
pub fn main(command: &str, args: Vec<OsString>) -> ExitCode {
    match command {
        "lab" => cli::main(args),
        "demo" => demo::main(args),
        other => panic!("the lab has no command {other}"),
    }
}
