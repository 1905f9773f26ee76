//! The commands that change the server, and their replies.
//!
//! A page move takes a while. The server accepts an order for a move (`OK`), and a later reading of its counters shows
//! that the page has moved. memcached forgets an order if the next one arrives before its mover has begun, so there is
//! never more than one order in progress.

use crate::error::SteerError;
use crate::split::Order;
use slabwise_client::Connection;
use std::io::{Read, Write};

/// The reply to an order for a page move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The server moves the page.
    Accepted,
    /// The server moves another page.
    Busy,
    /// The victim has no page that it can give.
    NoSpare,
    /// A class does not exist.
    BadClass,
    /// Both classes are the same.
    Same,
    /// The move is not safe now.
    Unsafe,
    /// The server refuses all moves.
    Disabled,
    /// Another reply; its first characters.
    Other(String),
}

impl Reply {
    /// Parses the reply to `slabs reassign`.
    pub fn parse(line: &str) -> Reply {
        /// The maximum number of characters of an unknown reply that are logged.
        const LOGGED_LEN_MAX: usize = 80;
        let word = line.split_ascii_whitespace().next().unwrap_or_default();
        match word {
            "OK" => Reply::Accepted,
            "BUSY" => Reply::Busy,
            "NOSPARE" => Reply::NoSpare,
            "BADCLASS" => Reply::BadClass,
            "SAME" => Reply::Same,
            "UNSAFE" => Reply::Unsafe,
            "CLIENT_ERROR" if line.contains("disabled") => Reply::Disabled,
            _ => Reply::Other(printable(line).take(LOGGED_LEN_MAX).collect()),
        }
    }

    /// Returns the reply for the log.
    pub fn text(&self) -> &str {
        match self {
            Reply::Other(text) => text,
            known => known.word(),
        }
    }

    /// Returns the word for logs and metrics.
    pub fn word(&self) -> &str {
        match self {
            Reply::Accepted => "ok",
            Reply::Busy => "busy",
            Reply::NoSpare => "nospare",
            Reply::BadClass => "badclass",
            Reply::Same => "same",
            Reply::Unsafe => "unsafe",
            Reply::Disabled => "disabled",
            Reply::Other(_) => "other",
        }
    }
}

/// Returns the characters of a reply that a log may contain: no control characters.
fn printable(line: &str) -> impl Iterator<Item = char> {
    line.chars().filter(|character| !character.is_control())
}

/// Sends an order for a page move.
pub fn reassign<S: Read + Write>(
    connection: &mut Connection<S>,
    order: Order,
) -> Result<Reply, SteerError> {
    let Order { victim, receiver } = order;
    let line =
        connection.ask_line(&format!("slabs reassign {} {}", victim.wire(), receiver.wire()))?;
    Ok(Reply::parse(&line))
}

/// Sets the mode of the automover.
pub fn set_automove<S: Read + Write>(
    connection: &mut Connection<S>,
    mode: u64,
) -> Result<(), SteerError> {
    let command = format!("slabs automove {mode}");
    match connection.ask_line(&command)? {
        line if line == "OK" => Ok(()),
        reply => Err(SteerError::Automove { command, reply }),
    }
}

#[cfg(test)]
mod tests {
    use super::Reply;

    #[test]
    fn every_reply_of_memcached_is_known() {
        let cases = [
            ("OK", Reply::Accepted),
            ("BUSY currently processing reassign request", Reply::Busy),
            ("NOSPARE source class has no spare pages", Reply::NoSpare),
            ("BADCLASS invalid src or dst class id", Reply::BadClass),
            ("SAME src and dst class are identical", Reply::Same),
            ("UNSAFE", Reply::Unsafe),
            ("CLIENT_ERROR slab reassignment disabled", Reply::Disabled),
            ("CLIENT_ERROR bad", Reply::Other("CLIENT_ERROR bad".to_owned())),
            ("", Reply::Other(String::new())),
        ];
        for (line, expected) in cases {
            assert_eq!(Reply::parse(line), expected, "{line}");
        }
        let Reply::Other(logged) = Reply::parse(&"é".repeat(500)) else { panic!("it is unknown") };
        assert_eq!(logged.chars().count(), 80);
    }
}
