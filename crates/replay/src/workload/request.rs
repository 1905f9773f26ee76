//! The requests of a workload, and its errors.

use slabwise_base::Cost;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A get. After a miss, the replay sends a set for the same key.
    Get,
    /// A set that the workload itself contains.
    Set,
    /// A delete.
    Delete,
}

/// One request of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The number of the key. The replay sends it as `k` and 16 hexadecimal digits.
    pub key: u64,
    /// The length of the value in bytes, at least 1.
    pub value_len: u32,
    /// The operation.
    pub op: Op,
    /// The cost of the item; `None` if it is unknown.
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
    /// The trace has an invalid line or record. `place` is the number of the line, from 1, or of the record, from 0.
    #[error("{trace}: {place}: {reason}")]
    Trace { trace: String, place: String, reason: String },
    #[error("{table}: {reason}")]
    Table { table: String, reason: String },
}
