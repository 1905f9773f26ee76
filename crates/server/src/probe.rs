//! `slabwise probe`: a health check from inside a container, which may have no HTTP client.
//!
//! The command asks the HTTP server of a slabwise (`-o http`) for `/readyz` or `/healthz`. Its exit code is 0 if the
//! server answers with status 200, and 1 otherwise.

use crate::config::EXIT_USAGE;
use crate::os::sockets;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// The time after which a server that does not answer counts as not healthy.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum length of the response that is read, in bytes.
const RESPONSE_LEN_MAX: u64 = 4096;

const HELP: &str = "\
Usage: slabwise probe [--live] ADDRESS

Asks a server whether it is ready, and exits with 0 if it is, and with 1 if not.
ADDRESS is the value of -o http: HOST:PORT, or the path of a Unix socket. The
address must not use TLS, as that of loopback or of a Unix socket.

  --live   ask only whether the server is alive: true also while it restores items
  --help   print this text
";

/// Runs the command.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let (mut path, mut address) = ("/readyz", None);
    for argument in args {
        match argument.to_str() {
            Some("--help" | "-h") => {
                print!("{HELP}");
                return ExitCode::SUCCESS;
            }
            Some("--live") => path = "/healthz",
            Some(text) if !text.starts_with('-') && address.is_none() => {
                address = Some(text.to_owned());
            }
            _ => return usage_error(&format!("unexpected argument {argument:?}")),
        }
    }
    let Some(address) = address else {
        return usage_error("the address of the server is missing");
    };
    match ask(&address, path) {
        Ok((200, _)) => ExitCode::SUCCESS,
        Ok((status, text)) => fail(&address, &format!("status {status}: {}", text.trim_end())),
        Err(error) => fail(&address, &error.to_string()),
    }
}

fn usage_error(reason: &str) -> ExitCode {
    eprintln!("slabwise probe: {reason}: see slabwise probe --help");
    ExitCode::from(EXIT_USAGE)
}

fn fail(address: &str, reason: &str) -> ExitCode {
    eprintln!("slabwise probe: {address}: {reason}");
    ExitCode::FAILURE
}

/// Sends a request, and returns the status and the body of the response.
fn ask(address: &str, path: &str) -> io::Result<(u16, String)> {
    let file = address.strip_prefix("unix:").or(address.starts_with('/').then_some(address));
    if let Some(file) = file {
        return exchange(UnixStream::from(sockets::connect_unix(Path::new(file), TIMEOUT)?), path);
    }
    // `:PORT` and `*:PORT` are addresses of all interfaces, loopback included.
    let address = match address.split_once(':') {
        Some(("" | "*", port)) => format!("127.0.0.1:{port}"),
        _ => address.to_owned(),
    };
    let stream = connect(&slabwise_names::resolve_address(&address)?)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    exchange(stream, path)
}

/// Connects to the first address of a host that accepts the connection: a server may listen on one of them only.
fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut refused = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect_timeout(address, TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

fn exchange(mut stream: impl Read + Write, path: &str) -> io::Result<(u16, String)> {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut bytes = Vec::new();
    stream.take(RESPONSE_LEN_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let no_http = || io::Error::new(io::ErrorKind::InvalidData, "the reply is not HTTP");
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(no_http)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or_else(no_http)?, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::connect;
    use std::net::TcpListener;

    #[test]
    fn a_refused_address_of_a_name_is_not_the_last_one() {
        let listen = || TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = |it: &TcpListener| it.local_addr().expect("the socket is bound");
        let (closed, open) = (listen(), listen());
        let addresses = [address(&closed), address(&open)];
        drop(closed);
        let stream = connect(&addresses).expect("the second address is open");
        assert_eq!(stream.peer_addr().expect("the socket is connected"), addresses[1]);
        assert!(connect(&addresses[..1]).is_err());
    }
}
