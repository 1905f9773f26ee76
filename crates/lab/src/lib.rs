//! The laboratory: workloads, and the client that replays them to any server that speaks memcached's
//! protocol.
//!
//! ```text
//! workload (seeded stream of requests) --> replay (look-aside over the wire, checks every hit) --> report
//! ```
//!
//! The lab never starts inside a server; it is driven by the command line through [`main`].
#![forbid(unsafe_code)]

#[cfg(test)]
mod exact_lru;
mod replay;
pub mod workload;

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command `replay` or `lab` with the arguments after it. Failures end in one line on
/// stderr that says what to do.
pub fn main(command: &str, args: Vec<OsString>) -> ExitCode {
    match command {
        "replay" => replay::main(args),
        "lab" => lab(&args),
        other => panic!("the lab was sent the command {other}"),
    }
}

/// Experiments are not there yet; the command says so.
fn lab(args: &[OsString]) -> ExitCode {
    match args.first().and_then(|arg| arg.to_str()) {
        Some("list" | "--help" | "-h") => {
            eprintln!("slabwise lab: no experiments in this version; they come with later ones");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!(
                "slabwise lab: no experiments in this version; slabwise replay measures a server now"
            );
            ExitCode::FAILURE
        }
    }
}
