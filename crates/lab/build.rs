//! Passes the git commit of the sources to the lab, which writes the commit into its results.

use std::path::Path;
use std::process::Command;

fn main() {
    let commit = git(&["rev-parse", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=SLABWISE_COMMIT={commit}");
    println!("cargo::rerun-if-changed=build.rs");
    // Git adds a line to this log with every commit, on every branch.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
    {
        println!("cargo::rerun-if-changed={log}");
    }
}

/// Returns the output of a git command, or `None` if git is not installed or the folder is not in a repository.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
