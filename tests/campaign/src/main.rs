//! A campaign of random requests and faults against a server, with a checker that judges every reply.
#![forbid(unsafe_code)]

mod audit;
mod batch;
mod certificates;
mod channel;
mod checker;
mod client;
mod counts;
mod faults;
mod keys;
mod kinds;
#[cfg(test)]
mod lying_server;
mod memory_directory;
mod operation;
mod options;
mod protocol;
mod report;
mod run;
mod server;
mod stamps;
mod transport;
mod udp;
mod value;
mod world;

use clap::Parser;
use counts::Counts;
use options::Options;
use run::Campaign;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use slabwise_base::Clock;
use slabwise_base::random::mix;
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = Options::parse();
    let seed = options.seed.unwrap_or_else(|| {
        mix(slabwise_base::clock::unix_time().as_nanos() as u64) % 1_000_000_000
    });
    raise_descriptor_limit();
    let program = options.server.clone().unwrap_or_else(default_server);
    let is_memcached = program.file_name().is_some_and(|name| name == "memcached");
    if !is_memcached {
        memory_directory::enter_namespace();
    }
    println!("seed {seed}");
    let campaign = Campaign {
        options: &options,
        program: &program,
        seed,
        is_memcached,
        clock: Clock::real(),
        counts: Counts::default(),
    };
    let result = campaign.run();
    report::print(&campaign.counts);
    let Err(first_server) = result else {
        println!("passed: every reply was possible");
        return ExitCode::SUCCESS;
    };
    let arguments = options::command_line(&options.to_repeat(&program, seed, first_server));
    println!("to repeat: cargo run --release -p slabwise-campaign -- {arguments}");
    ExitCode::FAILURE
}

/// Returns the path of slabwise beside this program.
fn default_server() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    own.with_file_name("slabwise")
}

/// Raises the limit of open descriptors as far as it is allowed, because some faults open more connections than servers
/// accept.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // With a low limit, the faults that need more descriptors never happen, which the run reports.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
