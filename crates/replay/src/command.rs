//! The command `slabwise replay`: its arguments, its progress bar and its output.

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
/// The client sends a get for each key of the workload, and a set after a miss. It checks the value of every hit, and
/// stops if a value is wrong.
///
/// Requests are pipelined in rounds. The latency of a request is measured from the start of its round to its
/// reply. After a miss, the latency includes the set. A request for a key with an outstanding get is sent in the
/// next round, so the requests for each key keep the order of the workload.
///
/// Workloads: zipf, etc, etc-mutilate, two-phase, three-phase, multi-tenant, time-varying, toy, kvcache_reg,
/// graph_cache_leader_assocs, cache2k-orm-busy, cache2k-orm-night, cache2k-web12; trace:FILE (slabwise's 16-byte
/// records, libCacheSim's oracleGeneral, Twitter's and CacheLib's kvcache CSV, or lines of a key and a value length;
/// plain or zstd); csv:POP:SIZES (tables keys,weight and size_lo,size_hi,weight).
#[derive(Debug, Parser)]
#[command(name = "slabwise replay")]
pub(crate) struct Args {
    /// Server: HOST:PORT or unix:PATH
    #[arg(long, value_name = "ADDRESS")]
    server: ServerAddress,
    /// Name of the workload (see the list above)
    #[arg(long, value_name = "NAME")]
    workload: String,
    #[command(flatten)]
    options: workload::Options,
    /// Form in which sets send the cost of an item: wire is a word of the set line, which slabwise accepts with
    /// -o cost_wire; meta is slabwise's flag of the meta protocol; none sends no costs
    #[arg(long, value_enum, default_value_t = CostForm::None)]
    cost: CostForm,
    /// Distribution of the costs of keys whose trace has no costs [default: baseline if costs are sent;
    /// otherwise all keys have the same cost]
    #[arg(long, value_enum, value_name = "MIX")]
    cost_mix: Option<CostMix>,
    /// Number of requests in a round for each connection
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: u32,
    /// Number of connections, which one thread drives; all requests for a key use the same connection
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    connections: u32,
    /// Number of requests per second; the latency is measured from the scheduled send time (no coordinated
    /// omission) [default: a round starts when the last one is complete]
    #[arg(long, value_name = "R")]
    rate: Option<f64>,
    /// Also report the miss ratio of each N successive requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    window: Option<u64>,
    /// Print the report as one line of JSON
    #[arg(long, display_order = 100)]
    json: bool,
}

/// Runs `slabwise replay`. `args` are the arguments after `replay`.
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

/// Replays the workload that the arguments select, and returns the report.
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
    if let Some(items) = stored_items(&args.server).filter(|&items| items > 0) {
        eprintln!(
            "slabwise replay: {} already stores {items} items, so the replay may have fewer misses than with an \
             empty server; flush_all empties the server",
            args.server
        );
    }
    let progress = progress_bar(workload.requests_expected());
    let report = drive(&args.server, workload, &pace, clock, |counts| {
        if counts.requests - progress.position() >= 10_000 {
            progress.set_message(format!("{:.4}", counts.ratio()));
            progress.set_position(counts.requests);
        }
        Ok(())
    });
    progress.finish_and_clear();
    report
}

/// Returns the number of items that the server stores, or `None` if it does not reply to `stats`.
fn stored_items(server: &ServerAddress) -> Option<u64> {
    let timeout = Duration::from_secs(5);
    let timeouts = Timeouts { connect: timeout, read: timeout, reply: timeout };
    let mut connection = Connection::open(server, timeouts).ok()?;
    connection.ask_rows("stats").ok()?.get("curr_items")?.value.parse().ok()
}

/// Returns a progress bar, which is printed only if stderr is a terminal.
fn progress_bar(requests: Option<u64>) -> ProgressBar {
    let (bar, template) = match requests {
        Some(requests) => (
            ProgressBar::new(requests),
            "{bar:30} {human_pos}/{human_len} requests, {per_sec}, miss ratio {msg}, {eta} left",
        ),
        None => (ProgressBar::new_spinner(), "{human_pos} requests, {per_sec}, miss ratio {msg}"),
    };
    bar.with_style(
        ProgressStyle::with_template(template)
            .expect("the template of the progress bar is a valid constant"),
    )
}
