//! The reader of traces of every format.

use super::format::TraceFormat;
use super::lines::Lines;
use super::records::Records;
use super::source::{Fault, Source, first_bytes, resumed};
use crate::workload::error::WorkloadError;
use crate::workload::request::Request;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};

/// Bytes from which the format is told.
const HEAD_LEN_MAX: u64 = 4096;

/// How a zstd frame begins; one to be skipped may come first (RFC 8878, sections 3.1.1 and 3.1.2).
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const SKIPPABLE_MAGIC: [u8; 3] = [0x2a, 0x4d, 0x18];

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

    /// Marks a trace that records no lengths.
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
