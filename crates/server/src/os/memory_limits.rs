//! The limits of this process's memory: the memory of the machine (`/proc/meminfo`), and the limits of its control groups
//! (version 1: `memory.limit_in_bytes`; version 2: `memory.max`, `memory.high`). If a file is missing or has another
//! format, the module ignores it: the server then does not know this limit.

use super::control_groups::{self, Version};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// A limit of the memory of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    pub bytes: u64,
    pub source: LimitSource,
}

/// The origin of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitSource {
    /// The memory of the machine.
    Machine,
    /// The limit of a control group, which this file contains.
    ControlGroup(PathBuf),
}

impl fmt::Display for LimitSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitSource::Machine => f.write_str("the memory of the machine"),
            LimitSource::ControlGroup(file) => {
                write!(f, "the limit of the control group in {}", file.display())
            }
        }
    }
}

/// Returns the lowest limit, or `None` if no limit is known. `root` is the root of the file systems: `/`, or another
/// folder in tests.
pub fn lowest(root: &Path) -> Option<MemoryLimit> {
    let machine = machine_bytes(root);
    let machine = machine.map(|bytes| MemoryLimit { bytes, source: LimitSource::Machine });
    machine.into_iter().chain(control_group_limits(root)).min_by_key(|limit| limit.bytes)
}

/// Returns the memory of the machine in bytes.
fn machine_bytes(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = total.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kib.checked_mul(1 << 10)
}

/// Returns the limits of the control groups of this process.
fn control_group_limits(root: &Path) -> Vec<MemoryLimit> {
    let mut limits = Vec::new();
    for group in control_groups::all(root, "memory") {
        for name in limit_files(group.version) {
            // A group without a limit has the word `max`, or in version 1 a number that no machine reaches.
            if let Ok(bytes) = group.read(root, name).trim().parse() {
                let source = LimitSource::ControlGroup(group.folder.join(name));
                limits.push(MemoryLimit { bytes, source });
            }
        }
    }
    limits
}

/// Returns the names of the files with a group's limits. Above `memory.high` the kernel slows the process down.
fn limit_files(version: Version) -> &'static [&'static str] {
    match version {
        Version::V1 => &["memory.limit_in_bytes"],
        Version::V2 => &["memory.max", "memory.high"],
    }
}

#[cfg(test)]
#[path = "memory_limits_tests.rs"]
mod tests;
