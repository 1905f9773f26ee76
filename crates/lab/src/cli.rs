//! `slabwise lab`: repeats published experiments on slabwise's engine, and compares the published values with our
//! values.
//!
//! ```text
//!   NAME or all --> for each experiment: scale, seeds and folder --> PlannedRun --> table, result.json, report.html
//! ```
//!
//! Experiments run one after the other, because some of them measure processor time. The runs of one experiment use
//! several threads.
//!
//! If one of several experiments fails, the others still run.

use crate::planned_run::{DIRECTORY, LabError, PlannedRun, RunArgs, print};
use crate::registry::{self, Entry};
use crate::report;
use clap::{Parser, Subcommand};
use slabwise_text::command;
use std::ffi::OsString;
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
    /// Also write the reports as Markdown with pictures to this folder
    #[arg(long, value_name = "DIR")]
    markdown: Option<PathBuf>,
}

pub fn main(args: Vec<OsString>) -> ExitCode {
    let args = match command::parse::<Args>("slabwise lab", args, ExitCode::from(64)) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let result = match args.command {
        Command::List => print(&list()),
        Command::Run(args) => run(&args),
        Command::Report(args) => report(&args.directory, args.markdown.as_deref()),
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
        report(args.out.as_deref().unwrap_or(Path::new(DIRECTORY)), None)?;
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
    for Entry { spec, setup, .. } in entries {
        if setup.add_traces(&mut spec.figures_added, directory)? {
            return Ok(());
        }
    }
    Err("--traces is valid only for frontier and eviction-ranks; run one of them or `all`".into())
}

/// Writes the reports of all results in a folder again, and to the folder `markdown` as Markdown.
fn report(directory: &Path, markdown: Option<&Path>) -> Result<(), LabError> {
    let index = report::redraw(&registry::specs(), directory, markdown)?;
    for error in &index.skipped {
        eprintln!("slabwise lab: skipped: {error}");
    }
    print(&format!("{}\nindex of all reports: {}\n", index.counts, index.path.display()))?;
    if index.causes_without_row.is_empty() {
        return Ok(());
    }
    let causes = index.causes_without_row.join("; ");
    Err(format!("no row in the results shows these causes: {causes}; correct [[explained]] in the experiment's file").into())
}
