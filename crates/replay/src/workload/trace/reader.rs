//! The trace formats, the detection of the format, and a reader for all formats.

use super::lines::{
    DEFAULT_COLUMNS, Parser, TWITTER_COLUMNS_AFTER_KEY, key_and_size, parse_operation, read_lines,
};
use super::records::{ORACLE_GENERAL, SLABWISE, read_records};
use super::source::{Fault, Repeated, Source, prepend, read_head};
use crate::workload::request::{Request, WorkloadError};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};

/// A trace format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TraceFormat {
    /// Records of 16 bytes of slabwise's own format.
    Slabwise,
    /// Records of 24 bytes of libCacheSim's format oracleGeneral.
    #[value(name = "oracleGeneral", alias = "oraclegeneral")]
    OracleGeneral,
    /// Lines of the traces in the repository twitter/cache-trace.
    Twitter,
    /// Lines of CacheLib's kvcache traces.
    Kvcache,
    /// Lines with a key and a value length.
    KeySize,
}

impl TraceFormat {
    /// Detects the format from the name and the first bytes of a trace. Returns the reason if the trace is text of an
    /// unknown format.
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
            && parse_operation(columns[columns.len() - 2]).is_some();
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
            Err("unknown text format: the line has neither seven columns with an operation (twitter), nor a header \
                 with 'key' and 'op' (kvcache), nor a key and a size (key-size); if the format is one of these, \
                 give --format"
                .to_owned())
        }
    }
}

/// True if the bytes contain no control characters except tabs and line ends. A record of slabwise's format is
/// therefore not text, because its reserved byte is 0.
fn is_text(bytes: &[u8]) -> bool {
    bytes
        .iter()
        .all(|&byte| matches!(byte, b'\t' | b'\n' | b'\r') || (byte >= b' ' && byte != 0x7f))
}

/// The maximum number of bytes that the detection of the format reads.
const HEAD_LEN_MAX: u64 = 4096;

/// The first bytes of a zstd frame (RFC 8878, section 3.1.1).
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The second to fourth byte of a skippable frame, which may precede zstd frames. The first byte is 0x50 to 0x5f (RFC
/// 8878, section 3.1.2).
const SKIPPABLE_MAGIC: [u8; 3] = [0x2a, 0x4d, 0x18];

/// Reads the requests of a trace one by one.
pub struct TraceReader {
    /// The name of the trace, for errors.
    name: String,
    /// Reads the next request and its number of repetitions.
    next: Box<dyn FnMut() -> Option<Result<Repeated, Fault>>>,
    /// False if no record of the trace has a value length.
    may_record_lengths: bool,
    /// The current request and the number of times that it is still to be returned.
    current: Option<Repeated>,
    /// True after the last request or an error.
    is_done: bool,
}

impl std::fmt::Debug for TraceReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TraceReader({})", self.name)
    }
}

impl TraceReader {
    /// Opens a trace file. If `format` is `None`, detects the format.
    pub(crate) fn open(
        path: &str,
        format: Option<TraceFormat>,
    ) -> Result<TraceReader, WorkloadError> {
        let open_error = |source| WorkloadError::Open { path: path.to_owned(), source };
        let file = File::open(path).map_err(open_error)?;
        TraceReader::new(path, BufReader::new(file), format)
    }

    /// Reads a trace from `source`. If `format` is `None`, detects the format. `name` is the name of the trace for
    /// errors and for the detection of a binary format.
    pub fn new(
        name: &str,
        mut source: impl BufRead + 'static,
        format: Option<TraceFormat>,
    ) -> Result<TraceReader, WorkloadError> {
        let open_error = |source| WorkloadError::Open { path: name.to_owned(), source };
        let (magic, read_error) = read_head(&mut source, 4);
        let is_compressed = magic.starts_with(&ZSTD_MAGIC)
            || (magic.len() == 4 && magic[0] >> 4 == 5 && magic[1..] == SKIPPABLE_MAGIC);
        let mut source: Box<dyn Read> = Box::new(prepend(magic, read_error, source));
        if is_compressed {
            source = Box::new(zstd::Decoder::new(source).map_err(open_error)?);
        }
        let (head, read_error) = read_head(&mut source, HEAD_LEN_MAX);
        let format = match format {
            Some(format) => format,
            None => TraceFormat::detect(name, &head).map_err(|reason| {
                let (trace, place) = (name.to_owned(), "line 1".to_owned());
                WorkloadError::Trace { trace, place, reason }
            })?,
        };
        let source: Source = Box::new(BufReader::new(prepend(head, read_error, source)));
        Ok(TraceReader {
            name: name.to_owned(),
            next: match format {
                TraceFormat::Slabwise => read_records(source, SLABWISE),
                TraceFormat::OracleGeneral => read_records(source, ORACLE_GENERAL),
                TraceFormat::Twitter => read_lines(source, Parser::Twitter),
                TraceFormat::Kvcache => read_lines(source, Parser::Kvcache(DEFAULT_COLUMNS)),
                TraceFormat::KeySize => read_lines(source, Parser::KeySize),
            },
            may_record_lengths: true,
            current: None,
            is_done: false,
        })
    }

    /// Declares that no record of the trace has a value length.
    pub(crate) fn without_lengths(self) -> TraceReader {
        TraceReader { may_record_lengths: false, ..self }
    }

    /// True if records of the trace may have value lengths.
    pub(crate) fn may_record_lengths(&self) -> bool {
        self.may_record_lengths
    }

    /// Returns the next recorded request. Returns `None` after the last request or after an error. The length 0 means
    /// that no length is recorded.
    pub fn next_record(&mut self) -> Option<Result<Request, WorkloadError>> {
        while !self.is_done {
            if let Some((request, left @ 1..)) = &mut self.current {
                *left -= 1;
                return Some(Ok(*request));
            }
            match (self.next)() {
                Some(Ok(next)) => self.current = Some(next),
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
