//! What to send in each round trip so that pipelining changes no answer: the order of requests.
//!
//! A look-aside client gets, and on a miss sets. One round trip carries, in this order on the wire,
//!
//! ```text
//! fills (sets for the misses of the round before) | waiting repeats | new requests
//! ```
//!
//! Invariants:
//! - Requests of one key reach the server in the workload's order, each get's fill before the key's
//!   next request. So every key sees what it would see with one request at a time.
//! - A key whose get is under way (its outcome unknown) is not asked again in the same round: its
//!   repeats wait for the next one, and count there as hits or misses like any request.
//! - Requests of different keys may pass each other by at most one round.
//!
//! This file sends nothing itself: it decides, its caller carries out.

use crate::workload::{Op, Request};
use std::collections::HashMap;

/// A request on its way, with the time it was taken up at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    pub request: Request,
    /// When it was taken up (or was due, under a rate), in the clock's nanoseconds.
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
enum Known {
    /// Asked for the first time: a miss would call for a fill that only the next round can send.
    Asked,
    /// Stored by an earlier request; a get may miss only if the server has dropped it since.
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
    waiting: Vec<Pending>,
    /// Empty; changes places with `waiting`, so that neither allocates in the long run.
    spare: Vec<Pending>,
    known: HashMap<u64, Known>,
}

impl LookAside {
    /// Plans a round: hands `send` everything that goes over the wire, in order. New requests come
    /// from `next`, as many as make `round_size` together with those that waited.
    pub fn plan<E>(
        &mut self,
        round_size: usize,
        mut next: impl FnMut() -> Option<Result<Pending, E>>,
        mut send: impl FnMut(Action, Pending),
    ) -> Result<Supply, E> {
        self.known.clear();
        for fill in self.fills.drain(..) {
            self.known.insert(fill.request.key, Known::Stored);
            send(Action::Fill, fill);
        }
        let mut waited = std::mem::take(&mut self.waiting);
        std::mem::swap(&mut self.waiting, &mut self.spare);
        for pending in &waited {
            self.known.insert(pending.request.key, Known::Stored);
        }
        let new_max = round_size.saturating_sub(waited.len());
        for pending in waited.drain(..) {
            self.place(pending, &mut send);
        }
        self.spare = waited;
        for _ in 0..new_max {
            match next() {
                Some(pending) => self.place(pending?, &mut send),
                None => return Ok(Supply::Ended),
            }
        }
        Ok(Supply::More)
    }

    /// Takes note that a get missed: its fill goes with the next round.
    pub fn missed(&mut self, pending: Pending) {
        self.fills.push(pending);
    }

    pub fn is_idle(&self) -> bool {
        self.fills.is_empty() && self.waiting.is_empty()
    }

    fn place(&mut self, pending: Pending, send: &mut impl FnMut(Action, Pending)) {
        let key = pending.request.key;
        let known = self.known.get(&key).copied();
        match (known, pending.request.op) {
            (Some(Known::Asked), _) => self.waiting.push(pending),
            (_, Op::Set) => {
                self.known.insert(key, Known::Stored);
                send(Action::Set, pending);
            }
            (_, Op::Delete) => {
                self.known.remove(&key);
                send(Action::Delete, pending);
            }
            (Some(Known::Stored), Op::Get) => send(Action::Get, pending),
            (None, Op::Get) => {
                self.known.insert(key, Known::Asked);
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

    /// Replays in rounds against a cache that forgets nothing; gives each request's outcome: the
    /// length found, or `None` for a miss, in the workload's order (`born_nanos` is the place in it).
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

    /// One request at a time: the definition.
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
    fn rounds_of_any_size_answer_as_one_request_at_a_time() {
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
    fn a_hot_key_does_not_pile_up() {
        // Every second request asks for key 0: repeats wait once at most, then go all together.
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
            assert!(plan.waiting.len() <= 16);
            assert!(sent >= 16);
        }
    }
}
