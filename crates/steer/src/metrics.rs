//! An HTTP server that answers `GET /metrics`.
//!
//! Invariants: one connection at a time; a client that sends nothing holds it for `CLIENT_TIME_MAX` at most, twice; at
//! most [`REQUEST_LEN_MAX`] bytes of a request are read.

use crate::error::SteerError;
use slabwise_base::Clock;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The maximum length of a request, in bytes.
pub const REQUEST_LEN_MAX: usize = 8 << 10;
/// The longest time for reading a request, and for writing a response.
const CLIENT_TIME_MAX: Duration = Duration::from_secs(1);

/// The text that the HTTP server returns.
#[derive(Clone, Debug, Default)]
pub struct Shown(Arc<Mutex<String>>);

impl Shown {
    /// Replaces the text.
    pub fn replace(&self, text: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// More bytes are needed.
    Incomplete,
    /// The metrics.
    Metrics,
    /// Another path.
    NotFound,
    /// Another method, or no HTTP.
    Invalid,
}

/// Parses the bytes that a client has sent so far.
pub fn parse(bytes: &[u8]) -> Request {
    let has_end =
        bytes.windows(4).any(|it| it == b"\r\n\r\n") || bytes.windows(2).any(|it| it == b"\n\n");
    if !has_end {
        return if bytes.len() < REQUEST_LEN_MAX { Request::Incomplete } else { Request::Invalid };
    }
    let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(u8::is_ascii_whitespace);
    match (words.next(), words.next()) {
        (Some(b"GET"), Some(b"/metrics")) => Request::Metrics,
        (Some(b"GET"), Some(_)) => Request::NotFound,
        _ => Request::Invalid,
    }
}

/// Starts the HTTP server in a thread of its own, which ends with the process. Returns the address that it listens on.
pub fn start(address: &str, shown: Shown) -> Result<SocketAddr, SteerError> {
    let failed = |error| SteerError::Metrics { address: address.to_owned(), error };
    let listener = TcpListener::bind(address).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    let run = move || {
        for stream in listener.incoming().flatten() {
            // A client that has gone is of no interest.
            let _ = answer(stream, &shown);
        }
    };
    std::thread::Builder::new().name("metrics".to_owned()).spawn(run).map_err(failed)?;
    Ok(bound)
}

fn answer(mut stream: TcpStream, shown: &Shown) -> std::io::Result<()> {
    stream.set_write_timeout(Some(CLIENT_TIME_MAX))?;
    let clock = Clock::real();
    let mut bytes = vec![0; REQUEST_LEN_MAX];
    let mut len = 0;
    let request = loop {
        let elapsed = Duration::from_nanos(clock.nanos());
        let left = CLIENT_TIME_MAX.saturating_sub(elapsed);
        if left.is_zero() {
            return Ok(());
        }
        stream.set_read_timeout(Some(left))?;
        let count = stream.read(&mut bytes[len..])?;
        len += count;
        match parse(&bytes[..len]) {
            Request::Incomplete if count > 0 => {}
            request => break request,
        }
    };
    let (status, body) = match request {
        Request::Metrics => ("200 OK", shown.text()),
        Request::NotFound => ("404 Not Found", "the path is /metrics\n".to_owned()),
        Request::Incomplete | Request::Invalid => {
            ("400 Bad Request", "send GET /metrics\n".to_owned())
        }
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::{REQUEST_LEN_MAX, Request, Shown, parse, start};
    use std::io::{Read, Write};
    use std::net::TcpStream;

    #[test]
    fn only_get_of_the_path_is_answered() {
        let cases: [(&[u8], Request); 6] = [
            (b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", Request::Metrics),
            (b"GET /metrics\n\n", Request::Metrics),
            (b"GET / HTTP/1.1\r\n\r\n", Request::NotFound),
            (b"POST /metrics HTTP/1.1\r\n\r\n", Request::Invalid),
            (b"\r\n\r\n", Request::Invalid),
            (b"GET /metrics HTTP/1.1\r\n", Request::Incomplete),
        ];
        for (bytes, expected) in cases {
            assert_eq!(parse(bytes), expected, "{}", bytes.escape_ascii());
        }
        assert_eq!(parse(&vec![b'x'; REQUEST_LEN_MAX]), Request::Invalid);
    }

    #[test]
    fn a_client_receives_the_text() {
        let shown = Shown::default();
        shown.replace("figures 1\n".to_owned());
        let address = start("127.0.0.1:0", shown).expect("a port is free");
        let mut stream = TcpStream::connect(address).expect("the server listens");
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("the server reads");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("the server answers");
        assert!(
            response.starts_with("HTTP/1.1 200 OK") && response.ends_with("figures 1\n"),
            "{response}"
        );
    }
}
