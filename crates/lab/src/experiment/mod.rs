//! `slabwise lab`: published experiments, run again on this engine, the paper's figures beside ours.
//!
//! ```text
//!   experiments/NAME.toml --> spec --> two_phase, mover_speed, ... --> outcome --> table, result.json
//!                                        |         '--> run: one course on virtual time
//!                                        '--> split: where the pages should be
//! ```
//!
//! Laws: everything but measured times follows from commit, seed, scale and the file; what could not be measured has a row
//! that says why.

mod class_counts;
mod cost;
mod course;
mod course_rows;
mod curves;
mod divider;
mod error;
mod eviction_curves;
mod exact_curves;
mod explained;
mod frontier;
mod learned_classes;
mod live;
mod mover_speed;
mod outcome;
mod overhead;
mod policies;
mod progress;
mod run;
mod runs;
mod served;
mod server;
mod spec;
mod split;
mod steady;
mod two_phase;

#[cfg(test)]
mod tests;

use clap::{Parser, Subcommand};
pub use error::ExperimentError;
pub use outcome::{Outcome, Row, Series, number};
use progress::Progress;
pub use served::{Served, ServedSetup};
pub use server::{Server, ServerError};
use slabwise_base::Clock;
use spec::Setup;
pub use spec::Spec;
use std::ffi::OsString;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Run published experiments again on this engine, and see the paper's figures beside ours.
#[derive(Debug, Parser)]
#[command(name = "slabwise lab")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Name the experiments
    List,
    /// Run one, or all
    Run(RunArgs),
    /// Draw the reports of earlier results again, and an index over them
    Report(ReportArgs),
}

#[derive(Debug, clap::Args)]
struct RunArgs {
    /// The experiment's name; all for each in turn
    name: String,
    /// Multiply requests, keys and memory; 1 is the published size [default: as the experiment says]; of all, what
    /// cannot be so small or large is run as near as it can be
    #[arg(long, value_name = "F")]
    scale: Option<f64>,
    /// Everything random follows from this number
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Where result.json is written [default: slabwise-lab/NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Drive real servers by the wire: memcached, if there is one, and slabwise
    #[arg(long)]
    live: bool,
    /// Leave out what the folder has a result of already, by the same program, seed and scale
    #[arg(long)]
    resume: bool,
    /// Of frontier: run the traces in this folder, too (their formats: slabwise replay --help)
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Threads, which is as many caches as are in memory at a time [default: one for each core]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

#[derive(Debug, clap::Args)]
struct ReportArgs {
    /// Where the results are
    #[arg(value_name = "DIR", default_value = runs::DIRECTORY)]
    directory: PathBuf,
}

/// Runs the command with the arguments after its name.
pub fn main(args: Vec<OsString>) -> ExitCode {
    let line = std::iter::once(OsString::from("slabwise lab")).chain(args);
    let args = match Args::try_parse_from(line) {
        Ok(args) => args,
        Err(error) => {
            // A reader that has left wants no more help.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(64) } else { ExitCode::SUCCESS };
        }
    };
    let done = match args.command {
        Command::List => print(&list()),
        Command::Run(args) => runs::run(&args),
        Command::Report(args) => runs::report(&args.directory),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("slabwise lab: {error}");
            ExitCode::FAILURE
        }
    }
}

fn list() -> String {
    let specs = Spec::all();
    let width = specs.iter().map(|spec| spec.name.len()).max().unwrap_or(0);
    let lines = specs.iter().map(|spec| format!("{:width$}  {}\n", spec.name, spec.title));
    lines.collect()
}

/// Runs an experiment at a scale that it can be run at.
fn run_one(spec: &Spec, scale: f64, args: &RunArgs) -> Result<Outcome, ExperimentError> {
    let progress = Progress::default();
    match &spec.setup {
        Setup::TwoPhase(setup) if args.live => live::run(spec, setup, scale, args.seed, &progress),
        Setup::TwoPhase(setup) => two_phase::run(spec, setup, scale, args.seed, &progress),
        Setup::LearnedClasses(setup) if args.live => {
            learned_classes::run_live(spec, setup, scale, args.seed, &progress)
        }
        Setup::LearnedClasses(setup) => {
            learned_classes::run(spec, setup, scale, args.seed, &progress)
        }
        Setup::Frontier(setup) => {
            frontier::run(spec, setup, scale, args.seed, args.live, &progress)
        }
        _ if args.live => {
            let name = &spec.name;
            let text = format!("{name} looks inside the engine, as no server shows it: no --live");
            Err(ExperimentError::Option(text))
        }
        Setup::MoverSpeed(setup) => {
            mover_speed::run(spec, setup, scale, args.seed, &Clock::real(), &progress)
        }
        Setup::Curves(setup) => curves::run(spec, setup, scale, args.seed, &progress),
        Setup::EvictionCurves(setup) => {
            eviction_curves::run(spec, setup, scale, args.seed, &progress)
        }
        Setup::Overhead(setup) => {
            overhead::run(spec, setup, scale, args.seed, &Arc::new(Clock::real()), &progress)
        }
        Setup::PagePolicies(setup) => policies::run(spec, setup, scale, args.seed, &progress),
        Setup::ClassCounts(setup) => class_counts::run(spec, setup, scale, args.seed, &progress),
        Setup::Cost(setup) => cost::run(spec, setup, scale, args.seed, &progress),
    }
}

fn print(text: &str) -> Result<(), ExperimentError> {
    let printed = std::io::stdout().write_all(text.as_bytes());
    printed.map_err(|source| ExperimentError::Write { path: PathBuf::from("stdout"), source })
}
