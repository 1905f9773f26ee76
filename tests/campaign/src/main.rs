//! A campaign of random requests and faults against a server, with a checker that judges every reply.
//!
//! ```text
//!   run.rs: one server (server.rs) after the other; each runs for some rounds; a round ends with a check (audit.rs)
//!
//!   client.rs, udp.rs                          faults/: slow clients, signals, page moves, flushes, ...
//!        | draw Operations                         | use the server, and announce their effects in
//!        v                                         v
//!   batch.rs -- begin, end --> checker/        world.rs: may connections end now? which time may the server have?
//!        |
//!        v
//!   protocol/: Operation --> bytes, bytes --> Outcome
//!        |
//!        v
//!   channel.rs, transport.rs: a socket, with or without TLS
//! ```
//!
//! - An [`Operation`](operation::Operation) is a request about one key, and an [`Outcome`](operation::Outcome) is its
//!   result, both without the form that a protocol gives them. So the checker knows no protocol.
//! - A [`Batch`](batch::Batch) is a pipeline of requests on one connection. All of its requests have the same begin
//!   stamp. Requests whose replies one read has received have the same end stamp.
//! - A value names its key, its version and its length (`value.rs`), so a reply shows to which store it belongs. The
//!   kind of a key (`kinds.rs`) determines whether its values are whole, numbers, or sequences of parts.
//! - A fault that ends the process, or because of which the server may refuse new connections, holds a
//!   [`Disruption`](world::Disruption). [`excuse`] decides which missing replies it explains. A full file system only
//!   explains a refused memory limit.
//! - The [`Gate`](world::Gate) stops all threads between two rounds. While it is closed, no connection is open, so the
//!   check can compare numbers of connections, threads and descriptors.
//!
//! The campaign fails at the first reply that is not possible, at the first missing reply, at a failed check, and if
//! nearly all gets miss or a fault never happened. All random decisions have one seed. But the order of the threads is
//! different in each run, so the seed repeats the kinds of requests and the configurations, not the exact course.
#![forbid(unsafe_code)]

mod audit;
mod batch;
mod certificates;
mod channel;
mod checker;
mod client;
mod counts;
mod coverage;
mod excuse;
mod faults;
mod keys;
mod kinds;
#[cfg(test)]
mod lying_server;
mod memory_directory;
mod operation;
mod options;
mod protocol;
mod refusals;
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
use std::sync::Mutex;

/// The exit code of invalid arguments, as clap has it.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let options = Options::parse();
    let seed = options.seed.unwrap_or_else(|| {
        mix(slabwise_base::clock::unix_time().as_nanos() as u64) % 1_000_000_000
    });
    raise_descriptor_limit();
    let program = options.server.clone().unwrap_or_else(default_server);
    let is_memcached =
        program.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"memcached"));
    if is_memcached && options.io.is_some() {
        eprintln!("campaign: memcached has no option `io`: leave --io out");
        return ExitCode::from(EXIT_USAGE);
    }
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
        expected: Mutex::default(),
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
