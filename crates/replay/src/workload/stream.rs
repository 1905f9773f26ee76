//! The stream of requests: keys from a source, with their lengths and costs.

use super::costs::CostMix;
use super::lengths::Lengths;
use super::request::{Op, Request, WorkloadError};
use super::trace::TraceReader;
use slabwise_base::Cost;

enum Keys {
    Trace(Box<TraceReader>),
    /// An infinite stream.
    Drawn(Box<dyn FnMut() -> u64>),
}

/// A stream of requests: an iterator of requests that ends after an error.
pub struct Workload {
    keys: Keys,
    lengths: Lengths,
    value_len_max: u32,
    costs: Option<(CostMix, u64)>,
    /// The remaining requests; `None` if only the end of the trace limits them.
    remaining: Option<u64>,
    /// The number of requests, if it is known.
    requests_expected: Option<u64>,
}

impl std::fmt::Debug for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Workload({:?} requests remaining)", self.remaining)
    }
}

impl Workload {
    /// Returns a stream of `requests` requests for drawn keys.
    pub(super) fn drawn(
        keys: impl FnMut() -> u64 + 'static,
        lengths: Lengths,
        requests: u64,
    ) -> Workload {
        Workload::new(Keys::Drawn(Box::new(keys)), lengths, Some(requests))
    }

    /// Returns a stream of the requests of a trace, at most `requests`.
    pub(super) fn recorded(
        trace: TraceReader,
        lengths: Lengths,
        requests: Option<u64>,
    ) -> Workload {
        Workload::new(Keys::Trace(Box::new(trace)), lengths, requests)
    }

    fn new(keys: Keys, lengths: Lengths, requests: Option<u64>) -> Workload {
        let (value_len_max, costs) = (u32::MAX, None);
        let (remaining, requests_expected) = (requests, requests);
        Workload { keys, lengths, value_len_max, costs, remaining, requests_expected }
    }

    /// Gives keys without recorded costs a cost of this distribution.
    pub fn with_costs(self, mix: CostMix, seed: u64) -> Workload {
        Workload { costs: Some((mix, seed)), ..self }
    }

    /// Truncates values to `value_len_max` bytes.
    pub fn with_value_len_max(self, value_len_max: u32) -> Workload {
        Workload { value_len_max, ..self }
    }

    /// The number of requests, if it is known in advance.
    pub fn requests_expected(&self) -> Option<u64> {
        self.requests_expected
    }

    /// True if the value length of a key never changes.
    pub fn one_length_per_key(&self) -> bool {
        match &self.keys {
            Keys::Trace(trace) => !trace.may_record_lengths() || self.lengths.is_override(),
            Keys::Drawn(_) => true,
        }
    }

    /// Returns the derived length of a key's value in bytes.
    pub fn value_len(&self, key: u64) -> u32 {
        self.lengths.of(key).min(self.value_len_max)
    }

    fn cost(&self, key: u64) -> Option<Cost> {
        self.costs.map(|(mix, seed)| mix.cost_of(key, seed))
    }

    pub(super) fn with_requests_expected(mut self, requests: u64) -> Workload {
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
            Keys::Drawn(next) => next(),
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
