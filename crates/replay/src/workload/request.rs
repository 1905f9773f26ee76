//! The requests of a workload, and its errors.

use slabwise_base::Cost;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A lookup. A look-aside replay sets the key after a miss.
    Get,
    /// A store that is not caused by a miss.
    Set,
    /// A deletion.
    Delete,
}

/// One request of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The key's number; on the wire `k` and 16 hexadecimal digits.
    pub key: u64,
    /// The length of the key's value in bytes, at least 1.
    pub value_len: u32,
    /// The operation.
    pub op: Op,
    /// The cost to recompute the value, if it is known.
    pub cost: Option<Cost>,
}

/// An error of opening or reading a workload.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts explain the variants")]
pub enum WorkloadError {
    #[error("unknown workload '{name}': choose one of {known}, trace:FILE or csv:POP:SIZES")]
    UnknownName { name: String, known: String },
    #[error("{0}")]
    Option(String),
    #[error("cannot open {path}: {source}")]
    Open { path: String, source: std::io::Error },
    /// `place` is the number of a line, from 1, or of a record, from 0.
    #[error("{trace}: {place}: {reason}")]
    Trace { trace: String, place: String, reason: String },
    #[error("{table}: {reason}")]
    Table { table: String, reason: String },
}
