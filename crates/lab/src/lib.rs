//! The lab repeats published experiments on slabwise's engine and, where possible, on real servers.
//!
//! | module | content |
//! |---|---|
//! | `cli` | the command `slabwise lab`, which runs experiments one after the other |
//! | `planned_run` | one experiment with one or several seeds, and its stored results |
//! | `demo` | the command `slabwise demo`, which compares a server with a real or simulated memcached |
//! | `registry` | the list of all experiments: the file and the type of each |
//! | `experiment` | the types of experiments |
//! | `trial` | a run of a workload on an engine |
//! | `vtime` | an engine and its mover in virtual time |
//! | `footprint` | miss-ratio curves from reuse times |
//! | `wire` | real servers |
//! | `result` | the parsed file of an experiment, and the rows and series of a run |
//! | `report` | the HTML page of a run |
//!
//! The program calls [`main`] for the commands `lab` and `demo`. A server does not use the lab.
#![forbid(unsafe_code)]

mod cli;
mod demo;
#[cfg(test)]
#[path = "../../../tests/support/exact_lru.rs"]
mod exact_lru;
mod experiment;
mod footprint;
mod planned_run;
mod registry;
mod report;
mod result;
mod trial;
mod vtime;
mod wire;

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command `lab` or `demo`. `args` are the arguments after the command. After an error, prints a line with the
/// error and its remedy to stderr.
///
/// # Panics
/// If `command` is another command.
pub fn main(command: &str, args: Vec<OsString>) -> ExitCode {
    match command {
        "lab" => cli::main(args),
        "demo" => demo::main(args),
        other => panic!("the command is `lab` or `demo`, not `{other}`"),
    }
}
