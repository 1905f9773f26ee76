//! What a receive brought.

use std::io;

/// What a receive brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receipt {
    /// Bytes for the session; none, where all that came was TLS's own.
    Bytes {
        /// How many.
        count: usize,
        /// Whether another receive may bring more, without a new event.
        more: bool,
    },
    /// Nothing is there; there will be an event.
    Nothing,
    /// The peer will send no more.
    End,
}

impl Receipt {
    /// Bytes for the session.
    pub fn count(self) -> usize {
        match self {
            Receipt::Bytes { count, .. } => count,
            Receipt::Nothing | Receipt::End => 0,
        }
    }
}

/// SHORT-READ: what one system call into `room` bytes brought.
pub(super) fn receipt(received: io::Result<usize>, room: usize) -> io::Result<Receipt> {
    match received {
        Ok(0) => Ok(Receipt::End),
        Ok(count) => Ok(Receipt::Bytes { count, more: count == room }),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Receipt::Nothing),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            Ok(Receipt::Bytes { count: 0, more: true })
        }
        Err(error) => Err(error),
    }
}
