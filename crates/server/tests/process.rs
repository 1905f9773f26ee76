//! How the process starts and ends.

mod support;

use rustix::process::Signal;
use support::{Directory, Server, as_user, spawn, wait_child};

#[test]
fn serves_when_it_is_the_child() {
    support::run_as_child();
}

#[test]
fn sigterm_and_sigint_end_it_cleanly() {
    for signal in [Signal::TERM, Signal::INT, Signal::USR1] {
        let directory = Directory::new();
        let pid_file = directory.file("pid");
        let text = pid_file.to_str().expect("text").to_owned();
        let mut server =
            Server::start_with(directory, &["-p", "-1", "-l", "127.0.0.1", "-P", &text]);
        let mut client = server.connect();
        client.send("get nothing\r\n");
        client.expect("END\r\n");
        let id = std::fs::read_to_string(&pid_file).expect("the pid file is there");
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
fn the_shutdown_command_ends_it_cleanly() {
    let mut server = Server::start(&["-A"]);
    server.connect().send("shutdown\r\n");
    assert!(server.wait().success());
}

#[test]
fn a_port_in_use_is_refused() {
    let server = Server::start(&[]);
    let port = server.port().to_string();
    let directory = Directory::new();
    let mut second = spawn(&as_user(&["-p", &port, "-l", "127.0.0.1"]), &directory);
    assert!(!wait_child(&mut second).success());
}

#[test]
fn root_must_name_a_user() {
    if !slabwise_server::sys::is_root() {
        return;
    }
    for args in [&["-p", "-1"][..], &["-p", "-1", "-u", "no-such-user"]] {
        assert!(!wait_child(&mut spawn(args, &Directory::new())).success(), "{args:?}");
    }
}
