//! The bytes of a trace, and faults in them.

use crate::workload::request::Request;
use std::io::{BufRead, Cursor, ErrorKind, Read};

pub type Source = Box<dyn BufRead>;

/// A request and its number of repetitions.
pub type Repeated = (Request, u64);

#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    pub place: String,
    pub reason: String,
}

/// Reads at most `len_max` bytes, and returns them with the error that ended the read.
pub fn first_bytes(source: &mut impl Read, len_max: u64) -> (Vec<u8>, Option<std::io::Error>) {
    let mut head = Vec::new();
    let ended = source.by_ref().take(len_max).read_to_end(&mut head);
    (head, ended.err())
}

/// Returns a source from its beginning, after [`first_bytes`] has read `head` and then failed with `pending`.
pub fn resumed(head: Vec<u8>, pending: Option<std::io::Error>, rest: impl Read) -> impl Read {
    Cursor::new(head).chain(Pending(pending)).chain(rest)
}

struct Pending(Option<std::io::Error>);

impl Read for Pending {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

pub fn reason_of(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof => "the file is truncated; copy it again".to_owned(),
        _ => format!("read error: {error}"),
    }
}
