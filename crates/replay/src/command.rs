//! The command `slabwise replay`: its arguments, its progress bar, and how its result is printed.

use crate::client::CostForm;
use crate::drive::{Pace, drive};
use crate::error::ReplayError;
use crate::report::Report;
use crate::workload::{self, CostMix};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use slabwise_base::Clock;
use slabwise_client::ServerAddress;
use slabwise_text::command;
use std::ffi::OsString;
use std::process::ExitCode;

/// Measure a memcached-protocol server under a workload: get; on a miss, set. Every hit's bytes are
/// checked; a wrong one stops the replay.
///
/// Requests are pipelined in rounds. A request's time is that of its round trips: from when it was
/// taken up to its answer, for a miss to the answer of the set that follows. A key that repeats
/// while its get is under way waits for the next round, so every key sees what it would see with one
/// request at a time.
///
/// Workloads: zipf, etc, etc-mutilate, two-phase, three-phase, multi-tenant, time-varying, toy, kvcache_reg,
/// graph_cache_leader_assocs, cache2k-orm-busy, cache2k-orm-night, cache2k-web12; trace:FILE (slabwise's 16-byte records, libCacheSim's
/// oracleGeneral, Twitter's and CacheLib's kvcache CSV, or lines of a key and a size; plain or zstd); csv:POP:SIZES (tables
/// keys,weight and size_lo,size_hi,weight).
#[derive(Debug, Parser)]
#[command(name = "slabwise replay")]
pub(crate) struct Args {
    /// The server: HOST:PORT or unix:PATH
    #[arg(long, value_name = "ADDRESS")]
    server: ServerAddress,
    /// The workload's name (above)
    #[arg(long, value_name = "NAME")]
    workload: String,
    #[command(flatten)]
    options: workload::Options,
    /// How the server is told what a value costs: by a word of the set's line (slabwise takes it with
    /// -o cost_wire), by slabwise's flag of the meta protocol, or not at all
    #[arg(long, value_enum, default_value_t = CostForm::None)]
    cost: CostForm,
    /// What keys cost whose costs are not recorded, told or not [default: baseline where costs are told;
    /// else every get costs the same]
    #[arg(long, value_enum, value_name = "MIX")]
    cost_mix: Option<CostMix>,
    /// Requests in a round, per connection
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: u32,
    /// Connections, driven by one thread; a key always uses the same one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    connections: u32,
    /// Requests per second to offer; times then run from when a round was due [default: as many as
    /// possible]
    #[arg(long, value_name = "R")]
    rate: Option<f64>,
    /// Also report the miss ratio of every N requests
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
        let json =
            json.map_err(|error| format!("the report cannot be written as JSON: {error}"))?;
        Ok(json + "\n")
    })
}

pub(crate) fn run(args: &Args, clock: &Clock) -> Result<Report, ReplayError> {
    if args.rate.is_some_and(|rate| !(rate > 0.0 && rate.is_finite())) {
        return Err(ReplayError::Option("--rate: give more than 0 requests a second".to_owned()));
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

/// A bar on stderr if that is a terminal, else nothing.
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
