//! A blocking connection that sends commands and reads the lines of their replies.
//!
//! A connection works with any type that implements `Read` and `Write`. With a [`Stream`], every call ends with a
//! reply, a timeout or another error.

use crate::address::ServerAddress;
use crate::error::{ClientError, ROWS_MAX};
use crate::input::Input;
use crate::rows::{Row, Rows};
use crate::stream::{Stream, Timeouts};
use std::io::{ErrorKind, Read, Write};

/// The maximum length of a line of a reply, in bytes. The longest lines have a percent-encoded key: a key of 250 bytes
/// becomes at most 750 bytes.
pub const LINE_LEN_MAX: usize = 4096;
/// The initial size of the buffer of received bytes.
const BUFFER_SIZE_BYTES: usize = 64 * 1024;

/// A connection and its buffer of received bytes.
#[derive(Debug)]
pub struct Connection<S = Stream> {
    stream: S,
    line_len_max: usize,
    input: Input,
    /// Number of lines read since the last request was sent.
    lines: u64,
}

impl Connection {
    /// Connects to `server` without TLS and authentication. A [`Connector`](crate::Connector) has both.
    pub fn open(server: &ServerAddress, timeouts: Timeouts) -> Result<Connection, ClientError> {
        Ok(Connection::over(Stream::connect(server, timeouts, None)?, LINE_LEN_MAX))
    }
}

impl<S: Read + Write> Connection<S> {
    /// Returns a connection that uses `stream`. If more than `line_len_max` bytes of a line have arrived without the
    /// line end, reading the line is an error.
    pub fn over(stream: S, line_len_max: usize) -> Connection<S> {
        Connection { stream, line_len_max, input: Input::new(BUFFER_SIZE_BYTES), lines: 0 }
    }

    /// Returns the stream that the connection uses.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Returns the number of lines read since the last request was sent.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Returns the received bytes that no call has read yet.
    pub fn received(&self) -> &[u8] {
        self.input.unread()
    }

    /// Marks the next `count` received bytes as read. Panics if fewer than `count` bytes are unread.
    pub fn consume(&mut self, count: usize) {
        self.input.consume(count);
    }

    /// Sends bytes, and resets the number of lines read to 0.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.lines = 0;
        self.stream.write_all(bytes)?;
        Ok(self.stream.flush()?)
    }

    /// Sends a command and a line end.
    pub fn send_line(&mut self, command: &str) -> Result<(), ClientError> {
        self.send(format!("{command}\r\n").as_bytes())
    }

    /// Reads the next line of the reply and returns it with its line end.
    pub fn line_with_end(&mut self) -> Result<&[u8], ClientError> {
        let mut searched = 0;
        let line_len = loop {
            let unread = self.input.unread();
            if let Some(at) = memchr::memchr(b'\n', &unread[searched..]) {
                break searched + at + 1;
            }
            searched = unread.len();
            if searched > self.line_len_max {
                return Err(ClientError::LineTooLong(unread[..self.line_len_max].to_vec()));
            }
            if self.receive()? == 0 {
                return Err(ClientError::Closed);
            }
        };
        self.lines += 1;
        Ok(self.input.consume(line_len))
    }

    /// Reads the next line of the reply and returns it without its line end.
    pub fn line(&mut self) -> Result<&[u8], ClientError> {
        self.line_with_end().map(|line| {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            line.strip_suffix(b"\r").unwrap_or(line)
        })
    }

    /// Sends a command whose reply is one line, and returns this line. The line may be an error reply of the server.
    pub fn ask_line(&mut self, command: &str) -> Result<String, ClientError> {
        self.send_line(command)?;
        let line = self.line()?.to_vec();
        String::from_utf8(line).map_err(|error| ClientError::Unexpected(error.into_bytes()))
    }

    /// Sends a `stats` command and returns the rows of its reply. Fails if the server refuses the command.
    pub fn ask_rows(&mut self, command: &str) -> Result<Rows, ClientError> {
        self.send_line(command)?;
        let mut rows = Vec::new();
        loop {
            let line = self.line()?;
            if line == b"END" {
                return Ok(Rows(rows));
            }
            if rows.is_empty() && is_refusal(line) {
                return Err(ClientError::Refused(line.to_vec()));
            }
            let row = Row::parse(line).ok_or_else(|| ClientError::Unexpected(line.to_vec()))?;
            rows.push(row);
            if rows.len() > ROWS_MAX {
                return Err(ClientError::TooManyRows);
            }
        }
    }

    /// Reads from the stream once and appends the bytes to the unread bytes. Returns the number of bytes read; 0 means
    /// that the stream has ended.
    pub fn receive(&mut self) -> Result<usize, ClientError> {
        self.input.make_room(self.input.unread().len() + 1);
        loop {
            match self.stream.read(self.input.room()) {
                Ok(count) => {
                    self.input.mark_received(count);
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// True if a line is an error reply of the server, such as `ERROR` or `BUSY`.
pub fn is_refusal(line: &[u8]) -> bool {
    const REFUSALS: [&[u8]; 4] = [b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR", b"BUSY"];
    REFUSALS.iter().any(|refusal| line.starts_with(refusal))
}
