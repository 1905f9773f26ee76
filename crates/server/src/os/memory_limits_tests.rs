//! Tests with folders that have the files of a machine: the machine's memory, and control groups of both versions.

use super::{LimitSource, MemoryLimit, lowest};
use crate::os::control_groups::test_support::folder_with;
use std::path::Path;

const MEMINFO: &str = "MemTotal:        8000000 kB\nMemFree:         1000000 kB\n";
const MACHINE_BYTES: u64 = 8_000_000 << 10;
/// The number in `memory.limit_in_bytes` of a group without a limit.
const V1_UNLIMITED: &str = "9223372036854771712\n";

/// The mounts of a machine with version 1, in which a hierarchy may have several controllers.
const V1_MOUNTS: &str = "\
    22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n\
    31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
    32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
    35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:10 master:2 - cgroup cgroup rw,memory\n";
/// The mounts of a machine with version 2.
const V2_MOUNTS: &str = "\
    22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n\
    31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n";

/// Returns the lowest limit on a machine with [`MEMINFO`] and these files, each a path and its content.
fn lowest_with(files: &[(&str, &str)]) -> MemoryLimit {
    let root = folder_with(files);
    std::fs::write(root.path().join("proc/meminfo"), MEMINFO).expect("the folder is writable");
    lowest(root.path()).expect("the machine's memory is known")
}

fn machine() -> MemoryLimit {
    MemoryLimit { bytes: MACHINE_BYTES, source: LimitSource::Machine }
}

fn group(bytes: u64, file: &str) -> MemoryLimit {
    MemoryLimit { bytes, source: LimitSource::ControlGroup(Path::new(file).to_owned()) }
}

#[test]
fn without_control_groups_the_limit_is_the_memory_of_the_machine() {
    assert_eq!(lowest_with(&[]), machine());
    assert_eq!(lowest_with(&[("proc/self/cgroup", "")]), machine());
    // The folder of the group does not exist.
    let files = [("proc/self/cgroup", "0::/a\n"), ("proc/self/mountinfo", V2_MOUNTS)];
    assert_eq!(lowest_with(&files), machine());
}

#[test]
fn without_any_file_no_limit_is_known() {
    assert_eq!(lowest(folder_with(&[]).path()), None);
    for meminfo in ["", "MemFree: 1 kB\n", "MemTotal: 1\n", "MemTotal: x kB\n"] {
        assert_eq!(lowest(folder_with(&[("proc/meminfo", meminfo)]).path()), None, "{meminfo}");
    }
}

#[test]
fn version_1_limits_the_group_and_its_parents() {
    let groups =
        "9:name=systemd:/x\n5:cpu,cpuacct:/x\n4:memory:/system.slice/cache.service\n0::/\n";
    let files = |service: &'static str, slice: &'static str| {
        lowest_with(&[
            ("proc/self/cgroup", groups),
            ("proc/self/mountinfo", V1_MOUNTS),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", V1_UNLIMITED),
            ("sys/fs/cgroup/memory/system.slice/memory.limit_in_bytes", slice),
            ("sys/fs/cgroup/memory/system.slice/cache.service/memory.limit_in_bytes", service),
            // Groups that the process is not in have no effect.
            ("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1\n"),
            ("sys/fs/cgroup/cpu,cpuacct/x/memory.limit_in_bytes", "1\n"),
        ])
    };
    assert_eq!(files(V1_UNLIMITED, V1_UNLIMITED), machine());
    let service = "/sys/fs/cgroup/memory/system.slice/cache.service/memory.limit_in_bytes";
    assert_eq!(files("104857600\n", V1_UNLIMITED), group(100 << 20, service));
    let slice = "/sys/fs/cgroup/memory/system.slice/memory.limit_in_bytes";
    assert_eq!(files("104857600\n", "52428800\n"), group(50 << 20, slice));
}

