//! The limits of this process's memory: the memory of the machine, and the limits of the control groups (cgroups) of the
//! process.
//!
//! ```text
//!   /proc/meminfo                                   the machine's memory
//!   /proc/self/cgroup     the group's path    --.
//!   /proc/self/mountinfo  where it is mounted --+-> the group's folder and those of its parents
//!                                                     version 1: memory.limit_in_bytes
//!                                                     version 2: memory.max, memory.high
//! ```
//!
//! A limit of a group also applies to the groups below it. Both versions may be mounted at once. If a file is missing or
//! has another format, the module ignores it: the server then does not know this limit.

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

/// Returns the limits of the control groups of this process and of their parents.
fn control_group_limits(root: &Path) -> Vec<MemoryLimit> {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let (groups, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
    let mut limits = Vec::new();
    for mount in mounts.lines().filter_map(Mount::parse) {
        let Some(group) = groups.lines().find_map(|line| mount.hierarchy.group(line)) else {
            continue;
        };
        for folder in mount.folders(group) {
            for name in mount.hierarchy.limit_files() {
                let file = folder.join(name);
                let inside = file.strip_prefix("/").unwrap_or(&file);
                let text = fs::read_to_string(root.join(inside)).unwrap_or_default();
                // A group without a limit has the word `max`, or in version 1 a number that no machine reaches.
                if let Ok(bytes) = text.trim().parse() {
                    limits.push(MemoryLimit { bytes, source: LimitSource::ControlGroup(file) });
                }
            }
        }
    }
    limits
}

/// A hierarchy of control groups that can limit memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hierarchy {
    /// The hierarchy of the controller `memory` of version 1.
    V1,
    /// The hierarchy of version 2.
    V2,
}

impl Hierarchy {
    /// Returns the path of the group from a line of `/proc/self/cgroup`, `NUMBER:CONTROLLERS:PATH`. Returns `None` if the
    /// line is about another hierarchy.
    fn group(self, line: &str) -> Option<&Path> {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let is_this = match self {
            Hierarchy::V1 => controllers.split(',').any(|name| name == "memory"),
            Hierarchy::V2 => number == "0" && controllers.is_empty(),
        };
        is_this.then_some(Path::new(path))
    }

    /// Returns the names of the files with a group's limits. Above `memory.high` the kernel slows the process down.
    fn limit_files(self) -> &'static [&'static str] {
        match self {
            Hierarchy::V1 => &["memory.limit_in_bytes"],
            Hierarchy::V2 => &["memory.max", "memory.high"],
        }
    }
}

/// The mount of a hierarchy of control groups.
#[derive(Debug)]
struct Mount {
    hierarchy: Hierarchy,
    /// The path of the group whose folder is mounted, as in `/proc/self/cgroup`.
    group: PathBuf,
    /// The folder at which it is mounted.
    folder: PathBuf,
}

impl Mount {
    /// Parses a line of `/proc/self/mountinfo`: `ID PARENT DEVICE GROUP FOLDER OPTIONS... - TYPE SOURCE OPTIONS`. Returns
    /// `None` for other file systems.
    fn parse(line: &str) -> Option<Mount> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let mut file_system = file_system.split(' ');
        let (kind, options) = (file_system.next()?, file_system.nth(1)?);
        let hierarchy = match kind {
            "cgroup" if options.split(',').any(|option| option == "memory") => Hierarchy::V1,
            "cgroup2" => Hierarchy::V2,
            _ => return None,
        };
        let (group, folder) = (unescaped(mount.next()?), unescaped(mount.next()?));
        Some(Mount { hierarchy, group, folder })
    }

    /// Returns the folders of a group and of its parents, as far as they are mounted. A container may see only its own
    /// group, mounted under a path that the group's path does not contain. The mounted folder is then this group.
    fn folders(&self, group: &Path) -> Vec<PathBuf> {
        let below = group.strip_prefix(&self.group).ok();
        let below = below.filter(|path| !path.components().any(|part| part.as_os_str() == ".."));
        let folder = below.map_or_else(|| self.folder.clone(), |path| self.folder.join(path));
        let is_mounted = |folder: &&Path| folder.starts_with(&self.folder);
        folder.ancestors().take_while(is_mounted).map(Path::to_owned).collect()
    }
}

/// Returns a path of `/proc/self/mountinfo` without its escapes: the kernel writes a space, tab, line feed or backslash as
/// a backslash and three octal digits.
fn unescaped(text: &str) -> PathBuf {
    let mut path = text.to_owned();
    for (escape, character) in [(r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", r"\")] {
        path = path.replace(escape, character);
    }
    path.into()
}

#[cfg(test)]
#[path = "memory_limits_tests.rs"]
mod tests;
