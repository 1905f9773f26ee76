//! `slabwise advise`: observes the servers, each in a thread of its own, and prints the report.

use crate::args::Args;
use crate::observation::Observation;
use crate::observe::observe;
use crate::report::{Failed, Report, html, text};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use slabwise_client::Connector;
use slabwise_observer::traffic::Options;
use slabwise_text::command;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

/// The name of the command, as errors show it.
const COMMAND: &str = "slabwise advise";
/// The exit code if the arguments are invalid.
const INVALID_ARGUMENTS: u8 = 2;
/// The time whose budget for watching may be used in advance: the mean over this time is limited.
const ADVANCE: Duration = Duration::from_secs(3600);
/// The observation continues until this many times the present items were seen. Curves up to four times the present size
/// need 4.2 times the items; the simulation of a slabwise is better the longer it is.
const RANGE_FACTOR: f64 = 8.4;
/// The maximum numbers of keys and of recorded accesses of all servers together. A key takes about 120 bytes, and an access
/// 16 bytes.
const KEYS_MAX: usize = 1 << 20;
const RECORDED_MAX: usize = 6 << 20;
/// The minimum of both for each server.
const PER_SERVER_MIN: usize = 1 << 17;

/// Runs `slabwise advise`. `args` are the arguments after `advise`. The exit code is 1 if a server could not be observed.
pub fn main(args: Vec<OsString>) -> ExitCode {
    let args = match command::parse::<Args>(COMMAND, args, ExitCode::from(INVALID_ARGUMENTS)) {
        Ok(args) => args,
        Err(code) => return code,
    };
    match run(&args) {
        Ok(report) if report.failed.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(reason) => command::finish(COMMAND, Err(reason)),
    }
}

/// Observes the servers, and writes the report.
fn run(args: &Args) -> Result<Report, String> {
    let security = args.connect.load()?;
    let servers = slabwise_fleet::servers(&args.servers).map_err(|error| error.to_string())?;
    let connector = |server| security.connector(server, args.timeouts());
    let connectors: Vec<Connector> = servers.into_iter().map(connector).collect();
    // The first signal ends the observation, and the second one the process.
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let registered = flag::register_conditional_shutdown(signal, 1, Arc::clone(&stopped))
            .and_then(|_| flag::register(signal, Arc::clone(&stopped)));
        registered.map_err(|error| format!("cannot receive signals: {error}"))?;
    }
    let report = report(&connectors, args, &stopped);
    for Failed { server, reason } in &report.failed {
        eprintln!("{COMMAND}: {server}: {reason}");
    }
    let printed = match args.json {
        true => serde_json::to_string(&report)
            .map_err(|error| format!("cannot write the report as JSON: {error}"))?,
        false => text::text(&report),
    };
    // One of the two outputs is written even if the other one cannot be.
    let written = writeln!(std::io::stdout(), "{}", printed.trim_end());
    if let Some(path) = &args.html {
        let page = html::page(&report).into_string();
        std::fs::write(path, page)
            .map_err(|error| format!("cannot write the report to {}: {error}", path.display()))?;
    }
    written.map_err(|error| format!("cannot print the report: {error}"))?;
    Ok(report)
}

/// Observes all servers at the same time.
fn report(connectors: &[Connector], args: &Args, stopped: &AtomicBool) -> Report {
    let share = |all: usize| (all / connectors.len()).max(PER_SERVER_MIN);
    let options = Options {
        cost_share_max: args.cost_share_max,
        advance: ADVANCE,
        keys_max: share(KEYS_MAX),
        range_factor: RANGE_FACTOR,
        recorded_max: share(RECORDED_MAX),
        ..Options::default()
    };
    let observe_one = |connector: &Connector| -> Result<Observation, String> {
        let observed = observe(connector, options.clone(), args.duration, stopped);
        observed.map_err(|error| error.to_string())
    };
    let results: Vec<Result<Observation, String>> = thread::scope(|scope| {
        let threads: Vec<_> = connectors.iter().map(|it| scope.spawn(|| observe_one(it))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            // In a release, a panic has ended the process.
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    });
    let (mut observations, mut failed) = (vec![], vec![]);
    for (connector, result) in connectors.iter().zip(results) {
        match result {
            Ok(observation) => observations.push(observation),
            Err(reason) => failed.push(Failed { server: connector.address.to_string(), reason }),
        }
    }
    Report::of(&observations, failed)
}
