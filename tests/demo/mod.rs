//! `slabwise demo` as a user runs it: the demo prints its report, and its server stops when the demo ends.

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// Starts a demo that makes this number of requests, at this rate per second.
fn demo(requests: &str, rate: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slabwise"));
    command.args(["demo", "-m", "8", "--requests", requests, "--rate", rate]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the demo starts")
}

/// Returns the server's address from the first line of output.
fn address(line: &str) -> &str {
    let (_, rest) = line
        .split_once(" at ")
        .unwrap_or_else(|| panic!("the first line contains the server's address: {line}"));
    rest.split(',').next().unwrap_or(rest)
}

#[test]
fn the_demo_prints_miss_ratios_of_memcached_and_slabwise_until_its_end() {
    let done = demo("20000", "1000000").wait_with_output().expect("the demo ends");
    let (text, errors) =
        (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{errors}");
    let reports = text.lines().filter(|line| line.contains("memcached 0.")).count();
    assert!(reports > 1, "{text}");
    assert!(text.contains("miss ratio  0."), "{text}");
    assert!(text.contains("\ndashboard: http://127.0.0.1:"), "{text}");
    assert!(text.trim_end().lines().last().is_some_and(|line| line.contains("missed")), "{text}");
}

#[test]
fn sigterm_stops_the_demo_and_its_server() {
    let mut demo = demo("1000000", "1000");
    let mut lines = BufReader::new(demo.stdout.take().expect("stdout is piped"));
    let mut line = String::new();
    lines.read_line(&mut line).expect("the first line names the server's address");
    let server = address(&line);
    assert!(
        TcpStream::connect(server).is_ok(),
        "the demo's server accepts connections at {server}"
    );
    let mut line = String::new();
    lines.read_line(&mut line).expect("the second line names the dashboard's address");
    let dashboard = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
    let dashboard = dashboard.unwrap_or_else(|| panic!("the line has an address: {line}"));
    assert!(TcpStream::connect(dashboard).is_ok(), "the dashboard is at {dashboard}");
    let pid = Pid::from_child(&demo);
    kill_process(pid, Signal::TERM).expect("the demo is running");
    let mut errors = String::new();
    demo.stderr
        .take()
        .expect("stderr is piped")
        .read_to_string(&mut errors)
        .expect("the error text is UTF-8");
    assert!(!demo.wait().expect("the demo ends").success());
    assert!(errors.contains("stopped by a signal"), "{errors}");
    assert!(TcpStream::connect(server).is_err(), "the server stops when the demo ends");
}
