//! `slabwise replay`: sends a workload to a server as a look-aside client, checks every hit's bytes,
//! and reports misses and times.
//!
//! ```text
//! workload --> look_aside (what goes into a round) --> client (connections, checks) --> report
//!                    ^------------- misses ---------------/
//! ```

mod client;
mod connection;
mod error;
mod look_aside;
mod report;
mod values;
mod wire;

pub(crate) use connection::ServerAddress;
pub(crate) use error::ReplayError;
pub(crate) use report::Report;
pub(crate) use wire::{CostForm, KEY_SIZE_BYTES};
pub(crate) use wire::{compose_set_end, compose_set_start, key_bytes};

#[cfg(test)]
mod tests;

use crate::workload::{self, CostMix, TraceFormat, Workload};
use clap::Parser;
use client::{Client, LengthCheck, Outcome};
use indicatif::{ProgressBar, ProgressStyle};
use look_aside::{LookAside, Pending, Supply};
use report::Tally;
use slabwise_base::Clock;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

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
struct Args {
    /// The server: HOST:PORT or unix:PATH
    #[arg(long, value_name = "ADDRESS")]
    server: ServerAddress,
    /// The workload's name (above)
    #[arg(long, value_name = "NAME")]
    workload: String,
    /// Requests to make [default: the workload's own number, a trace's all]
    #[arg(long, value_name = "N")]
    requests: Option<u64>,
    /// Multiply the workload's keys and own number of requests [default: 1; 0.2 for kvcache_reg and
    /// graph_cache_leader_assocs]
    #[arg(long, value_name = "F")]
    scale: Option<f64>,
    /// Everything random follows from this number
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
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
    /// Multiply value lengths that come from a size table
    #[arg(long, value_name = "F", default_value_t = 1.0)]
    size_factor: f64,
    /// Give every value this many bytes
    #[arg(long, value_name = "N", conflicts_with = "size_factor")]
    value_len: Option<u32>,
    /// Keys of the workload zipf [default: 1000000]
    #[arg(long, value_name = "N")]
    keys: Option<u64>,
    /// Exponent of the workload zipf [default: 1]
    #[arg(long, value_name = "F")]
    skew: Option<f64>,
    /// Format of the workload trace:FILE [default: as the file tells]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<TraceFormat>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command with the arguments after its name.
pub fn main(args: Vec<OsString>) -> ExitCode {
    let line = std::iter::once(OsString::from("slabwise replay")).chain(args);
    let args = match Args::try_parse_from(line) {
        Ok(args) => args,
        Err(error) if !error.use_stderr() => {
            // A reader that has left wants no more help.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => return fail(&first_paragraph(&error.to_string())),
    };
    match run(&args, &Clock::real()) {
        Ok(report) if args.json => match serde_json::to_string(&report) {
            Ok(json) => print_last(&json),
            Err(error) => fail(&format!("the report cannot be written as JSON: {error}")),
        },
        Ok(report) => print_last(&report.text()),
        Err(error) => fail(&error.to_string()),
    }
}

fn print_last(text: &str) -> ExitCode {
    use std::io::Write;
    match writeln!(std::io::stdout(), "{text}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("the report cannot be printed: {error}")),
    }
}

fn fail(reason: &str) -> ExitCode {
    eprintln!("slabwise replay: {reason}");
    ExitCode::FAILURE
}

/// An argument error in one line.
fn first_paragraph(error: &str) -> String {
    let lines = error.lines().take_while(|line| !line.trim().is_empty()).map(str::trim);
    let text = lines.collect::<Vec<_>>().join(" ");
    format!("{}; see slabwise replay --help", text.trim_start_matches("error: "))
}

fn run(args: &Args, clock: &Clock) -> Result<Report, ReplayError> {
    if args.rate.is_some_and(|rate| !(rate > 0.0 && rate.is_finite())) {
        return Err(ReplayError::Option("--rate: give more than 0 requests a second".to_owned()));
    }
    let options = workload::Options {
        requests: args.requests,
        scale: args.scale,
        seed: args.seed,
        size_factor: args.size_factor,
        value_len: args.value_len,
        keys: args.keys,
        skew: args.skew,
        format: args.format,
    };
    let mut workload = workload::open(&args.workload, &options)?;
    let default_mix = (args.cost != CostForm::None).then_some(CostMix::Baseline);
    if let Some(mix) = args.cost_mix.or(default_mix) {
        workload = workload.with_costs(mix, args.seed);
    }
    let pace = Pace {
        connections: args.connections as usize,
        batch: args.batch as usize,
        rate: args.rate,
        window: args.window,
        cost_form: args.cost,
    };
    let progress = progress_bar(workload.requests_expected());
    let report = drive(&args.server, workload, &pace, clock, |tally| {
        if tally.requests() - progress.position() >= 10_000 {
            progress.set_message(format!("{:.4}", tally.miss_ratio()));
            progress.set_position(tally.requests());
        }
        Ok(())
    });
    progress.finish_and_clear();
    report
}

/// How requests travel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Connections, at least one.
    pub connections: usize,
    /// Requests in a round, per connection.
    pub batch: usize,
    /// Requests a second; as many as possible where there is none.
    pub rate: Option<f64>,
    /// Requests of the stretches whose miss ratios are kept.
    pub window: Option<u64>,
    /// How the server is told what values cost.
    pub cost_form: CostForm,
}

/// Replays a workload to a server; `each` looks on after every round, and ends it by an error.
pub(crate) fn drive<E: From<ReplayError>>(
    server: &ServerAddress,
    workload: Workload,
    pace: &Pace,
    clock: &Clock,
    each: impl FnMut(&Tally) -> Result<(), E>,
) -> Result<Report, E> {
    let check = match workload.one_length_per_key() {
        true => LengthCheck::Exact,
        false => LengthCheck::Any,
    };
    let client = Client::connect(server, pace.connections, check)?.telling_costs(pace.cost_form);
    let round_size = pace.batch * pace.connections;
    let tally = Tally::new(pace.window);
    let (tally, nanos) = replay(workload, client, round_size, pace.rate, clock, tally, each)?;
    Ok(tally.report(nanos as f64 / 1e9))
}

/// For who does not look on.
pub(crate) fn unwatched(_: &Tally) -> Result<(), ReplayError> {
    Ok(())
}

/// Replays to the end; gives the counts and how many nanoseconds it took.
fn replay<E: From<ReplayError>>(
    mut workload: Workload,
    mut client: Client,
    round_size: usize,
    rate: Option<f64>,
    clock: &Clock,
    mut tally: Tally,
    mut each: impl FnMut(&Tally) -> Result<(), E>,
) -> Result<(Tally, u64), E> {
    let mut look_aside = LookAside::default();
    let mut supply = Supply::More;
    let mut requests_taken = 0u64;
    let start_nanos = clock.nanos();
    while supply == Supply::More || !look_aside.is_idle() {
        let now_nanos = clock.nanos();
        let due_nanos = rate.map(|rate| start_nanos + (requests_taken as f64 / rate * 1e9) as u64);
        let early_nanos = due_nanos.map_or(0, |due| due.saturating_sub(now_nanos));
        if early_nanos > 0 && look_aside.is_idle() {
            pause(Duration::from_nanos(early_nanos));
        }
        // Fills do not wait for the next round's time: they go in a round of their own.
        let new_size = if early_nanos > 0 { 0 } else { round_size };
        let born_nanos = due_nanos.unwrap_or(now_nanos);
        let next = || {
            requests_taken += 1;
            let request = workload.next()?;
            Some(request.map(|request| Pending { request, born_nanos }))
        };
        let planned =
            look_aside.plan(new_size, next, |action, pending| client.send(action, pending));
        supply = planned.map_err(ReplayError::from)?;
        client.exchange(clock, |answer| {
            if answer.outcome == Outcome::Miss {
                look_aside.missed(answer.pending);
            }
            tally.record(&answer);
        })?;
        each(&tally)?;
    }
    Ok((tally, clock.nanos() - start_nanos))
}

#[expect(clippy::disallowed_methods, reason = "the replay's thread keeps the pace asked for")]
fn pause(time: Duration) {
    std::thread::sleep(time);
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
    let style = ProgressStyle::with_template(template);
    bar.with_style(style.unwrap_or_else(|error| panic!("the bar's template is fixed: {error}")))
}
