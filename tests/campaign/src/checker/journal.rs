//! The last requests for a key, for the report of a violation.

use crate::operation::{Operation, Outcome};
use crate::stamps::Stamp;
use std::collections::VecDeque;
use std::fmt;

/// The number of requests that a journal keeps.
const ENTRIES_MAX: usize = 24;

#[derive(Clone, Debug)]
struct Entry {
    operation: Operation,
    outcome: Summary,
    begin: Stamp,
    end: Stamp,
}

/// An outcome without the bytes of its reply.
#[derive(Clone, Debug)]
enum Summary {
    Hit { version: Option<u32>, len: usize, cas: Option<u64> },
    Stored(Option<u64>),
    Number(u64),
    Other(&'static str),
}

/// The last requests for a key, in the order of their replies.
#[derive(Debug, Default)]
pub struct Journal {
    entries: VecDeque<Entry>,
}

impl Journal {
    /// Adds a request.
    pub fn note(&mut self, operation: &Operation, outcome: Outcome<'_>, begin: Stamp, end: Stamp) {
        if self.entries.len() == ENTRIES_MAX {
            self.entries.pop_front();
        }
        let outcome = Summary::of(outcome);
        self.entries.push_back(Entry { operation: *operation, outcome, begin, end });
    }
}

impl Summary {
    fn of(outcome: Outcome<'_>) -> Summary {
        Summary::Other(match outcome {
            Outcome::Hit { value, cas, .. } => {
                let named = value.first_chunk().filter(|_| value.len() >= crate::value::HEAD_LEN);
                let version = named.map(|bytes| u32::from_le_bytes(*bytes));
                return Summary::Hit { version, len: value.len(), cas };
            }
            Outcome::Stored(cas) => return Summary::Stored(cas),
            Outcome::Number(number) => return Summary::Number(number),
            Outcome::Miss => "not found",
            Outcome::NotStored => "not stored",
            Outcome::Exists => "exists",
            Outcome::Deleted => "deleted",
            Outcome::Touched => "touched",
            Outcome::Refused(_) => "refused",
            Outcome::Silent => "no reply",
            Outcome::Lost => "connection lost",
        })
    }
}

impl fmt::Display for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Entry { operation, outcome, begin, end } in &self.entries {
            write!(f, "  {begin:>10} ..{end:>10}  {:<8}", operation.verb.name())?;
            if operation.version != 0 {
                write!(
                    f,
                    " no. {} ({} bytes, TTL {})",
                    operation.version, operation.len, operation.ttl_seconds
                )?;
            }
            if operation.quiet {
                write!(f, " quiet")?;
            }
            if operation.cas.0 != 0 {
                write!(f, " CAS value {} of version {}", operation.cas.0, operation.cas.1)?;
            }
            match outcome {
                Summary::Hit { version, len, cas } => {
                    write!(f, " -> a value of {len} bytes")?;
                    version.map_or(Ok(()), |version| write!(f, ", version {version}"))?;
                    cas.map_or(Ok(()), |cas| write!(f, ", CAS value {cas}"))?;
                }
                Summary::Stored(cas) => {
                    write!(f, " -> stored")?;
                    cas.map_or(Ok(()), |cas| write!(f, ", CAS value {cas}"))?;
                }
                Summary::Number(number) => write!(f, " -> {number}")?,
                Summary::Other(text) => write!(f, " -> {text}")?,
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
