//! Text traces with one request per line.
//!
//! - `twitter`: time, key, key length, value length, client, operation, lifetime. The key can contain commas. The
//!   operations get and gets are gets, delete is a delete, all others are sets (J. Yang and others, A large scale analysis
//!   of hundreds of in-memory cache clusters at Twitter, OSDI 2020).
//! - `kvcache`: a header names the columns. `key`, `op` and `size` are required; `op_count` is the number of repetitions of
//!   the request. Without a header the columns are key, op, size, op_count. The operations are those above in capitals,
//!   GET_LEASE and SET_LEASE.
//! - `key-size`: a key and a length, separated by white space or a comma. Empty lines, lines that begin with #, and a
//!   header `key,size` are skipped.

use super::source::{Fault, Repeated, Source, reason_of};
use crate::workload::request::{Op, Request};
use slabwise_base::KeyHasher;
use std::io::{BufRead, Read};

/// The maximum length of a line.
const LINE_LEN_MAX: usize = 1 << 16;

/// The number of columns after the key: key length, value length, client, operation, lifetime.
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

/// The indexes of the columns of a kvcache trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    key: usize,
    op: usize,
    size: usize,
    op_count: Option<usize>,
}

/// The columns without a header.
pub(super) const COLUMNS: Columns = Columns { key: 0, op: 1, size: 2, op_count: Some(3) };

const KEY_SIZE_HEADER: &[u8] = b"key,size";

/// The request of a line; `None` if the line has none.
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
                    Err(format!("longer than {LINE_LEN_MAX} bytes"))
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
            Parser::KeySize if self.lines_read == 0 && line == KEY_SIZE_HEADER => Ok(None),
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
    let mut column = || columns.next().ok_or("fewer than 7 columns");
    let (_ttl, op, _client, size, _key_len) =
        (column()?, column()?, column()?, column()?, column()?);
    let time_and_key = column()?;
    let comma = time_and_key.iter().position(|&byte| byte == b',');
    let key = &time_and_key[comma.ok_or("fewer than 7 columns")? + 1..];
    let Some(op) = operation(op) else {
        return Err(format!(
            "unknown operation '{}': expected {TWITTER_OPERATIONS}",
            op.escape_ascii()
        ));
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

/// Parses a header; `None` if the line is not a header.
fn header(line: &[u8]) -> Option<Result<Columns, String>> {
    let names: Vec<&[u8]> = line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).collect();
    let place = |name: &str| names.iter().position(|&known| known == name.as_bytes());
    let needed = |name| place(name).ok_or(format!("the header has no column '{name}'"));
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
        return Err("too few columns for key, op and size".to_owned());
    };
    let name = op.strip_suffix(b"_LEASE").unwrap_or(op).to_ascii_lowercase();
    let Some(op) = operation(&name) else {
        return Err(format!(
            "unknown operation '{}': expected {TWITTER_OPERATIONS} in capitals, GET_LEASE or SET_LEASE",
            op.escape_ascii()
        ));
    };
    let times = match op_count {
        None => 1,
        Some(count) => number(count)
            .ok_or_else(|| format!("op_count '{}' is not a number", count.escape_ascii()))?,
    };
    Ok(Some((request(key, size, op, hasher)?, times)))
}

fn key_size(line: &[u8], hasher: &KeyHasher) -> Parsed {
    if line.is_empty() || line.starts_with(b"#") {
        return Ok(None);
    }
    let (key, size) = key_and_size(line).ok_or("not a key and a size")?;
    Ok(Some((request(key, size, Op::Get, hasher)?, 1)))
}

/// Splits a line at its white space, or else at its last comma.
pub(super) fn key_and_size(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    match (words.next()?, words.next(), words.next()) {
        (key, Some(size), None) => Some((key.strip_suffix(b",").unwrap_or(key), size)),
        (line, None, None) => {
            let comma = line.iter().rposition(|&byte| byte == b',')?;
            Some((&line[..comma], &line[comma + 1..]))
        }
        _ => None,
    }
}

fn request(key: &[u8], size: &[u8], op: Op, hasher: &KeyHasher) -> Result<Request, String> {
    if key.is_empty() {
        return Err("the key is empty".to_owned());
    }
    let value_len = number(size).and_then(|size| u32::try_from(size).ok()).ok_or_else(|| {
        format!("size '{}' is not a number of bytes up to {}", size.escape_ascii(), u32::MAX)
    })?;
    Ok(Request { key: hasher.hash(key), value_len, op, cost: None })
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits.trim_ascii()).ok()?.parse().ok()
}
