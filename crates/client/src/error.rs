//! Errors of connecting to a server and of talking to it.

use std::io::{self, ErrorKind};

/// The maximum number of rows in the reply to a `stats` command. `stats sizes` has the most rows: one row
/// for each bin of 32 bytes that contains the size of an item.
pub const ROWS_MAX: usize = 1 << 20;

/// An error of connecting to a server, or of sending and receiving on the connection. The text does not name the
/// server; the caller adds its address and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The system could not connect to the server.
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    /// The server did not accept the connection within the connect timeout.
    #[error("the server did not accept the connection within the connect timeout")]
    ConnectTimeout,
    /// The TLS handshake failed, for example because the server's certificate is not trusted.
    #[error("the TLS handshake failed: {0}")]
    Handshake(io::Error),
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// No byte could be received or sent within the read timeout.
    #[error("no reply from the server within the read timeout")]
    ReadTimeout,
    /// The reply was not complete within the reply timeout.
    #[error("the reply was not complete within the reply timeout")]
    ReplyTimeout,
    /// Sending or receiving failed with another I/O error.
    #[error("I/O error on the connection: {0}")]
    Io(io::Error),
    /// A line of the reply is longer than the maximum. Contains the first bytes of the line.
    #[error("a line of the reply is too long")]
    LineTooLong(Vec<u8>),
    /// The reply to a `stats` command has more than [`ROWS_MAX`] rows.
    #[error("the reply has more than {} rows", ROWS_MAX)]
    TooManyRows,
    /// The server replied to the command with this error line.
    #[error("the server refused the command: {}", .0.escape_ascii())]
    Refused(Vec<u8>),
    /// The reply contains this line, which is not valid in the reply to the command.
    #[error("unexpected line '{}' in the reply", .0.escape_ascii())]
    Unexpected(Vec<u8>),
}

/// The I/O error that a [`Stream`](crate::Stream) returns when the reply timeout has passed.
#[derive(Debug, thiserror::Error)]
#[error("the reply was not complete within the reply timeout")]
pub(crate) struct ReplyDeadlinePassed;

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> ClientError {
        match error.kind() {
            _ if error.get_ref().is_some_and(|inner| inner.is::<ReplyDeadlinePassed>()) => {
                ClientError::ReplyTimeout
            }
            ErrorKind::TimedOut | ErrorKind::WouldBlock => ClientError::ReadTimeout,
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => {
                ClientError::Closed
            }
            _ => ClientError::Io(error),
        }
    }
}
