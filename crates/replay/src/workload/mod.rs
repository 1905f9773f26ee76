//! Workloads: what clients ask a cache for, request by request.
//!
//! A workload is a stream of keys and laws that give each key its value length and, if asked for, its cost:
//!
//! ```text
//! Keys  (trace | zipf | mixture | popularity table) --key-->  Lengths (fixed | size table | ETC | by part)
//!   \_____________________________ Request { key, value_len, op, cost } __________________________________/
//! ```
//!
//! Laws:
//! - The whole stream follows from its name and its [`Options`]: same seed, same requests.
//! - A key's derived length depends on the key and the seed alone, never on the order of requests.
//! - Only a trace that records lengths may give one key several ([`Lengths`] are not asked then), and the same
//!   goes for costs and [`CostMix`].
//!
//! A workload knows nothing of servers or protocols; the replay draws from it, and so do experiments.

mod costs;
mod lengths;
mod mixture;
mod mixtures;
mod mutilate;
mod named;
mod popularity;
mod sizes;
mod trace;
mod two_phase;
mod zipf;

#[cfg(test)]
pub(crate) mod tests;

pub use costs::CostMix;
pub use lengths::Lengths;
pub use mixture::{Mixture, key_of};
pub use mixtures::{MixtureName, Toy};
pub use named::{NAMES, Options, open};
pub use popularity::Popularity;
pub use sizes::Sizes;
pub use trace::{TraceFormat, TraceReader};
pub use two_phase::TwoPhase;
pub use zipf::Zipf;

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
    #[error("no workload is called '{0}': choose one of {names}, trace:FILE or csv:POP:SIZES", names = NAMES.join(", "))]
    UnknownName(String),
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

/// Where the keys come from. The drawn kinds are endless; a trace ends.
#[derive(Debug)]
pub enum Keys {
    /// Recorded requests.
    Trace(Box<TraceReader>),
    /// One Zipf law over all keys.
    Zipf(Zipf),
    /// One class of items first, then two.
    TwoPhase(TwoPhase),
    /// Several Zipf laws, in shares that may change.
    Mixture(Mixture),
    /// A loop beside keys that never come again.
    Toy(Toy),
    /// Measured popularity: a bucket by weight, a key uniformly in it.
    Popularity(Popularity),
}

/// A stream of requests: an iterator whose items are requests or the reason why it stops.
#[derive(Debug)]
pub struct Workload {
    keys: Keys,
    lengths: Lengths,
    /// Longer values are cut to this, in bytes.
    value_len_max: u32,
    /// The law of costs, and the seed that they follow from.
    costs: Option<(CostMix, u64)>,
    /// Requests still to come, or `None` where the trace alone ends the stream.
    remaining: Option<u64>,
    /// The length that the stream is known to have, for progress.
    requests_expected: Option<u64>,
}

impl Workload {
    /// A stream of `requests` requests, or of all that the keys have (which is endless for drawn ones).
    pub fn new(keys: Keys, lengths: Lengths, requests: Option<u64>) -> Workload {
        Workload {
            keys,
            lengths,
            value_len_max: u32::MAX,
            costs: None,
            remaining: requests,
            requests_expected: requests,
        }
    }

    /// The same requests; keys whose costs are not recorded have them by this law.
    pub fn with_costs(self, mix: CostMix, seed: u64) -> Workload {
        Workload { costs: Some((mix, seed)), ..self }
    }

    /// The same requests, their values no longer than so many bytes.
    pub fn with_value_len_max(self, value_len_max: u32) -> Workload {
        Workload { value_len_max, ..self }
    }

    /// How many requests are to be expected, where that is known before reading.
    pub fn requests_expected(&self) -> Option<u64> {
        self.requests_expected
    }

    /// Whether one key always has one value length, so that a reader may insist on it.
    pub fn one_length_per_key(&self) -> bool {
        match &self.keys {
            Keys::Trace(trace) => !trace.may_record_lengths() || self.lengths.is_override(),
            Keys::Zipf(_)
            | Keys::TwoPhase(_)
            | Keys::Mixture(_)
            | Keys::Toy(_)
            | Keys::Popularity(_) => true,
        }
    }

    /// The length of a key's value in bytes, where it is derived.
    pub fn value_len(&self, key: u64) -> u32 {
        self.lengths.of(key).min(self.value_len_max)
    }

    /// The cost of a key, where it is derived.
    fn cost(&self, key: u64) -> Option<Cost> {
        self.costs.map(|(mix, seed)| mix.cost_of(key, seed))
    }

    fn with_requests_expected(mut self, requests: u64) -> Workload {
        self.requests_expected = Some(self.remaining.map_or(requests, |limit| limit.min(requests)));
        self
    }
}

impl Iterator for Workload {
    type Item = Result<Request, WorkloadError>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.remaining {
            None => {}
            Some(0) => return None,
            Some(remaining) => *remaining -= 1,
        }
        let key = match &mut self.keys {
            Keys::Zipf(zipf) => zipf.next_key(),
            Keys::TwoPhase(two_phase) => two_phase.next_key(),
            Keys::Mixture(mixture) => mixture.next_key(),
            Keys::Toy(toy) => toy.next_key(),
            Keys::Popularity(popularity) => popularity.next_key(),
            Keys::Trace(trace) => {
                let record = match trace.next_record()? {
                    Ok(record) => record,
                    Err(error) => return Some(Err(error)),
                };
                let derived = record.value_len == 0 || self.lengths.is_override();
                let value_len =
                    if derived { self.lengths.of(record.key) } else { record.value_len };
                let value_len = value_len.min(self.value_len_max);
                let cost = record.cost.or_else(|| self.cost(record.key));
                return Some(Ok(Request { value_len, cost, ..record }));
            }
        };
        let (value_len, cost) = (self.value_len(key), self.cost(key));
        Some(Ok(Request { key, value_len, op: Op::Get, cost }))
    }
}
