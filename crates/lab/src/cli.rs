//! `slabwise lab`: published experiments, run again on this engine, the paper's figures beside ours.
//!
//! ```text
//!   registry --> jobs: an experiment at a scale --> outcome --> table, result.json, report
//! ```

use crate::jobs::{self, RunArgs, print};
use crate::registry;
use clap::{Parser, Subcommand};
use slabwise_text::command;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

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
struct ReportArgs {
    /// Where the results are
    #[arg(value_name = "DIR", default_value = jobs::DIRECTORY)]
    directory: PathBuf,
}

pub fn main(args: Vec<OsString>) -> ExitCode {
    let args = match command::parse::<Args>("slabwise lab", args, ExitCode::from(64)) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let done = match args.command {
        Command::List => print(&list()),
        Command::Run(args) => jobs::run(&args),
        Command::Report(args) => jobs::report(&args.directory),
    };
    command::finish("slabwise lab", done)
}

fn list() -> String {
    let specs = registry::specs();
    let width = specs.iter().map(|spec| spec.name.len()).max().unwrap_or(0);
    let lines = specs.iter().map(|spec| format!("{:width$}  {}\n", spec.name, spec.title));
    lines.collect()
}
