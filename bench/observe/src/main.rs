//! Observes the traffic of a memcached, for bench/curves: `slabwise-bench-observe --server ADDRESS`.
//!
//! ```text
//!   a line on stdin --> the curves at this time, as a line of JSON on stdout        end of stdin --> end
//! ```

#![forbid(unsafe_code)]

use clap::Parser;
use serde::Serialize;
use slabwise_client::{Connector, ServerAddress, Timeouts};
use slabwise_observer::traffic::{Options, Traffic};
use slabwise_text::command;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

/// The timeouts of the connections to the server.
const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(2),
    read: Duration::from_secs(2),
    reply: Duration::from_secs(5),
};

/// Print the miss-ratio curves of a server's classes for each line of the input.
#[derive(Debug, Parser)]
#[command(name = "slabwise-bench-observe")]
struct Args {
    /// Server: HOST:PORT or unix:PATH
    #[arg(long, value_name = "ADDRESS")]
    server: ServerAddress,
    /// Maximum mean cost of watching, as a share of the server's processor time
    #[arg(long, value_name = "F", default_value_t = Options::default().cost_share_max)]
    cost_share_max: f64,
    /// Time whose budget a window may use in advance, in seconds
    #[arg(long, value_name = "S", default_value_t = Options::default().advance.as_secs())]
    advance: u64,
    /// Maximum number of keys in a window
    #[arg(long, value_name = "N", default_value_t = Options::default().keys_max)]
    keys_max: usize,
}

/// The result. The names of the fields are those of the JSON output.
#[derive(Debug, Serialize)]
struct Observed {
    classes: Vec<Class>,
    lines: u64,
    dropped: u64,
    windows: u64,
    watched_seconds: f64,
    elapsed_seconds: f64,
    /// The misses that belong to no class, as a share of all misses.
    unknown_miss_share: f64,
}

/// The curve of a class.
#[derive(Debug, Serialize)]
struct Class {
    class: u8,
    /// The present number of chunks with items.
    chunks: u64,
    range_chunks: u64,
    references: f64,
    /// The gets of the class, as a weight.
    gets: f64,
    /// The misses with half, with all and with twice the present chunks.
    misses: [f64; 3],
}

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1).collect();
    command::answer("slabwise-bench-observe", "result", arguments, |args: &Args| {
        observe(args).map(|()| String::new())
    })
}

fn observe(args: &Args) -> Result<(), String> {
    let options = Options {
        cost_share_max: args.cost_share_max,
        advance: Duration::from_secs(args.advance),
        keys_max: args.keys_max,
        ..Options::default()
    };
    let connector = Connector::new(args.server.clone(), TIMEOUTS);
    let traffic = Traffic::start(&connector, options).map_err(|error| error.to_string())?;
    for line in io::stdin().lines() {
        line.map_err(|error| format!("cannot read stdin: {error}"))?;
        if let Some(error) = traffic.error() {
            return Err(format!("{}: {error}", args.server));
        }
        let json = serde_json::to_string(&observed(&traffic)).map_err(|error| error.to_string())?;
        writeln!(io::stdout(), "{json}").map_err(|error| format!("cannot write: {error}"))?;
    }
    Ok(())
}

fn observed(traffic: &Traffic) -> Observed {
    let cost = traffic.cost();
    let class = |found: slabwise_observer::traffic::ClassCurve| Class {
        class: found.class_number,
        chunks: found.chunks,
        range_chunks: found.range_chunks,
        references: found.references,
        gets: found.curve.references(),
        misses: [found.chunks / 2, found.chunks, 2 * found.chunks]
            .map(|chunks| found.curve.misses(chunks)),
    };
    Observed {
        classes: traffic.curves().into_iter().map(class).collect(),
        lines: cost.lines,
        dropped: cost.dropped,
        windows: cost.windows,
        watched_seconds: cost.watched.as_secs_f64(),
        elapsed_seconds: cost.elapsed.as_secs_f64(),
        unknown_miss_share: traffic.unknown_miss_share(),
    }
}
