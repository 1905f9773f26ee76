//! The checker: it knows every version that a client has stored, and judges every reply.
//!
//! ```text
//!   client: begin(operation) --> History of the key: a new version, a touch
//!           sends the request, receives the reply
//!           end(operation, outcome) --> is the outcome possible?  no: Violation, with the last requests of the key
//!                                                                 yes: the reply is new evidence
//! ```
//!
//! # Which replies are possible
//!
//! In a correct server, each request takes effect at one moment between its two stamps (`stamps.rs`). The checker does
//! not search for an order of all requests. It keeps, for each key, the *versions* (stores) that may still exist, and
//! what replies have shown about each version. A version has these stamps:
//!
//! ```text
//!   begin               end                                     dead
//!   the store began     the store had taken effect by now       another state had replaced the version by now
//! ```
//!
//! - A get may return a version if its store began before the get ended, if the version was not dead when the get began,
//!   and if one of its possible expiries had not passed then. The version must be of the same key, and have all its
//!   bytes and its client flags.
//! - A reply that shows a state of the key is evidence: a hit, a store, a delete, a miss. If the evidence began after the
//!   end of a version and shows another state, then the version is dead at the end of the evidence ([`history`]).
//! - A miss is always possible, because a cache may forget. After a miss, older versions are dead. The checker counts
//!   misses, so that a run in which nearly everything misses can be noticed.
//! - A reply that requires an item, such as that of a delete, is possible if a version other than the request's own is.
//! - A CAS value belongs to one version, and a version has one CAS value. A cas succeeds only if its version is possible.
//!   It is refused only if another version is possible.
//! - A touch adds a possible expiry to each version that may exist. When its reply shows which version it has changed,
//!   the earlier expiries of this version end ([`version`]).
//! - The results of steps and the parts of appends have rules of their own ([`steps`], [`parts`]).
//! - A refused request has no effect. A request without a reply, because its connection ended, may take effect at any
//!   later time, until no connection is open ([`Checker::settle`]) or the process has ended ([`Checker::stopped`]).
//!
//! The rules only exclude what certainly is wrong, so they never report a correct server, with one exception: slabwise
//! replies with a miss if more than 2,000 replies refer to an item, which this campaign does not reach, and the rules
//! take the miss as evidence that there is no item. They may miss a wrong reply:
//! evidence with overlapping stamps excludes nothing, and a version that is found to be dead later was accepted before.
//!
//! # Memory
//!
//! A version that was dead before the first stamp of all open requests is forgotten. The floor of a key is the highest
//! stamp at which a forgotten version was dead. If a request began before the floor, it may return a forgotten version.
//! This happens only to slow clients, which are not in the slots of `stamps.rs`; the verdict is [`Verdict::TooLate`].

pub mod history;
mod journal;
mod parts;
mod steps;
#[cfg(test)]
mod tests;
mod verdict;
mod version;

use crate::operation::{Operation, Outcome, Verb};
use crate::stamps::Stamp;
use crate::value::Values;
use history::{Begin, Change, End, Evidence, History, Span};
use journal::Journal;
use parts::Side;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, RwLock};
pub use verdict::{Verdict, Violation};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Everything that is known about one key.
#[derive(Debug, Default)]
struct KeyState {
    history: History,
    journal: Journal,
}

/// Something that happened to all keys.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// At some moment in the span no key had an item.
    Absent(Span),
    /// The server process had ended.
    Stopped(End),
}

/// The checker. All clients share it.
#[derive(Debug)]
pub struct Checker {
    keys: Box<[Mutex<KeyState>]>,
    values: Values,
    /// Evidence about all keys, such as a flush.
    events: RwLock<Vec<Event>>,
    event_count: AtomicUsize,
    /// The time by which an expired item may still be returned, in nanoseconds.
    tolerance_nanos: u64,
}

