//! Traces of fixed-size little-endian records, without a header.
//!
//! slabwise's format, 16 bytes:
//!
//! | offset | type | field |
//! |--:|---|---|
//! | 0 | u64 | key |
//! | 8 | u32 | value length in bytes, 0 if unknown |
//! | 12 | u8 | 0 get, 1 set, 2 delete |
//! | 13 | u8 | reserved, 0 |
//! | 14 | u16 | miss cost in units, 0 if unknown |
//!
//! libCacheSim's oracleGeneral, 24 bytes, only gets:
//!
//! | offset | type | field |
//! |--:|---|---|
//! | 0 | u32 | time in seconds |
//! | 4 | u64 | key |
//! | 12 | u32 | size of the object in bytes, which becomes the value length |
//! | 16 | i64 | number of the next request for the key, -1 or the largest i64 if there is none |

use super::source::{Fault, Repeated, Source, reason_of};
use crate::workload::request::{Op, Request};
use slabwise_base::Cost;
use std::io::{ErrorKind, Read};

/// The size of a record, and the function that decodes it. The second argument is the number of the record, from 0.
type Format = (usize, fn(&[u8], u64) -> Result<Request, String>);
pub(super) const SLABWISE: Format = (16, slabwise);
pub(super) const ORACLE_GENERAL: Format = (24, oracle_general);
/// The number of records read at a time.
const CHUNK_RECORDS: usize = 4096;

struct Records {
    source: Source,
    record_size_bytes: usize,
    decode: fn(&[u8], u64) -> Result<Request, String>,
    chunk: Vec<u8>,
    /// `start..end` is the unread part of `chunk`.
    start: usize,
    end: usize,
    records_read: u64,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Open,
    Ended,
    /// The file is invalid after the records in the chunk, for this reason.
    Broken(String),
}

pub(super) fn records(
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
    fn next(&mut self) -> Option<Result<Request, Fault>> {
        if self.start == self.end && self.state == State::Open {
            self.refill();
        }
        if self.start == self.end {
            let State::Broken(reason) = std::mem::replace(&mut self.state, State::Ended) else {
                return None;
            };
            return Some(Err(Fault { place: self.place(), reason }));
        }
        let record = &self.chunk[self.start..self.start + self.record_size_bytes];
        let decoded = (self.decode)(record, self.records_read);
        if decoded.is_ok() {
            self.start += self.record_size_bytes;
            self.records_read += 1;
        }
        Some(decoded.map_err(|reason| Fault { place: self.place(), reason }))
    }

    fn place(&self) -> String {
        let (record, size_bytes) = (self.records_read, self.record_size_bytes as u64);
        format!("record {record} (at byte {} of the decompressed trace)", record * size_bytes)
    }

    /// Fills the chunk with whole records. The records before a truncated one are returned.
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
                "{rest} bytes remain: the file is not a sequence of {}-byte records",
                self.record_size_bytes
            ));
        }
    }
}

fn slabwise(bytes: &[u8], _: u64) -> Result<Request, String> {
    let invalid = |what: String| {
        format!(
            "{what}; give --format oracleGeneral if the file is libCacheSim's, and decompress it if it is compressed \
             otherwise than with zstd"
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

/// Decodes a record of oracleGeneral. The number of the next request must be above the current one; otherwise the file
/// has another format or does not start at the beginning of a trace.
fn oracle_general(bytes: &[u8], record: u64) -> Result<Request, String> {
    let next = le_u64(&bytes[16..]) as i64;
    // Some writers use -2, too. Numbers start at 0 or 1.
    if next < -2 || (0..record as i64).contains(&next) {
        return Err(format!(
            "the next request for the key is number {next}, which is not after this one: the file is not an \
             oracleGeneral trace, or not from its beginning"
        ));
    }
    let value_len = le_u64(&bytes[12..16]) as u32;
    Ok(Request { key: le_u64(&bytes[4..12]), value_len, op: Op::Get, cost: None })
}

fn le_u64(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}
