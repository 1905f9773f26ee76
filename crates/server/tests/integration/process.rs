//! Start and end of the server process.

use crate::support::{Server, as_user, directory, exit_of, wait_until};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn sigterm_and_sigint_end_the_server_cleanly() {
    for signal in [Signal::TERM, Signal::INT, Signal::USR1] {
        let directory = directory();
        let pid_file = directory.path().join("pid");
        let text = pid_file.to_str().expect("text").to_owned();
        let mut server =
            Server::start_with(directory, &["-p", "-1", "-l", "127.0.0.1", "-P", &text]);
        let mut client = server.connect();
        client.send("get nothing\r\n");
        client.expect("END\r\n");
        let id = std::fs::read_to_string(&pid_file).expect("the pid file exists");
        assert_eq!(id, format!("{}\n", server.id()));
        server.signal(Signal::HUP);
        client.send("get nothing\r\n");
        client.expect("END\r\n");
        server.signal(signal);
        assert!(server.wait().success(), "{signal:?}");
        assert!(!pid_file.exists(), "the pid file is removed after {signal:?}");
        assert_eq!(client.read_to_end(), b"", "the connection is closed");
    }
}

#[test]
fn the_shutdown_command_ends_the_server_cleanly() {
    let mut server = Server::start(&["-A"]);
    server.connect().send("shutdown\r\n");
    assert!(server.wait().success());
}

#[test]
fn a_port_in_use_is_refused() {
    let server = Server::start(&[]);
    let port = server.port().to_string();
    let directory = directory();
    assert!(!exit_of(&as_user(&["-p", &port, "-l", "127.0.0.1"]), &directory).success());
}

#[test]
fn the_pid_file_is_not_written_through_a_symbolic_link() {
    let directory = directory();
    let (pid_file, other) = (directory.path().join("pid"), directory.path().join("other"));
    std::fs::write(&other, "unchanged").expect("a file can be written");
    std::os::unix::fs::symlink(&other, directory.path().join("pid.tmp"))
        .expect("a link is created");
    let text = pid_file.to_str().expect("text").to_owned();
    let server = Server::start_with(directory, &["-p", "-1", "-l", "127.0.0.1", "-P", &text]);
    assert!(pid_file.exists());
    assert_eq!(std::fs::read_to_string(&other).expect("the file exists"), "unchanged");
    drop(server);
}

#[test]
fn a_daemon_writes_and_removes_its_pid_file() {
    let directory = directory();
    let pid_file = directory.path().join("pid");
    let text = pid_file.to_str().expect("text").to_owned();
    let args = as_user(&["-d", "-p", "-1", "-l", "127.0.0.1", "-P", &text]);
    assert!(exit_of(&args, &directory).success(), "the starter exits with 0");
    wait_until("the daemon writes its id", || pid_file.exists());
    let id = std::fs::read_to_string(&pid_file).expect("the pid file exists");
    let id = Pid::from_raw(id.trim().parse().expect("a number")).expect("an id");
    kill_process(id, Signal::TERM).expect("the daemon runs");
    wait_until("the daemon exits", || !pid_file.exists());
}

#[test]
fn locked_memory_is_allocated_only_when_used() {
    let server = Server::start(&["-k", "-m", "64"]);
    let mut client = server.connect();
    client.send("get nothing\r\n");
    client.expect("END\r\n");
    let resident = server.resident_bytes();
    assert!(resident < 32 << 20, "{resident} bytes");
}

#[test]
fn root_must_name_a_user() {
    if !slabwise_server::is_root() {
        return;
    }
    for args in [&["-p", "-1"][..], &["-p", "-1", "-u", "no-such-user"]] {
        assert!(!exit_of(args, &directory()).success(), "{args:?}");
    }
}
