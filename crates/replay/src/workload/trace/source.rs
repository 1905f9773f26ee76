//! A trace's bytes, and what can be wrong with them.

use crate::workload::request::Request;
use std::io::{BufRead, Cursor, ErrorKind, Read};

pub type Source = Box<dyn BufRead>;

/// A request, and how often it was made in a row.
pub type Repeated = (Request, u64);

#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    pub place: String,
    pub reason: String,
}

/// The first bytes of a source, at most `len_max`, and the error that ended them.
pub fn first_bytes(source: &mut impl Read, len_max: u64) -> (Vec<u8>, Option<std::io::Error>) {
    let mut head = Vec::new();
    let ended = source.by_ref().take(len_max).read_to_end(&mut head);
    (head, ended.err())
}

/// A source of which the first bytes were read, from its beginning; an error comes where it came.
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
        ErrorKind::UnexpectedEof => "the file is cut short; copy it again".to_owned(),
        _ => format!("it cannot be read on: {error}"),
    }
}