impl Checker {
    /// Returns a checker of this number of keys.
    pub fn new(keys: u32, values: Values, tolerance_nanos: u64) -> Checker {
        Checker {
            keys: (0..keys).map(|_| Mutex::default()).collect(),
            values,
            events: RwLock::default(),
            event_count: AtomicUsize::new(0),
            tolerance_nanos,
        }
    }

    /// Returns the values of the campaign.
    pub fn values(&self) -> Values {
        self.values
    }

    /// Returns the state of a key, after the events of all keys were applied to it.
    fn key(&self, key: u32) -> MutexGuard<'_, KeyState> {
        let mut state = lock(&self.keys[key as usize]);
        if state.history.events_applied < self.event_count.load(Ordering::Acquire) {
            let events = self.events.read().expect("no thread panics while it holds the lock");
            let applied = state.history.events_applied;
            for event in &events[applied..] {
                match *event {
                    Event::Absent(span) => state.history.record(Evidence::Absent, span),
                    Event::Stopped(end) => state.history.stop(end),
                }
            }
            state.history.events_applied = events.len();
        }
        state
    }

    /// Records that a request begins, and gives its store or touch a number. Must be called before the request is sent.
    /// No open request began before `oldest`.
    pub fn begin(&self, operation: &mut Operation, begin: Begin, oldest: Stamp) {
        let mut state = self.key(operation.key);
        state.history.prune(oldest);
        let change = match operation.verb {
            Verb::Gat | Verb::Touch => Some(Change::Touch),
            Verb::Step | Verb::StepOrCreate => Some(Change::Step),
            Verb::Append => Some(Change::Part(Side::End)),
            Verb::Prepend => Some(Change::Part(Side::Start)),
            _ => None,
        };
        let (key, creates) = (operation.key, operation.verb.may_create());
        if change.is_none() && !creates {
            return;
        }
        let id = state.history.next_id();
        operation.version = id;
        if let Some(change) = change {
            state.history.begin_change(id, change, begin.stamp);
        }
        if operation.verb.stores() || operation.verb.adds_part() {
            operation.len = self.values.len(key, id, operation.len);
        }
        if creates {
            // A step cannot set the client flags of a new item.
            let has_flags = operation.verb.stores();
            operation.flags = if has_flags { self.values.flags(key, id) } else { 0 };
            state.history.begin_store(id, operation.len, operation.flags, begin.stamp);
        }
    }

    /// Judges the outcome of a request, and learns from it.
    pub fn end(
        &self,
        operation: &Operation,
        outcome: Outcome<'_>,
        begin: Begin,
        end: End,
    ) -> Result<Verdict, Box<Violation>> {
        let mut state = self.key(operation.key);
        let KeyState { history, journal } = &mut *state;
        let Checker { values, tolerance_nanos, .. } = *self;
        let judge = verdict::Judge { values, tolerance_nanos, operation, begin, end };
        let verdict = judge.judge(history, outcome);
        journal.note(operation, outcome, begin.stamp, end.stamp);
        verdict.map_err(|problem| {
            Box::new(Violation::new(problem, operation, &outcome, begin, end, history, journal))
        })
    }

    /// Records that at some moment in the span no key had an item: a flush, or a start with an empty cache.
    pub fn all_absent(&self, span: Span) {
        self.add_event(Event::Absent(span));
    }

    /// Records that the server process had ended at this moment. No request that began before has an effect later.
    pub fn stopped(&self, end: End) {
        self.add_event(Event::Stopped(end));
    }

    fn add_event(&self, event: Event) {
        let mut events = self.events.write().expect("no thread panics while it holds the lock");
        events.push(event);
        self.event_count.store(events.len(), Ordering::Release);
    }

    /// Records that the requests of ended connections have taken effect, or never will. No connection may be open.
    pub fn settle(&self, end: End) {
        (0..self.keys.len()).for_each(|key| self.key(key as u32).history.settle(end));
    }

    /// Returns the number of versions that are kept, for statistics.
    pub fn versions(&self) -> usize {
        self.keys.iter().map(|key| lock(key).history.versions().len()).sum()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics while it holds the lock")
}
