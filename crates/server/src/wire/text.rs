//! Writes the replies of the classic text protocol. Also writes the log of requests and replies that `-vv` prints for
//! all dialects, as in memcached: `<30 get a`, `>30 sending key a`, `>30 END`. 30 is the connection's descriptor.
//!
//! Without `-vv` the check whether to log costs one load and one branch per step of a session. Bytes from clients are
//! escaped, so each log entry is one line.

use crate::ops::get::HitReply;
use crate::out::{Out, pin_if_large};
use crate::shared::WorkerContext;
use slabwise_engine::{ArithmeticOutcome, DeleteOutcome, ItemView, ReserveError, StoreOutcome};
use slabwise_protocol::binary::{HEAD_LEN, REQUEST_MAGIC};
use slabwise_protocol::text::{reply, write_value_line};
use slabwise_protocol::{Parsed, binary};
use std::borrow::Cow;
use std::os::fd::RawFd;

/// Appends an item's line `VALUE` and its value. As in memcached, appends nothing if the value is large and is being
/// sent to too many clients already.
#[inline]
pub(crate) fn write_hit<'e>(
    view: &ItemView<'_, 'e>,
    with_cas: bool,
    cas_enabled: bool,
    out: &mut Out<'e>,
) -> HitReply {
    let Some(pinned) = pin_if_large(view) else { return HitReply::TooManyReaders };
    let cas = with_cas.then(|| if cas_enabled { view.cas() } else { 0 });
    write_value_line(out.bytes(), view.key(), view.client_flags(), view.value_len(), cas);
    out.push_value(view, pinned);
    out.bytes().extend_from_slice(b"\r\n");
    HitReply::Answered
}

/// Returns the reply to a store.
pub(crate) fn store_line(outcome: StoreOutcome) -> &'static [u8] {
    match outcome {
        StoreOutcome::Stored { .. } => reply::STORED,
        StoreOutcome::NotStored => reply::NOT_STORED,
        StoreOutcome::Exists => reply::EXISTS,
        StoreOutcome::NotFound => reply::NOT_FOUND,
        StoreOutcome::TooLarge => reply::TOO_LARGE,
        StoreOutcome::OutOfMemory => reply::NO_MEMORY_STORING,
    }
}

/// Returns the reply to a delete.
pub(crate) fn delete_line(outcome: DeleteOutcome) -> &'static [u8] {
    match outcome {
        DeleteOutcome::Done => reply::DELETED,
        DeleteOutcome::NotFound => reply::NOT_FOUND,
        DeleteOutcome::Exists => reply::EXISTS,
        DeleteOutcome::OutOfMemory => reply::NO_MEMORY,
    }
}

/// Returns the reply to a touch.
pub(crate) fn touch_line(outcome: Result<bool, ReserveError>) -> &'static [u8] {
    match outcome {
        Ok(true) => reply::TOUCHED,
        Ok(false) => reply::NOT_FOUND,
        Err(_) => reply::NO_MEMORY,
    }
}

/// Returns the new number after an increment or decrement, or the line of the error.
pub(crate) fn number_or_error(outcome: ArithmeticOutcome) -> Result<u64, &'static [u8]> {
    match outcome {
        ArithmeticOutcome::Value { value, .. } => Ok(value),
        ArithmeticOutcome::NotFound => Err(reply::NOT_FOUND),
        ArithmeticOutcome::Exists => Err(reply::EXISTS),
        ArithmeticOutcome::NotNumeric => Err(reply::NOT_NUMERIC),
        ArithmeticOutcome::OutOfMemory => Err(reply::NO_MEMORY),
    }
}

/// The place for a one-line reply, which is not sent if the client sent `noreply`.
pub(crate) struct Reply<'o> {
    pub(crate) out: &'o mut Vec<u8>,
    pub(crate) noreply: bool,
    /// The descriptor of the connection, for the log.
    descriptor: RawFd,
}

impl<'o> Reply<'o> {
    pub(crate) fn new(
        worker: &WorkerContext<'_>,
        out: &'o mut Out<'_>,
        noreply: bool,
    ) -> Reply<'o> {
        Reply { out: out.bytes(), noreply, descriptor: worker.descriptor }
    }

    /// Appends the line. With `noreply` the line is only logged.
    #[inline]
    pub(crate) fn line(&mut self, line: &[u8]) {
        if !self.noreply {
            self.out.extend_from_slice(line);
        } else if logs_dialogue() {
            log_unsent_reply(self.descriptor, line);
        }
    }
}

/// True if requests and replies are logged (`-vv`).
#[inline]
pub(crate) fn logs_dialogue() -> bool {
    tracing::enabled!(tracing::Level::DEBUG)
}

/// Logs the command line or packet at the start of `input`. Does nothing if the line or packet is incomplete: the
/// session calls this function again when more input has arrived.
pub(crate) fn log_request(worker: &WorkerContext<'_>, input: &[u8]) {
    if input.first() == Some(&REQUEST_MAGIC) {
        if !matches!(binary::parse(input), Parsed::Incomplete) {
            log_packet(worker, '<', input);
        }
        return;
    }
    let Some(end) = input.iter().position(|&byte| byte == b'\n') else { return };
    let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
    tracing::debug!("<{} {}", worker.descriptor, printable(line));
}

/// Logs the replies that one step of a session appended, without values and statistics.
pub(crate) fn log_replies(worker: &WorkerContext<'_>, mut replies: &[u8]) {
    let descriptor = worker.descriptor;
    while let Some((line, rest)) = split_line(replies) {
        replies = rest;
        if let Some(value) = line.strip_prefix(b"VALUE ") {
            let key = value.split(|&byte| byte == b' ').next().unwrap_or_default();
            tracing::debug!(">{descriptor} sending key {}", printable(key));
            // The bytes after this line are the value, which is not logged.
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

/// Logs the head of the first packet in `bytes`, in hexadecimal. `direction` is `<` for a request and `>` for a reply.
pub(crate) fn log_packet(worker: &WorkerContext<'_>, direction: char, bytes: &[u8]) {
    let Some((head, _)) = bytes.split_first_chunk::<HEAD_LEN>() else { return };
    let digits = head.map(|byte| format!(" {byte:02x}")).concat();
    tracing::debug!("{direction}{} packet{digits}", worker.descriptor);
}

fn log_unsent_reply(descriptor: RawFd, line: &[u8]) {
    let line = line.strip_suffix(b"\r\n").unwrap_or(line);
    tracing::debug!(">{descriptor} NOREPLY {}", printable(line));
}

/// Splits off the first line, without its line end. Returns `None` if there is no complete line.
fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    Some((&bytes[..end], &bytes[end + 2..]))
}

/// Returns the bytes as text for the log. Bytes that are not UTF-8 text, or contain control characters, are escaped.
fn printable(bytes: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(bytes) {
        Ok(text) if !text.contains(char::is_control) => Cow::Borrowed(text),
        _ => Cow::Owned(bytes.escape_ascii().to_string()),
    }
}
