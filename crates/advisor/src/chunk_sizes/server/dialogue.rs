//! A connection to a server. Its errors name the server, the command and the reply.

use crate::chunk_sizes::error::{AdvisorError, quoted};
use slabwise_client::{
    ClientError, Connection, Connector, LINE_LEN_MAX, ROWS_MAX, Rows, Timeouts, is_refusal,
};

/// The reply of a server to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<T> {
    Given(T),
    /// The server replied with an error line. The text is the line in the form that [`quoted`] returns.
    Refused(String),
}

/// A connection and the last command, for errors.
pub struct Dialogue {
    server: String,
    timeouts: Timeouts,
    connection: Connection,
    /// The last command that was sent.
    command: String,
}

impl Dialogue {
    /// Connects to a server.
    pub fn open(connector: &Connector) -> Result<Dialogue, AdvisorError> {
        let (server, timeouts) = (connector.address.to_string(), connector.timeouts);
        let connection = connector.open().map_err(|error| {
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
            AdvisorError::Server { server: server.clone(), what }
        })?;
        Ok(Dialogue { server, timeouts, connection, command: String::new() })
    }

    /// Sends a command. The caller reads the lines of the reply with [`Dialogue::line`].
    pub fn send(&mut self, command: &str) -> Result<(), AdvisorError> {
        command.clone_into(&mut self.command);
        self.connection.send_line(command).map_err(|error| self.failure(error))
    }

    /// Reads the next line of the reply.
    pub fn line(&mut self) -> Result<&[u8], ClientError> {
        self.connection.line()
    }

    /// Sends a command whose reply is one line, and returns the reply.
    pub fn ask_line(&mut self, command: &str) -> Result<Answer<String>, AdvisorError> {
        command.clone_into(&mut self.command);
        match self.connection.ask_line(command) {
            Ok(line) if is_refusal(line.as_bytes()) => Ok(Answer::Refused(quoted(line.as_bytes()))),
            Ok(line) => Ok(Answer::Given(line)),
            Err(error) => Err(self.failure(error)),
        }
    }

    /// Sends a `stats` command and returns the reply.
    pub fn ask_rows(&mut self, command: &str) -> Result<Answer<Rows>, AdvisorError> {
        command.clone_into(&mut self.command);
        match self.connection.ask_rows(command) {
            Ok(rows) => Ok(Answer::Given(rows)),
            Err(ClientError::Refused(line)) => Ok(Answer::Refused(quoted(&line))),
            Err(error) => Err(self.failure(error)),
        }
    }

    /// Sends a `stats` command and returns its rows. Fails if the server refuses the command.
    pub fn rows(&mut self, command: &str) -> Result<Rows, AdvisorError> {
        match self.ask_rows(command)? {
            Answer::Given(rows) => Ok(rows),
            Answer::Refused(line) => Err(self.refusal(&line)),
        }
    }

    /// Returns an error. `what` is the predicate of a sentence about the server.
    pub fn error(&self, what: &str) -> AdvisorError {
        AdvisorError::Server { server: self.server.clone(), what: what.to_owned() }
    }

    /// Returns the error of an unexpected line in the reply to the last command.
    pub fn unexpected_line(&self, line: &[u8]) -> AdvisorError {
        self.failure(ClientError::Unexpected(line.to_vec()))
    }

    /// Returns the error that the server refused the last command. `line` is its error line in the form that [`quoted`]
    /// returns.
    pub fn refusal(&self, line: &str) -> AdvisorError {
        self.error(&format!(
            "refused `{}`: {line}; allow this client to connect without authentication, or give \
             --from-histogram",
            self.command
        ))
    }

    /// Returns the error that the last command failed with this error of the connection.
    pub fn failure(&self, error: ClientError) -> AdvisorError {
        let (command, lines) = (&self.command, self.connection.lines());
        self.error(&match error {
            ClientError::ReplyTimeout => format!(
                "did not complete its reply to `{command}` within {} s ({lines} lines): raise \
                 --reply-timeout",
                self.timeouts.reply.as_secs_f64()
            ),
            ClientError::ReadTimeout => format!(
                "sent no byte for {} s after {lines} lines of its reply to `{command}`: check whether it \
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
                quoted(&line)
            ),
            ClientError::TooManyRows => format!(
                "replied to `{command}` with more than {ROWS_MAX} rows: check whether it is a memcached"
            ),
            ClientError::Unexpected(line) => format!(
                "replied to `{command}` with the invalid line {}: check whether it is a memcached",
                quoted(&line)
            ),
            ClientError::Io(error) => {
                format!("lost the connection during `{command}`: {error}; check its log")
            }
            other => format!("lost the connection during `{command}`: {other}; check its log"),
        })
    }
}
