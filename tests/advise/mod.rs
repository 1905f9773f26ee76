//! `slabwise advise` with a real memcached, if one is installed, with slabwise, and with servers that misbehave.

mod faulty;

use crate::support::{Client, Server, ServerCommand, built_slabwise, stock_memcached};
use faulty::{Fault, Faulty};
use serde_json::Value;
use slabwise_base::Random;
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// The settings that the command must not change, and the counters of changes.
const UNCHANGED: [(&str, &str); 5] = [
    ("stats settings", "slab_automove"),
    ("stats settings", "maxbytes"),
    ("stats", "cmd_set"),
    ("stats", "cmd_flush"),
    ("stats", "cmd_touch"),
];

fn advise(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slabwise"));
    command.arg("advise").args(arguments).stdin(Stdio::null());
    command.args(["--read-timeout", "1", "--reply-timeout", "2"]);
    command
}

/// Sends gets and stores of a look-aside client until `is_done`: of small values of random keys, and of larger values of keys
/// that are never used again. They need more than the memory of the server.
fn load(client: &mut Client, seed: u64, is_done: &AtomicBool) {
    const KEYS: u64 = 20_000;
    let mut random = Random::new(seed);
    let (small, large) = (vec![b's'; 1_000], vec![b'l'; 4_000]);
    let mut number = 0;
    while !is_done.load(Ordering::Relaxed) {
        number += 1;
        let key = format!("small{}", random.below(KEYS).min(random.below(KEYS)));
        if client.get(&key).is_none() {
            client.set(&key, &small);
        }
        if number % 4 == 0 {
            let key = format!("large{seed}-{number}");
            assert_eq!(client.get(&key), None);
            client.set(&key, &large);
        }
    }
}

/// Runs the command while a client loads the server.
fn advise_under_load(address: SocketAddr, mut client: Client, arguments: &[&str]) -> Output {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let loading = scope.spawn(|| load(&mut client, 1, &is_done));
        // Watching costs a large share of the little processor time that one client causes.
        let server = ["--server", &address.to_string(), "--cost-share-max", "1"];
        let output = advise(&[&server[..], arguments].concat()).output();
        is_done.store(true, Ordering::Relaxed);
        loading.join().expect("the client loads the server");
        output.expect("the command runs")
    })
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {text}, {}", String::from_utf8_lossy(&output.stderr))
    })
}

/// Fills the server, and advises it.
fn reports_and_changes_nothing(command: &ServerCommand, expects_gains: bool) {
    let folder = tempfile::tempdir().expect("the system has a folder for temporary files");
    let page = folder.path().join("report.html");
    let server = Server::start(command);
    let mut client = server.connect();
    for number in 0..4_000 {
        client.set(&format!("first{number}"), &[b'f'; 4_000]);
    }
    let read = |client: &mut Client| UNCHANGED.map(|(command, row)| client.stat_of(command, row));
    let arguments = ["--for", "6", "--json", "--html", page.to_str().expect("the path is UTF-8")];
    let mut watcher = server.connect();
    let before = read(&mut watcher);
    let output = advise_under_load(server.address(), client, &arguments);
    let after = read(&mut watcher);
    assert_eq!(before[..2], after[..2]);
    assert_eq!(before[3..], after[3..]);
    let report = json(&output);
    assert!(output.status.success(), "{report}");
    let found = &report["servers"][0];
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value}: {found}"));
    let now = number(&found["miss_ratio"]);
    assert!(number(&found["gets_per_second"]) > 100.0 && (0.01..0.99).contains(&now), "{found}");
    let points = found["memory"]["points"].as_array().expect("there is a curve");
    let ratios: Vec<f64> = points.iter().map(|it| number(&it["miss_ratio"]["value"])).collect();
    assert!(ratios.is_sorted_by(|a, b| *a >= *b - 1e-9), "{ratios:?}");
    assert_eq!(found["pages"].is_object(), expects_gains, "{found}");
    if expects_gains {
        let then = &found["pages"]["miss_ratio"];
        assert!(number(&then["value"]) <= now * 1.001, "{found}");
        assert!(number(&then["low"]) <= number(&then["high"]), "{found}");
        let classes = found["pages"]["classes"].as_array().expect("there are classes");
        let sum = |field: &str| classes.iter().map(|it| number(&it[field])).sum::<f64>();
        assert_eq!(sum("pages_now"), sum("pages_then"), "{found}");
        let sizes = found["chunk_sizes"]["slab_sizes"].as_str().expect("sizes were seen");
        Server::start(&command.clone().with(&["-o", &format!("slab_sizes={sizes}")]));
    }
    let page = std::fs::read_to_string(page).expect("the page is written");
    assert!(page.contains(&format!("What {} would gain", server.address())));
    // The only addresses on the page are those of the namespaces of SVG.
    let addresses = page.matches("http").count();
    assert_eq!(
        addresses,
        page.matches("http://www.w3.org/").count() + page.matches("http-equiv").count()
    );
}

