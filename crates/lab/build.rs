//! Passes two git commits to the lab, which writes them into its results: the commit of the program, and the last commit
//! that changed the sources of runs.

use std::path::Path;
use std::process::Command;

/// The folders whose sources determine the results of runs, relative to the folder of this crate.
const SOURCES: [&str; 8] = [
    "../base/src",
    "../engine/src",
    "../policy/src",
    "../profile/src",
    "../replay/src",
    "../tuner/src",
    "src",
    "../../Cargo.lock",
];
/// The parts of these folders that do not.
const REPORTS: [&str; 4] =
    [":(exclude)src/report", ":(exclude)src/result", ":(exclude)src/cli.rs", ":(exclude)src/demo"];

fn main() {
    let commit = git(&["rev-parse", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=SLABWISE_COMMIT={commit}");
    let sources = sources().unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=SLABWISE_LAB_SOURCES={sources}");
    println!("cargo::rerun-if-changed=build.rs");
    for folder in SOURCES {
        println!("cargo::rerun-if-changed={folder}");
    }
    // Git adds a line to this log with every commit, on every branch.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
    {
        println!("cargo::rerun-if-changed={log}");
    }
}

/// Returns the last commit that changed the sources of runs, with `-modified` at the end if they have changes without a
/// commit. `None` without git.
fn sources() -> Option<String> {
    let of = |command: &[&str]| git(&[command, &["--"], &SOURCES, &REPORTS].concat());
    let commit = of(&["log", "-1", "--format=%H"]).filter(|commit| !commit.is_empty())?;
    let is_modified = !of(&["status", "--porcelain"])?.is_empty();
    Some(if is_modified { format!("{commit}-modified") } else { commit })
}

/// Returns the output of a git command, or `None` if git is not installed or the folder is not in a repository.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
