//! Health checks, and the addresses at which the server listens.

use super::client::{HttpServer, ask, slabwise};
use crate::support::Server;
use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::process::Command;

#[test]
fn health_checks_are_answered_without_a_token_and_the_rest_needs_it() {
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let token_file = folder.path().join("token");
    fs::write(&token_file, "a-token-of-28-bytes-in-a-file\n").expect("the folder is writable");
    let http = HttpServer::start(&[], &format!("http_token_file={}", token_file.display()));
    for path in ["/healthz", "/readyz"] {
        let response = http.get(path);
        assert_eq!(response.status, 200, "{path}: {response:?}");
    }
    let with = |token: &str| {
        http.ask(&format!(
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\nConnection: close\r\n\r\n"
        ))
    };
    let refused = http.get("/metrics");
    assert_eq!(refused.status, 401, "{refused:?}");
    assert!(refused.headers.contains(&"www-authenticate: bearer".to_owned()), "{refused:?}");
    assert_eq!(with("Bearer a-token-of-28-bytes-in-a-fil").status, 401);
    assert_eq!(with("Basic a-token-of-28-bytes-in-a-file").status, 401);
    assert_eq!(with("Bearer a-token-of-28-bytes-in-a-file").status, 200);
    assert_eq!(http.get("/unknown").status, 401, "a client without the token learns no paths");
}

#[test]
fn the_server_listens_on_a_unix_socket_and_removes_it() {
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let path = folder.path().join("http.sock");
    let options = format!("http={}", path.display());
    let mut server = Server::start(&slabwise().with(&["-o", &options]));
    let stream = UnixStream::connect(&path).expect("the server listens on the socket");
    // Web browsers cannot connect to a Unix socket, so any host name is accepted.
    let request = "GET /metrics HTTP/1.1\r\nHost: any.example\r\nConnection: close\r\n\r\n";
    let response = ask(stream, request);
    assert_eq!(response.status, 200, "{response:?}");
    let socket = path.to_str().expect("the path is UTF-8");
    assert_eq!(probe(&[socket]), Some(0));
    let second = Server::start(&slabwise().with(&["-o", &options]));
    drop(second);
    assert_eq!(probe(&[socket]), Some(0), "a second server does not take the socket");
    server.terminate();
    assert_eq!(server.wait_for_end(), Some(0));
    assert!(!path.exists(), "the server has removed its socket");
    assert_eq!(probe(&[socket]), Some(1));
}

#[test]
fn a_busy_address_causes_a_warning_and_the_cache_serves() {
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let log = folder.path().join("log");
    let busy = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = busy.local_addr().expect("the listener has an address");
    let options = format!("http={address}");
    let server = Server::start(&slabwise().with(&["-o", &options]).logging_to(&log));
    assert_eq!(server.connect().set("key", b"value"), "STORED");
    let text = fs::read_to_string(log).expect("the log exists");
    assert!(text.contains("Address already in use") && text.contains("without HTTP"), "{text}");
}

#[test]
fn beyond_loopback_the_server_requires_tls_and_a_token() {
    let start = |options: &str| {
        let output = Command::new(slabwise().program())
            .args(["-u", "root", "-l", "127.0.0.1", "-p", "-1", "-o", options])
            .output()
            .expect("the server can be started");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = start("http=0.0.0.0:0");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("needs TLS (-Z) and a token (-o http_token_file)"), "{text}");
    let (code, text) = start("http=127.0.0.1:0,http_token_file=/nonexistent/token");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("http_token_file=/nonexistent/token"), "{text}");
}

/// Runs `slabwise probe` with these arguments, and returns its exit code.
fn probe(arguments: &[&str]) -> Option<i32> {
    let mut command = Command::new(slabwise().program());
    let output = command.arg("probe").args(arguments).output().expect("slabwise can be run");
    output.status.code()
}

#[test]
fn the_exit_code_of_a_probe_says_whether_the_server_is_ready() {
    let http = HttpServer::start(&[], "");
    let address = http.address.to_string();
    assert_eq!(probe(&[&address]), Some(0));
    assert_eq!(probe(&["--live", &address]), Some(0));
    assert_eq!(probe(&["--help"]), Some(0));
    assert_eq!(probe(&[]), Some(64));
    assert_eq!(probe(&["--unknown", &address]), Some(64));
    let cache = http.server.address().to_string();
    assert_eq!(probe(&[&cache]), Some(1), "the port of the cache does not speak HTTP");
    let free = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let closed = free.local_addr().expect("the listener has an address").to_string();
    drop(free);
    assert_eq!(probe(&[&closed]), Some(1));
}

#[test]
fn a_confined_server_serves_http_on_both_kinds_of_sockets() {
    let http = HttpServer::start(&[], "drop_privileges");
    for path in ["/metrics", "/api/v1/overview", "/api/v1/memory", "/"] {
        assert_eq!(http.get(path).status, 200, "{path}");
    }
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let path = folder.path().join("http.sock");
    let options = format!("http={},drop_privileges", path.display());
    let mut server = Server::start(&slabwise().with(&["-o", &options]));
    let socket = path.to_str().expect("the path is UTF-8");
    assert_eq!(probe(&[socket]), Some(0));
    server.terminate();
    assert_eq!(server.wait_for_end(), Some(0));
    assert!(!path.exists(), "the server has removed its socket");
}
