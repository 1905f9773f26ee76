//! Requests that are sent together on one connection, and the judgement of their replies.
//!
//! A client fills a batch, sends its bytes in any way, and passes received bytes to [`Batch::receive`]. If the
//! connection ends before the last reply, it calls [`Batch::lose_rest`].

use crate::checker::Verdict;
use crate::checker::history::{Begin, End};
use crate::kinds::Kind;
use crate::operation::{Operation, Outcome, Verb};
use crate::protocol::{Decoded, Protocol};
use crate::refusals;
use crate::world::World;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

/// How long the requests of a batch may be open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// The client sends and reads at once. The owner of the batch keeps its slot open until the batch has ended.
    Fast,
    /// The client is slow on purpose. The slot is open only while the batch calls the checker, so that the checker can
    /// forget old versions meanwhile.
    Slow,
}

/// A CAS value that a reply contained, and the version to which it belongs.
#[derive(Clone, Copy, Debug)]
pub struct SeenCas {
    /// The number of the key.
    pub key: u32,
    /// The CAS value.
    pub cas: u64,
    /// The number of the version.
    pub version: u32,
}

/// Requests on one connection.
pub struct Batch<'a> {
    world: &'a World,
    slot: usize,
    pace: Pace,
    protocol: Protocol,
    begin: Begin,
    operations: Vec<Operation>,
    /// The requests as bytes.
    pub bytes: Vec<u8>,
    /// The bytes after the last reply.
    end_reply: &'static [u8],
    /// The number of requests that have an outcome.
    done: usize,
    /// True if an error belongs to one of the quiet requests without an outcome.
    blurred: bool,
    /// The CAS values of replies.
    pub seen: Vec<SeenCas>,
    /// The number of refusals from which on the server may refuse the connection. `None` if it has accepted it.
    refusals_epoch: Option<u64>,
}

/// The length of a small value in bytes. A server finds memory for it by the eviction of a few items.
const SMALL_LEN_MAX: u32 = 1000;
/// What the server sends on a connection above its limit, before it closes the connection.
const TOO_MANY_CONNECTIONS: &[u8] = b"ERROR Too many open connections\r\n";

