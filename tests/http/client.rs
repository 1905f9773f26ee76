//! A server with HTTP, and a client that sends raw requests.

use crate::support::{Server, ServerCommand, built_slabwise, is_memcached, under_test, wait_until};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use tempfile::TempDir;

/// The time for which a client waits for a response before the test fails.
const DEADLINE: Duration = Duration::from_secs(40);

/// A server with HTTP on a free port.
pub struct HttpServer {
    pub server: Server,
    /// The address at which a client of this machine connects.
    pub address: SocketAddr,
    /// `http` or `https`, as the server logs it.
    pub scheme: String,
    /// The folder with the log.
    _folder: TempDir,
}

/// A response without the parts that no test reads.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    /// The lines of the head in lower case, without the status line.
    pub headers: Vec<String>,
    pub body: String,
}

/// Returns the command of the server under test, or of the slabwise that Cargo built if memcached is under test.
pub fn slabwise() -> ServerCommand {
    let command = under_test();
    if is_memcached(&command) { built_slabwise() } else { command }
}

impl HttpServer {
    /// Starts slabwise with HTTP on loopback, and with these flags and options of `-o`.
    pub fn start(flags: &[&str], options: &str) -> HttpServer {
        HttpServer::start_at("127.0.0.1", flags, options)
    }

    /// Starts slabwise with HTTP on a free port of this IP address, and with these flags and options of `-o`.
    pub fn start_at(ip: &str, flags: &[&str], options: &str) -> HttpServer {
        let folder = tempfile::tempdir().expect("a temporary folder can be created");
        let log = folder.path().join("log");
        let options = [&format!("http={ip}:0"), options].join(",");
        let command = slabwise().with(flags).with(&["-v", "-o", &options]);
        let server = Server::start(&command.logging_to(&log));
        let mut url = None;
        wait_until("the server logs the address of HTTP", DEADLINE, || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            let rest = text.split("http: listening on ").nth(1);
            let found = rest.and_then(|rest| rest.split_once("/\n")?.0.split_once("://"));
            url = found.map(|(scheme, address)| (scheme.to_owned(), address.to_owned()));
            url.is_some()
        });
        let (scheme, address) = url.expect("the log contains the address");
        let address: SocketAddr = address.parse().expect("the server logs an IP address");
        let address = SocketAddr::from(([127, 0, 0, 1], address.port()));
        HttpServer { server, address, scheme, _folder: folder }
    }

    /// Opens a connection.
    pub fn connect(&self) -> TcpStream {
        connect(self.address)
    }

    /// Sends a request for this path, and returns the response.
    pub fn get(&self, path: &str) -> Response {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
    }

    /// Sends the text of a request, and returns the response. The server closes the connection after it.
    pub fn ask(&self, request: &str) -> Response {
        ask(self.connect(), request)
    }

    /// Returns the metrics.
    pub fn metrics(&self) -> String {
        let response = self.get("/metrics");
        assert_eq!(response.status, 200, "{response:?}");
        response.body
    }
}

/// Opens a connection to this address.
pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address)
        .unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"));
    stream.set_read_timeout(Some(DEADLINE)).expect("40 seconds is a valid timeout");
    stream.set_write_timeout(Some(DEADLINE)).expect("40 seconds is a valid timeout");
    stream
}

/// Sends the text of a request, and reads up to the end of the connection. An error of sending is ignored, because the
/// server may refuse a request before it has read all of it.
pub fn ask(mut stream: impl Read + Write, request: &str) -> Response {
    let _ = stream.write_all(request.as_bytes());
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text:?}"));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
    Response {
        status: status.unwrap_or_else(|| panic!("no status: {text:?}")),
        headers: lines.map(str::to_ascii_lowercase).collect(),
        body: body.to_owned(),
    }
}
