//! One request of a workload.

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
