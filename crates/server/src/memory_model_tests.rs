//! Tests of the model: which options determine which part, and when the server warns.

use super::{MIB, MemoryModel};
use crate::config::{Request, Settings, parse};
use crate::os::memory_limits::{LimitSource, MemoryLimit};

fn settings(arguments: &[&str]) -> Settings {
    match parse(arguments.iter().map(Into::into), 4) {
        Ok(Request::Serve { settings, .. }) => *settings,
        other => panic!("{arguments:?} must start the server, but the result is {other:?}"),
    }
}

fn model(arguments: &[&str]) -> MemoryModel {
    MemoryModel::new(&settings(arguments))
}

/// Returns the maximum of a part in bytes, or 0 if the model has no such part.
fn part(arguments: &[&str], name: &str) -> u64 {
    let model = model(arguments);
    model.parts().iter().find(|part| part.name == name).map_or(0, |part| part.bytes_max)
}

#[test]
fn the_total_is_the_memory_limit_and_the_sum_of_all_parts() {
    let model = model(&["-m", "100"]);
    let sum: u64 = model.parts().iter().map(|part| part.bytes_max).sum();
    assert_eq!(model.total_bytes(), 100 * MIB + sum);
    let mut names: Vec<&str> = model.parts().iter().map(|part| part.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), model.parts().len(), "each part has its own name");
}

#[test]
fn each_part_depends_on_its_options() {
    // Each row has a part, arguments, and the value of the part.
    const TLS: &str = "ssl_chain_cert=c,ssl_key=k";
    let rows: [(&str, &[&str], u64); 21] = [
        ("connections", &["-c", "1000"], 1000 * 2048),
        ("connections", &["-c", "1000", "-Z", "-o", TLS], 1000 * 12_288),
        ("buffers", &["-c", "1024"], 64 * MIB),
        ("buffers", &["-c", "1024", "-Z", "-o", TLS], 128 * MIB),
        ("buffers", &["-c", "1024", "-Z", "-o", "ssl_wbuf_size=64", "-o", TLS], 162 * MIB),
        ("buffers", &["-c", "1024", "-Z", "-o", "ssl_ca_cert=a", "-o", TLS], 192 * MIB),
        ("profiles", &["-m", "1000", "-o", "profile_memory=8m,eviction=segmented"], 8 * MIB),
        ("profiles", &["-o", "profile=off"], 0),
        ("huge_pages", &[], 6 * MIB),
        ("huge_pages", &["-o", "preset=memcached"], 6 * MIB),
        ("huge_pages", &["-o", "no_huge_pages"], 0),
        ("hot_keys", &["-o", "http=127.0.0.1:0"], 0),
        ("hot_keys", &["-t", "3", "-o", "http=127.0.0.1:0,http_hot_keys=1"], 5 * MIB / 4),
        ("costs", &[], 0),
        ("costs", &["-o", "cost=measured"], MIB),
        ("watchers", &[], 15 * MIB),
        ("watchers", &["-o", "watcher_logbuf_size=1024"], 60 * MIB),
        ("watchers", &["-W"], 0),
        ("prefixes", &[], 25 * MIB),
        ("prefixes", &["-X"], 0),
        ("prefixes", &["-X", "-D", ":"], 25 * MIB),
    ];
    for (name, arguments, expected) in rows {
        let found = part(arguments, name);
        let difference = found.abs_diff(expected);
        // The memory of profiles is a whole number of keys.
        assert!(difference < 1 << 10, "{name} with {arguments:?}: {found}, not {expected}");
    }
}

#[test]
fn hit_densities_need_at_most_one_mebibyte() {
    let profiles = |arguments: &[&str]| part(arguments, "profiles");
    let added = profiles(&[]) - profiles(&["-o", "eviction=segmented"]);
    assert!((1..=MIB).contains(&added), "{added} bytes");
}

