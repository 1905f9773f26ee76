//! The metrics `memcached_*` are those of prometheus/memcached_exporter.
//!
//! The environment variable `MEMCACHED_EXPORTER` names the program of the exporter. With it, the test runs the exporter
//! against the server, and compares names, types, labels and values. Without it, the test compares names, types and
//! labels with those in `exporter.txt`, which the exporter wrote in the same scenario.

use super::client::{HttpServer, ask, connect};
use crate::support::{Client, wait_until};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The names, types and labels that the exporter has for the scenario of the test.
const RECORDED: &str = include_str!("exporter.txt");

/// Series whose values change between two scrapes: by clocks, by the use of resources, and by the scrapes themselves.
const CHANGING: &[&str] = &[
    "memcached_uptime_seconds",
    "memcached_time_seconds",
    "memcached_process_user_cpu_seconds_total",
    "memcached_process_system_cpu_seconds_total",
    "memcached_read_bytes_total",
    "memcached_written_bytes_total",
    "memcached_current_connections",
    "memcached_connections_total",
    "memcached_lru_crawler_starts_total",
    "memcached_slab_items_age_seconds",
    "memcached_slab_hot_age_seconds",
    "memcached_slab_warm_age_seconds",
];

/// The series of an exposition: the name with the labels, the type, and the value.
type Series = BTreeMap<String, (String, String)>;

/// Parses Prometheus's text format. Keeps the series whose names begin with `memcached_`.
fn series(text: &str) -> Series {
    let mut types = BTreeMap::new();
    let mut series = Series::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            types.extend(rest.split_once(' '));
        } else if line.starts_with("memcached_") {
            let (name, value) = line.rsplit_once(' ').expect("a series has a value");
            let family = name.split('{').next().unwrap_or(name);
            let kind = types.get(family).unwrap_or_else(|| panic!("{family} has a type"));
            series.insert(sort_labels(name), ((*kind).to_owned(), value.to_owned()));
        }
    }
    series
}

/// Sorts the labels of a series, which have no commas or braces in their values.
fn sort_labels(name: &str) -> String {
    let Some((family, labels)) = name.split_once('{') else { return name.to_owned() };
    let mut labels: Vec<&str> = labels.trim_end_matches('}').split(',').collect();
    labels.sort_unstable();
    format!("{family}{{{}}}", labels.join(","))
}

/// Requests that change every statistic that the exporter reads: all commands with all results, items of several sizes,
/// expired items, and evictions.
fn send_traffic(client: &mut Client) {
    let value = vec![b'v'; 3_000];
    for number in 0..10_000 {
        client.set(&format!("key{number}"), &value[..100 + number % 4 * 900]);
    }
    let commands = [
        "get key9999",
        "get missing",
        "delete key9998",
        "delete missing",
        "incr missing 1",
        "decr missing 1",
        "touch key9997 100",
        "touch missing 100",
        "flush_all 100000",
    ];
    for command in commands {
        client.ask(command);
        // Read the rest of a hit.
        client.ask("mn");
    }
    client.set("number", b"7");
    client.ask("incr number 1");
    client.ask("decr number 1");
    for (command, data) in [("cas number 0 0 1 1", "x"), ("cas missing 0 0 1 1", "x")] {
        client.send(format!("{command}\r\n{data}\r\n").as_bytes());
        client.read_line();
    }
}

/// A running exporter, which is killed when this value is dropped.
struct Exporter {
    child: Child,
    address: SocketAddr,
}

impl Exporter {
    fn start(program: &str, server: SocketAddr) -> Exporter {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
        let address = port.expect("a port is free");
        let child = Command::new(program)
            .arg(format!("--memcached.address={server}"))
            .arg(format!("--web.listen-address={address}"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("MEMCACHED_EXPORTER={program}: {error}"));
        wait_until("the exporter listens", Duration::from_secs(40), || {
            TcpStream::connect(address).is_ok()
        });
        Exporter { child, address }
    }

    fn series(&self) -> Series {
        // A response to HTTP 1.0 has no chunks.
        let request = "GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n";
        let text = ask(connect(self.address), request).body;
        // The exporter's own build is not a series of the server.
        series(&text).into_iter().filter(|(name, _)| !name.contains("exporter_build")).collect()
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Replaces the value of a label by `N`.
fn without_value(name: &str, label: &str) -> String {
    let Some((before, rest)) = name.split_once(&format!("{label}=\"")) else {
        return name.to_owned();
    };
    let (_, after) = rest.split_once('"').expect("the value of a label ends with a quote");
    format!("{before}{label}=\"N\"{after}")
}

/// Returns the names and types of series, one per line, without the version of the server and the numbers of classes.
fn names(series: &Series) -> Vec<String> {
    let mut lines: Vec<String> = series
        .iter()
        .map(|(name, (kind, _))| {
            let name = without_value(&without_value(name, "slab"), "version");
            format!("{name} {kind}")
        })
        .collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

#[test]
fn every_series_of_the_exporter_is_a_metric_of_the_server() {
    // Without page moves and the tuner, nothing changes after the last request.
    let http = HttpServer::start(&["-m", "8"], "preset=memcached,no_slab_reassign");
    send_traffic(&mut http.server.connect());
    let recorded: Vec<String> = RECORDED.lines().map(str::to_owned).collect();
    let Ok(program) = std::env::var("MEMCACHED_EXPORTER") else {
        let ours = names(&series(&http.metrics()));
        assert_eq!(ours, recorded, "the metrics have the names, types and labels of the exporter");
        return println!("MEMCACHED_EXPORTER is not set: values are not compared");
    };
    let exporter = Exporter::start(&program, http.server.address());
    let expected = exporter.series();
    let ours = series(&http.metrics());
    let list = names(&expected);
    assert_eq!(list, recorded, "exporter.txt is the exporter's list:\n{}", list.join("\n"));
    let is_changing =
        |name: &str| CHANGING.iter().any(|it| name == *it || name.starts_with(&format!("{it}{{")));
    let number = |text: &str| text.parse::<f64>().expect("a value is a number");
    let mut wrong = Vec::new();
    for (name, (kind, value)) in &expected {
        match ours.get(name) {
            None => wrong.push(format!("{name} is missing")),
            Some((our_kind, ours)) => {
                if our_kind != kind {
                    wrong.push(format!("{name} is a {our_kind}, not a {kind}"));
                }
                if !is_changing(name) && number(ours) != number(value) {
                    wrong.push(format!("{name} is {ours}, not {value}"));
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    println!("{} series of the exporter are metrics of the server", expected.len());
}
