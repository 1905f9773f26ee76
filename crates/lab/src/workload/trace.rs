//! Recorded requests, read as a stream.
//!
//! A trace is a zstd file of 16-byte little-endian records, one request each, with no header:
//!
//! | offset | type | field |
//! |--:|---|---|
//! | 0 | u64 | key |
//! | 8 | u32 | value length in bytes, 0 where the trace has none |
//! | 12 | u8 | 0 get, 1 set, 2 delete |
//! | 13 | u8 | reserved, 0 |
//! | 14 | u16 | cost of a miss in units, 0 where unknown |
//!
//! A file that is not of this form stops with the record at which that shows.

use super::{Op, Request, WorkloadError};
use slabwise_base::Cost;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};

/// Bytes of one record.
pub const RECORD_SIZE_BYTES: usize = 16;
/// Records decoded at a time.
const CHUNK_RECORDS: usize = 4096;

/// Reads a trace record by record in fixed memory.
pub struct TraceReader {
    name: String,
    decoder: Box<dyn Read>,
    chunk: Vec<u8>,
    /// The undelivered part of `chunk`.
    start: usize,
    end: usize,
    records_read: u64,
    may_record_lengths: bool,
    state: State,
}

/// Whether more can be decoded.
#[derive(Debug, PartialEq, Eq)]
enum State {
    Open,
    Ended,
    /// The file breaks the format after the records in the chunk; the reason is yet to be told.
    Broken(String),
}

impl std::fmt::Debug for TraceReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TraceReader({} at record {})", self.name, self.records_read)
    }
}

impl TraceReader {
    /// Opens a trace file.
    pub fn open(path: &str) -> Result<TraceReader, WorkloadError> {
        let refuse = |source| WorkloadError::Open { path: path.to_owned(), source };
        let file = File::open(path).map_err(refuse)?;
        TraceReader::new(path, BufReader::new(file), true)
    }

    /// Reads a compressed trace from `source`; `name` stands for it in errors.
    /// `may_record_lengths` is false where the trace is known to carry no lengths.
    pub fn new(
        name: &str,
        source: impl std::io::BufRead + 'static,
        may_record_lengths: bool,
    ) -> Result<TraceReader, WorkloadError> {
        let decoder = zstd::Decoder::with_buffer(source)
            .map_err(|source| WorkloadError::Open { path: name.to_owned(), source })?;
        Ok(TraceReader {
            name: name.to_owned(),
            decoder: Box::new(decoder),
            chunk: vec![0; CHUNK_RECORDS * RECORD_SIZE_BYTES],
            start: 0,
            end: 0,
            records_read: 0,
            may_record_lengths,
            state: State::Open,
        })
    }

    /// Whether records of this trace may carry value lengths of their own.
    pub fn may_record_lengths(&self) -> bool {
        self.may_record_lengths
    }

    /// The next request as recorded (a length of 0 means none), `None` after the last. After an error
    /// there are no more.
    pub fn next_record(&mut self) -> Option<Result<Request, WorkloadError>> {
        if self.start == self.end && self.state == State::Open {
            self.refill();
        }
        if self.start == self.end {
            let State::Broken(reason) = std::mem::replace(&mut self.state, State::Ended) else {
                return None;
            };
            return Some(Err(self.refuse(reason)));
        }
        match decode(&self.chunk[self.start..self.start + RECORD_SIZE_BYTES]) {
            Ok(request) => {
                self.start += RECORD_SIZE_BYTES;
                self.records_read += 1;
                Some(Ok(request))
            }
            Err(reason) => {
                (self.start, self.end, self.state) = (0, 0, State::Ended);
                Some(Err(self.refuse(reason)))
            }
        }
    }

    /// Fills the chunk with whole records. Where the file breaks off, the records before that are
    /// still delivered.
    fn refill(&mut self) {
        (self.start, self.end) = (0, 0);
        while self.end < self.chunk.len() && self.state == State::Open {
            match self.decoder.read(&mut self.chunk[self.end..]) {
                Ok(0) => self.state = State::Ended,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    self.state = State::Broken("the file is cut short; copy it again".to_owned());
                }
                Err(error) => self.state = State::Broken(format!("not a zstd trace: {error}")),
            }
        }
        let rest = self.end % RECORD_SIZE_BYTES;
        self.end -= rest;
        if rest > 0 && self.state == State::Ended {
            self.state = State::Broken(format!(
                "{rest} bytes are left over: the file is not made of {RECORD_SIZE_BYTES}-byte records"
            ));
        }
    }

    fn refuse(&self, reason: String) -> WorkloadError {
        let (trace, record) = (self.name.clone(), self.records_read);
        WorkloadError::Trace { trace, record, offset: record * RECORD_SIZE_BYTES as u64, reason }
    }
}

/// Decodes one record; the error says what is wrong with it.
fn decode(bytes: &[u8]) -> Result<Request, String> {
    let (key, rest) = bytes.split_at(8);
    let (len, rest) = rest.split_at(4);
    let (rest, cost) = rest.split_at(2);
    let op = match rest[0] {
        0 => Op::Get,
        1 => Op::Set,
        2 => Op::Delete,
        other => return Err(format!("op {other} at byte 12 of the record is none of 0, 1, 2")),
    };
    if rest[1] != 0 {
        return Err(format!("byte 13 of the record is {}, but it is reserved as 0", rest[1]));
    }
    let cost = match le_u64(cost) {
        0 => None,
        units => Some(Cost::from_units(units as u32)),
    };
    Ok(Request { key: le_u64(key), value_len: le_u64(len) as u32, op, cost })
}

/// Up to eight little-endian bytes as a number.
fn le_u64(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}
