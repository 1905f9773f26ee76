//! The source of the bytes of a trace, and the description of a fault in a trace.

use crate::workload::request::Request;
use std::io::{BufRead, Cursor, ErrorKind, Read};

/// The source of the decompressed bytes of a trace.
pub type Source = Box<dyn BufRead>;

/// A request, and the number of times that the trace contains it in succession.
pub type Repeated = (Request, u64);

/// The place of a fault in a trace, such as `line 3`, and the reason.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    pub place: String,
    pub reason: String,
}

/// Reads up to `len_max` bytes. Also returns the error that ended the read early, if one occurred.
pub fn read_head(source: &mut impl Read, len_max: u64) -> (Vec<u8>, Option<std::io::Error>) {
    let mut head = Vec::new();
    let ended = source.by_ref().take(len_max).read_to_end(&mut head);
    (head, ended.err())
}

/// Returns a source that starts with the bytes that [`read_head`] has read. After them it returns the error of
/// `read_head`, if one occurred, and then the bytes of `rest`.
pub fn prepend(head: Vec<u8>, error: Option<std::io::Error>, rest: impl Read) -> impl Read {
    Cursor::new(head).chain(FailOnce(error)).chain(rest)
}

/// A source without bytes. Its first read returns the error, if there is one.
struct FailOnce(Option<std::io::Error>);

impl Read for FailOnce {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// Returns the reason of a fault that an I/O error has caused.
pub fn reason_of(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof => "the file is truncated; copy the file again".to_owned(),
        _ => format!("read error: {error}"),
    }
}
