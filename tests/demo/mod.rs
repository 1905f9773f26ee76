//! `slabwise demo` as a user runs it: what it shows, and that its server goes when it goes.

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// A demo of so many requests, at so many a second.
fn demo(requests: &str, rate: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slabwise"));
    command.args(["demo", "-m", "8", "--requests", requests, "--rate", rate]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it starts")
}

/// The address that its first line tells.
fn address(line: &str) -> &str {
    let (_, rest) = line.split_once(" at ").unwrap_or_else(|| panic!("no address: {line}"));
    rest.split(',').next().unwrap_or(rest)
}

#[test]
fn both_sides_are_shown_to_the_end() {
    let done = demo("20000", "1000000").wait_with_output().expect("it ends");
    let (text, said) =
        (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{said}");
    let looks = text.lines().filter(|line| line.contains("memcached 0.")).count();
    assert!(looks > 1, "{text}");
    assert!(text.contains("miss ratio  0."), "{text}");
    assert!(text.trim_end().lines().last().is_some_and(|line| line.contains("missed")), "{text}");
}

#[test]
fn a_demo_that_is_told_to_end_stops_its_server() {
    let mut demo = demo("1000000", "1000");
    let mut lines = BufReader::new(demo.stdout.take().expect("piped"));
    let mut line = String::new();
    lines.read_line(&mut line).expect("it says where its server is");
    let server = address(&line);
    assert!(TcpStream::connect(server).is_ok(), "no server at {server}");
    let pid = Pid::from_child(&demo);
    kill_process(pid, Signal::TERM).expect("it runs");
    let mut said = String::new();
    demo.stderr.take().expect("piped").read_to_string(&mut said).expect("it says why");
    assert!(!demo.wait().expect("it ends").success());
    assert!(said.contains("stopped by a signal"), "{said}");
    assert!(TcpStream::connect(server).is_err(), "its server outlived it");
}
