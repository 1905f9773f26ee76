//! Plans the order of the requests in each round of a replay. In this order, pipelining does not change the result of
//! any request.
//!
//! A look-aside client sends a get for a key, and after a miss a set. This set is called a fill. A round contains, in
//! this order:
//!
//! ```text
//! fills of the misses in the previous round | deferred requests | new requests
//! ```
//!
//! Invariants:
//! - The server receives the requests for a key in the order of the workload, and the fill of a get before the next
//!   request for the same key. Each request therefore has the same result as without pipelining.
//! - A request is deferred to the next round if a get for its key is outstanding.
//! - A request is deferred by at most one round, and by one more round for each deferred delete of its key before it.
//!   Requests for different keys change their order by no more than these rounds.
//!
//! This module does no I/O. The caller sends the requests.

use crate::workload::{Op, Request};
use std::collections::HashMap;

/// A request of the workload that is not complete yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    pub request: Request,
    /// The time from which the latency of the request is measured, in nanoseconds of the replay's clock: the start of
    /// the request's round or, with a rate, the scheduled send time.
    pub latency_start_nanos: u64,
}

/// The command that the client sends for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Get,
    /// The set after a miss.
    Fill,
    Set,
    Delete,
}

/// The state of a key that the current round already has a request for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyState {
    /// A get for the key is outstanding, and may miss. Further requests for the key are deferred.
    GetOutstanding,
    /// An earlier request of the round stores the key, or a get in the last round has found it. So a get of the key
    /// hits if the server has not evicted it.
    Stored,
}

/// The state of the workload after a round has been planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The workload may have more requests.
    Running,
    /// The workload has no more requests.
    Ended,
}

/// The plan of the next round.
#[derive(Debug, Default)]
pub struct LookAside {
    /// Gets that missed in the last round. The next round starts with their fills, the sets after the misses.
    fills: Vec<Pending>,
    /// Requests that are deferred to the next round, in the order of the workload.
    deferred: Vec<Pending>,
    /// An empty buffer. It is swapped with `deferred`, so that planning a round allocates no memory.
    spare: Vec<Pending>,
    states: HashMap<u64, KeyState>,
}

impl LookAside {
    /// Plans a round: calls `send` with each request in the order of the round. `next` returns the next request of the
    /// workload. `next` is called until the deferred and the new requests are `round_size` together. Fills are not
    /// counted.
    pub fn plan<E>(
        &mut self,
        round_size: usize,
        mut next: impl FnMut() -> Option<Result<Pending, E>>,
        mut send: impl FnMut(Action, Pending),
    ) -> Result<Progress, E> {
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
            self.send_or_defer(pending, &mut send);
        }
        self.spare = deferred;
        for _ in 0..new_max {
            match next() {
                Some(pending) => self.send_or_defer(pending?, &mut send),
                None => return Ok(Progress::Ended),
            }
        }
        Ok(Progress::Running)
    }

    /// Adds the fill of a get that missed to the next round.
    pub fn add_fill(&mut self, pending: Pending) {
        self.fills.push(pending);
    }

    /// True if the next round has no fills and no deferred requests.
    pub fn is_idle(&self) -> bool {
        self.fills.is_empty() && self.deferred.is_empty()
    }

    /// Sends a request, or defers it if a get for its key is outstanding.
    fn send_or_defer(&mut self, pending: Pending, send: &mut impl FnMut(Action, Pending)) {
        let key = pending.request.key;
        let state = self.states.get(&key).copied();
        match (state, pending.request.op) {
            (Some(KeyState::GetOutstanding), _) => self.deferred.push(pending),
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
                self.states.insert(key, KeyState::GetOutstanding);
                send(Action::Get, pending);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Action, LookAside, Pending, Progress};
    use crate::workload::{Op, Request};
    use slabwise_base::Random;
    use std::collections::HashMap;
    use std::convert::Infallible;

    /// Replays requests in rounds against an unlimited cache. Returns one entry per request: the length of the value
    /// that a get found, or `None` for a miss and for other requests. `latency_start_nanos` of a request is its index.
    fn replay_in_rounds(requests: &[Request], round_size: usize) -> Vec<Option<u32>> {
        let (mut cache, mut found) = (HashMap::new(), vec![None; requests.len()]);
        let (mut plan, mut progress) = (LookAside::default(), Progress::Running);
        let mut numbered = requests.iter().copied().enumerate();
        while progress == Progress::Running || !plan.is_idle() {
            let mut missed = Vec::new();
            let next = || {
                let (at, request) = numbered.next()?;
                Some(Ok::<_, Infallible>(Pending { request, latency_start_nanos: at as u64 }))
            };
            let send = |action, pending: Pending| {
                let Request { key, value_len, .. } = pending.request;
                match action {
                    Action::Fill | Action::Set => drop(cache.insert(key, value_len)),
                    Action::Delete => drop(cache.remove(&key)),
                    Action::Get => match cache.get(&key) {
                        Some(&len) => found[pending.latency_start_nanos as usize] = Some(len),
                        None => missed.push(pending),
                    },
                }
            };
            let Ok(progress_now) = plan.plan(round_size, next, send);
            progress = progress_now;
            missed.into_iter().for_each(|pending| plan.add_fill(pending));
        }
        found
    }

    /// Replays one request at a time. The result has the form of the result of [`replay_in_rounds`].
    fn replay_one_by_one(requests: &[Request]) -> Vec<Option<u32>> {
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
    fn rounds_do_not_change_the_results_of_requests() {
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
            let found = replay_in_rounds(&requests, round_size);
            assert_eq!(found, replay_one_by_one(&requests), "seed {seed}, rounds of {round_size}");
        }
    }

    #[test]
    fn requests_for_a_hot_key_do_not_accumulate() {
        // Every second request is for key 0.
        let mut number = 0;
        let mut plan = LookAside::default();
        for _ in 0..100 {
            let mut sent = 0;
            let next = || {
                number += 1;
                let key = if number % 2 == 0 { 0 } else { number };
                let request = Request { key, value_len: 1, op: Op::Get, cost: None };
                Some(Ok::<_, Infallible>(Pending { request, latency_start_nanos: 0 }))
            };
            let Ok(progress) = plan.plan(32, next, |_, _| sent += 1);
            assert_eq!(progress, Progress::Running);
            assert!(plan.deferred.len() <= 16, "{} requests are deferred", plan.deferred.len());
            assert!(sent >= 16, "the round has {sent} requests");
        }
    }
}
