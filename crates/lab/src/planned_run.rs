//! Runs one experiment with one or several seeds, and writes its result and its report.
//!
//! ```text
//!   for each seed: job --> outcome --.
//!        ^ DIR/units/seed-N (--resume) +--> merged --> table, DIR/result.json, DIR/report.html
//! ```
//!
//! Invariants:
//! - A result file is complete, or does not exist.
//! - A published value without our value and without a reason is an error, after the result was written.

use crate::experiment::{Job, Progress};
use crate::registry::Entry;
use crate::report::{self, RESULT_FILE};
use crate::result::{Outcome, Row, merged};
use crate::trial::units::{RunIdentity, TraceIdentity, Units, write_whole};
use crate::trial::visits::{VisitTime, VisitTimes, mark_given};
use slabwise_base::Clock;
use std::fs;
use std::io::Write;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};

pub type LabError = Box<dyn std::error::Error>;

/// The default folder of results. Each experiment has a subfolder.
pub const DIRECTORY: &str = "slabwise-lab";

#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Name of the experiment, or all
    pub name: String,
    /// Multiply requests, keys and memory by F; 1 is the published size. With all, an experiment that does not allow F
    /// runs at the nearest scale that it allows, and some experiments that take long run at a part of F [default: set by
    /// the experiment]
    #[arg(long, value_name = "F")]
    pub scale: Option<f64>,
    /// Seed of all random numbers; the first one if there are several
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Run with N seeds, and report the mean and the spread of each value [default: set by the experiment; with --live 1]
    #[arg(long, value_name = "N")]
    pub seeds: Option<NonZeroU32>,
    /// Folder for result.json; with all, each experiment has a subfolder [default: slabwise-lab/NAME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Send the requests to real servers: slabwise, and memcached if it is installed
    #[arg(long)]
    pub live: bool,
    /// Use the results of an earlier run in the same folder: each variant with each seed whose sources, set-up and scale
    /// are the same; not with --live
    #[arg(long)]
    pub resume: bool,
    /// Virtual time in which a mover visits a chunk, in nanoseconds, for example base=185,fast=484. The rows
    /// `visit_cost` of another result have its times [default: measured before the runs]
    #[arg(long, value_name = "MOVER=N", value_delimiter = ',')]
    pub visit_ns: Vec<VisitTime>,
    /// Only frontier and eviction-ranks: also run the traces in this folder (formats: see slabwise replay --help)
    #[arg(long, value_name = "DIR")]
    pub traces: Option<PathBuf>,
    /// Number of threads; each has one cache in memory at a time [default: one per core]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
}

impl RunArgs {
    fn visits(&self) -> VisitTimes {
        self.visit_ns.iter().copied().collect()
    }

    /// Returns the identities of the additional traces.
    fn trace_identities(&self) -> Result<Vec<TraceIdentity>, LabError> {
        let Some(folder) = &self.traces else { return Ok(Vec::new()) };
        TraceIdentity::of_folder(folder)
            .map_err(|error| format!("--traces {}: {error}", folder.display()).into())
    }
}

/// An experiment that is going to run.
pub struct PlannedRun<'s> {
    pub entry: &'s Entry,
    scale: f64,
    seeds: NonZeroU32,
    /// Folder for the result.
    directory: PathBuf,
}

