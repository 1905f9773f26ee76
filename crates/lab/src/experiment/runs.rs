//! `lab run`: one experiment after the other, each with all cores, its result in a folder of its own.
//!
//! ```text
//!   name or all --> jobs: experiment, scale, folder --> done already? --yes--> next
//!                                                            '--no--> run_one --> table, result.json, report.html
//! ```
//!
//! Experiments follow one another, for some of them measure time; the runs within one are parallel. So the memory is at
//! most that of as many caches as there are threads (`--jobs`).
//!
//! Laws: an experiment that cannot run does not keep the others from running; a result is written whole or not at all, so
//! that whoever resumes trusts what is there.

use super::error::ExperimentError;
use super::outcome::{COMMIT, Outcome};
use super::spec::{Setup, Spec};
use super::{RunArgs, frontier, print, run_one};
use crate::report::{self, RESULT_FILE};
use serde::Deserialize;
use slabwise_base::Clock;
use std::fs;
use std::path::{Path, PathBuf};

/// Where results are written, each in a folder of its experiment's name.
pub const DIRECTORY: &str = "slabwise-lab";

/// One experiment to run.
struct Job<'s> {
    spec: &'s Spec,
    scale: f64,
    directory: PathBuf,
}

/// What a result says of its origin. Equal origins have equal results, but for measured times.
#[derive(Debug, PartialEq, Deserialize)]
struct Origin {
    commit: String,
    seed: u64,
    scale: f64,
    live: bool,
    #[serde(default)]
    traces: Option<PathBuf>,
}

/// Runs what is asked for; in the end, an error if not all of it ran.
pub fn run(args: &RunArgs) -> Result<(), ExperimentError> {
    if let Some(threads) = args.jobs {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.get()).build_global();
        pool.map_err(|error| ExperimentError::Option(format!("--jobs {threads}: {error}")))?;
    }
    let mut specs = match args.name.as_str() {
        "all" => Spec::all().into_iter().filter(|spec| !args.live || spec.has_live()).collect(),
        name => vec![Spec::named(name)?],
    };
    if let Some(directory) = &args.traces {
        add_traces(&mut specs, directory)?;
    }
    let is_alone = args.name != "all";
    let jobs: Vec<Job<'_>> =
        specs.iter().map(|spec| Job::new(spec, args, is_alone)).collect::<Result<_, _>>()?;
    let mut failed = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        if !is_alone {
            print(&format!("{} of {}: {}\n", index + 1, jobs.len(), job.spec.name))?;
        }
        match job.run(args) {
            Ok(()) => {}
            Err(error) if is_alone => return Err(error),
            Err(error) => {
                eprintln!("slabwise lab: {}: {error}", job.spec.name);
                failed.push(job.spec.name.clone());
            }
        }
    }
    if !is_alone {
        report(args.out.as_deref().unwrap_or(Path::new(DIRECTORY)))?;
    }
    if failed.is_empty() { Ok(()) } else { Err(ExperimentError::Incomplete { failed }) }
}

/// Gives traces to the experiment that takes some.
fn add_traces(specs: &mut [Spec], directory: &Path) -> Result<(), ExperimentError> {
    for spec in specs {
        if let Setup::Frontier(setup) = &mut spec.setup {
            return frontier::add_traces(setup, &mut spec.figures_added, directory);
        }
    }
    Err(ExperimentError::Option("--traces belongs to frontier: run that, or all".to_owned()))
}

/// Draws the reports in a folder again, and the index over them.
pub fn report(directory: &Path) -> Result<(), ExperimentError> {
    let index = report::redraw(directory)?;
    for error in &index.left_out {
        eprintln!("slabwise lab: left out: {error}");
    }
    print(&format!("all of them: {}\n", index.path.display()))
}

impl Job<'_> {
    /// The experiment at the scale asked for. Among all, one that cannot be so small or large is run as near as it can be.
    fn new<'s>(spec: &'s Spec, args: &RunArgs, is_alone: bool) -> Result<Job<'s>, ExperimentError> {
        let asked = args.scale.unwrap_or_else(|| spec.default_scale(args.live));
        let scale = if is_alone { asked } else { spec.nearest_scale(asked) };
        spec.check_scale(scale)?;
        let directory = match &args.out {
            Some(out) if is_alone => out.clone(),
            Some(out) => out.join(&spec.name),
            None => Path::new(DIRECTORY).join(&spec.name),
        };
        Ok(Job { spec, scale, directory })
    }

    fn run(&self, args: &RunArgs) -> Result<(), ExperimentError> {
        let path = self.directory.join(RESULT_FILE);
        let origin = Origin {
            commit: COMMIT.to_owned(),
            seed: args.seed,
            scale: self.scale,
            live: args.live,
            traces: args.traces.clone(),
        };
        if args.resume && origin_of(&path).is_some_and(|found| found == origin) {
            return print(&format!("done already: {}\n", path.display()));
        }
        let clock = Clock::real();
        let began_nanos = clock.moment().nanos;
        let mut outcome = run_one(self.spec, self.scale, args)?;
        outcome.traces.clone_from(&origin.traces);
        let used = used(clock.moment().nanos - began_nanos);
        print(&format!("{}\n{}", self.spec.title, outcome.text()))?;
        write(&outcome, &path)?;
        let report = report::write(self.spec, &outcome, &self.directory, None)?;
        print(&format!("\nwritten to {} and {}, {used}\n", path.display(), report.display()))
    }
}

/// What the run took.
fn used(nanos: u64) -> String {
    let seconds = nanos as f64 / 1e9;
    match resident_mib_max() {
        Some(mib) => format!("after {seconds:.0} s; {mib} MiB resident at most so far"),
        None => format!("after {seconds:.0} s"),
    }
}

/// The most memory that the process ever held, in MiB, where the system tells.
fn resident_mib_max() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib >> 10)
}

/// The origin of a result, if there is one and it can be read.
fn origin_of(path: &Path) -> Option<Origin> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Writes the result, whole or not at all.
fn write(outcome: &Outcome, path: &Path) -> Result<(), ExperimentError> {
    let failed = |source| ExperimentError::Write { path: path.to_owned(), source };
    let json = serde_json::to_string_pretty(outcome);
    let json = json.unwrap_or_else(|error| panic!("an outcome is plain data: {error}"));
    let partial = path.with_extension("json.partial");
    path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
    fs::write(&partial, json + "\n").and_then(|()| fs::rename(&partial, path)).map_err(failed)
}
