//! What `-vv` prints of a dialogue: `<30 get a`, `>30 sending key a`, `>30 END`, as in memcached.
//!
//! Only this file looks at it; a session that is not listened to pays one load and one branch a step.
//! What clients sent is escaped: a log line is always one line.

use crate::context::WorkerContext;
use slabwise_protocol::binary::{HEAD_LEN, REQUEST_MAGIC};
use slabwise_protocol::{Dialect, Parsed};
use std::borrow::Cow;
use std::os::fd::RawFd;

/// Whether anybody listens.
#[inline]
pub(crate) fn is_on() -> bool {
    tracing::enabled!(tracing::Level::DEBUG)
}

/// The command line or the packet that `input` begins with, if it will be acted on: what is not at hand
/// up to its value comes again with more behind it.
pub(crate) fn request(worker: &WorkerContext<'_>, input: &[u8]) {
    if input.first() == Some(&REQUEST_MAGIC) {
        if !matches!(Dialect::Binary.parse(input), Parsed::Incomplete) {
            packet(worker, '<', input);
        }
        return;
    }
    let Some(end) = input.iter().position(|&byte| byte == b'\n') else { return };
    let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
    tracing::debug!("<{} {}", worker.descriptor, printable(line));
}

/// The replies of one step: of values the keys alone, and nothing of statistics.
pub(crate) fn replies(worker: &WorkerContext<'_>, mut replies: &[u8]) {
    let descriptor = worker.descriptor;
    while let Some((line, rest)) = split_line(replies) {
        replies = rest;
        if let Some(value) = line.strip_prefix(b"VALUE ") {
            let key = value.split(|&byte| byte == b' ').next().unwrap_or_default();
            tracing::debug!(">{descriptor} sending key {}", printable(key));
            // What follows is the value, perhaps the first part of it.
            return;
        }
        if line.starts_with(b"VA ") {
            tracing::debug!(">{descriptor} {}", printable(line));
            return;
        }
        if line.starts_with(b"STAT ") {
            return;
        }
        tracing::debug!(">{descriptor} {}", printable(line));
    }
}

/// The head of a packet, which says all but keys and values. Of several replies that of the first.
pub(crate) fn packet(worker: &WorkerContext<'_>, direction: char, bytes: &[u8]) {
    let Some((head, _)) = bytes.split_first_chunk::<HEAD_LEN>() else { return };
    let digits = head.map(|byte| format!(" {byte:02x}")).concat();
    tracing::debug!("{direction}{} packet{digits}", worker.descriptor);
}

/// A reply that the client does not want.
pub(crate) fn unwanted_reply(descriptor: RawFd, line: &[u8]) {
    let line = line.strip_suffix(b"\r\n").unwrap_or(line);
    tracing::debug!(">{descriptor} NOREPLY {}", printable(line));
}

fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    Some((&bytes[..end], &bytes[end + 2..]))
}

fn printable(bytes: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(bytes) {
        Ok(text) if !text.contains(char::is_control) => Cow::Borrowed(text),
        _ => Cow::Owned(bytes.escape_ascii().to_string()),
    }
}
