//! Reads text traces, in which each line describes a request.
//!
//! - `twitter`: the columns are time, key, key length, value length, client, operation, lifetime. The key can contain
//!   commas. The operations get and gets are gets, delete is a delete, and all other known operations are sets; an
//!   unknown operation is an error. Source: J. Yang and others, "A large scale analysis of hundreds of in-memory cache
//!   clusters at Twitter", OSDI 2020.
//! - `kvcache`: a header names the columns. `key`, `op` and `size` are required. `op_count` is the number of times that
//!   the request is repeated. Without a header, the columns are key, op, size, op_count. The operations are those of
//!   `twitter` in capitals, and also GET_LEASE and SET_LEASE.
//! - `key-size`: a line contains a key and a length, separated by white space or a comma. Empty lines, lines that begin
//!   with #, and a first line `key,size` are skipped.

use super::source::{Fault, Repeated, Source, reason_of};
use crate::workload::request::{Op, Request};
use slabwise_base::KeyHasher;
use std::io::{BufRead, Read};

/// The maximum length of a line in bytes. A longer line is an error.
const LINE_LEN_MAX: usize = 1 << 16;

/// The number of columns after the key in a twitter trace: key length, value length, client, operation, lifetime.
pub(super) const TWITTER_COLUMNS_AFTER_KEY: usize = 5;

/// A reader of a text trace.
struct Lines {
    source: Source,
    /// The current line.
    line: Vec<u8>,
    /// The number of lines before the current line.
    lines_read: u64,
    parser: Parser,
    /// Hashes the text of a key to the key of the request.
    hasher: KeyHasher,
}

/// The format of the lines.
pub(super) enum Parser {
    Twitter,
    Kvcache(Columns),
    KeySize,
}

/// The positions of the columns in a kvcache trace, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    key: usize,
    op: usize,
    size: usize,
    /// `None` if the trace has no column `op_count`.
    op_count: Option<usize>,
}

/// The columns of a kvcache trace without a header.
pub(super) const DEFAULT_COLUMNS: Columns = Columns { key: 0, op: 1, size: 2, op_count: Some(3) };

/// The header that a key-size trace may have.
const KEY_SIZE_HEADER: &[u8] = b"key,size";

/// The request of a line, `None` for a line without a request such as a comment, or the reason why the line is invalid.
type Parsed = Result<Option<Repeated>, String>;

/// Returns a function that reads the next request of a text trace. It returns `None` at the end.
pub(super) fn read_lines(
    source: Source,
    parser: Parser,
) -> Box<dyn FnMut() -> Option<Result<Repeated, Fault>>> {
    let hasher = KeyHasher::new(0);
    let mut lines = Lines { source, line: Vec::new(), lines_read: 0, parser, hasher };
    Box::new(move || lines.next())
}

