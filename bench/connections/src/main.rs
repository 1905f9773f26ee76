//! Tests a server with many idle and active connections: `slabwise-bench-connections --server PATH`.
//!
//! ```text
//!   main --starts--> server <-- idle and active clients (load, one thread)
//!     |                 ^------ statistics and resident memory (observer, one thread)
//!     '--> report: a line for each tenth of the time, and the verdict
//! ```
//!
//! The exit code is 0 if the server refused and closed no connection, every reply was right, and slabwise needed no more
//! memory than `docs/memory.md` allows; 1 if one of these is violated, or if the program could not run.
#![forbid(unsafe_code)]

mod active;
mod arguments;
mod findings;
mod idle;
mod link;
mod load;
mod observer;
mod report;
mod target;

use arguments::Arguments;
use clap::Parser;
use findings::Findings;
use link::Target;
use load::{Load, Results};
use observer::{Observer, Sample};
use report::{Expected, Steps};
use slabwise_client::process::Server;
use std::process::ExitCode;
use std::sync::{Mutex, mpsc};

/// The number of lines of the table.
const INTERVALS: u32 = 10;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(findings) if findings.is_empty() => {
            println!("ok: no connection was refused or closed, and every reply was right");
            ExitCode::SUCCESS
        }
        Ok(findings) => {
            findings.lines().for_each(|line| println!("{line}"));
            ExitCode::FAILURE
        }
        Err(reason) => {
            eprintln!("slabwise-bench-connections: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the test, and returns the violations.
fn run(arguments: &Arguments) -> Result<Findings, String> {
    let Arguments { idle, active, limit, .. } = *arguments;
    // One connection reads the statistics. memcached counts some of its own files as connections.
    let connections = idle + active + 1;
    if connections + 100 > limit {
        return Err(format!(
            "--idle {idle} and --active {active} are too many for --limit {limit}: raise --limit to {}",
            connections + 100
        ));
    }
    target::raise_open_files(arguments)?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (server, target) = target::start(arguments, folder.path())?;
    test(arguments, &server, &target)
}

fn test(arguments: &Arguments, server: &Server, target: &Target) -> Result<Findings, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", target.address);
    let mut observer = Observer::new(server, target.open_blocking().map_err(failed)?);
    let empty = observer.sample()?;
    let load = Load::new(target.clone(), arguments.pause, arguments.seed);
    let mut load = load.map_err(failed)?;
    load.open_idle(arguments.idle)?;
    let idle = observer.sample()?;
    load.open_active(arguments.active)?;
    let samples = Mutex::default();
    let results =
        observed(&mut observer, &samples, || run_intervals(arguments, &mut load, &samples))?;
    let end = observer.sample()?;
    let complete = load.finish().map_err(failed)?;
    let mut findings = std::mem::take(&mut load.findings);
    println!("{complete} of {} idle clients completed their commands", arguments.idle);
    if complete < arguments.idle {
        findings.add(format!("{} idle clients did not complete", arguments.idle - complete));
    }
    let steps = Steps { empty, idle, end };
    let samples = samples.into_inner().expect("no thread panics while it has the lock");
    print!("{}", report::summary(&steps, &results, arguments.idle, &samples));
    let expected = Expected {
        idle: arguments.idle as u64,
        open: (arguments.idle + arguments.active) as u64,
        misses: results.misses,
    };
    report::judge(&steps, &samples, expected, &mut findings);
    Ok(findings)
}

/// Calls `work` while the observer adds samples.
fn observed<T>(
    observer: &mut Observer<'_>,
    samples: &Mutex<Vec<Sample>>,
    work: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    std::thread::scope(|scope| {
        let (end, ended) = mpsc::channel();
        let thread = scope.spawn(move || observer.run(samples, &ended));
        let outcome = work();
        drop(end);
        thread.join().expect("the observer does not panic")?;
        outcome
    })
}

/// Lets the clients work, and prints a line for each interval. Returns the results of all intervals.
fn run_intervals(
    arguments: &Arguments,
    load: &mut Load,
    samples: &Mutex<Vec<Sample>>,
) -> Result<Results, String> {
    println!("{}", report::head());
    let span = arguments.duration / INTERVALS;
    let mut all = Results::default();
    let mut printed = 0;
    for number in 1..=INTERVALS {
        load.run(span).map_err(|error| format!("cannot wait for events: {error}"))?;
        let results = load.take_results();
        let samples = samples.lock().expect("no thread panics while it has the lock");
        println!(
            "{}",
            report::interval(
                (span * number, span),
                load.open_count(),
                &results,
                &samples[printed.min(samples.len().saturating_sub(1))..]
            )
        );
        printed = samples.len();
        all.add(&results);
    }
    Ok(all)
}
