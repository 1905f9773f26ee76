//! The stream of requests of a workload: keys from a source, with their lengths and costs.

use super::costs::CostMix;
use super::lengths::Lengths;
use super::request::{Op, Request, WorkloadError};
use super::trace::TraceReader;
use slabwise_base::Cost;

/// The source of the keys.
enum Keys {
    Trace(Box<TraceReader>),
    /// Complete requests, with lengths and costs.
    Given(std::vec::IntoIter<Request>),
    /// Returns the next key of an infinite random stream.
    Drawn(Box<dyn FnMut() -> u64>),
}

/// A stream of requests: an iterator that ends after the last request or after an error.
pub struct Workload {
    keys: Keys,
    lengths: Lengths,
    /// The number of bytes that are added to each value length that is not recorded.
    longer_bytes: u32,
    /// The maximum value length in bytes. Longer values are truncated.
    value_len_max: u32,
    /// The distribution and the seed of the costs; `None` if only recorded costs are used.
    costs: Option<(CostMix, u64)>,
    /// The maximum number of further requests; `None` if the stream ends with the trace.
    remaining: Option<u64>,
    /// The number of all requests of the stream, if it is known in advance.
    requests_expected: Option<u64>,
}

impl std::fmt::Debug for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Workload({:?} requests remaining)", self.remaining)
    }
}

impl Workload {
    /// Returns a stream of `requests` gets. `keys` returns the key of each request.
    pub(super) fn from_keys(
        keys: impl FnMut() -> u64 + 'static,
        lengths: Lengths,
        requests: u64,
    ) -> Workload {
        Workload::new(Keys::Drawn(Box::new(keys)), lengths, Some(requests))
    }

    /// Returns a stream of these requests. Requests for the same key may have different value lengths.
    pub fn of_requests(requests: Vec<Request>) -> Workload {
        let lengths = Lengths::Fixed(1);
        let count = requests.len() as u64;
        Workload::new(Keys::Given(requests.into_iter()), lengths, Some(count))
    }

    /// Returns a stream of the requests of a trace. `requests` limits their number.
    pub(super) fn from_trace(
        trace: TraceReader,
        lengths: Lengths,
        requests: Option<u64>,
    ) -> Workload {
        Workload::new(Keys::Trace(Box::new(trace)), lengths, requests)
    }

    fn new(keys: Keys, lengths: Lengths, requests: Option<u64>) -> Workload {
        let (value_len_max, costs) = (u32::MAX, None);
        let (remaining, requests_expected) = (requests, requests);
        let longer_bytes = 0;
        Workload { keys, lengths, longer_bytes, value_len_max, costs, remaining, requests_expected }
    }

    /// Adds a cost of the distribution `mix` to each request that has no recorded cost.
    pub fn with_costs(self, mix: CostMix, seed: u64) -> Workload {
        Workload { costs: Some((mix, seed)), ..self }
    }

    /// Makes each value whose length is not recorded longer by this number of bytes.
    pub fn with_longer_values(self, longer_bytes: u32) -> Workload {
        Workload { longer_bytes, ..self }
    }

    /// Truncates values to `value_len_max` bytes.
    pub fn with_value_len_max(self, value_len_max: u32) -> Workload {
        Workload { value_len_max, ..self }
    }

    /// Returns the number of all requests of the stream, if it is known in advance.
    pub fn requests_expected(&self) -> Option<u64> {
        self.requests_expected
    }

    /// True if all requests for a key have the same value length.
    pub fn one_length_per_key(&self) -> bool {
        match &self.keys {
            Keys::Trace(trace) => {
                !trace.may_record_lengths() || self.lengths.replaces_recorded_lengths()
            }
            Keys::Given(_) => false,
            Keys::Drawn(_) => true,
        }
    }

    /// Returns the value length in bytes that is derived from a key. A trace may record other lengths.
    pub fn value_len(&self, key: u64) -> u32 {
        let value_len = self.lengths.value_len(key).saturating_add(self.longer_bytes);
        value_len.min(self.value_len_max)
    }

    /// Returns the cost that is derived from a key, if costs are used.
    fn cost(&self, key: u64) -> Option<Cost> {
        self.costs.map(|(mix, seed)| mix.cost_of(key, seed))
    }

    /// Sets the expected number of requests to the number of records of the trace, or to the limit if that is lower.
    pub(super) fn with_requests_expected(mut self, records: u64) -> Workload {
        self.requests_expected = Some(self.remaining.map_or(records, |limit| limit.min(records)));
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
            Keys::Given(requests) => return requests.next().map(Ok),
            Keys::Trace(trace) => {
                let record = match trace.next_record()? {
                    Ok(record) => record,
                    Err(error) => return Some(Err(error)),
                };
                let is_derived = record.value_len == 0 || self.lengths.replaces_recorded_lengths();
                let value_len =
                    if is_derived { self.value_len(record.key) } else { record.value_len };
                let value_len = value_len.min(self.value_len_max);
                let cost = record.cost.or_else(|| self.cost(record.key));
                return Some(Ok(Request { value_len, cost, ..record }));
            }
        };
        let (value_len, cost) = (self.value_len(key), self.cost(key));
        Some(Ok(Request { key, value_len, op: Op::Get, cost }))
    }
}
