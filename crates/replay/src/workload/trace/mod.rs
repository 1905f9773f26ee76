//! Recorded requests, read as a stream in fixed memory.
//!
//! | format | what a record is | its requests |
//! |---|---|---|
//! | `slabwise` | 16 bytes ([`records`]) | gets, sets, deletes, costs |
//! | `oracleGeneral` | libCacheSim's 24 bytes ([`records`]) | gets |
//! | `twitter` | a line of twitter/cache-trace ([`lines`]) | as the operation says |
//! | `kvcache` | a line of CacheLib's kvcache traces ([`lines`]) | as the operation says, so many times |
//! | `key-size` | a line of a key and a length ([`lines`]) | gets |
//!
//! Any of them may be compressed with zstd, which its first bytes tell. Text tells its format by its first line, binary by
//! the file's name: with `oracleGeneral` in it, that; else slabwise's own.
//!
//! A length of 0 means that none is recorded, as of a get that missed. Keys that are text are hashed to 64 bits: of a
//! thousand million keys, three in a hundred traces would have two that are taken for one. What a trace tells beyond this
//! (times, clients, lifetimes, key lengths) is not used.
//!
//! Laws: what was read before the first fault is delivered; then the fault, with its place and a reason; then nothing.
//! Memory is bounded, whatever the file holds.

mod format;
mod lines;
mod records;

#[cfg(test)]
mod tests;

pub use format::TraceFormat;

use super::{Request, WorkloadError};
use lines::Lines;
use records::Records;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, ErrorKind, Read};

/// Bytes from which the format is told.
const HEAD_LEN_MAX: u64 = 4096;

/// How a zstd frame begins; one to be skipped may come first (RFC 8878, sections 3.1.1 and 3.1.2).
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const SKIPPABLE_MAGIC: [u8; 3] = [0x2a, 0x4d, 0x18];

/// A trace's bytes, decompressed.
type Source = Box<dyn BufRead>;

/// Reads a trace request by request.
pub struct TraceReader {
    name: String,
    body: Body,
    may_record_lengths: bool,
    /// A request that is to be delivered so many times more.
    repeated: Option<(Request, u64)>,
    is_over: bool,
}

enum Body {
    Records(Records),
    Lines(Lines),
}

/// What is wrong with a file, and where.
#[derive(Debug, PartialEq, Eq)]
struct Fault {
    place: String,
    reason: String,
}

impl std::fmt::Debug for TraceReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TraceReader({} at {})", self.name, self.place())
    }
}

impl TraceReader {
    /// Opens a trace file; `format` is told by the file where it is `None`.
    pub fn open(path: &str, format: Option<TraceFormat>) -> Result<TraceReader, WorkloadError> {
        let refuse = |source| WorkloadError::Open { path: path.to_owned(), source };
        let file = File::open(path).map_err(refuse)?;
        TraceReader::new(path, BufReader::new(file), format)
    }

    /// Reads a trace from `source`; `name` stands for it in errors, and tells the format of a binary one.
    pub fn new(
        name: &str,
        mut source: impl BufRead + 'static,
        format: Option<TraceFormat>,
    ) -> Result<TraceReader, WorkloadError> {
        let unreadable = |source| WorkloadError::Open { path: name.to_owned(), source };
        let (magic, pending) = first_bytes(&mut source, 4);
        let is_compressed = magic.starts_with(&ZSTD_MAGIC)
            || (magic.len() == 4 && magic[0] >> 4 == 5 && magic[1..] == SKIPPABLE_MAGIC);
        let mut source: Box<dyn Read> = Box::new(resumed(magic, pending, source));
        if is_compressed {
            source = Box::new(zstd::Decoder::new(source).map_err(unreadable)?);
        }
        let (head, pending) = first_bytes(&mut source, HEAD_LEN_MAX);
        let format = match format {
            Some(format) => format,
            None => TraceFormat::told_by(name, &head).map_err(|reason| WorkloadError::Trace {
                trace: name.to_owned(),
                place: "line 1".to_owned(),
                reason,
            })?,
        };
        let source: Source = Box::new(BufReader::new(resumed(head, pending, source)));
        let body = match format {
            TraceFormat::Slabwise => Body::Records(Records::slabwise(source)),
            TraceFormat::OracleGeneral => Body::Records(Records::oracle_general(source)),
            TraceFormat::Twitter => Body::Lines(Lines::twitter(source)),
            TraceFormat::Kvcache => Body::Lines(Lines::kvcache(source)),
            TraceFormat::KeySize => Body::Lines(Lines::key_size(source)),
        };
        Ok(TraceReader {
            name: name.to_owned(),
            body,
            may_record_lengths: true,
            repeated: None,
            is_over: false,
        })
    }

    /// The same of a trace that is known to record no lengths.
    pub fn without_lengths(self) -> TraceReader {
        TraceReader { may_record_lengths: false, ..self }
    }

    /// Whether records of this trace may carry value lengths of their own.
    pub fn may_record_lengths(&self) -> bool {
        self.may_record_lengths
    }

    /// The next request as recorded (a length of 0 means none), `None` after the last. After an error there are no more.
    pub fn next_record(&mut self) -> Option<Result<Request, WorkloadError>> {
        while !self.is_over {
            if let Some((request, left)) = &mut self.repeated {
                let request = *request;
                *left -= 1;
                if *left == 0 {
                    self.repeated = None;
                }
                return Some(Ok(request));
            }
            let next = match &mut self.body {
                Body::Records(records) => records.next().map(|next| next.map(|it| (it, 1))),
                Body::Lines(lines) => lines.next(),
            };
            match next {
                Some(Ok((request, 1))) => return Some(Ok(request)),
                Some(Ok((request, times))) => {
                    self.repeated = Some((request, times)).filter(|_| times > 0)
                }
                Some(Err(Fault { place, reason })) => {
                    self.is_over = true;
                    return Some(Err(WorkloadError::Trace {
                        trace: self.name.clone(),
                        place,
                        reason,
                    }));
                }
                None => self.is_over = true,
            }
        }
        None
    }

    fn place(&self) -> String {
        match &self.body {
            Body::Records(records) => records.place(),
            Body::Lines(lines) => lines.place(),
        }
    }
}

/// Up to so many bytes that a source begins with, and the error that ended them.
fn first_bytes(source: &mut impl Read, len_max: u64) -> (Vec<u8>, Option<std::io::Error>) {
    let mut head = Vec::new();
    let ended = source.by_ref().take(len_max).read_to_end(&mut head);
    (head, ended.err())
}

/// A source of which the first bytes were read, from its beginning; an error comes where it came.
fn resumed(head: Vec<u8>, pending: Option<std::io::Error>, rest: impl Read) -> impl Read {
    Cursor::new(head).chain(Pending(pending)).chain(rest)
}

/// An error that is yet to be told.
struct Pending(Option<std::io::Error>);

impl Read for Pending {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// Why a file cannot be read on.
fn reason_of(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof => "the file is cut short; copy it again".to_owned(),
        _ => format!("it cannot be read on: {error}"),
    }
}
