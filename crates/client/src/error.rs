//! Errors of a connection to a server.

use std::io::{self, ErrorKind};

/// An error of a connection to a server. The caller adds the server's address and the remedy to the text.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The connection failed.
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    /// The server did not accept the connection within the connect timeout.
    #[error("connect timeout")]
    ConnectTimeout,
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// No bytes arrived within the read timeout.
    #[error("no reply from the server within the read timeout")]
    Silent,
    /// The reply was not complete within the reply timeout.
    #[error("the reply was not complete within the reply timeout")]
    ReplyTimeout,
    /// An I/O error.
    #[error("connection lost: {0}")]
    Lost(io::Error),
    /// A line above the maximum length, with its first bytes.
    #[error("a line of the reply is too long")]
    LineTooLong(Vec<u8>),
    /// More rows than the maximum.
    #[error("the reply has too many rows")]
    TooManyRows,
    /// The server replied to the command with this error line.
    #[error("refused: {}", .0.escape_ascii())]
    Refused(Vec<u8>),
    /// A line that the reply must not contain.
    #[error("unexpected line '{}' in the reply", .0.escape_ascii())]
    Unexpected(Vec<u8>),
}

/// The error of a read after the reply timeout.
#[derive(Debug, thiserror::Error)]
#[error("the reply was not complete within the reply timeout")]
pub(crate) struct PastDeadline;

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> ClientError {
        match error.kind() {
            _ if error.get_ref().is_some_and(|inner| inner.is::<PastDeadline>()) => {
                ClientError::ReplyTimeout
            }
            ErrorKind::TimedOut | ErrorKind::WouldBlock => ClientError::Silent,
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => {
                ClientError::Closed
            }
            _ => ClientError::Lost(error),
        }
    }
}
