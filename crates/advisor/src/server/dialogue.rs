//! One connection, and its failures as errors that name the server, the command and what came.

use crate::error::{AdvisorError, shown};
use slabwise_client::{
    ClientError, Connection, LINE_LEN_MAX, ROWS_MAX, Rows, ServerAddress, Timeouts, is_refusal,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<T> {
    Given(T),
    /// The server does not do it: its line, shortened for a message.
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
                    "did not take a connection within {} s: see whether it runs, or raise \
                     --connect-timeout",
                    timeouts.connect.as_secs_f64()
                ),
                ClientError::Connect(error) => format!(
                    "cannot be connected to: {error}; start it, or give another --from-server"
                ),
                other => format!("cannot be connected to: {other}"),
            };
            AdvisorError::Server { server: server.to_string(), what }
        })?;
        let (server, command) = (server.to_string(), String::new());
        Ok(Dialogue { server, timeouts, connection, command })
    }

    /// Sends a command; its reply's lines follow by [`Dialogue::line`].
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

    /// The last command was answered with a line that its reply cannot have.
    pub fn unexpected(&self, line: &[u8]) -> AdvisorError {
        self.failed(ClientError::Unexpected(line.to_vec()))
    }

    /// The last command was refused, `line` being shown already.
    pub fn refused(&self, line: &str) -> AdvisorError {
        self.error(&format!(
            "refused `{}`: {line}; let this client in, or give --from-histogram",
            self.command
        ))
    }

    pub fn failed(&self, error: ClientError) -> AdvisorError {
        let (command, lines) = (&self.command, self.connection.lines());
        self.error(&match error {
            ClientError::ReplyTimeout => format!(
                "was not done with its reply to `{command}` after {} s and {lines} lines: raise \
                 --reply-timeout",
                self.timeouts.reply.as_secs_f64()
            ),
            ClientError::Silent => format!(
                "was silent for {} s after {lines} lines of its reply to `{command}`: see whether it \
                 hangs, or raise --read-timeout",
                self.timeouts.read.as_secs_f64()
            ),
            ClientError::Closed => format!(
                "closed the connection after {lines} lines of its reply to `{command}`: see its log, its \
                 limit of connections, and whether it speaks text (not -B binary, no TLS)"
            ),
            ClientError::LineTooLong(line) => format!(
                "answered `{command}` with a line of more than {LINE_LEN_MAX} bytes, {}: see whether it \
                 is a memcached",
                shown(&line)
            ),
            ClientError::TooManyRows => format!(
                "answered `{command}` with more than {ROWS_MAX} rows: see whether it is a memcached"
            ),
            ClientError::Unexpected(line) => format!(
                "answered `{command}` with {}, which is no line of its reply: see whether it is a \
                 memcached",
                shown(&line)
            ),
            ClientError::Lost(error) => {
                format!("was lost during `{command}`: {error}; see its log")
            }
            other => format!("was lost during `{command}`: {other}; see its log"),
        })
    }
}
