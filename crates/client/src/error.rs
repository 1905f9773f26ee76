//! Why a dialogue with a server ends.

use std::io::{self, ErrorKind};

/// What ends a dialogue. The texts name no server and no remedy: those are the caller's.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No connection.
    #[error("no connection: {0}")]
    Connect(io::Error),
    /// The connection was not accepted in time.
    #[error("no connection in time")]
    ConnectTimeout,
    /// The server ended the connection.
    #[error("the server closed the connection")]
    Closed,
    /// No bytes came within the read timeout.
    #[error("the server did not answer in time")]
    Silent,
    /// Bytes came, but the reply was not complete within the reply timeout.
    #[error("the reply did not end in time")]
    ReplyTimeout,
    /// The connection broke.
    #[error("connection lost: {0}")]
    Lost(io::Error),
    /// A line longer than any reply; its first bytes.
    #[error("a line longer than any reply")]
    LineTooLong(Vec<u8>),
    /// More rows than any `stats` has.
    #[error("more rows than any reply has")]
    TooManyRows,
    /// The command was refused with this line.
    #[error("refused: {}", .0.escape_ascii())]
    Refused(Vec<u8>),
    /// A line that is no part of the reply.
    #[error("'{}' is no part of the reply", .0.escape_ascii())]
    Unexpected(Vec<u8>),
}

/// Marks the error of a read that began after the reply's deadline.
#[derive(Debug, thiserror::Error)]
#[error("the reply did not end in time")]
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
