//! Plans the order of requests in each round, so that pipelining does not change the result of any request.
//!
//! A look-aside client gets a key, and sets it after a miss. A round contains, in this order,
//!
//! ```text
//! fills (sets after misses in the previous round) | deferred requests | new requests
//! ```
//!
//! Invariants:
//! - The server receives the requests for a key in the workload's order, and the fill of a get before the next request
//!   for its key. So each request has the result that it would have without pipelining.
//! - Requests for a key with an outstanding get are deferred to the next round.
//! - Requests for different keys are reordered by at most one round.
//!
//! This module does no I/O: its caller sends the requests.

use crate::workload::{Op, Request};
use std::collections::HashMap;

/// An outstanding request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    pub request: Request,
    /// The start of its round or, with a rate, its scheduled send time, in the clock's nanoseconds.
    pub born_nanos: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Get,
    Fill,
    Set,
    Delete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyState {
    /// A get is outstanding. If it misses, its fill is in the next round.
    Requested,
    /// An earlier request of the round stores the key.
    Stored,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supply {
    More,
    Ended,
}

#[derive(Debug, Default)]
pub struct LookAside {
    fills: Vec<Pending>,
    deferred: Vec<Pending>,
    /// An empty buffer that is swapped with `deferred` to avoid allocations.
    spare: Vec<Pending>,
    states: HashMap<u64, KeyState>,
}

impl LookAside {
    /// Plans a round: calls `send` with each request in order. Deferred requests and new requests from `next` are
    /// `round_size` together.
    pub fn plan<E>(
        &mut self,
        round_size: usize,
        mut next: impl FnMut() -> Option<Result<Pending, E>>,
        mut send: impl FnMut(Action, Pending),
    ) -> Result<Supply, E> {
        self.states.clear();
        for fill in self.fills.drain(..) {
            self.states.insert(fill.request.key, KeyState::Stored);
            send(Action::Fill, fill);
        }
        let mut deferred = std::mem::take(&mut self.deferred);
        std::mem::swap(&mut self.deferred, &mut self.spare);
        for pending in &deferred {
            self.states.insert(pending.request.key, KeyState::Stored);
        }
        let new_max = round_size.saturating_sub(deferred.len());
        for pending in deferred.drain(..) {
            self.place(pending, &mut send);
        }
        self.spare = deferred;
        for _ in 0..new_max {
            match next() {
                Some(pending) => self.place(pending?, &mut send),
                None => return Ok(Supply::Ended),
            }
        }
        Ok(Supply::More)
    }

    /// Adds the fill of a get that missed to the next round.
    pub fn missed(&mut self, pending: Pending) {
        self.fills.push(pending);
    }

    pub fn is_idle(&self) -> bool {
        self.fills.is_empty() && self.deferred.is_empty()
    }

    fn place(&mut self, pending: Pending, send: &mut impl FnMut(Action, Pending)) {
        let key = pending.request.key;
        let state = self.states.get(&key).copied();
        match (state, pending.request.op) {
            (Some(KeyState::Requested), _) => self.deferred.push(pending),
            (_, Op::Set) => {
                self.states.insert(key, KeyState::Stored);
                send(Action::Set, pending);
            }
            (_, Op::Delete) => {
                self.states.remove(&key);
                send(Action::Delete, pending);
            }
            (Some(KeyState::Stored), Op::Get) => send(Action::Get, pending),
            (None, Op::Get) => {
                self.states.insert(key, KeyState::Requested);
                send(Action::Get, pending);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Action, LookAside, Pending, Supply};
    use crate::workload::{Op, Request};
    use slabwise_base::Random;
    use std::collections::HashMap;
    use std::convert::Infallible;

    /// Replays in rounds against an unlimited cache. Returns the length found, or `None` for a miss, for each request.
    /// `born_nanos` is the index of the request.
    fn in_rounds(requests: &[Request], round_size: usize) -> Vec<Option<u32>> {
        let (mut cache, mut found) = (HashMap::new(), vec![None; requests.len()]);
        let (mut plan, mut supply) = (LookAside::default(), Supply::More);
        let mut numbered = requests.iter().copied().enumerate();
        while supply == Supply::More || !plan.is_idle() {
            let mut missed = Vec::new();
            let next = || {
                let (at, request) = numbered.next()?;
                Some(Ok::<_, Infallible>(Pending { request, born_nanos: at as u64 }))
            };
            let send = |action, pending: Pending| {
                let Request { key, value_len, .. } = pending.request;
                match action {
                    Action::Fill | Action::Set => drop(cache.insert(key, value_len)),
                    Action::Delete => drop(cache.remove(&key)),
                    Action::Get => match cache.get(&key) {
                        Some(&len) => found[pending.born_nanos as usize] = Some(len),
                        None => missed.push(pending),
                    },
                }
            };
            let Ok(now) = plan.plan(round_size, next, send);
            supply = now;
            missed.into_iter().for_each(|pending| plan.missed(pending));
        }
        found
    }

    /// Replays one request at a time.
    fn one_by_one(requests: &[Request]) -> Vec<Option<u32>> {
        let mut cache = HashMap::new();
        let answer = |request: &Request| match request.op {
            Op::Get => {
                let found = cache.get(&request.key).copied();
                cache.entry(request.key).or_insert(request.value_len);
                found
            }
            Op::Set => {
                cache.insert(request.key, request.value_len);
                None
            }
            Op::Delete => {
                cache.remove(&request.key);
                None
            }
        };
        requests.iter().map(answer).collect()
    }

    #[test]
    fn rounds_have_the_results_of_one_request_at_a_time() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let keys = 1 + random.below(20);
            let requests: Vec<Request> = (0..400)
                .map(|_| Request {
                    key: random.below(keys),
                    value_len: 1 + random.below(5) as u32,
                    op: [Op::Get, Op::Get, Op::Get, Op::Set, Op::Delete][random.below(5) as usize],
                    cost: None,
                })
                .collect();
            let round_size = 1 + random.below(40) as usize;
            let rounds = in_rounds(&requests, round_size);
            assert_eq!(rounds, one_by_one(&requests), "seed {seed}, rounds of {round_size}");
        }
    }

    #[test]
    fn requests_for_a_hot_key_are_deferred_at_most_once() {
        // Every second request is for key 0.
        let mut number = 0;
        let mut plan = LookAside::default();
        for _ in 0..100 {
            let mut sent = 0;
            let next = || {
                number += 1;
                let key = if number % 2 == 0 { 0 } else { number };
                let request = Request { key, value_len: 1, op: Op::Get, cost: None };
                Some(Ok::<_, Infallible>(Pending { request, born_nanos: 0 }))
            };
            let Ok(supply) = plan.plan(32, next, |_, _| sent += 1);
            assert_eq!(supply, Supply::More);
            assert!(plan.deferred.len() <= 16);
            assert!(sent >= 16);
        }
    }
}
