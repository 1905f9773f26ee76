//! `slabwise lab`: repeats published experiments on slabwise's engine, and compares the published values with our
//! values.
//!
//! ```text
//!   NAME or all --> for each experiment: scale and folder --> with --resume: has the folder a result? --yes--> skipped
//!                                                               '--no--> run --> table, result.json, report.html
//! ```
//!
//! Experiments run one after the other, because some of them measure processor time. The runs of one experiment use
//! several threads.
//!
//! Invariants:
//! - If one of several experiments fails, the others still run.
//! - A result file is complete, or does not exist.

use crate::experiment::{Job, Progress};
use crate::registry::{self, Entry};
use crate::report::{self, RESULT_FILE};
use crate::result::{COMMIT, Outcome};
use crate::trial::visits::{VisitTime, VisitTimes};
use clap::{Parser, Subcommand};
use slabwise_base::Clock;
use slabwise_text::command;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Repeat published experiments on slabwise's engine and compare the published values with our values.
#[derive(Debug, Parser)]
#[command(name = "slabwise lab")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the experiments
    List,
    /// Run one experiment, or all
    Run(RunArgs),
    /// Write the reports of earlier results again, and an index of all reports
    Report(ReportArgs),
}

#[derive(Debug, clap::Args)]
struct ReportArgs {
    /// Folder of the results
    #[arg(value_name = "DIR", default_value = DIRECTORY)]
    directory: PathBuf,
}

pub fn main(args: Vec<OsString>) -> ExitCode {
    let args = match command::parse::<Args>("slabwise lab", args, ExitCode::from(64)) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let result = match args.command {
        Command::List => print(&list()),
        Command::Run(args) => run(&args),
        Command::Report(args) => report(&args.directory),
    };
    command::finish("slabwise lab", result)
}

/// Returns one line per experiment: its name and its title.
fn list() -> String {
    let specs = registry::specs();
    let width = specs.iter().map(|spec| spec.name.len()).max().unwrap_or(0);
    let lines = specs.iter().map(|spec| format!("{:width$}  {}\n", spec.name, spec.title));
    lines.collect()
}

/// The default folder of results. Each experiment has a subfolder.
const DIRECTORY: &str = "slabwise-lab";

#[derive(Debug, clap::Args)]
struct RunArgs {
    /// Name of the experiment, or all
    name: String,
    /// Multiply requests, keys and memory by F; 1 is the published size. With all, an experiment that does not allow F
    /// runs at the nearest scale that it allows [default: set by the experiment]
    #[arg(long, value_name = "F")]
    scale: Option<f64>,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Folder for result.json; with all, each experiment has a subfolder [default: slabwise-lab/NAME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Send the requests to real servers: slabwise, and memcached if it is installed
    #[arg(long)]
    live: bool,
    /// Skip experiments whose folder has a result of the same program, seed and scale
    #[arg(long)]
    resume: bool,
    /// Virtual time in which a mover visits a chunk, in nanoseconds, for example base=185,fast=484. The rows
    /// `visit_cost` of another result have its times [default: measured before the runs]
    #[arg(long, value_name = "MOVER=N", value_delimiter = ',')]
    visit_ns: Vec<VisitTime>,
    /// Only frontier: also run the traces in this folder (formats: see slabwise replay --help)
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Number of threads; each has one cache in memory at a time [default: one per core]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

impl RunArgs {
    fn visits(&self) -> VisitTimes {
        self.visit_ns.iter().copied().collect()
    }
}

type LabError = Box<dyn std::error::Error>;

/// An experiment that is going to run.
struct PlannedRun<'s> {
    entry: &'s Entry,
    scale: f64,
    /// Folder for the result.
    directory: PathBuf,
}

fn run(args: &RunArgs) -> Result<(), LabError> {
    if let Some(threads) = args.jobs {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.get()).build_global();
        pool.map_err(|error| format!("--jobs {threads}: {error}"))?;
    }
    let is_alone = args.name != "all";
    let mut entries = registry::all();
    let known = entries.iter().map(|entry| entry.spec.name.clone()).collect::<Vec<_>>().join(", ");
    match is_alone {
        true => entries.retain(|entry| entry.spec.name == args.name),
        false => entries.retain(|entry| !args.live || entry.setup.has_live()),
    }
    if entries.is_empty() {
        let name = &args.name;
        let text = format!("unknown experiment '{name}'; expected all or one of {known}");
        return Err(text.into());
    }
    if let Some(directory) = &args.traces {
        add_traces(&mut entries, directory)?;
    }
    let runs = entries.iter().map(|entry| PlannedRun::new(entry, args, is_alone));
    let runs: Vec<PlannedRun<'_>> = runs.collect::<Result<_, _>>()?;
    let mut failed = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        if !is_alone {
            print(&format!("{} of {}: {}\n", index + 1, runs.len(), run.entry.spec.name))?;
        }
        match run.run(args) {
            Ok(()) => {}
            Err(error) if is_alone => return Err(error),
            Err(error) => {
                eprintln!("slabwise lab: {}: {error}", run.entry.spec.name);
                failed.push(run.entry.spec.name.clone());
            }
        }
    }
    if !is_alone {
        report(args.out.as_deref().unwrap_or(Path::new(DIRECTORY)))?;
    }
    if failed.is_empty() {
        return Ok(());
    }
    let failed = failed.join(", ");
    let remedy = "the errors are above; run again with --resume to repeat only these experiments";
    Err(format!("these experiments failed: {failed}; {remedy}").into())
}

