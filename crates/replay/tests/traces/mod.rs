//! Invariants of the trace readers that hold for every file:
//!
//! 1. After an error or the end, no more records follow.
//! 2. An error is one line of printable text. It starts with the trace's name and a line or record number.
//! 3. The records of an uncompressed file do not depend on the number of bytes that the source returns at a time. The
//!    records of an invalid zstd frame may depend on it, because the decoder discards the output of an invalid piece.
//! 4. A trace compressed with zstd has the same records as the uncompressed trace.

use clap::ValueEnum;
use slabwise_replay::workload::{Request, TraceFormat, TraceReader};
use std::io::{BufReader, Cursor, Read};

/// The maximum number of requests that are read. A line of a trace can describe any number of requests.
const REQUESTS_MAX: usize = 2_000;

/// Checks the invariants for a file that is read in every format and in the detected format.
pub fn check(file: &[u8]) {
    let formats = TraceFormat::value_variants().iter().copied().map(Some);
    for format in formats.chain([None]) {
        let whole = read(Cursor::new(file.to_vec()), format);
        let pieces = BufReader::with_capacity(7, Pieces { file: file.to_vec(), at: 0 });
        let in_pieces = read(pieces, format);
        if !is_compressed(file) {
            assert_eq!(
                in_pieces, whole,
                "{format:?}: the same records if the source returns few bytes at a time"
            );
            let compressed = zstd::encode_all(file, 1).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(
                read(Cursor::new(compressed), format),
                whole,
                "{format:?}: the same records if the file is compressed"
            );
        }
    }
}

/// True if the file starts with a zstd frame or a skippable frame.
fn is_compressed(file: &[u8]) -> bool {
    file.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
        || (file.len() >= 4 && file[0] >> 4 == 5 && file[1..4] == [0x2a, 0x4d, 0x18])
}

/// Returns the first requests, up to [`REQUESTS_MAX`], and the text of the error that ended the reading, if one did.
fn read(
    source: impl std::io::BufRead + 'static,
    format: Option<TraceFormat>,
) -> (Vec<Request>, Option<String>) {
    let mut requests = Vec::new();
    let mut reader = match TraceReader::new("t", source, format) {
        Ok(reader) => reader,
        Err(error) => return (requests, Some(error.to_string())),
    };
    while requests.len() < REQUESTS_MAX {
        match reader.next_record() {
            Some(Ok(request)) => requests.push(request),
            Some(Err(error)) => {
                let text = error.to_string();
                let has_place = text.starts_with("t: line ") || text.starts_with("t: record ");
                assert!(has_place && !text.contains(char::is_control), "{format:?}: {text:?}");
                assert!(reader.next_record().is_none(), "{format:?}: a record follows an error");
                return (requests, Some(text));
            }
            None => {
                assert!(reader.next_record().is_none(), "{format:?}: a record follows the end");
                break;
            }
        }
    }
    (requests, None)
}

/// A source that returns one, two and three bytes in rotation.
struct Pieces {
    file: Vec<u8>,
    at: usize,
}

impl Read for Pieces {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let left = &self.file[self.at..];
        let len = (1 + self.at % 3).min(left.len()).min(into.len());
        into[..len].copy_from_slice(&left[..len]);
        self.at += len;
        Ok(len)
    }
}
