//! Starts on a kernel that lacks a part of what `-o drop_privileges` needs. A filter of system calls, which the server
//! inherits from the test, makes the kernel appear so.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use slabwise_client::process::{ServerCommand, wait};

use super::logged_server::Setup;
use crate::support::Server;

/// Calls `start` on a thread where these system calls fail as on a kernel that does not have them.
fn without_calls<T: Send>(calls: &[libc::c_long], start: impl FnOnce() -> T + Send) -> T {
    let rules: BTreeMap<i64, _> = calls.iter().map(|&call| (call, vec![])).collect();
    let missing = SeccompAction::Errno(libc::ENOSYS as u32);
    let architecture = std::env::consts::ARCH.try_into().expect("seccompiler knows this machine");
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, missing, architecture);
    let program: BpfProgram = filter.and_then(TryInto::try_into).expect("the rules are valid");
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            apply_filter(&program).expect("the kernel filters system calls");
            start()
        });
        thread.join().expect("the server can be started")
    })
}

/// Returns the log of a server that refuses to start because these system calls fail.
fn refusal(setup: &Setup, command: &ServerCommand, calls: &[libc::c_long]) -> String {
    let child = without_calls(calls, || command.spawn(&setup.path("ports")));
    let mut child = child.expect("the process can be started");
    assert!(!wait(&mut child).expect("the server ends before the deadline").success());
    setup.log()
}

#[test]
fn a_server_without_filters_of_system_calls_does_not_start() {
    let setup = Setup::confined();
    let log = refusal(&setup, &setup.command(&[]), &[libc::SYS_seccomp]);
    let line = log.lines().last().unwrap_or_default();
    assert!(
        line.starts_with("slabwise: -o drop_privileges: the system refuses to filter"),
        "{log}"
    );
    assert!(line.ends_with("or leave drop_privileges out"), "{log}");
}

#[test]
fn a_server_without_landlock_starts_with_a_warning() {
    let setup = Setup::confined();
    let passwords = setup.path_text("passwords");
    std::fs::write(&passwords, "user:password\n").expect("the directory is writable");
    let command = setup.command(&["-Y", &passwords]);
    let server = without_calls(&[libc::SYS_landlock_create_ruleset], || Server::start(&command));
    assert!(
        setup.log().contains("the kernel lacks Landlock, so the access to files is not limited")
    );
    let mut client = server.connect();
    assert_eq!(client.set("login", b"user password"), "STORED");
    assert_eq!(client.ask("debugconfine read /etc/passwd"), "OK");
}

#[test]
fn without_landlock_a_server_that_needs_no_files_can_access_none() {
    let setup = Setup::confined();
    let command = setup.command(&[]);
    let server = without_calls(&[libc::SYS_landlock_create_ruleset], || Server::start(&command));
    assert!(server.connect().ask("debugconfine read /etc/passwd").starts_with("SERVER_ERROR "));
}
