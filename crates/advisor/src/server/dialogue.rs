//! One connection: a command goes out, lines come back, and whatever the server does, the dialogue ends.
//!
//! Laws: no wait for bytes is longer than [`Limits::read_timeout`], no reply is followed longer than
//! [`Limits::reply_timeout`], no line has more than [`LINE_LEN_MAX`] bytes, no reply of rows more than
//! [`ROWS_MAX`]; what breaks one is an error that names the server, the command and what came.

use super::address::{ServerAddress, Stream};
use crate::error::{AdvisorError, shown};
use slabwise_base::Clock;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::time::Duration;

/// The longest line that any reply has: a key of 250 bytes, each told as three, and its numbers, many times over.
pub const LINE_LEN_MAX: usize = 4096;
/// The most rows of one `stats`: more than `stats sizes` has at an item size of 1 GiB, where one in 32 bars is used.
pub const ROWS_MAX: usize = 1 << 20;

const BUFFER_SIZE_BYTES: usize = 64 * 1024;

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// For the connection.
    pub connect_timeout: Duration,
    /// For the next bytes.
    pub read_timeout: Duration,
    /// For a reply's last line.
    pub reply_timeout: Duration,
}

/// A row of `stats`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// What stands behind it.
    pub value: String,
}

/// What a command of one line was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<T> {
    /// As it should be.
    Given(T),
    /// The server does not do it: its line, shortened for a message.
    Refused(String),
}

/// Why a reply's next line did not come.
#[derive(Debug)]
pub enum NoLine {
    /// The reply has gone on for [`Limits::reply_timeout`].
    Overtime,
    /// Something that ends the dialogue.
    Broken(AdvisorError),
}

/// See the module's documentation.
pub struct Dialogue<'c> {
    server: String,
    stream: Stream,
    limits: Limits,
    clock: &'c Clock,
    command: String,
    deadline_nanos: u64,
    lines: u64,
    buffer: Vec<u8>,
    unread: Range<usize>,
}

