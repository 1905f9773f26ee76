//! Starts on a kernel that lacks a part of what `-o drop_privileges` needs. A filter of system calls, which the server
//! inherits from the test, makes the kernel appear so.

use nix::libc;

use super::logged_server::Setup;
use crate::support::Server;
use crate::support::refused_calls::{assert_refuses_to_start, with_refused_calls};

/// Calls `start` on a thread where this system call fails as on a kernel that does not have it.
fn without_call<T: Send>(call: libc::c_long, start: impl FnOnce() -> T + Send) -> T {
    with_refused_calls(&[call], libc::ENOSYS, start)
}

#[test]
fn a_server_without_filters_of_system_calls_does_not_start() {
    let setup = Setup::confined();
    let (command, ports) = (setup.command(&[]), setup.path("ports"));
    assert_refuses_to_start(&command, &ports, &[libc::SYS_seccomp], libc::ENOSYS);
    let log = setup.log();
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
    let server = without_call(libc::SYS_landlock_create_ruleset, || Server::start(&command));
    // The server is confined, and has logged the warning, when it replies.
    let mut client = server.connect();
    assert_eq!(client.set("login", b"user password"), "STORED");
    assert!(
        setup.log().contains("the kernel lacks Landlock, so the access to files is not limited")
    );
    assert_eq!(client.ask("debugconfine read /etc/passwd"), "OK");
}

#[test]
fn without_landlock_a_server_that_needs_no_files_can_access_none() {
    let setup = Setup::confined();
    let command = setup.command(&[]);
    let server = without_call(libc::SYS_landlock_create_ruleset, || Server::start(&command));
    assert!(server.connect().ask("debugconfine read /etc/passwd").starts_with("SERVER_ERROR "));
}
