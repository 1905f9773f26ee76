//! Traces of lines.
//!
//! - `twitter`: time, key, key length, value length, client, operation, lifetime; the key may hold commas. Of the
//!   operations get and gets are gets, delete is a delete, all others are sets (J. Yang and others, A large scale analysis
//!   of hundreds of in-memory cache clusters at Twitter, OSDI 2020).
//! - `kvcache`: a header names the columns, of which `key`, `op` and `size` are needed and `op_count` says how often the
//!   request was made in a row; without a header they are key, op, size, op_count. Operations are those above in
//!   capitals, GET_LEASE and SET_LEASE.
//! - `key-size`: a key and a length, white space between; empty lines and those that begin with # are passed over.

use super::source::{Fault, Repeated, Source, reason_of};
use crate::workload::request::{Op, Request};
use slabwise_base::KeyHasher;
use std::io::{BufRead, Read};

/// A longer line is none of a trace.
const LINE_LEN_MAX: usize = 1 << 16;

/// Key length, value length, client, operation, lifetime.
pub(super) const TWITTER_COLUMNS_AFTER_KEY: usize = 5;

struct Lines {
    source: Source,
    line: Vec<u8>,
    lines_read: u64,
    parser: Parser,
    hasher: KeyHasher,
}

pub(super) enum Parser {
    Twitter,
    Kvcache(Columns),
    KeySize,
}

/// Where a kvcache trace has what, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    key: usize,
    op: usize,
    size: usize,
    op_count: Option<usize>,
}

/// Where they are without a header.
pub(super) const COLUMNS: Columns = Columns { key: 0, op: 1, size: 2, op_count: Some(3) };

/// What a line says; `None`: nothing.
type Parsed = Result<Option<Repeated>, String>;

pub(super) fn lines(
    source: Source,
    parser: Parser,
) -> Box<dyn FnMut() -> Option<Result<Repeated, Fault>>> {
    let hasher = KeyHasher::new(0);
    let mut lines = Lines { source, line: Vec::new(), lines_read: 0, parser, hasher };
    Box::new(move || lines.next())
}

impl Lines {
    fn next(&mut self) -> Option<Result<Repeated, Fault>> {
        loop {
            self.line.clear();
            let mut one = self.source.by_ref().take(LINE_LEN_MAX as u64 + 1);
            let parsed = match one.read_until(b'\n', &mut self.line) {
                Ok(0) => return None,
                Ok(_) if self.line.len() > LINE_LEN_MAX => {
                    Err(format!("it is longer than {LINE_LEN_MAX} bytes"))
                }
                Ok(_) => self.parse(),
                Err(error) => Err(reason_of(&error)),
            };
            self.lines_read += 1;
            match parsed {
                Ok(None) => {}
                Ok(Some(request)) => return Some(Ok(request)),
                Err(reason) => {
                    let place = format!("line {}", self.lines_read);
                    return Some(Err(Fault { place, reason }));
                }
            }
        }
    }

    fn parse(&mut self) -> Parsed {
        let line = self.line.trim_ascii_end();
        match &mut self.parser {
            Parser::Twitter => twitter(line, &self.hasher),
            Parser::KeySize => key_size(line, &self.hasher),
            Parser::Kvcache(columns) => {
                let header = (self.lines_read == 0).then(|| header(line)).flatten();
                if let Some(named) = header {
                    *columns = named?;
                    return Ok(None);
                }
                kvcache(line, *columns, &self.hasher)
            }
        }
    }
}

fn twitter(line: &[u8], hasher: &KeyHasher) -> Parsed {
    let mut columns = line.rsplitn(TWITTER_COLUMNS_AFTER_KEY + 1, |&byte| byte == b',');
    let mut column = || columns.next().ok_or("it has fewer than 7 columns");
    let (_ttl, op, _client, size, _key_len) =
        (column()?, column()?, column()?, column()?, column()?);
    let time_and_key = column()?;
    let comma = time_and_key.iter().position(|&byte| byte == b',');
    let key = &time_and_key[comma.ok_or("it has fewer than 7 columns")? + 1..];
    let Some(op) = operation(op) else {
        return Err(format!("operation '{}' is none of {TWITTER_OPERATIONS}", op.escape_ascii()));
    };
    Ok(Some((request(key, size, op, hasher)?, 1)))
}

const TWITTER_OPERATIONS: &str =
    "get, gets, set, add, replace, cas, append, prepend, delete, incr, decr";

pub(super) fn operation(name: &[u8]) -> Option<Op> {
    Some(match name {
        b"get" | b"gets" => Op::Get,
        b"set" | b"add" | b"replace" | b"cas" | b"append" | b"prepend" | b"incr" | b"decr" => {
            Op::Set
        }
        b"delete" => Op::Delete,
        _ => return None,
    })
}

/// The columns that a header names; `None`: the line is none.
fn header(line: &[u8]) -> Option<Result<Columns, String>> {
    let names: Vec<&[u8]> = line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).collect();
    let place = |name: &str| names.iter().position(|&known| known == name.as_bytes());
    let needed = |name| place(name).ok_or(format!("its header names no column '{name}'"));
    let columns = || {
        let (key, op, size) = (needed("key")?, needed("op")?, needed("size")?);
        Ok(Columns { key, op, size, op_count: place("op_count") })
    };
    (place("key").is_some() && place("op").is_some()).then(columns)
}

fn kvcache(line: &[u8], columns: Columns, hasher: &KeyHasher) -> Parsed {
    let (mut key, mut op, mut size, mut op_count) = (None, None, None, None);
    for (place, column) in line.split(|&byte| byte == b',').enumerate() {
        let column = column.trim_ascii();
        match place {
            place if place == columns.key => key = Some(column),
            place if place == columns.op => op = Some(column),
            place if place == columns.size => size = Some(column),
            place if Some(place) == columns.op_count => op_count = Some(column),
            _ => {}
        }
    }
    let (Some(key), Some(op), Some(size)) = (key, op, size) else {
        return Err("it has fewer columns than key, op and size need".to_owned());
    };
    let name = op.strip_suffix(b"_LEASE").unwrap_or(op).to_ascii_lowercase();
    let Some(op) = operation(&name) else {
        return Err(format!(
            "operation '{}' is none of {TWITTER_OPERATIONS} in capitals, GET_LEASE, SET_LEASE",
            op.escape_ascii()
        ));
    };
    let times = match op_count {
        None => 1,
        Some(count) => number(count)
            .ok_or_else(|| format!("op_count '{}' is no number", count.escape_ascii()))?,
    };
    Ok(Some((request(key, size, op, hasher)?, times)))
}

fn key_size(line: &[u8], hasher: &KeyHasher) -> Parsed {
    if line.is_empty() || line.starts_with(b"#") {
        return Ok(None);
    }
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let (Some(key), Some(size), None) = (words.next(), words.next(), words.next()) else {
        return Err("it is not a key and a size".to_owned());
    };
    Ok(Some((request(key, size, Op::Get, hasher)?, 1)))
}

fn request(key: &[u8], size: &[u8], op: Op, hasher: &KeyHasher) -> Result<Request, String> {
    if key.is_empty() {
        return Err("its key is empty".to_owned());
    }
    let value_len = number(size).and_then(|size| u32::try_from(size).ok()).ok_or_else(|| {
        format!("size '{}' is no number of bytes up to {}", size.escape_ascii(), u32::MAX)
    })?;
    Ok(Request { key: hasher.hash(key), value_len, op, cost: None })
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits.trim_ascii()).ok()?.parse().ok()
}
