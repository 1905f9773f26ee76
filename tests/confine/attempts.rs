//! Operations that an attacker attempts after taking control of the server. The command `debugconfine` makes the server
//! attempt them.

use std::fs;

use rustix::process::Signal;

use super::logged_server::Setup;

/// The reply of a server to an operation that the first filter of system calls prevents.
const NOT_IMPLEMENTED: &str = "SERVER_ERROR Function not implemented (os error 38)";
/// The reply of a server to an access to a file that Landlock denies.
const DENIED: &str = "SERVER_ERROR Permission denied (os error 13)";

#[test]
fn a_server_that_is_not_confined_can_do_everything() {
    for options in ["no_drop_privileges", "drop_privileges,no_drop_privileges"] {
        let server = Setup::new(options).start(&[]);
        let file = server.setup.path_text("file");
        for operation in ["socket", "fork", "thread", "map_executable", "working_directory"] {
            assert_eq!(server.attempt(operation), "OK", "{operation}");
        }
        for operation in ["create", "read", "remove"] {
            assert_eq!(server.attempt(&format!("{operation} {file}")), "OK", "{operation}");
        }
        assert!(server.connect().ask("stats settings").starts_with("STAT "));
        assert!(!server.setup.log().contains("drop_privileges"));
    }
}

#[test]
fn a_forbidden_call_ends_the_server_with_a_message() {
    for (operation, call) in [
        ("execute", "execve"),
        ("socket", "socket"),
        ("trace", "ptrace"),
        ("map_executable", "mmap"),
    ] {
        let (signal, line) = Setup::confined().start(&[]).end_by(operation);
        assert_eq!(signal, Some(Signal::SYS.as_raw()), "{operation}");
        let message =
            format!("slabwise: the system call {call} is forbidden by -o drop_privileges");
        assert!(line.starts_with(&message), "{operation}: {line}");
    }
}

#[test]
fn the_creation_of_a_process_or_thread_ends_the_server() {
    // libc blocks all signals while it creates a process or a thread, so the server cannot write a message.
    for operation in ["fork", "thread"] {
        let (signal, _) = Setup::confined().start(&[]).end_by(operation);
        assert_eq!(signal, Some(Signal::SYS.as_raw()), "{operation}");
    }
}

#[test]
fn memcacheds_command_misbehave_ends_the_server() {
    let mut server = Setup::confined().start(&[]);
    server.connect().send(b"misbehave\r\n");
    assert_eq!(server.wait_for_signal(), Some(Signal::SYS.as_raw()));
}

#[test]
fn a_harmless_call_fails_and_the_server_continues() {
    let server = Setup::confined().start(&[]);
    for _ in 0..2 {
        assert_eq!(server.attempt("working_directory"), NOT_IMPLEMENTED);
    }
    assert_eq!(server.connect().set("key", b"value"), "STORED");
}

#[test]
fn a_server_without_files_can_access_no_file() {
    let server = Setup::confined().start(&[]);
    let (log, new) = (server.setup.path_text("log"), server.setup.path_text("new"));
    for operation in [format!("read {log}"), format!("create {new}"), format!("remove {log}")] {
        assert_eq!(server.attempt(&operation), NOT_IMPLEMENTED, "{operation}");
    }
    assert!(server.setup.log().contains("no file can be opened or changed"));
}

#[test]
fn a_server_can_access_its_files_only_as_it_needs() {
    let setup = Setup::confined();
    let folder = |name: &str| {
        fs::create_dir(setup.path(name)).expect("the folder is new");
        fs::write(setup.path(name).join("file"), "user:password\n")
            .expect("the folder is writable");
        setup.path_text(&format!("{name}/file"))
    };
    let [passwords, memory, other] = ["passwords", "memory", "other"].map(folder);
    fs::remove_file(&memory).expect("the file was just written");
    let server = setup.start(&["-Y", &passwords, "-e", &memory]);
    if server.setup.log().contains("the kernel lacks Landlock") {
        return println!("skipped: the kernel lacks Landlock");
    }
    let attempt = |operation: &str| {
        let mut client = server.connect();
        assert_eq!(client.set("login", b"user password"), "STORED");
        client.ask(&format!("debugconfine {operation}"))
    };
    for (operation, reply) in [
        (format!("read {passwords}"), "OK"),
        (format!("create {passwords}-new"), DENIED),
        (format!("remove {passwords}"), DENIED),
        (format!("create {memory}-new"), "OK"),
        (format!("read {memory}"), DENIED),
        (format!("remove {memory}-new"), "OK"),
        (format!("read {other}"), DENIED),
        (format!("create {other}-new"), DENIED),
        (format!("remove {other}"), DENIED),
        ("read /etc/passwd".to_owned(), DENIED),
    ] {
        assert_eq!(attempt(&operation), reply, "{operation}");
    }
}