impl Dialogue<'_> {
    /// Connects.
    pub fn open<'c>(
        server: &ServerAddress,
        limits: Limits,
        clock: &'c Clock,
    ) -> Result<Dialogue<'c>, AdvisorError> {
        let stream = Stream::connect(server, limits.connect_timeout).map_err(|error| {
            let what = match error.kind() {
                ErrorKind::TimedOut | ErrorKind::WouldBlock => format!(
                    "did not take a connection within {} s: see whether it runs, or raise \
                     --connect-timeout",
                    limits.connect_timeout.as_secs_f64()
                ),
                _ => format!(
                    "cannot be connected to: {error}; start it, or give another --from-server"
                ),
            };
            AdvisorError::Server { server: server.to_string(), what }
        })?;
        Ok(Dialogue {
            server: server.to_string(),
            stream,
            limits,
            clock,
            command: String::new(),
            deadline_nanos: 0,
            lines: 0,
            buffer: vec![0; BUFFER_SIZE_BYTES],
            unread: 0..0,
        })
    }

    /// Sends a command; its reply's lines follow by [`Dialogue::line`].
    pub fn send(&mut self, command: &str) -> Result<(), AdvisorError> {
        command.clone_into(&mut self.command);
        self.lines = 0;
        let time = self.limits.reply_timeout.as_nanos() as u64;
        self.deadline_nanos = self.clock.nanos().saturating_add(time);
        let bytes = format!("{command}\r\n");
        let sent = self.stream.write(bytes.as_bytes(), self.limits.read_timeout);
        sent.map_err(|error| self.failed(&error))
    }

    /// The reply's next line, without its end.
    pub fn line(&mut self) -> Result<&[u8], NoLine> {
        let mut searched = 0;
        let line_len = loop {
            let unread = &self.buffer[self.unread.clone()];
            if let Some(at) = unread[searched..].iter().position(|&byte| byte == b'\n') {
                break searched + at;
            }
            searched = unread.len();
            if searched > LINE_LEN_MAX {
                return Err(NoLine::Broken(self.error(&format!(
                    "answered `{}` with a line of more than {LINE_LEN_MAX} bytes, {}: see whether it is \
                     a memcached",
                    self.command,
                    shown(unread)
                ))));
            }
            self.receive()?;
        };
        self.lines += 1;
        let start = self.unread.start;
        self.unread.start += line_len + 1;
        let line = &self.buffer[start..start + line_len];
        Ok(line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// Waits for bytes.
    fn receive(&mut self) -> Result<(), NoLine> {
        let left_nanos = self.deadline_nanos.saturating_sub(self.clock.nanos());
        if left_nanos == 0 {
            return Err(NoLine::Overtime);
        }
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        // A socket's timeout of 0 would be for ever.
        let left = Duration::from_nanos(left_nanos).max(Duration::from_micros(1));
        let timeout = left.min(self.limits.read_timeout);
        match self.stream.read(&mut self.buffer[self.unread.end..], timeout) {
            Ok(0) => Err(NoLine::Broken(self.closed())),
            Ok(count) => {
                self.unread.end += count;
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) if is_timeout(&error) && timeout == left => Err(NoLine::Overtime),
            Err(error) => Err(NoLine::Broken(self.failed(&error))),
        }
    }

    /// The same, where a reply that goes on too long is an error.
    pub fn line_in_time(&mut self) -> Result<Vec<u8>, AdvisorError> {
        match self.line() {
            Ok(line) => Ok(line.to_vec()),
            Err(NoLine::Overtime) => Err(self.overtime()),
            Err(NoLine::Broken(error)) => Err(error),
        }
    }

    /// Sends a command that is answered by one line.
    pub fn ask_line(&mut self, command: &str) -> Result<Answer<String>, AdvisorError> {
        self.send(command)?;
        let line = self.line_in_time()?;
        if is_refusal(&line) {
            return Ok(Answer::Refused(shown(&line)));
        }
        String::from_utf8(line).map(Answer::Given).map_err(|error| self.nonsense(error.as_bytes()))
    }

    /// Sends a `stats` command: its rows.
    pub fn ask_rows(&mut self, command: &str) -> Result<Answer<Vec<Row>>, AdvisorError> {
        self.send(command)?;
        let mut rows = Vec::new();
        loop {
            let line = self.line_in_time()?;
            if line == b"END" {
                return Ok(Answer::Given(rows));
            }
            if rows.is_empty() && is_refusal(&line) {
                return Ok(Answer::Refused(shown(&line)));
            }
            rows.push(row_of(&line).ok_or_else(|| self.nonsense(&line))?);
            if rows.len() > ROWS_MAX {
                return Err(self.error(&format!(
                    "answered `{command}` with more than {ROWS_MAX} rows: see whether it is a memcached"
                )));
            }
        }
    }

    /// Rows of a command that every server knows.
    pub fn rows(&mut self, command: &str) -> Result<Vec<Row>, AdvisorError> {
        match self.ask_rows(command)? {
            Answer::Given(rows) => Ok(rows),
            Answer::Refused(line) => Err(self.refused(&line)),
        }
    }

    /// An error of this server.
    pub fn error(&self, what: &str) -> AdvisorError {
        AdvisorError::Server { server: self.server.clone(), what: what.to_owned() }
    }

    /// A line that the last command cannot be answered with.
    pub fn nonsense(&self, line: &[u8]) -> AdvisorError {
        self.error(&format!(
            "answered `{}` with {}, which is no line of its reply: see whether it is a memcached",
            self.command,
            shown(line)
        ))
    }

    /// The last command was refused, `line` being shown already.
    pub fn refused(&self, line: &str) -> AdvisorError {
        self.error(&format!(
            "refused `{}`: {line}; let this client in, or give --from-histogram",
            self.command
        ))
    }

    /// A reply that goes on and on.
    pub fn overtime(&self) -> AdvisorError {
        self.error(&format!(
            "was not done with its reply to `{}` after {} s and {} lines: raise --reply-timeout",
            self.command,
            self.limits.reply_timeout.as_secs_f64(),
            self.lines
        ))
    }

    fn closed(&self) -> AdvisorError {
        self.error(&format!(
            "closed the connection after {} lines of its reply to `{}`: see its log, its limit of \
             connections, and whether it speaks text (not -B binary, no TLS)",
            self.lines, self.command
        ))
    }

    fn failed(&self, error: &io::Error) -> AdvisorError {
        match error.kind() {
            _ if is_timeout(error) => self.error(&format!(
                "was silent for {} s after {} lines of its reply to `{}`: see whether it hangs, or raise \
                 --read-timeout",
                self.limits.read_timeout.as_secs_f64(),
                self.lines,
                self.command
            )),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => self.closed(),
            _ => self.error(&format!("was lost during `{}`: {error}; see its log", self.command)),
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock)
}

/// Whether a line says that a command is not obeyed.
pub fn is_refusal(line: &[u8]) -> bool {
    const REFUSALS: [&[u8]; 4] = [b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR", b"BUSY"];
    REFUSALS.iter().any(|refusal| line.starts_with(refusal))
}

/// `STAT name value`; the value may be missing or have spaces.
fn row_of(line: &[u8]) -> Option<Row> {
    let text = std::str::from_utf8(line).ok()?.strip_prefix("STAT ")?;
    let (name, value) = text.split_once(' ').unwrap_or((text, ""));
    Some(Row { name: name.to_owned(), value: value.to_owned() })
}
