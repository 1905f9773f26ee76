//! Clients that try to disturb the server by HTTP.

use super::client::HttpServer;
use crate::support::{Deadline, wait_until};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A time in which the server answers a request although other clients are slow.
const SOON: Duration = Duration::from_secs(10);

#[test]
fn bad_requests_get_clean_refusals() {
    let http = HttpServer::start(&[], "http_hosts=cache.example;other.example");
    let ask = |line: &str, host: &str| {
        http.ask(&format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).status
    };
    for host in ["localhost", "LOCALHOST:80", "127.0.0.1:9150", "[::1]:9150", "cache.example:1"] {
        assert_eq!(ask("GET /metrics", host), 200, "{host}");
    }
    for host in ["evil.example", "localhost.evil.example", "cache.example.evil.example", ""] {
        assert_eq!(ask("GET /metrics", host), 421, "{host}");
    }
    for line in ["POST /metrics", "PUT /healthz", "DELETE /", "OPTIONS /", "PATCH /api/v1/overview"]
    {
        assert_eq!(ask(line, "localhost"), 405, "{line}");
    }
    for line in
        ["GET /unknown", "GET /metrics/", "GET /../etc/passwd", "GET /%2e%2e/", "GET /api/v2"]
    {
        assert_eq!(ask(line, "localhost"), 404, "{line}");
    }
    let head = http.ask("HEAD /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!((head.status, head.body.as_str()), (200, ""), "HEAD has no body");
    let no_host = http.ask("GET /metrics HTTP/1.0\r\n\r\n");
    assert_eq!(no_host.status, 421, "{no_host:?}");
}

#[test]
fn large_headers_are_refused_and_the_server_keeps_serving() {
    let http = HttpServer::start(&["-m", "16"], "");
    let before = http.server.resident_bytes();
    let filler = format!("X-Filler: {}\r\n", "x".repeat(10 << 20));
    let request = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{filler}\r\n");
    let mut stream = http.connect();
    // The server closes the connection before it has read everything, so sending fails.
    let _ = stream.write_all(request.as_bytes());
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply);
    let reply = String::from_utf8_lossy(&reply);
    assert!(reply.is_empty() || reply.starts_with("HTTP/1.1 431 "), "{reply}");
    let many = "X-A: b\r\n".repeat(1_000);
    let response = http.ask(&format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{many}\r\n"));
    assert_eq!(response.status, 431, "{response:?}");
    assert_eq!(http.get("/healthz").status, 200);
    let added = http.server.resident_bytes().saturating_sub(before);
    assert!(added < 4 << 20, "10 MB of headers take {added} bytes");
}

#[test]
fn a_thousand_slow_clients_disturb_neither_other_clients_nor_the_cache() {
    let http = HttpServer::start(&["-m", "16"], "");
    let before = http.server.resident_bytes();
    let mut client = http.server.connect();
    let slow: Vec<TcpStream> = (0..1_000)
        .map(|number| {
            let mut stream = http.connect();
            let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: local");
            if number % 100 == 0 {
                assert_eq!(client.set(&format!("key{number}"), b"value"), "STORED");
            }
            stream
        })
        .collect();
    let deadline = Deadline::after(SOON);
    assert_eq!(http.get("/metrics").status, 200);
    assert!(!deadline.is_over(), "a scrape is answered within {SOON:?}");
    let added = http.server.resident_bytes().saturating_sub(before);
    assert!(added < 16 << 20, "1,000 slow clients take {added} bytes");
    // The server closes each of them, at the latest when the time for its headers is over.
    wait_until("the server closes the slow clients", Duration::from_secs(40), || {
        slow.iter().all(is_closed)
    });
    assert_eq!(client.set("key", b"value"), "STORED");
}

#[test]
fn a_client_that_does_not_read_its_response_is_closed() {
    let http = HttpServer::start(&["-m", "16"], "");
    let mut stream = http.connect();
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100);
    let before = http.server.resident_bytes();
    let _ = stream.write_all(request.as_bytes());
    for _ in 0..50 {
        assert_eq!(http.get("/healthz").status, 200);
    }
    let added = http.server.resident_bytes().saturating_sub(before);
    assert!(added < 4 << 20, "100 responses that no one reads take {added} bytes");
    // The client does not read, so only a write shows that the connection has ended.
    wait_until("the server closes the connection", Duration::from_secs(90), || {
        stream.write_all(request.as_bytes()).is_err_and(|error| !is_timeout(&error))
    });
}

/// Returns true if the server has closed the connection. Reads what it has sent before.
fn is_closed(mut stream: &TcpStream) -> bool {
    match stream.read(&mut [0; 1024]) {
        Ok(count) => count == 0,
        Err(error) => !is_timeout(&error),
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