#[test]
fn every_worker_and_every_udp_socket_has_buffers() {
    let workers = |arguments: &[&str]| part(arguments, "workers");
    assert_eq!(workers(&["-t", "8"]), 2 * workers(&["-t", "4"]));
    assert!(workers(&["-t", "8", "-U", "11211"]) > workers(&["-t", "8"]) + 8 * 4 * MIB);
}

#[test]
fn with_memcacheds_preset_the_index_and_first_pages_are_in_addition() {
    let tables = part(&["-m", "1024"], "tables");
    assert!(tables < 1024 * MIB / 20, "{tables} bytes");
    let preset = ["-m", "1024", "-o", "preset=memcached"];
    let classes = settings(&preset).engine.classes.count() as u64;
    let with_preset = part(&preset, "tables");
    assert!(with_preset > 1024 * MIB / 10 + classes * MIB, "{with_preset} bytes");
}

/// Returns the warning of a server with these arguments on a machine with this memory.
fn warning(arguments: &[&str], machine_bytes: u64) -> Option<String> {
    model(arguments).warning(&MemoryLimit { bytes: machine_bytes, source: LimitSource::Machine })
}

#[test]
fn the_server_warns_exactly_if_the_total_is_above_the_limit() {
    let arguments = ["-m", "1000", "-c", "100"];
    let total = model(&arguments).total_bytes();
    assert_eq!(warning(&arguments, total), None);
    let text = warning(&arguments, total - 1).expect("one byte is missing");
    assert!(text.starts_with("-m 1000 (MiB) and the "), "{text}");
    let text = warning(&arguments, 1000 * MIB - 1).expect("-m itself does not fit");
    let expected = "-m 1000 (MiB) is above 1000.0 MiB, the memory of the machine: lower -m to ";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn the_warning_names_both_numbers_and_a_limit_that_fits() {
    for (machine_mib, arguments) in [
        (900, &["-m", "1000", "-c", "100"][..]),
        (1010, &["-m", "1000", "-c", "100"]),
        (150, &["-m", "10000", "-X", "-W", "-c", "10", "-o", "profile=off"]),
        (3000, &["-m", "2990", "-o", "preset=memcached"]),
    ] {
        let text = warning(arguments, machine_mib * MIB).expect("the memory does not suffice");
        assert!(text.contains(&format!("-m {} (MiB)", arguments[1])), "{text}");
        assert!(text.contains(&format!("above {machine_mib} MiB")), "{text}");
        let rest = text.split("lower -m to ").nth(1);
        let fitting = rest.and_then(|rest| rest.split([',', ';']).next());
        let fitting = fitting.expect("the warning has a remedy").to_owned();
        let mut lowered = arguments.to_vec();
        lowered[1] = &fitting;
        assert_eq!(warning(&lowered, machine_mib * MIB), None, "{text}");
    }
}

#[test]
fn if_no_memory_limit_fits_the_warning_names_the_other_options() {
    let text =
        warning(&["-m", "64", "-c", "20000"], 64 * MIB).expect("the memory does not suffice");
    assert!(text.contains(": lower -m and -c (now 20000); "), "{text}");
}

#[test]
fn the_limit_of_a_control_group_can_be_raised() {
    let source = LimitSource::ControlGroup("/group/memory.max".into());
    let text = model(&["-m", "64"]).warning(&MemoryLimit { bytes: 100 * MIB, source });
    let text = text.expect("the memory does not suffice");
    let expected = "above 100 MiB, the limit of the control group in /group/memory.max: lower -m";
    assert!(text.contains(expected) && text.contains(", or raise the limit; "), "{text}");
}

#[test]
fn the_log_has_the_sum_and_a_line_for_each_part() {
    let model = model(&["-m", "64", "-c", "5000"]);
    let lines: Vec<String> = model.log_lines().collect();
    assert_eq!(lines.len(), 1 + model.parts().len());
    assert!(
        lines[0].starts_with("memory: at most ") && lines[0].contains(" -m 64 MiB"),
        "{lines:?}"
    );
    assert!(lines.iter().any(|line| line.ends_with("5000 connections (-c), 2 KiB each")));
}
