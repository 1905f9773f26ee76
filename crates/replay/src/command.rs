//! The command `slabwise replay`: arguments, progress bar and output.

use crate::client::CostForm;
use crate::drive::{Pace, drive};
use crate::error::ReplayError;
use crate::report::Report;
use crate::workload::{self, CostMix};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use slabwise_base::Clock;
use slabwise_client::{Connection, ServerAddress, Timeouts};
use slabwise_text::command;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

/// Measure a server of memcached's protocol with a workload.
///
/// The client gets each key, and sets it after a miss. It checks the value of every hit; wrong data stops the
/// replay.
///
/// Requests are pipelined in rounds. The latency of a request is measured from the start of its round to its
/// reply; for a miss, to the reply of the set. A request for a key with an outstanding get waits for the next
/// round, so the order of requests to each key is that of the workload.
///
/// Workloads: zipf, etc, etc-mutilate, two-phase, three-phase, multi-tenant, time-varying, toy, kvcache_reg,
/// graph_cache_leader_assocs, cache2k-orm-busy, cache2k-orm-night, cache2k-web12; trace:FILE (slabwise's 16-byte records, libCacheSim's
/// oracleGeneral, Twitter's and CacheLib's kvcache CSV, or lines of a key and a value length; plain or zstd); csv:POP:SIZES (tables
/// keys,weight and size_lo,size_hi,weight).
#[derive(Debug, Parser)]
#[command(name = "slabwise replay")]
pub(crate) struct Args {
    /// Server: HOST:PORT or unix:PATH
    #[arg(long, value_name = "ADDRESS")]
    server: ServerAddress,
    /// Workload (see above)
    #[arg(long, value_name = "NAME")]
    workload: String,
    #[command(flatten)]
    options: workload::Options,
    /// How sets send the cost of an item: in the set line (slabwise needs -o cost_wire), in slabwise's flag
    /// of the meta protocol, or not at all
    #[arg(long, value_enum, default_value_t = CostForm::None)]
    cost: CostForm,
    /// Cost distribution of keys without recorded costs [default: baseline if costs are sent; else all keys
    /// have the same cost]
    #[arg(long, value_enum, value_name = "MIX")]
    cost_mix: Option<CostMix>,
    /// Requests in a round, per connection
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: u32,
    /// Connections, driven by one thread; a key always uses the same one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    connections: u32,
    /// Requests per second; latency is measured from the scheduled send time (no coordinated omission)
    /// [default: as many as possible]
    #[arg(long, value_name = "R")]
    rate: Option<f64>,
    /// Also report the miss ratio of each window of N requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    window: Option<u64>,
    /// Print one line of JSON
    #[arg(long, display_order = 100)]
    json: bool,
}

/// Runs the command with the arguments after its name.
pub fn main(args: Vec<OsString>) -> ExitCode {
    command::answer("slabwise replay", "report", args, |args: &Args| {
        let report = run(args, &Clock::real()).map_err(|error| error.to_string())?;
        if !args.json {
            return Ok(report.text() + "\n");
        }
        let json = serde_json::to_string(&report);
        let json = json.map_err(|error| format!("cannot write the report as JSON: {error}"))?;
        Ok(json + "\n")
    })
}

pub(crate) fn run(args: &Args, clock: &Clock) -> Result<Report, ReplayError> {
    if args.rate.is_some_and(|rate| !(rate > 0.0 && rate.is_finite())) {
        return Err(ReplayError::Option("--rate: give a number above 0".to_owned()));
    }
    let mut workload = workload::open(&args.workload, &args.options)?;
    let default_mix = (args.cost != CostForm::None).then_some(CostMix::Baseline);
    if let Some(mix) = args.cost_mix.or(default_mix) {
        workload = workload.with_costs(mix, args.options.seed);
    }
    let pace = Pace {
        connections: args.connections as usize,
        batch: args.batch as usize,
        rate: args.rate,
        window: args.window,
        cost_form: args.cost,
    };
    if let Some(items) = items_held(&args.server).filter(|&items| items > 0) {
        eprintln!(
            "slabwise replay: {} holds {items} items already, so it may have fewer misses than an \
             empty server; flush_all empties it",
            args.server
        );
    }
    let progress = progress_bar(workload.requests_expected());
    let report = drive(&args.server, workload, &pace, clock, |so_far| {
        if so_far.requests - progress.position() >= 10_000 {
            progress.set_message(format!("{:.4}", so_far.ratio()));
            progress.set_position(so_far.requests);
        }
        Ok(())
    });
    progress.finish_and_clear();
    report
}

/// The number of items that the server holds, if it answers `stats`.
fn items_held(server: &ServerAddress) -> Option<u64> {
    let timeout = Duration::from_secs(5);
    let timeouts = Timeouts { connect: timeout, read: timeout, reply: timeout };
    let mut connection = Connection::open(server, timeouts).ok()?;
    connection.ask_rows("stats").ok()?.get("curr_items")?.value.parse().ok()
}

/// Returns a progress bar, which is visible only if stderr is a terminal.
fn progress_bar(requests: Option<u64>) -> ProgressBar {
    let (bar, template) = match requests {
        Some(requests) => (
            ProgressBar::new(requests),
            "{bar:30} {human_pos}/{human_len} requests, {per_sec}, miss ratio {msg}, {eta} left",
        ),
        None => (ProgressBar::new_spinner(), "{human_pos} requests, {per_sec}, miss ratio {msg}"),
    };
    bar.with_style(ProgressStyle::with_template(template).expect("the bar's template is fixed"))
}