impl<'a> Batch<'a> {
    /// Returns an empty batch of a client with this slot.
    pub fn new(world: &'a World, slot: usize, pace: Pace) -> Batch<'a> {
        Batch {
            world,
            slot,
            pace,
            protocol: Protocol::Text,
            begin: Begin { stamp: 0, clock_min_nanos: 0 },
            operations: Vec::new(),
            bytes: Vec::new(),
            end_reply: b"",
            done: 0,
            blurred: false,
            seen: Vec::new(),
            refusals_epoch: None,
        }
    }

    /// Replaces the requests by new ones, which begin now. `draw` returns the next request, or `None` after the last
    /// one, which must not be quiet. `refusals_epoch` is the number of refusals from which on the server may
    /// refuse the connection, or `None` if it has accepted it.
    pub fn fill(
        &mut self,
        protocol: Protocol,
        refusals_epoch: Option<u64>,
        mut draw: impl FnMut(usize) -> Option<Operation>,
    ) {
        let world = self.world;
        self.protocol = protocol;
        self.refusals_epoch = refusals_epoch;
        self.operations.clear();
        self.bytes.clear();
        self.seen.clear();
        (self.done, self.blurred) = (0, false);
        self.begin = world.begin_at(world.stamps.open(self.slot));
        let oldest = world.stamps.oldest();
        while let Some(mut operation) = draw(self.bytes.len()) {
            world.checker.begin(&mut operation, self.begin, oldest);
            let name = world.keys.name(operation.key);
            protocol.encode(&operation, name, world.checker.values(), &mut self.bytes);
            self.operations.push(operation);
        }
        self.end_reply = protocol.encode_end(&mut self.bytes);
        if self.pace == Pace::Slow {
            world.stamps.close(self.slot);
        }
    }

    /// Returns the requests that have no outcome.
    pub fn open(&self) -> &[Operation] {
        &self.operations[self.done..]
    }

    /// Ends a fast batch.
    pub fn close(&self) {
        self.world.stamps.close(self.slot);
    }

    /// Records that the connection has ended: the open requests may take effect at any later time.
    pub fn lose_rest(&mut self) {
        let end = self.now();
        for operation in &self.operations[self.done..] {
            // An unknown outcome is always possible.
            let _ = self.world.checker.end(operation, Outcome::Lost, self.begin, end);
            self.world.counts.request(self.protocol, operation.verb, &Outcome::Lost);
        }
        self.done = self.operations.len();
        self.settle();
    }

    /// Returns the end of requests whose replies were received before this call.
    fn now(&self) -> End {
        if self.pace == Pace::Slow {
            self.world.stamps.open(self.slot);
        }
        self.world.end()
    }

    /// Ends the use of the time that [`Batch::now`] returned.
    fn settle(&self) {
        if self.pace == Pace::Slow {
            self.world.stamps.close(self.slot);
        }
    }

    /// Parses and judges the replies in the received bytes. Returns the number of used bytes, and breaks after the last
    /// reply or after a wrong one.
    pub fn receive(&mut self, bytes: &[u8]) -> (usize, ControlFlow<()>) {
        let end = self.now();
        let result = self.receive_until(bytes, end);
        self.settle();
        result
    }

    fn receive_until(&mut self, bytes: &[u8], end: End) -> (usize, ControlFlow<()>) {
        let world = self.world;
        let mut used = 0;
        while let Some(operation) = self.operations.get(self.done) {
            if self.is_refused(&bytes[used..]) {
                return (used, ControlFlow::Break(()));
            }
            let name = world.keys.name(operation.key);
            let (outcome, len) = match self.protocol.decode(operation, name, &bytes[used..]) {
                Decoded::Incomplete(_) => return (used, ControlFlow::Continue(())),
                Decoded::Reply(outcome, len) => {
                    self.blurred = false;
                    (outcome, len)
                }
                Decoded::Quiet(_) | Decoded::Skipped(_) if self.blurred => (Outcome::Silent, 0),
                // memcached does not report that a quiet store had no memory for a large value.
                Decoded::Quiet(Outcome::Stored(_)) if world.is_memcached => (Outcome::Silent, 0),
                Decoded::Quiet(outcome) => (outcome, 0),
                Decoded::Blurred(len) => {
                    let line = bytes[used..used + len].trim_ascii_end();
                    if !refusals::is_known(line, &Verb::ALL, world.is_memcached) {
                        world.fail(format!("unknown refusal: {}", line.escape_ascii()));
                        return (used, ControlFlow::Break(()));
                    }
                    self.blurred = true;
                    used += len;
                    continue;
                }
                Decoded::Malformed(problem) | Decoded::Skipped(problem) => {
                    let protocol = self.protocol.name();
                    let text = format!("malformed reply ({protocol}): {problem}");
                    world.fail(format!("{text}\nrequest: {operation:?}"));
                    return (used, ControlFlow::Break(()));
                }
            };
            if let Err(text) = self.judge(self.done, outcome, end) {
                world.fail(text);
                return (used, ControlFlow::Break(()));
            }
            used += len;
            self.done += 1;
        }
        self.receive_end(bytes, used)
    }

    /// True if the server has refused the connection because of a fault.
    fn is_refused(&self, bytes: &[u8]) -> bool {
        let refusals = &self.world.refusals;
        self.done == 0
            && bytes.starts_with(TOO_MANY_CONNECTIONS)
            && self.refusals_epoch.is_some_and(|epoch| refusals.were_active_since(epoch))
    }

    /// Checks the bytes after the last reply.
    fn receive_end(&self, bytes: &[u8], used: usize) -> (usize, ControlFlow<()>) {
        let rest = &bytes[used..];
        if rest.len() < self.end_reply.len() {
            return (used, ControlFlow::Continue(()));
        }
        if rest != self.end_reply {
            let start = rest[..rest.len().min(200)].escape_ascii();
            self.world.fail(format!("the server sent bytes after the last reply: {start}"));
        }
        (bytes.len(), ControlFlow::Break(()))
    }

    fn judge(&mut self, index: usize, outcome: Outcome<'_>, end: End) -> Result<(), String> {
        let (world, protocol) = (self.world, self.protocol);
        let operation = &self.operations[index];
        if let Outcome::Refused(text) = outcome
            && !refusals::is_known(text, &[operation.verb], world.is_memcached)
        {
            let text = text.escape_ascii();
            let name = protocol.name();
            return Err(format!("unknown refusal ({name}): {text}\nrequest: {operation:?}"));
        }
        let verdict = world.checker.end(operation, outcome, self.begin, end);
        let verdict = verdict.map_err(|violation| {
            format!(
                "wrong reply ({}) for key {} ({}): {}",
                protocol.name(),
                violation.key,
                world.keys.name(violation.key).escape_ascii(),
                violation.text
            )
        })?;
        world.counts.request(protocol, operation.verb, &outcome);
        let has_small_value = operation.verb.stores() || operation.verb.adds_part();
        if has_small_value && operation.len <= SMALL_LEN_MAX && self.pace == Pace::Fast {
            let is_refused = matches!(outcome, Outcome::Refused(_));
            world.counts.small_values.fetch_add(1, Ordering::Relaxed);
            world.counts.small_refused.fetch_add(is_refused.into(), Ordering::Relaxed);
        }
        match (verdict, outcome) {
            (Verdict::TooLate, _) if self.pace == Pace::Fast => {
                return Err(format!(
                    "the checker has forgotten a version too early: {operation:?}"
                ));
            }
            (Verdict::TooLate, _) => drop(world.counts.too_late.fetch_add(1, Ordering::Relaxed)),
            (
                Verdict::Version(version),
                Outcome::Hit { cas: Some(cas), .. } | Outcome::Stored(Some(cas)),
            ) if Kind::of(operation.key) == Kind::Whole => {
                self.seen.push(SeenCas { key: operation.key, cas, version });
            }
            _ => {}
        }
        Ok(())
    }
}