/// Adds the traces in a folder to the experiment that can use traces.
fn add_traces(entries: &mut [Entry], directory: &Path) -> Result<(), LabError> {
    for Entry { spec, setup } in entries {
        if setup.add_traces(&mut spec.figures_added, directory)? {
            return Ok(());
        }
    }
    Err("--traces is valid only for the experiment frontier; run `frontier` or `all`".into())
}

/// Writes the reports of all results in a folder again.
fn report(directory: &Path) -> Result<(), LabError> {
    let index = report::redraw(&registry::specs(), directory)?;
    for error in &index.skipped {
        eprintln!("slabwise lab: skipped: {error}");
    }
    print(&format!("index of all reports: {}\n", index.path.display()))
}

impl PlannedRun<'_> {
    /// Plans a run of the experiment `entry`. If no other experiment runs (`is_alone`), a scale that the experiment
    /// does not allow is an error. Otherwise the experiment runs at the nearest scale that it allows.
    fn new<'s>(
        entry: &'s Entry,
        args: &RunArgs,
        is_alone: bool,
    ) -> Result<PlannedRun<'s>, LabError> {
        let spec = &entry.spec;
        let live_scale = entry.setup.live_scale().filter(|_| args.live);
        let requested = args.scale.or(live_scale).unwrap_or(spec.scale);
        let scale = if is_alone { requested } else { spec.nearest_scale(requested) };
        spec.check_scale(scale)?;
        let directory = match &args.out {
            Some(out) if is_alone => out.clone(),
            Some(out) => out.join(&spec.name),
            None => Path::new(DIRECTORY).join(&spec.name),
        };
        Ok(PlannedRun { entry, scale, directory })
    }

    fn run(&self, args: &RunArgs) -> Result<(), LabError> {
        let Entry { spec, setup } = self.entry;
        let path = self.directory.join(RESULT_FILE);
        if args.resume && self.has_result(args, &path) {
            return print(&format!("skipped: {} exists\n", path.display()));
        }
        let clock = Clock::real();
        let began_nanos = clock.moment().nanos;
        if args.live && !setup.has_live() {
            let name = &spec.name;
            let text =
                format!("{name} does not use real servers, so --live is not possible; omit --live");
            return Err(text.into());
        }
        let progress = Progress::default();
        let (scale, seed, live, visits) = (self.scale, args.seed, args.live, args.visits());
        let job = Job { spec, scale, seed, live, visits, progress };
        let mut outcome = setup.run(&job)?;
        outcome.traces.clone_from(&args.traces);
        outcome.visit_ns = job.visits.given();
        let usage = usage(clock.moment().nanos - began_nanos);
        print(&format!("{}\n{}", spec.title, outcome.text()))?;
        write(&outcome, &path)?;
        let report = report::write(spec, &outcome, &self.directory, None)?;
        print(&format!("\nwritten to {} and {}, {usage}\n", path.display(), report.display()))
    }

    /// Returns true if the file has a result of the same program and arguments. Then only measured times, results that
    /// depend on measured times, and results of real servers would differ in another run.
    fn has_result(&self, args: &RunArgs, path: &Path) -> bool {
        let found = fs::read(path).ok().and_then(|json| serde_json::from_slice(&json).ok());
        found.is_some_and(|found: Outcome| {
            let has_size = found.seed == args.seed && found.scale == self.scale;
            let has_options = found.live == args.live
                && found.traces == args.traces
                && found.visit_ns == args.visits().given();
            found.commit == COMMIT && has_size && has_options
        })
    }
}

/// Describes the duration of a run and the peak memory of the process.
fn usage(nanos: u64) -> String {
    let seconds = nanos as f64 / 1e9;
    match resident_mib_max() {
        Some(mib) => format!("after {seconds:.0} s; peak resident memory {mib} MiB"),
        None => format!("after {seconds:.0} s"),
    }
}

/// Returns the peak resident memory of the process in MiB.
fn resident_mib_max() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib >> 10)
}

/// Writes the result to another file first, and renames that file. So `path` never contains a part of a result.
fn write(outcome: &Outcome, path: &Path) -> Result<(), LabError> {
    let failed = |error| unwritable(path, &error);
    let json = serde_json::to_string_pretty(outcome).expect("an outcome can be serialized");
    let partial = path.with_extension("json.partial");
    path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
    fs::write(&partial, json + "\n").and_then(|()| fs::rename(&partial, path)).map_err(failed)
}

fn print(text: &str) -> Result<(), LabError> {
    let printed = std::io::stdout().write_all(text.as_bytes());
    printed.map_err(|error| unwritable(Path::new("stdout"), &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> LabError {
    format!("cannot write {}: {error}; choose another folder with --out", path.display()).into()
}
