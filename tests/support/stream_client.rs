//! A client over any stream, such as TLS. It sends raw bytes, and compares the replies with the expected replies.

#![allow(dead_code, reason = "each test binary uses only some of these methods")]

use std::io::{Read, Write};

/// The client's end of a connection. The caller has set a deadline for reads on the stream.
pub struct Client<S> {
    pub stream: S,
}

impl<S: Read + Write> Client<S> {
    /// Sends all bytes.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream
            .write_all(bytes.as_ref())
            .expect("the server keeps the connection open and reads the request");
        self.stream.flush().expect("the server keeps the connection open and reads the request");
    }

    /// Reads the length of the expected bytes, and panics if other bytes arrive.
    pub fn expect(&mut self, expected: impl AsRef<[u8]>) {
        let expected = expected.as_ref();
        let mut got = vec![0; expected.len()];
        self.stream
            .read_exact(&mut got)
            .expect("the server sends the whole reply before the deadline");
        let beginning = &got[..got.len().min(1000)];
        assert!(
            got == expected,
            "the reply differs from the expected one; its {} bytes begin with: {}",
            got.len(),
            beginning.escape_ascii()
        );
    }

    /// Sends a request, and compares the reply with the expected reply.
    pub fn ask(&mut self, request: impl AsRef<[u8]>, reply: impl AsRef<[u8]>) {
        self.send(request);
        self.expect(reply);
    }

    /// Returns the next line, with its line end.
    pub fn read_line(&mut self) -> String {
        self.read_through(b"\r\n")
    }

    /// Returns the reply up to the line `END`, including that line.
    pub fn read_until_end(&mut self) -> String {
        self.read_through(b"END\r\n")
    }

    /// Returns the bytes up to `end`, including `end`.
    fn read_through(&mut self, end: &[u8]) -> String {
        let mut text = Vec::new();
        let mut byte = [0];
        while !text.ends_with(end) {
            self.stream
                .read_exact(&mut byte)
                .expect("the server sends the whole reply before the deadline");
            text.push(byte[0]);
        }
        String::from_utf8(text).expect("the reply is UTF-8")
    }

    /// Returns the value of one statistic in the reply to a command such as `stats slabs`.
    pub fn stat(&mut self, command: &str, name: &str) -> String {
        self.send(format!("{command}\r\n"));
        let text = self.read_until_end();
        let prefix = format!("STAT {name} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
        line.unwrap_or_else(|| panic!("the reply to `{command}` has no statistic {name}: {text}"))
            .to_owned()
    }

    /// Reads until the connection ends or is reset.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // A reset returns an error, but the bytes that were received before it are in the buffer.
        let _ = self.stream.read_to_end(&mut bytes);
        bytes
    }
}
