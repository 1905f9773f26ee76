//! One request of a workload, and why there are no more.

use slabwise_base::Cost;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A look-up; in a look-aside replay a miss is followed by a set.
    Get,
    /// A store that no miss caused.
    Set,
    /// A removal.
    Delete,
}

/// One request of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The key's number; on the wire `k` and 16 hexadecimal digits.
    pub key: u64,
    /// The length of the key's value in bytes, at least 1.
    pub value_len: u32,
    /// What is asked.
    pub op: Op,
    /// What it costs to make the value anew, where that is known.
    pub cost: Option<Cost>,
}

/// Why a workload could not be opened or read on.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The name means nothing.
    #[error("no workload is called '{name}': choose one of {known}, trace:FILE or csv:POP:SIZES")]
    UnknownName {
        /// As given.
        name: String,
        /// All names that need no file.
        known: String,
    },
    /// An option that this workload cannot honour, or a value out of its range.
    #[error("{0}")]
    Option(String),
    /// A file that cannot be opened.
    #[error("cannot open {path}: {source}")]
    Open {
        /// The file's path as given.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A trace whose contents break the format.
    #[error("{trace}: {place}: {reason}")]
    Trace {
        /// The trace's name or path.
        trace: String,
        /// The bad line, from 1; or record, from 0.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A table whose contents break the format.
    #[error("{table}: {reason}")]
    Table {
        /// The table's name or path.
        table: String,
        /// What is wrong, with the line where it is known.
        reason: String,
    },
}
