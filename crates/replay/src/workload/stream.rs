//! The stream of requests: keys from one source, each given its length and its cost.

use super::costs::CostMix;
use super::lengths::Lengths;
use super::mixture::{Mixture, TwoPhase, Zipf};
use super::mixtures::Toy;
use super::popularity::Popularity;
use super::request::{Op, Request, WorkloadError};
use super::trace::TraceReader;
use slabwise_base::Cost;

/// Where the keys come from. The drawn kinds are endless; a trace ends.
#[derive(Debug)]
pub enum Keys {
    /// Recorded requests.
    Trace(Box<TraceReader>),
    /// One Zipf distribution over all keys.
    Zipf(Zipf),
    /// One class of items first, then two.
    TwoPhase(TwoPhase),
    /// Several Zipf distributions, in shares that may change.
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
    value_len_max: u32,
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

    /// Gives keys whose costs are not recorded a cost of this distribution.
    pub fn with_costs(self, mix: CostMix, seed: u64) -> Workload {
        Workload { costs: Some((mix, seed)), ..self }
    }

    /// Cuts longer values to `value_len_max` bytes.
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
