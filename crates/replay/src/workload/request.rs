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
#[expect(missing_docs, reason = "the texts say what each is")]
pub enum WorkloadError {
    #[error("no workload is called '{name}': choose one of {known}, trace:FILE or csv:POP:SIZES")]
    UnknownName { name: String, known: String },
    #[error("{0}")]
    Option(String),
    #[error("cannot open {path}: {source}")]
    Open { path: String, source: std::io::Error },
    /// `place` is a line, counted from 1, or a record, from 0.
    #[error("{trace}: {place}: {reason}")]
    Trace { trace: String, place: String, reason: String },
    #[error("{table}: {reason}")]
    Table { table: String, reason: String },
}