impl Lines {
    /// Reads lines until one has a request. Returns `None` at the end of the trace.
    fn next(&mut self) -> Option<Result<Repeated, Fault>> {
        loop {
            self.line.clear();
            let mut bounded_source = self.source.by_ref().take(LINE_LEN_MAX as u64 + 1);
            let parsed = match bounded_source.read_until(b'\n', &mut self.line) {
                Ok(0) => return None,
                Ok(_) if self.line.len() > LINE_LEN_MAX => {
                    Err(format!("the line is longer than {LINE_LEN_MAX} bytes"))
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

    /// Parses the current line.
    fn parse(&mut self) -> Parsed {
        let line = self.line.trim_ascii_end();
        match &mut self.parser {
            Parser::Twitter => parse_twitter(line, &self.hasher),
            Parser::KeySize if self.lines_read == 0 && line == KEY_SIZE_HEADER => Ok(None),
            Parser::KeySize => parse_key_size(line, &self.hasher),
            Parser::Kvcache(columns) => {
                let header = (self.lines_read == 0).then(|| parse_header(line)).flatten();
                if let Some(named) = header {
                    *columns = named?;
                    return Ok(None);
                }
                parse_kvcache(line, *columns, &self.hasher)
            }
        }
    }
}

/// Parses a line of a twitter trace. The columns are split from the end, because the key can contain commas.
fn parse_twitter(line: &[u8], hasher: &KeyHasher) -> Parsed {
    let mut columns = line.rsplitn(TWITTER_COLUMNS_AFTER_KEY + 1, |&byte| byte == b',');
    let mut column = || columns.next().ok_or("fewer than 7 columns");
    let (_ttl, op, _client, size, _key_len) =
        (column()?, column()?, column()?, column()?, column()?);
    let time_and_key = column()?;
    let comma = time_and_key.iter().position(|&byte| byte == b',');
    let key = &time_and_key[comma.ok_or("fewer than 7 columns")? + 1..];
    let Some(op) = parse_operation(op) else {
        return Err(format!(
            "unknown operation '{}': expected one of {TWITTER_OPERATIONS}",
            op.escape_ascii()
        ));
    };
    Ok(Some((request(key, size, op, hasher)?, 1)))
}

const TWITTER_OPERATIONS: &str =
    "get, gets, set, add, replace, cas, append, prepend, delete, incr, decr";

/// Returns the operation of a request with this name in a twitter trace, or `None` if the name is unknown.
pub(super) fn parse_operation(name: &[u8]) -> Option<Op> {
    Some(match name {
        b"get" | b"gets" => Op::Get,
        b"set" | b"add" | b"replace" | b"cas" | b"append" | b"prepend" | b"incr" | b"decr" => {
            Op::Set
        }
        b"delete" => Op::Delete,
        _ => return None,
    })
}

/// Parses the header of a kvcache trace. Returns `None` if the line is not a header, because it does not name the
/// columns `key` and `op`. Fails if a required column is missing.
fn parse_header(line: &[u8]) -> Option<Result<Columns, String>> {
    let names: Vec<&[u8]> = line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).collect();
    let place = |name: &str| names.iter().position(|&known| known == name.as_bytes());
    let required = |name| place(name).ok_or(format!("the header has no column '{name}'"));
    let columns = || {
        let (key, op, size) = (required("key")?, required("op")?, required("size")?);
        Ok(Columns { key, op, size, op_count: place("op_count") })
    };
    (place("key").is_some() && place("op").is_some()).then(columns)
}

/// Parses a line of a kvcache trace.
fn parse_kvcache(line: &[u8], columns: Columns, hasher: &KeyHasher) -> Parsed {
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
        return Err("the line has too few columns for key, op and size".to_owned());
    };
    let name = op.strip_suffix(b"_LEASE").unwrap_or(op).to_ascii_lowercase();
    let Some(op) = parse_operation(&name) else {
        return Err(format!(
            "unknown operation '{}': expected one of {TWITTER_OPERATIONS} in capitals, \
             or GET_LEASE or SET_LEASE",
            op.escape_ascii()
        ));
    };
    let repetitions = match op_count {
        None => 1,
        Some(count) => parse_number(count)
            .ok_or_else(|| format!("op_count '{}' is not a number", count.escape_ascii()))?,
    };
    Ok(Some((request(key, size, op, hasher)?, repetitions)))
}

/// Parses a line of a key-size trace.
fn parse_key_size(line: &[u8], hasher: &KeyHasher) -> Parsed {
    if line.is_empty() || line.starts_with(b"#") {
        return Ok(None);
    }
    let (key, size) = key_and_size(line).ok_or("the line is not a key and a size")?;
    Ok(Some((request(key, size, Op::Get, hasher)?, 1)))
}

/// Splits a line into key and size. The separator is the only white space of the line or, without white space, the last
/// comma. Returns `None` if the line has no separator, or white space at several places.
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

/// Returns the request with the hash of the key. Fails if the key is empty or the size is invalid.
fn request(key: &[u8], size: &[u8], op: Op, hasher: &KeyHasher) -> Result<Request, String> {
    if key.is_empty() {
        return Err("the key is empty".to_owned());
    }
    let value_len =
        parse_number(size).and_then(|size| u32::try_from(size).ok()).ok_or_else(|| {
            format!("size '{}' is not a number of bytes up to {}", size.escape_ascii(), u32::MAX)
        })?;
    Ok(Request { key: hasher.hash(key), value_len, op, cost: None })
}

/// Parses a decimal number, which spaces may surround. Returns `None` if it is not below 2^64.
fn parse_number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits.trim_ascii()).ok()?.parse().ok()
}
