//! Passes git commits to the lab, which writes them into its results: the commit of the program, the last commit that
//! changed the engine and the runs on it, and for each type of experiment the last commit that changed its code.

use std::path::Path;
use std::process::Command;

/// The sources that determine the results of all experiments, relative to the folder of this crate.
const SHARED: [&str; 12] = [
    "../base/src",
    "../engine/src",
    "../policy/src",
    "../profile/src",
    "../replay/src",
    "../simulation/src",
    "../tuner/src",
    "../../Cargo.lock",
    "src/experiment/kind.rs",
    "src/footprint",
    "src/trial",
    "src/vtime",
];
/// The folder of the types of experiments. Each has a file or a folder.
const EXPERIMENTS: &str = "src/experiment";

fn main() {
    let commit = git(&["rev-parse", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=SLABWISE_COMMIT={commit}");
    let shared = last_change(&SHARED).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=SLABWISE_LAB_SHARED={shared}");
    println!("cargo::rustc-env=SLABWISE_LAB_EXPERIMENTS={}", experiments().join(","));
    println!("cargo::rerun-if-changed=build.rs");
    for sources in SHARED.iter().chain([&EXPERIMENTS]) {
        assert!(
            Path::new(sources).exists(),
            "{sources} does not exist: correct the list of sources"
        );
        println!("cargo::rerun-if-changed={sources}");
    }
    // Git adds a line to this log with every commit, on every branch.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
    {
        println!("cargo::rerun-if-changed={log}");
    }
}

/// Returns `MODULE=COMMIT` for each file and folder of [`EXPERIMENTS`].
fn experiments() -> Vec<String> {
    let entries = std::fs::read_dir(EXPERIMENTS).into_iter().flatten().flatten();
    let mut commits: Vec<String> = entries
        .filter_map(|entry| {
            let path = entry.path();
            let commit = last_change(&[path.to_str()?]).unwrap_or_else(|| "unknown".to_owned());
            Some(format!("{}={commit}", path.file_stem()?.to_str()?))
        })
        .collect();
    commits.sort();
    commits
}

/// Returns the last commit that changed these sources, with `-modified` at the end if they have changes without a
/// commit. `None` without git.
fn last_change(sources: &[&str]) -> Option<String> {
    let of = |command: &[&str]| git(&[command, &["--"], sources].concat());
    let commit = of(&["log", "-1", "--format=%h"]).filter(|commit| !commit.is_empty())?;
    let is_modified = !of(&["status", "--porcelain"])?.is_empty();
    Some(if is_modified { format!("{commit}-modified") } else { commit })
}

/// Returns the output of a git command, or `None` if git is not installed or the folder is not in a repository.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
