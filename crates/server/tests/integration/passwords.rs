//! ASCII authentication (`-Y`) over a socket: start, authentication, and reload of the password file.

use crate::support::{Client, Server, as_user, directory, exit_of, wait_until};
use rustix::process::Signal;
use std::net::TcpStream;

/// Returns a server whose password file has this text, and the file's path.
fn start(text: &str) -> (Server, std::path::PathBuf) {
    let directory = directory();
    let file = directory.path().join("passwords");
    std::fs::write(&file, text).expect("a file");
    let path = file.display().to_string();
    let args = ["-p", "-1", "-l", "127.0.0.1", "-o", "idle_timeout=1", "-Y", &path];
    (Server::start_with(directory, &args), file)
}

fn authenticate(client: &mut Client<TcpStream>, token: &str) -> String {
    client.send(format!("set login 0 0 {}\r\n{token}\r\n", token.len()));
    client.read_line()
}

fn is_accepted(server: &Server, token: &str) -> bool {
    match authenticate(&mut server.connect(), token).as_str() {
        "STORED\r\n" => true,
        "CLIENT_ERROR authentication failure\r\n" => false,
        other => panic!("{token}: {other}"),
    }
}

#[test]
fn only_authenticated_clients_are_served() {
    let (server, file) = start("ana:letmein\n");
    let mut stranger = server.connect();
    stranger.ask("get a\r\n", "CLIENT_ERROR unauthenticated\r\n");
    let mut ana = server.connect();
    assert_eq!(authenticate(&mut ana, "ana letmein"), "STORED\r\n");
    ana.ask("set a 0 0 1\r\n1\r\n", "STORED\r\n");
    ana.ask("get a\r\n", "VALUE a 0 1\r\n1\r\nEND\r\n");
    stranger.ask("mg a v\r\n", "CLIENT_ERROR unauthenticated\r\n");
    assert!(authenticate(&mut stranger, "ana letmei").contains("authentication failure"));
    stranger.ask("get a\r\n", "CLIENT_ERROR unauthenticated\r\n");
    assert_eq!(ana.stat("stats", "auth_cmds"), "2");
    assert_eq!(ana.stat("stats", "auth_errors"), "1");
    let path = file.display().to_string();
    assert_eq!(ana.stat("stats settings", "auth_enabled_ascii"), path);
    assert_eq!(ana.stat("stats settings", "binding_protocol"), "ascii");
}

#[test]
fn unauthenticated_clients_use_little_memory_and_time_out() {
    let (server, _) = start("ana:letmein\n");
    let before = server.resident_bytes();
    let mut strangers: Vec<_> = (0..200).map(|_| server.connect()).collect();
    for stranger in &mut strangers {
        stranger.ask("set a 0 0 1000000\r\n", "CLIENT_ERROR auth token too long\r\n");
        stranger.send(format!("set a 0 0 16384\r\n{}", "x".repeat(10_000)));
    }
    // An incomplete authentication request does not prevent the idle timeout.
    for stranger in &mut strangers {
        assert_eq!(stranger.read_to_end(), b"");
    }
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes more");
}

#[test]
fn sighup_reloads_the_password_file_and_ignores_an_invalid_one() {
    let (server, file) = start("ana:old\n");
    let mut ana = server.connect();
    assert_eq!(authenticate(&mut ana, "ana old"), "STORED\r\n");
    std::fs::write(&file, "ana:new\nbob:1").expect("a file");
    assert!(!is_accepted(&server, "ana new"), "the file was reloaded without a signal");
    server.signal(Signal::HUP);
    wait_until("the new password is accepted", || is_accepted(&server, "ana new"));
    assert!(is_accepted(&server, "bob 1") && !is_accepted(&server, "ana old"));
    ana.ask("get a\r\n", "END\r\n");
    for bad in ["", "nonsense\n"] {
        std::fs::write(&file, bad).expect("a file");
        server.signal(Signal::HUP);
        assert!(is_accepted(&server, "ana new"));
    }
    std::fs::write(&file, "ana:newest\n").expect("a file");
    server.signal(Signal::HUP);
    wait_until("the newest password is accepted", || is_accepted(&server, "ana newest"));
    assert!(!is_accepted(&server, "ana new"));
}

#[test]
fn an_invalid_password_file_stops_the_start() {
    let directory = directory();
    let file = directory.path().join("passwords");
    let path = file.display().to_string();
    let long = "a:".to_owned() + &"x".repeat(300);
    for text in [None, Some(""), Some("nonsense\n"), Some(long.as_str())] {
        if let Some(text) = text {
            std::fs::write(&file, text).expect("a file");
        }
        let args = as_user(&["-p", "-1", "-l", "127.0.0.1", "-Y", &path]);
        assert!(!exit_of(&args, &directory).success(), "a server with {text:?}");
    }
}
