//! The number of processors that this process may use: those of its affinity mask, as far as the limits of its control
//! groups allow (version 1: `cpu.cfs_quota_us` and `cpu.cfs_period_us`; version 2: `cpu.max`). If a file is missing or has
//! another format, the module ignores it.
//!
//! `std::thread::available_parallelism` rounds a limit of 1.9 processors down. A server with one worker would then leave
//! nearly half of its processor time unused, so this module rounds it up.

use super::control_groups::{self, Group, Version};
use std::path::Path;
use std::thread::available_parallelism;

/// Returns the number of processors that this process may use, at least 1. `root` is the root of the file systems: `/`, or
/// another folder in tests.
pub fn available(root: &Path) -> usize {
    let in_mask = rustix::thread::sched_getaffinity(None).map(|mask| mask.count() as usize);
    // The kernel refuses to write its mask for more than 1024 processors to the mask of rustix. The standard library
    // counts them, but rounds the limits of groups down.
    let in_mask = in_mask.unwrap_or_else(|_| available_parallelism().map_or(1, usize::from));
    in_mask.min(limit(root).unwrap_or(usize::MAX)).max(1)
}

/// Returns the lowest limit of the control groups in processors, rounded up.
fn limit(root: &Path) -> Option<usize> {
    control_groups::all(root, "cpu").iter().filter_map(|group| limit_of(group, root)).min()
}

/// Returns the limit of a group: the processor time in a period, divided by the period. `None`: it has none.
fn limit_of(group: &Group, root: &Path) -> Option<usize> {
    let text = match group.version {
        Version::V1 => {
            ["cpu.cfs_quota_us", "cpu.cfs_period_us"].map(|it| group.read(root, it)).join(" ")
        }
        Version::V2 => group.read(root, "cpu.max"),
    };
    let mut fields = text.split_whitespace();
    // A group without a limit has the word `max`, or in version 1 the number -1.
    let time: u64 = fields.next()?.parse().ok()?;
    let period: u64 = fields.next()?.parse().ok().filter(|&period| period > 0)?;
    usize::try_from(time.div_ceil(period)).ok()
}

#[cfg(test)]
mod tests {
    use super::{available, limit};
    use crate::os::control_groups::test_support::folder_with;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    const V1_MOUNTS: &str = "\
        32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";
    const V2_MOUNTS: &str = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn a_limit_is_rounded_up() {
        for (text, expected) in [
            ("max 100000\n", None),
            ("190000 100000\n", Some(2)),
            ("200000 100000\n", Some(2)),
            ("50000 100000\n", Some(1)),
            ("100000 0\n", None),
            ("100000\n", None),
            ("", None),
        ] {
            let root = folder_with(&[
                ("proc/self/cgroup", "0::/a\n"),
                ("proc/self/mountinfo", V2_MOUNTS),
                ("sys/fs/cgroup/a/cpu.max", text),
            ]);
            assert_eq!(limit(root.path()), expected, "{text:?}");
        }
    }

    #[test]
    fn a_limit_of_a_parent_also_counts() {
        let root = folder_with(&[
            ("proc/self/cgroup", "0::/a/b\n"),
            ("proc/self/mountinfo", V2_MOUNTS),
            ("sys/fs/cgroup/a/cpu.max", "100000 100000\n"),
            ("sys/fs/cgroup/a/b/cpu.max", "350000 100000\n"),
        ]);
        assert_eq!(limit(root.path()), Some(1));
        assert_eq!(available(root.path()), 1);
    }

    #[test]
    fn version_1_has_the_time_and_the_period_in_two_files() {
        let limit_with = |time| {
            let root = folder_with(&[
                ("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/b\n"),
                ("proc/self/mountinfo", V1_MOUNTS),
                ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", time),
                ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"),
            ]);
            limit(root.path())
        };
        assert_eq!(limit_with("250000\n"), Some(3));
        assert_eq!(limit_with("-1\n"), None);
    }

    #[test]
    fn the_affinity_mask_counts_if_no_limit_is_lower() {
        let mut mask = CpuSet::new();
        let allowed = sched_getaffinity(None).expect("the mask of this thread");
        let first = (0..CpuSet::MAX_CPU).find(|&index| allowed.is_set(index));
        mask.set(first.expect("this thread has a processor"));
        sched_setaffinity(None, &mask).expect("the mask of this thread can be narrowed");
        assert_eq!(available(folder_with(&[]).path()), 1);
        let root = folder_with(&[
            ("proc/self/cgroup", "0::/\n"),
            ("proc/self/mountinfo", V2_MOUNTS),
            ("sys/fs/cgroup/cpu.max", "6400000 100000\n"),
        ]);
        assert_eq!(limit(root.path()), Some(64));
        assert_eq!(available(root.path()), 1);
    }
}