#[test]
fn memcached_is_observed_and_nothing_changes() {
    if Command::new("memcached").arg("-V").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: memcached is not installed (apt-get install memcached)");
        return;
    }
    reports_and_changes_nothing(&stock_memcached().with(&["-m", "8"]), true);
}

#[test]
fn slabwise_is_observed_and_nothing_changes() {
    reports_and_changes_nothing(&built_slabwise().with(&["-m", "8"]), false);
}

#[test]
fn a_faulty_server_costs_one_line_and_the_others_are_reported() {
    let good = Server::start(&built_slabwise().with(&["-m", "8"]));
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        listener.local_addr().expect("a listener has an address")
    };
    let faults = [
        Fault::CutStats,
        Fault::GarbageStats,
        Fault::SilentStats,
        Fault::EndlessLine,
        Fault::RefusedWatch,
        Fault::GarbageWatch,
        Fault::SilentWatch,
        Fault::ClosedWatch,
    ];
    let faulty = faults.map(Faulty::start);
    let mut addresses: Vec<String> =
        faulty.iter().map(|server| server.address.to_string()).collect();
    addresses.push(closed.to_string());
    let mut arguments = vec!["--for", "3", "--json"];
    addresses.iter().for_each(|address| arguments.extend(["--server", address]));
    let output = advise_under_load(good.address(), good.connect(), &arguments);
    assert_eq!(output.status.code(), Some(1));
    let (report, log) = (json(&output), String::from_utf8_lossy(&output.stderr).into_owned());
    assert_eq!(report["servers"].as_array().map(Vec::len), Some(1), "{report}");
    assert_eq!(report["failed"].as_array().map(Vec::len), Some(addresses.len()), "{report}");
    assert_eq!(log.lines().count(), addresses.len(), "one line each: {log}");
    for address in &addresses {
        assert_eq!(log.matches(&format!("slabwise advise: {address}: ")).count(), 1, "{log}");
    }
    for reason in ["unexpected line", "refused", "no lines"] {
        assert!(log.contains(reason), "{reason}: {log}");
    }
}

#[test]
fn a_server_that_breaks_off_is_reported_until_then() {
    for fault in [Fault::OneLine, Fault::Gone] {
        let server = Faulty::start(fault);
        let address = server.address.to_string();
        let output = advise(&["--server", &address, "--for", "60", "--json"]).output();
        let report = json(&output.expect("the command runs"));
        let notes = report["servers"][0]["notes"].to_string();
        assert!(notes.contains("The observation ended after"), "{fault:?}: {report}");
    }
}

#[test]
fn the_report_is_printed_even_if_the_page_cannot_be_written() {
    let server = Faulty::start(Fault::OneLine);
    let address = server.address.to_string();
    let arguments =
        ["--server", &address, "--for", "60", "--json", "--html", "/dev/null/report.html"];
    let output = advise(&arguments).output().expect("the command runs");
    assert_eq!(json(&output)["servers"][0]["server"].as_str(), Some(&*address));
    assert!(!output.status.success());
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("cannot write the report to /dev/null")
    );
}

#[test]
fn several_servers_have_a_fleet() {
    let servers = [(); 2].map(|()| Server::start(&built_slabwise().with(&["-m", "8"])));
    let is_done = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        for (seed, server) in (1..).zip(&servers) {
            let is_done = &is_done;
            let mut client = server.connect();
            scope.spawn(move || load(&mut client, seed, is_done));
        }
        let addresses: Vec<String> = servers.iter().map(|it| it.address().to_string()).collect();
        let mut arguments = vec!["--for", "3", "--cost-share-max", "1"];
        addresses.iter().for_each(|address| arguments.extend(["--server", address]));
        let output = advise(&arguments).output().expect("the command runs");
        is_done.store(true, Ordering::Relaxed);
        output
    });
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text} {}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("all 2 servers: 16 MiB"), "{text}");
}
