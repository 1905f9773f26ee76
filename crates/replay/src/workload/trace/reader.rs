//! The trace formats, their detection, and the reader for all of them.

use super::lines::{COLUMNS, Parser, TWITTER_COLUMNS_AFTER_KEY, key_and_size, lines, operation};
use super::records::{ORACLE_GENERAL, SLABWISE, records};
use super::source::{Fault, Repeated, Source, first_bytes, resumed};
use crate::workload::request::{Request, WorkloadError};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};

/// A trace format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TraceFormat {
    /// slabwise's records of 16 bytes.
    Slabwise,
    /// libCacheSim's oracleGeneral: records of 24 bytes.
    #[value(name = "oracleGeneral", alias = "oraclegeneral")]
    OracleGeneral,
    /// Lines of twitter/cache-trace.
    Twitter,
    /// Lines of CacheLib's kvcache traces.
    Kvcache,
    /// Lines with a key and a length.
    KeySize,
}

impl TraceFormat {
    /// Detects the format from the name and the first bytes of a trace.
    pub(super) fn detect(name: &str, head: &[u8]) -> Result<TraceFormat, String> {
        if name.to_ascii_lowercase().contains("oraclegeneral") {
            return Ok(TraceFormat::OracleGeneral);
        }
        if !is_text(head) || head.is_empty() {
            return Ok(TraceFormat::Slabwise);
        }
        let end = head.iter().position(|&byte| byte == b'\n').unwrap_or(head.len());
        let line = head[..end].strip_suffix(b"\r").unwrap_or(&head[..end]);
        let columns: Vec<&[u8]> = line.split(|&byte| byte == b',').collect();
        let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let has = |name: &str| columns.iter().any(|column| column.trim_ascii() == name.as_bytes());
        let is_twitter = columns.len() > TWITTER_COLUMNS_AFTER_KEY + 1
            && operation(columns[columns.len() - 2]).is_some();
        if has("key") && has("op") {
            Ok(TraceFormat::Kvcache)
        } else if is_twitter {
            Ok(TraceFormat::Twitter)
        } else if line.trim_ascii().is_empty()
            || line.starts_with(b"#")
            || words.count() == 2
            || columns.len() == 2 && key_and_size(line).is_some()
        {
            Ok(TraceFormat::KeySize)
        } else {
            Err("unknown text format: neither seven columns with an operation (twitter), nor a header with 'key' and \
                 'op' (kvcache), nor a key and a size (key-size); if it is one of them, give --format"
                .to_owned())
        }
    }
}

/// True if the bytes have no control characters except tabs and line breaks. A record of slabwise is not text, because
/// its reserved byte is 0.
fn is_text(bytes: &[u8]) -> bool {
    bytes
        .iter()
        .all(|&byte| matches!(byte, b'\t' | b'\n' | b'\r') || (byte >= b' ' && byte != 0x7f))
}

/// The number of bytes from which the format is detected.
const HEAD_LEN_MAX: u64 = 4096;

/// The magic number of zstd frames, which may follow a skippable frame (RFC 8878, sections 3.1.1 and 3.1.2).
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const SKIPPABLE_MAGIC: [u8; 3] = [0x2a, 0x4d, 0x18];

/// Reads a trace request by request.
pub struct TraceReader {
    name: String,
    next: Box<dyn FnMut() -> Option<Result<Repeated, Fault>>>,
    may_record_lengths: bool,
    /// The current request and its remaining repetitions.
    pending: Option<Repeated>,
    is_done: bool,
}

impl std::fmt::Debug for TraceReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TraceReader({})", self.name)
    }
}

impl TraceReader {
    /// Opens a trace file. Without a `format` it is detected.
    pub(crate) fn open(
        path: &str,
        format: Option<TraceFormat>,
    ) -> Result<TraceReader, WorkloadError> {
        let failed = |source| WorkloadError::Open { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        TraceReader::new(path, BufReader::new(file), format)
    }

    /// Reads a trace from `source`. `name` is its name in errors, and used to detect a binary format.
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
            None => TraceFormat::detect(name, &head).map_err(|reason| {
                let (trace, place) = (name.to_owned(), "line 1".to_owned());
                WorkloadError::Trace { trace, place, reason }
            })?,
        };
        let source: Source = Box::new(BufReader::new(resumed(head, pending, source)));
        Ok(TraceReader {
            name: name.to_owned(),
            next: match format {
                TraceFormat::Slabwise => records(source, SLABWISE),
                TraceFormat::OracleGeneral => records(source, ORACLE_GENERAL),
                TraceFormat::Twitter => lines(source, Parser::Twitter),
                TraceFormat::Kvcache => lines(source, Parser::Kvcache(COLUMNS)),
                TraceFormat::KeySize => lines(source, Parser::KeySize),
            },
            may_record_lengths: true,
            pending: None,
            is_done: false,
        })
    }

    /// Marks the trace as one without lengths.
    pub(crate) fn without_lengths(self) -> TraceReader {
        TraceReader { may_record_lengths: false, ..self }
    }

    /// True if records can have value lengths.
    pub(crate) fn may_record_lengths(&self) -> bool {
        self.may_record_lengths
    }

    /// Returns the next recorded request; `None` after the last one or after an error. The length 0 means that no length
    /// is recorded.
    pub fn next_record(&mut self) -> Option<Result<Request, WorkloadError>> {
        while !self.is_done {
            if let Some((request, left @ 1..)) = &mut self.pending {
                *left -= 1;
                return Some(Ok(*request));
            }
            match (self.next)() {
                Some(Ok(next)) => self.pending = Some(next),
                Some(Err(Fault { place, reason })) => {
                    self.is_done = true;
                    let trace = self.name.clone();
                    return Some(Err(WorkloadError::Trace { trace, place, reason }));
                }
                None => self.is_done = true,
            }
        }
        None
    }
}
