//! A client that behaves well: it sends batches of random requests, and the checker judges every reply.

use crate::channel::{Channel, ChannelError};
use crate::checker::Verdict;
use crate::checker::history::Begin;
use crate::operation::{Operation, Outcome, Verb};
use crate::protocol::{Decoded, Protocol};
use crate::world::{World, sleep};
use slabwise_base::Random;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The number of CAS values that a client remembers.
const CAS_VALUES_KEPT: usize = 64;
/// The number of batches after which a client may open a new connection.
const BATCHES_PER_CONNECTION: u64 = 2000;
/// The bytes of values in one batch above which no further request is added.
const BATCH_BYTES_MAX: u64 = 4 << 20;

/// A client.
pub struct Client<'a> {
    world: &'a World,
    slot: usize,
    random: Random,
    protocol: Protocol,
    channel: Option<Channel>,
    /// The disruptions at the time of connecting.
    epoch: u64,
    opaque: u32,
    /// CAS values that replies contained: key, CAS value, version.
    cas_values: VecDeque<(u32, u64, u32)>,
    out: Vec<u8>,
    batch: Vec<Operation>,
    /// The reply after the last reply of the batch.
    batch_end: &'static [u8],
}

impl<'a> Client<'a> {
    /// Returns a client that is not connected.
    pub fn new(world: &'a World, slot: usize, seed: u64) -> Client<'a> {
        Client {
            world,
            slot,
            random: Random::new(seed),
            protocol: Protocol::ALL[slot % Protocol::ALL.len()],
            channel: None,
            epoch: 0,
            opaque: 0,
            cas_values: VecDeque::new(),
            out: Vec::new(),
            batch: Vec::new(),
            batch_end: b"",
        }
    }

    /// Sends batches until the campaign ends.
    pub fn run(mut self) {
        self.world.gate.enter();
        while !self.world.gate.has_ended() {
            if self.world.gate.is_closed() {
                self.channel = None;
                self.world.gate.pass();
                continue;
            }
            if self.channel.is_none() && !self.connect() {
                sleep(Duration::from_millis(5));
                continue;
            }
            self.send_batch();
            if self.random.below(BATCHES_PER_CONNECTION) == 0 {
                self.channel = None;
            }
        }
        self.world.gate.leave();
    }

    /// Connects to the server, with a new protocol. Returns false if this was not possible.
    fn connect(&mut self) -> bool {
        let Some(address) = self.world.endpoint().address else { return false };
        self.epoch = self.world.disruption_epoch();
        self.protocol = Protocol::ALL[self.random.below(Protocol::ALL.len() as u64) as usize];
        match Channel::connect(address) {
            Ok(channel) => self.channel = Some(channel),
            Err(error) if !self.world.was_disrupted_since(self.epoch) => {
                self.world.fail(format!("a client cannot connect to the server: {error}"));
            }
            Err(_) => {}
        }
        self.channel.is_some()
    }

    /// Draws a request. The last one of a batch is not quiet.
    fn draw(&mut self, quiet_allowed: bool) -> Operation {
        let random = &mut self.random;
        let mut verb = match random.below(100) {
            0..40 => Verb::Get,
            40..50 => Verb::Gets,
            50..53 => Verb::Gat,
            53..55 => Verb::Touch,
            55..80 => Verb::Set,
            80..84 => Verb::Add,
            84..88 => Verb::Replace,
            88..95 => Verb::Cas,
            _ => Verb::Delete,
        };
        let mut key = self.world.keys.draw(random);
        let mut cas = (0, 0);
        if verb == Verb::Cas {
            match self.cas_values.pop_back() {
                Some((known, unique, version)) => (key, cas) = (known, (unique, version)),
                None => verb = Verb::Gets,
            }
        }
        let len = if verb.stores() { self.world.lengths.draw(random) } else { 0 };
        let expires = verb.touches() || verb.stores() && random.below(8) == 0;
        let ttl_seconds = match random.below(4) {
            0 if expires => 1 + random.below(3) as u32,
            1 if expires => 1 + random.below(60) as u32,
            _ => 0,
        };
        let quiet = quiet_allowed && self.protocol.can_be_quiet(verb) && random.below(4) == 0;
        self.opaque = self.opaque.wrapping_add(1);
        let opaque = self.opaque;
        Operation { verb, key, version: 0, len, flags: 0, ttl_seconds, cas, quiet, opaque }
    }

    /// Sends a batch of requests, and judges the replies.
    fn send_batch(&mut self) {
        let count = match self.random.below(4) {
            0 | 1 => 1,
            2 => 1 + self.random.below(8),
            _ => 1 + self.random.below(48),
        };
        let world = self.world;
        let begin = world.begin_at(world.stamps.open(self.slot));
        let oldest = world.stamps.oldest();
        self.out.clear();
        self.batch.clear();
        let mut bytes = 0;
        for index in 0..count {
            let is_last = index + 1 == count || bytes > BATCH_BYTES_MAX;
            let mut operation = self.draw(!is_last);
            world.checker.begin(&mut operation, begin, oldest);
            let name = world.keys.name(operation.key);
            self.protocol.encode(&operation, name, world.checker.values(), &mut self.out);
            bytes += u64::from(operation.len);
            self.batch.push(operation);
            if is_last {
                break;
            }
        }
        self.batch_end = self.protocol.encode_end(&mut self.out);
        self.exchange(begin);
        world.stamps.close(self.slot);
    }

    /// Sends the batch that is in `out`, and judges the replies.
    fn exchange(&mut self, begin: Begin) {
        let Some(mut channel) = self.channel.take() else { return };
        let batch = std::mem::take(&mut self.batch);
        let mut replies = Replies { client: self, begin, batch: &batch, done: 0, blurred: false };
        let (clock, timeout) = (&replies.client.world.clock, replies.client.world.reply_timeout);
        let out = std::mem::take(&mut replies.client.out);
        let result = channel.exchange(&out, clock, timeout, |bytes| replies.receive(bytes));
        let done = replies.done;
        let world = self.world;
        let is_complete = done == batch.len();
        if !is_complete {
            let end = world.end();
            for operation in &batch[done..] {
                // An error was recorded before, or the connection ended.
                let _ = world.checker.end(operation, Outcome::Lost, begin, end);
                world.counts.request(self.protocol, operation.verb, &Outcome::Lost);
            }
        }
        match result {
            Ok(()) if is_complete => self.channel = Some(channel),
            Ok(()) => {}
            Err(_) if world.was_disrupted_since(self.epoch) => {
                world.counts.closed.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => self.report_missing(&batch[done..], &error, channel.received()),
        }
        (self.out, self.batch) = (out, batch);
    }

    /// Records that replies are missing although no fault explains this.
    fn report_missing(&self, missing: &[Operation], error: &ChannelError, received: &[u8]) {
        let what = match error {
            ChannelError::Closed(error) => format!("the server closed the connection ({error})"),
            ChannelError::Timeout => {
                format!("the server sent and received nothing for {:?}", self.world.reply_timeout)
            }
        };
        let start = &received[..received.len().min(200)];
        self.world.fail(format!(
            "{what} of a {} client that behaved well; {} replies are missing, the first one of {:?}; received bytes: {}",
            self.protocol.name(),
            missing.len(),
            missing.first(),
            start.escape_ascii()
        ));
    }

    fn remember_cas(&mut self, key: u32, cas: u64, version: u32) {
        if self.cas_values.len() == CAS_VALUES_KEPT {
            self.cas_values.pop_front();
        }
        self.cas_values.push_back((key, cas, version));
    }
}

/// The replies to a batch.
struct Replies<'c, 'a> {
    client: &'c mut Client<'a>,
    begin: Begin,
    batch: &'c [Operation],
    /// The number of requests that have an outcome.
    done: usize,
    /// True if an error belongs to one of the quiet requests without an outcome.
    blurred: bool,
}

impl Replies<'_, '_> {
    /// Parses and judges the replies in the received bytes. Returns the number of used bytes.
    fn receive(&mut self, bytes: &[u8]) -> (usize, ControlFlow<()>) {
        let world = self.client.world;
        let end = world.end();
        let mut used = 0;
        while let Some(operation) = self.batch.get(self.done) {
            let name = world.keys.name(operation.key);
            let (outcome, len) = match self.client.protocol.decode(operation, name, &bytes[used..])
            {
                Decoded::Incomplete(_) => return (used, ControlFlow::Continue(())),
                Decoded::Reply(outcome, len) => {
                    self.blurred = false;
                    (outcome, len)
                }
                Decoded::Quiet(_) | Decoded::Skipped(_) if self.blurred => (Outcome::Silent, 0),
                Decoded::Quiet(outcome) => (outcome, 0),
                Decoded::Blurred(len) => {
                    self.blurred = true;
                    used += len;
                    continue;
                }
                Decoded::Malformed(problem) | Decoded::Skipped(problem) => {
                    let problem = format!("{problem}\nrequest: {operation:?}");
                    world.fail(format!(
                        "malformed reply ({}): {problem}",
                        self.client.protocol.name()
                    ));
                    return (used, ControlFlow::Break(()));
                }
            };
            if let Err(text) = self.judge(operation, outcome, end) {
                world.fail(text);
                return (used, ControlFlow::Break(()));
            }
            used += len;
            self.done += 1;
        }
        let batch_end = self.client.batch_end;
        if bytes.len() - used < batch_end.len() {
            return (used, ControlFlow::Continue(()));
        }
        if bytes[used..].starts_with(batch_end) {
            used += batch_end.len();
        }
        if used < bytes.len() {
            let rest = &bytes[used..bytes.len().min(used + 200)];
            world.fail(format!(
                "the server sent bytes after the last reply: {}",
                rest.escape_ascii()
            ));
            self.done = self.batch.len().saturating_sub(1);
        }
        (used, ControlFlow::Break(()))
    }

    fn judge(
        &mut self,
        operation: &Operation,
        outcome: Outcome<'_>,
        end: crate::checker::history::End,
    ) -> Result<(), String> {
        let world = self.client.world;
        let protocol = self.client.protocol;
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
        match (verdict, outcome) {
            (Verdict::TooLate, _) => drop(world.counts.too_late.fetch_add(1, Ordering::Relaxed)),
            (
                Verdict::Version(version),
                Outcome::Hit { cas: Some(cas), .. } | Outcome::Stored(Some(cas)),
            ) => self.client.remember_cas(operation.key, cas, version),
            _ => {}
        }
        Ok(())
    }
}
