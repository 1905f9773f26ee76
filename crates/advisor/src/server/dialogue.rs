//! A connection to a server, whose errors name the server, the command and the reply.

use crate::error::{AdvisorError, shown};
use slabwise_client::{
    ClientError, Connection, LINE_LEN_MAX, ROWS_MAX, Rows, ServerAddress, Timeouts, is_refusal,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<T> {
    Given(T),
    /// The error line of the server, truncated for a message.
    Refused(String),
}

pub struct Dialogue {
    server: String,
    timeouts: Timeouts,
    connection: Connection,
    command: String,
}

impl Dialogue {
    pub fn open(server: &ServerAddress, timeouts: Timeouts) -> Result<Dialogue, AdvisorError> {
        let connection = Connection::open(server, timeouts).map_err(|error| {
            let what = match error {
                ClientError::ConnectTimeout => format!(
                    "did not accept the connection within {} s: check whether it runs, or raise \
                     --connect-timeout",
                    timeouts.connect.as_secs_f64()
                ),
                ClientError::Connect(error) => {
                    format!("cannot be reached: {error}; start it, or give another --from-server")
                }
                other => format!("cannot be reached: {other}"),
            };
            AdvisorError::Server { server: server.to_string(), what }
        })?;
        let (server, command) = (server.to_string(), String::new());
        Ok(Dialogue { server, timeouts, connection, command })
    }

    /// Sends a command. [`Dialogue::line`] returns the lines of its reply.
    pub fn send(&mut self, command: &str) -> Result<(), AdvisorError> {
        command.clone_into(&mut self.command);
        self.connection.send_line(command).map_err(|error| self.failed(error))
    }

    pub fn line(&mut self) -> Result<&[u8], ClientError> {
        self.connection.line()
    }

    pub fn ask_line(&mut self, command: &str) -> Result<Answer<String>, AdvisorError> {
        command.clone_into(&mut self.command);
        match self.connection.ask_line(command) {
            Ok(line) if is_refusal(line.as_bytes()) => Ok(Answer::Refused(shown(line.as_bytes()))),
            Ok(line) => Ok(Answer::Given(line)),
            Err(error) => Err(self.failed(error)),
        }
    }

    pub fn ask_rows(&mut self, command: &str) -> Result<Answer<Rows>, AdvisorError> {
        command.clone_into(&mut self.command);
        match self.connection.ask_rows(command) {
            Ok(rows) => Ok(Answer::Given(rows)),
            Err(ClientError::Refused(line)) => Ok(Answer::Refused(shown(&line))),
            Err(error) => Err(self.failed(error)),
        }
    }

    pub fn rows(&mut self, command: &str) -> Result<Rows, AdvisorError> {
        match self.ask_rows(command)? {
            Answer::Given(rows) => Ok(rows),
            Answer::Refused(line) => Err(self.refused(&line)),
        }
    }

    pub fn error(&self, what: &str) -> AdvisorError {
        AdvisorError::Server { server: self.server.clone(), what: what.to_owned() }
    }

    /// Returns the error of an unexpected line in the reply to the last command.
    pub fn unexpected(&self, line: &[u8]) -> AdvisorError {
        self.failed(ClientError::Unexpected(line.to_vec()))
    }

    /// Returns the error of a refused command. `line` is formatted by [`shown`].
    pub fn refused(&self, line: &str) -> AdvisorError {
        self.error(&format!(
            "refused `{}`: {line}; allow this client to connect without authentication, or give \
             --from-histogram",
            self.command
        ))
    }

    pub fn failed(&self, error: ClientError) -> AdvisorError {
        let (command, lines) = (&self.command, self.connection.lines());
        self.error(&match error {
            ClientError::ReplyTimeout => format!(
                "did not complete its reply to `{command}` within {} s ({lines} lines): raise \
                 --reply-timeout",
                self.timeouts.reply.as_secs_f64()
            ),
            ClientError::Silent => format!(
                "was silent for {} s after {lines} lines of its reply to `{command}`: check whether it \
                 hangs, or raise --read-timeout",
                self.timeouts.read.as_secs_f64()
            ),
            ClientError::Closed => format!(
                "closed the connection after {lines} lines of its reply to `{command}`: check its log, \
                 its connection limit, and whether it serves the ASCII protocol without TLS"
            ),
            ClientError::LineTooLong(line) => format!(
                "replied to `{command}` with a line of more than {LINE_LEN_MAX} bytes, {}: check \
                 whether it is a memcached",
                shown(&line)
            ),
            ClientError::TooManyRows => format!(
                "replied to `{command}` with more than {ROWS_MAX} rows: check whether it is a memcached"
            ),
            ClientError::Unexpected(line) => format!(
                "replied to `{command}` with the invalid line {}: check whether it is a memcached",
                shown(&line)
            ),
            ClientError::Lost(error) => {
                format!("lost the connection during `{command}`: {error}; check its log")
            }
            other => format!("lost the connection during `{command}`: {other}; check its log"),
        })
    }
}
