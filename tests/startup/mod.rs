//! The log of the server at its start: the parts of its memory, and warnings if the memory does not suffice; and the choice
//! between epoll and io_uring.

mod io;

use crate::support::{Server, is_memcached, under_test};
use std::fs;

/// Starts the server with these flags, and returns what it has written to stderr when it listens.
fn log_at_start(flags: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let path = folder.path().join("stderr");
    let server = Server::start(&under_test().with(flags).logging_to(&path));
    drop(server);
    fs::read_to_string(path).expect("the log exists")
}

/// Returns the memory of this machine in MiB, rounded up.
fn machine_mib() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").expect("the machine has /proc/meminfo");
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|total| total.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.expect("MemTotal is a number of kB").div_ceil(1 << 10)
}

#[test]
fn both_texts_of_help_name_each_command() {
    let output = |argument| {
        let output =
            std::process::Command::new(env!("CARGO_BIN_EXE_slabwise")).arg(argument).output();
        String::from_utf8(output.expect("the program exists").stdout).expect("a help is text")
    };
    let (short, all) = (output("--help"), output("--help=all"));
    let short = short.lines().find_map(|line| line.trim().strip_prefix("Commands: "));
    let mut short: Vec<&str> = short.expect("the help has commands").split(", ").collect();
    let commands = output("help");
    let mut expected: Vec<&str> = commands
        .lines()
        .filter_map(|line| line.strip_prefix("slabwise ")?.split(' ').next())
        .filter(|name| !name.starts_with('['))
        .collect();
    for name in &expected {
        assert!(all.contains(&format!(" slabwise {name} ")), "{name}: {all}");
    }
    short.sort_unstable();
    expected.sort_unstable();
    expected.dedup();
    assert_eq!(short, expected);
}

#[test]
fn the_server_warns_if_its_memory_limit_exceeds_the_machines_memory() {
    /// The maximum of `-m`.
    const LIMIT_MIB_MAX: u64 = 1 << 20;
    let given = machine_mib() + 1000;
    if is_memcached(&under_test()) || given > LIMIT_MIB_MAX {
        return println!("skipped: memcached has no such warning, and -m cannot be that large");
    }
    let log = log_at_start(&["-m", &given.to_string()]);
    // The memory of the test may have a limit that is lower than that of the machine.
    let expected = format!("-m {given} (MiB) is above ");
    let rest = log.split(&expected).nth(1).unwrap_or_else(|| panic!("{expected}: {log:?}"));
    let limit = rest.split(' ').next().and_then(|number| number.parse::<f64>().ok());
    let limit = limit.expect("the warning contains the limit in MiB");
    assert!(limit <= machine_mib() as f64, "{log:?}");
    assert!(rest.contains("lower -m"), "{log:?}");
    let fitting: Option<u64> = rest
        .split("lower -m to ")
        .nth(1)
        .and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok());
    assert!(fitting.is_none_or(|fitting| (fitting as f64) < limit), "{log:?}");
}

#[test]
fn the_server_does_not_warn_if_its_memory_suffices() {
    let log = log_at_start(&["-m", "16", "-c", "64"]);
    assert_eq!(log, "");
}

#[test]
fn with_the_flag_v_the_server_logs_the_parts_of_its_memory() {
    if is_memcached(&under_test()) {
        return println!("skipped: memcached does not log the parts of its memory");
    }
    let log = log_at_start(&["-m", "16", "-c", "70", "-t", "2", "-v"]);
    let lines: Vec<&str> = log.lines().filter(|line| line.starts_with("memory: ")).collect();
    assert!(lines[0].starts_with("memory: at most ") && lines[0].contains("-m 16 MiB"), "{log}");
    for part in ["70 connections (-c)", "2 workers (-t)", "profiles", "watchers", "the program"] {
        assert!(lines.iter().any(|line| line.contains(part)), "{part}: {log}");
    }
    // The sum in the first line is that of the other lines, which are rounded.
    let number = |text: &str| -> f64 {
        let word = text.split_whitespace().next().expect("the line has a number");
        word.parse().unwrap_or_else(|_| panic!("{word:?} is a number of MiB: {log}"))
    };
    let parts: f64 = lines[1..].iter().map(|line| number(&line["memory: ".len()..])).sum();
    let total = number(&lines[0]["memory: at most ".len()..]);
    assert!((total - 16.0 - parts).abs() < 1.0, "{log}");
}

#[test]
fn the_statistics_have_the_parts_of_the_memory() {
    let server = Server::start(&under_test().with(&["-m", "16"]));
    if is_memcached(&under_test()) {
        return println!("skipped: memcached has no `stats memory`");
    }
    let rows = server.connect().numbers("stats memory");
    let model = |name: &str| name.strip_prefix("model_").is_some();
    let total = rows.iter().find(|(name, _)| name == "model_total_bytes").map(|(_, bytes)| *bytes);
    let parts = rows.iter().filter(|(name, _)| model(name) && name != "model_total_bytes");
    let sum: u64 = parts.map(|(_, bytes)| bytes).sum();
    assert_eq!(total, Some((16 << 20) + sum));
}