impl PlannedRun<'_> {
    /// Plans a run of the experiment `entry`. If no other experiment runs (`is_alone`), a scale that the experiment
    /// does not allow is an error. Otherwise the experiment runs at the nearest scale that it allows.
    pub fn new<'s>(
        entry: &'s Entry,
        args: &RunArgs,
        is_alone: bool,
    ) -> Result<PlannedRun<'s>, LabError> {
        let spec = &entry.spec;
        let live_scale = entry.setup.live_scale().filter(|_| args.live);
        let factor = if is_alone { 1.0 } else { spec.scale_factor_in_all };
        let given = args.scale.map(|scale| scale * factor);
        let requested = given.or(live_scale).unwrap_or(spec.scale);
        let scale = if is_alone { requested } else { spec.nearest_scale(requested) };
        spec.check_scale(scale)?;
        let seeds = if args.live { NonZeroU32::MIN } else { spec.seeds };
        let seeds = args.seeds.unwrap_or(seeds);
        let directory = match &args.out {
            Some(out) if is_alone => out.clone(),
            Some(out) => out.join(&spec.name),
            None => Path::new(DIRECTORY).join(&spec.name),
        };
        Ok(PlannedRun { entry, scale, seeds, directory })
    }

    pub fn run(&self, args: &RunArgs) -> Result<(), LabError> {
        let Entry { spec, setup, sources } = self.entry;
        let clock = Clock::real();
        let began_nanos = clock.moment().nanos;
        if args.live && !setup.has_live() {
            let name = &spec.name;
            let text =
                format!("{name} does not use real servers, so --live is not possible; omit --live");
            return Err(text.into());
        }
        let traces = args.trace_identities()?;
        let outcomes = (args.seed..).take(self.seeds.get() as usize).map(|seed| {
            let (scale, live, visits) = (self.scale, args.live, args.visits());
            let units = self.units(args, seed, &traces);
            setup.run(&Job {
                spec,
                scale,
                seed,
                live,
                visits,
                units,
                progress: Progress::default(),
            })
        });
        let outcomes = outcomes.collect::<Result<Vec<Outcome>, _>>()?;
        let mut outcome = merged(outcomes).expect("there is at least one seed");
        outcome.sources.clone_from(sources);
        outcome.traces.clone_from(&args.traces);
        outcome.visit_ns = args.visits().given();
        mark_given(&mut outcome);
        let usage = usage(clock.moment().nanos - began_nanos);
        print(&format!("{}\n{}", spec.title, outcome.text()))?;
        let path = self.directory.join(RESULT_FILE);
        write(&outcome, &path)?;
        let report = report::write(spec, &outcome, &self.directory, None)?;
        print(&format!("\nwritten to {} and {}, {usage}\n", path.display(), report.display()))?;
        let unaccounted = outcome.unaccounted().map(name_of).collect::<Vec<_>>();
        if args.live || unaccounted.is_empty() {
            return Ok(());
        }
        let unaccounted = unaccounted.join("; ");
        Err(format!(
            "no value and no reason for: {unaccounted}; this is an error in {}.toml",
            spec.name
        )
        .into())
    }

    /// Returns the stored results of the parts of the run with this seed.
    fn units(&self, args: &RunArgs, seed: u64, traces: &[TraceIdentity]) -> Units {
        let identity = RunIdentity {
            sources: self.entry.sources.clone(),
            setup: self.entry.spec.setup_json(),
            seed,
            scale: self.scale,
            live: args.live,
            traces: traces.to_vec(),
            visit_ns: args.visits().given(),
        };
        let kind = if args.live { "live-seed" } else { "seed" };
        let directory = self.directory.join("units").join(format!("{kind}-{seed}"));
        // The identity does not contain the servers, so their results are not used again.
        Units::new(directory, identity, args.resume && !args.live)
    }
}

fn name_of(row: &Row) -> String {
    format!("{} of {}", row.measure, row.variant)
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

/// Writes the result.
fn write(outcome: &Outcome, path: &Path) -> Result<(), LabError> {
    let json = serde_json::to_string_pretty(outcome).expect("an outcome can be serialized") + "\n";
    let remedy = "choose another folder with --out";
    let written = write_whole(path, json.as_bytes());
    written.map_err(|error| format!("cannot write {}: {error}; {remedy}", path.display()).into())
}

/// Prints a text to stdout.
pub fn print(text: &str) -> Result<(), LabError> {
    let printed = std::io::stdout().write_all(text.as_bytes());
    printed.map_err(|error| format!("cannot write stdout: {error}").into())
}
