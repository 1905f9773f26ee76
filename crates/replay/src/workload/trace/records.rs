//! Reads binary traces: fixed-size records of little-endian numbers, without a header.
//!
//! A record of slabwise's format has 16 bytes:
//!
//! | offset | type | field |
//! |--:|---|---|
//! | 0 | u64 | key |
//! | 8 | u32 | value length in bytes, 0 if unknown |
//! | 12 | u8 | operation: 0 get, 1 set, 2 delete |
//! | 13 | u8 | reserved, 0 |
//! | 14 | u16 | cost of the item in units, 0 if unknown |
//!
//! A record of libCacheSim's format oracleGeneral has 24 bytes and describes a get:
//!
//! | offset | type | field |
//! |--:|---|---|
//! | 0 | u32 | time in seconds, not used |
//! | 4 | u64 | key |
//! | 12 | u32 | size of the object in bytes, which becomes the value length |
//! | 16 | i64 | number of the record of the next request for the key; -1 or the largest i64 if there is none |

use super::source::{Fault, Repeated, Source, reason_of};
use crate::workload::request::{Op, Request};
use slabwise_base::Cost;
use std::io::{ErrorKind, Read};

/// The size of a record in bytes, and the function that decodes a record. The arguments of the function are the bytes
/// and the number of the record, from 0. Its error is the reason why the record is invalid.
type Format = (usize, fn(&[u8], u64) -> Result<Request, String>);
pub(super) const SLABWISE: Format = (16, decode_slabwise);
pub(super) const ORACLE_GENERAL: Format = (24, decode_oracle_general);
/// The number of records that are read from the source at a time.
const CHUNK_RECORDS: usize = 4096;

/// A reader of a binary trace.
struct Records {
    source: Source,
    record_size_bytes: usize,
    decode: fn(&[u8], u64) -> Result<Request, String>,
    /// Bytes that were read from the source. `start..end` are the positions of the records that are not returned yet.
    chunk: Vec<u8>,
    start: usize,
    end: usize,
    /// The number of records returned so far.
    records_read: u64,
    state: State,
}

/// The state of the source.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// The source may have more bytes.
    Open,
    /// The source has ended.
    Ended,
    /// The trace is invalid after the records in the chunk. Contains the reason.
    Broken(String),
}

/// Returns a function that reads the next request of a binary trace. It returns `None` at the end.
pub(super) fn read_records(
    source: Source,
    (record_size_bytes, decode): Format,
) -> Box<dyn FnMut() -> Option<Result<Repeated, Fault>>> {
    let chunk = vec![0; CHUNK_RECORDS * record_size_bytes];
    let (start, end, records_read, state) = (0, 0, 0, State::Open);
    let mut records =
        Records { source, record_size_bytes, decode, chunk, start, end, records_read, state };
    Box::new(move || Some(records.next()?.map(|request| (request, 1))))
}

impl Records {
    /// Decodes the next record. Returns `None` at the end of the trace.
    fn next(&mut self) -> Option<Result<Request, Fault>> {
        if self.start == self.end && self.state == State::Open {
            self.refill();
        }
        if self.start == self.end {
            let State::Broken(reason) = std::mem::replace(&mut self.state, State::Ended) else {
                return None;
            };
            return Some(Err(Fault { place: self.position(), reason }));
        }
        let record = &self.chunk[self.start..self.start + self.record_size_bytes];
        let decoded = (self.decode)(record, self.records_read);
        if decoded.is_ok() {
            self.start += self.record_size_bytes;
            self.records_read += 1;
        }
        Some(decoded.map_err(|reason| Fault { place: self.position(), reason }))
    }

    /// Describes the position of the next record, for errors.
    fn position(&self) -> String {
        let (record, size_bytes) = (self.records_read, self.record_size_bytes as u64);
        format!("record {record} (at byte {} of the decompressed trace)", record * size_bytes)
    }

    /// Reads until the chunk is full or the source ends, and keeps only whole records. If the source ends within a
    /// record, the trace is invalid after the whole records.
    fn refill(&mut self) {
        (self.start, self.end) = (0, 0);
        while self.end < self.chunk.len() && self.state == State::Open {
            match self.source.read(&mut self.chunk[self.end..]) {
                Ok(0) => self.state = State::Ended,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.state = State::Broken(reason_of(&error)),
            }
        }
        let rest = self.end % self.record_size_bytes;
        self.end -= rest;
        if rest > 0 && self.state == State::Ended {
            self.state = State::Broken(format!(
                "{rest} bytes remain after the last record: the file is not a sequence of {}-byte records",
                self.record_size_bytes
            ));
        }
    }
}

/// Decodes a record of slabwise's format.
fn decode_slabwise(bytes: &[u8], _: u64) -> Result<Request, String> {
    let invalid = |what: String| {
        format!(
            "{what}; if the file is a trace of libCacheSim, give --format oracleGeneral; if it is compressed, but not \
             with zstd, decompress it"
        )
    };
    let op = match bytes[12] {
        0 => Op::Get,
        1 => Op::Set,
        2 => Op::Delete,
        other => {
            return Err(invalid(format!("op {other} at byte 12 of the record is not 0, 1 or 2")));
        }
    };
    if bytes[13] != 0 {
        return Err(invalid(format!(
            "byte 13 of the record is {}, but it is reserved and must be 0",
            bytes[13]
        )));
    }
    let cost = match le_u64(&bytes[14..]) {
        0 => None,
        units => Some(Cost::from_units(units as u32)),
    };
    Ok(Request { key: le_u64(&bytes[..8]), value_len: le_u64(&bytes[8..12]) as u32, op, cost })
}

/// Decodes a record of oracleGeneral. Fails if the number of the next request for the key is below the number of this
/// record: the file then has another format, or its first record is not the first record of a trace.
fn decode_oracle_general(bytes: &[u8], record: u64) -> Result<Request, String> {
    let next = le_u64(&bytes[16..]) as i64;
    // Some programs write -2 instead of -1. Some number the records from 1 instead of 0.
    if next < -2 || (0..record as i64).contains(&next) {
        return Err(format!(
            "the next request for the key has the number {next}, which is not after this record: the file is not an \
             oracleGeneral trace, or not the beginning of a trace"
        ));
    }
    let value_len = le_u64(&bytes[12..16]) as u32;
    Ok(Request { key: le_u64(&bytes[4..12]), value_len, op: Op::Get, cost: None })
}

/// Returns the little-endian number of up to 8 bytes.
fn le_u64(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}