#[test]
fn version_2_limits_the_group_and_its_parents() {
    let files = |slice_max: &'static str, max: &'static str, high: &'static str| {
        lowest_with(&[
            ("proc/self/cgroup", "0::/system.slice/cache.service\n"),
            ("proc/self/mountinfo", V2_MOUNTS),
            ("sys/fs/cgroup/system.slice/memory.max", slice_max),
            ("sys/fs/cgroup/system.slice/cache.service/memory.max", max),
            ("sys/fs/cgroup/system.slice/cache.service/memory.high", high),
        ])
    };
    assert_eq!(files("max\n", "max\n", "max\n"), machine());
    let service = "/sys/fs/cgroup/system.slice/cache.service";
    let (max, high) = (format!("{service}/memory.max"), format!("{service}/memory.high"));
    assert_eq!(files("max\n", "104857600\n", "max\n"), group(100 << 20, &max));
    assert_eq!(files("max\n", "104857600\n", "1048576\n"), group(1 << 20, &high));
    let slice = "/sys/fs/cgroup/system.slice/memory.max";
    assert_eq!(files("0\n", "104857600\n", "max\n"), group(0, slice));
    assert_eq!(files("x\n", "\n", "-5\n"), machine(), "invalid numbers are ignored");
}

/// In a container with its own view of the groups, `/` is the container's group.
#[test]
fn the_root_of_a_group_namespace_can_have_a_limit() {
    let limit = lowest_with(&[
        ("proc/self/cgroup", "0::/\n"),
        ("proc/self/mountinfo", V2_MOUNTS),
        ("sys/fs/cgroup/memory.max", "104857600\n"),
    ]);
    assert_eq!(limit, group(100 << 20, "/sys/fs/cgroup/memory.max"));
}

/// In a container without its own view of the groups, only the container's group is mounted.
#[test]
fn only_the_folder_of_a_containers_group_may_be_mounted() {
    let mount = |root: &str| {
        format!("35 31 0:32 {root} /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n")
    };
    let limit = |group: &str, mount: &str| {
        lowest_with(&[
            ("proc/self/cgroup", group),
            ("proc/self/mountinfo", mount),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "104857600\n"),
            ("sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "52428800\n"),
        ])
    };
    let file = "/sys/fs/cgroup/memory/memory.limit_in_bytes";
    let inner = "/sys/fs/cgroup/memory/inner/memory.limit_in_bytes";
    let docker = mount("/docker/abc");
    assert_eq!(limit("4:memory:/docker/abc\n", &docker), group(100 << 20, file));
    assert_eq!(limit("4:memory:/docker/abc/inner\n", &docker), group(50 << 20, inner));
    assert_eq!(limit("4:memory:/other\n", &docker), group(100 << 20, file));
    let above = mount("/../..");
    assert_eq!(limit("4:memory:/../../docker/abc\n", &above), group(100 << 20, file));
    assert_eq!(limit("4:memory:/../inner\n", &mount("/")), group(100 << 20, file));
}

#[test]
fn both_versions_may_be_mounted_at_once() {
    let mounts = format!(
        "{V1_MOUNTS}41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
         not a mount\n42 31\n43 31 0:39 / - cgroup2\n"
    );
    let files = |v1: &'static str, v2: &'static str| {
        lowest_with(&[
            ("proc/self/cgroup", "4:memory:/a\n1:name=systemd:/b\n0::/c\nno group\n"),
            ("proc/self/mountinfo", &mounts),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", v1),
            ("sys/fs/cgroup/unified/c/memory.max", v2),
        ])
    };
    let v1_file = "/sys/fs/cgroup/memory/a/memory.limit_in_bytes";
    assert_eq!(files("1000\n", "2000\n"), group(1000, v1_file));
    assert_eq!(files("1000\n", "500\n"), group(500, "/sys/fs/cgroup/unified/c/memory.max"));
    assert_eq!(files("1000\n", "max\n"), group(1000, v1_file));
}

#[test]
fn paths_in_mountinfo_are_escaped() {
    let limit = lowest_with(&[
        ("proc/self/cgroup", "0::/a b\n"),
        ("proc/self/mountinfo", r"31 23 0:28 / /my\040groups\134x rw - cgroup2 cgroup2 rw"),
        (r"my groups\x/a b/memory.max", "4096\n"),
    ]);
    assert_eq!(limit, group(4096, r"/my groups\x/a b/memory.max"));
}

/// The messages of the server contain the origin of the limit.
#[test]
fn a_limit_names_the_machine_or_the_file_of_the_group() {
    assert_eq!(machine().source.to_string(), "the memory of the machine");
    let source = group(1, "/sys/fs/cgroup/memory.max").source;
    let expected = "the limit of the control group in /sys/fs/cgroup/memory.max";
    assert_eq!(source.to_string(), expected);
}

/// The files of the machine on which the test runs have the expected formats.
#[test]
fn the_memory_of_this_machine_is_known() {
    let limit = lowest(Path::new("/")).expect("this machine has /proc/meminfo");
    assert!(limit.bytes > 1 << 20, "{limit:?}");
}
