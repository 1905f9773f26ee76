//! A client over any stream. It sends raw bytes and compares the replies with the expected ones.

#![allow(dead_code, reason = "each test binary uses only some of these methods")]

use std::io::{Read, Write};

/// One end of a connection. Its reads have a deadline.
pub struct Client<S> {
    pub stream: S,
}

impl<S: Read + Write> Client<S> {
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("the server reads");
        self.stream.flush().expect("the server reads");
    }

    /// Reads as many bytes as are expected and compares them.
    pub fn expect(&mut self, expected: impl AsRef<[u8]>) {
        let expected = expected.as_ref();
        let mut got = vec![0; expected.len()];
        self.stream.read_exact(&mut got).expect("the server answers");
        let beginning = &got[..got.len().min(1000)];
        assert!(got == expected, "got {} bytes: {}", got.len(), beginning.escape_ascii());
    }

    /// Sends a request and compares its reply.
    pub fn ask(&mut self, request: impl AsRef<[u8]>, reply: impl AsRef<[u8]>) {
        self.send(request);
        self.expect(reply);
    }

    /// Reads one line with its line end.
    pub fn read_line(&mut self) -> String {
        self.read_through(b"\r\n")
    }

    /// Reads a reply up to and including its `END` line.
    pub fn read_until_end(&mut self) -> String {
        self.read_through(b"END\r\n")
    }

    fn read_through(&mut self, end: &[u8]) -> String {
        let mut text = Vec::new();
        let mut byte = [0];
        while !text.ends_with(end) {
            self.stream.read_exact(&mut byte).expect("the server answers");
            text.push(byte[0]);
        }
        String::from_utf8(text).expect("the reply is UTF-8")
    }

    /// Returns the value of one line of a `stats` command.
    pub fn stat(&mut self, command: &str, name: &str) -> String {
        self.send(format!("{command}\r\n"));
        let text = self.read_until_end();
        let prefix = format!("STAT {name} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
    }

    /// Reads until the connection ends or is reset.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // Bytes received before a reset are kept.
        let _ = self.stream.read_to_end(&mut bytes);
        bytes
    }
}
