//! Requests about items: each runs one operation and is answered in the client's dialect. The keys of a retrieval and
//! the value of a store are read as they arrive.

use super::orders::may_send;
use crate::ops::change;
use crate::ops::get::{self, Access, Rules};
use crate::ops::store::{Begun, Upload, begin};
use crate::out::Out;
use crate::sasl::Exchange;
use crate::shared::WorkerContext;
use crate::wire::text::Reply;
use crate::wire::{binary, meta, text};
use slabwise_base::HashedKey;
use slabwise_engine::{ItemView, ReserveError, StoreOutcome};
use slabwise_protocol::binary::{compose as packet, parse as parse_packet};
use slabwise_protocol::meta::{begins, parse as parse_meta, reply as meta_reply};
use slabwise_protocol::text::{NextKey, next_key, number_line, parse as parse_text, reply};
use slabwise_protocol::{
    Answer, Arithmetic, Delete, Exptime, Get, KEY_LEN_MAX, Parsed, Request, Store, TextAnswer,
};

/// The result of [`Session::consume`](super::Session::consume).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The number of input bytes consumed.
    pub consumed: usize,
    pub next: Next,
}

/// The next action that a session requests from its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Receive more input.
    Read,
    /// Call the session again, even without new input, after the output has drained and other connections were
    /// served.
    Yield,
    /// Close the connection after the output has drained.
    Close,
}

/// The result of one step of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Consumed these bytes; there may be more to do.
    Took(usize),
    /// Consumed these bytes; nothing more can be done now.
    Pause(usize, Next),
}

impl Step {
    /// Adds this number of bytes that were consumed before the step.
    #[inline]
    pub(super) fn behind(self, count: usize) -> Step {
        match self {
            Step::Took(more) => Step::Took(count + more),
            Step::Pause(more, next) => Step::Pause(count + more, next),
        }
    }
}

/// The client's dialect.
#[derive(Default)]
pub(super) enum Dialect {
    /// Lines of the classic and of the meta protocol.
    #[default]
    Text,
    /// Packets, from a client that may have to authenticate.
    Binary(Exchange),
}

impl Dialect {
    /// Parses one request, without its value or its list of keys.
    #[inline]
    pub(super) fn parse<'i>(&self, worker: &WorkerContext<'_>, input: &'i [u8]) -> Parsed<'i> {
        match self {
            Dialect::Text if begins(input) => parse_meta(input),
            Dialect::Text => parse_text(input, worker.shared.settings.cost_wire),
            Dialect::Binary(_) => parse_packet(input),
        }
    }

    /// True if the client may send this request, which SASL may forbid.
    #[inline]
    pub(super) fn allows(&self, worker: &WorkerContext<'_>, answer: &Answer) -> bool {
        match (self, answer) {
            (Dialect::Binary(exchange), Answer::Binary(head)) => {
                may_send(worker, exchange, head.opcode)
            }
            _ => true,
        }
    }
}

/// Counts a request, and takes it from the request budget.
#[inline]
pub(super) fn charge(worker: &mut WorkerContext<'_>) {
    worker.requests_left -= 1;
    worker.served.requests += 1;
}

/// The state after a request about an item.
#[expect(
    clippy::large_enum_variant,
    reason = "a box would be an allocation in the middle of a set"
)]
pub(super) enum Done<'e> {
    /// The request is answered. `consumed` bytes after its line are consumed, and the next `skip_len` are to be
    /// skipped.
    Answered { consumed: usize, skip_len: usize },
    /// The rest of the value is still to arrive; this number of bytes after the line is consumed.
    Arriving(usize, Arriving<'e>),
}

/// The key of a request, and the means to serve it.
pub(super) struct Item<'i, 'e> {
    pub(super) worker: &'i mut WorkerContext<'e>,
    pub(super) answer: &'i Answer,
    /// The key; decoded if it was sent in base64.
    pub(super) key: HashedKey<'i>,
    pub(super) out: &'i mut Out<'e>,
}

impl<'e> Item<'_, 'e> {
    /// Serves a request about at most one item. `rest` is the input after its line.
    #[inline(always)]
    pub(super) fn carry_out(self, request: &Request<'_>, rest: &[u8]) -> Done<'e> {
        match request {
            Request::Get(request) => self.get(request),
            Request::Store(request) => return self.store(request, rest),
            Request::Delete(request) => self.delete(request),
            Request::Arithmetic(request) => self.arithmetic(request),
            Request::Touch(_, exptime) => self.touch(*exptime),
            Request::Examine(_) => self.examine(),
            Request::NoOp => match self.answer {
                Answer::Binary(head) => packet::success(self.out.bytes(), head, 0),
                _ => self.out.bytes().extend_from_slice(meta_reply::NO_OP),
            },
            _ => unreachable!("the caller passes only item requests"),
        }
        Done::Answered { consumed: 0, skip_len: 0 }
    }

    fn rules(&self) -> Rules {
        match self.answer {
            Answer::Text(_) | Answer::Binary(_) => Rules::Classic,
            Answer::Meta(_) => Rules::Meta,
        }
    }

    #[inline(always)]
    fn get(self, request: &Get<'_>) {
        let Item { worker, answer, key, out } = self;
        let (now, cas_enabled) = (worker.now, worker.shared.settings.cas_enabled);
        match answer {
            Answer::Text(answer) => {
                let access = Access::of(worker, request, Rules::Classic);
                let looked_up = look_up(worker, key, &access, *answer, out);
                let end = if looked_up.is_ok() { reply::END } else { reply::NO_MEMORY };
                out.bytes().extend_from_slice(end);
            }
            Answer::Meta(echo) => {
                let access = &Access::of(worker, request, Rules::Meta);
                let touch = request.touch.map(|exptime| worker.expiry(exptime));
                let recache = request.recache.map(|exptime| worker.expiry(exptime));
                let bytes = key.bytes();
                let hit = meta::Hit { echo, key: bytes, now, cas_enabled, touch, recache };
                let show = |view: &ItemView<'_, 'e>, effects| hit.write(view, effects, out);
                match get::get(worker, key, access, Rules::Meta, show) {
                    Ok(Some(_)) => {}
                    Ok(None) => meta::missed(echo, bytes, out.bytes()),
                    Err(_) => out.bytes().extend_from_slice(meta_reply::NO_MEMORY),
                }
            }
            Answer::Binary(head) => {
                let access = &Access::of(worker, request, Rules::Classic);
                let reply = get::get(worker, key, access, Rules::Classic, |view, _| {
                    binary::hit(view, head, cas_enabled, out)
                });
                binary::got(head, key.bytes(), reply, out.bytes());
            }
        }
    }

    #[inline(always)]
    fn store(self, request: &Store<'_>, rest: &[u8]) -> Done<'e> {
        let rules = self.rules();
        let Item { worker, answer, key, out } = self;
        match begin(worker, key, request, rules, rest, answer.value_end()) {
            Begun::Finished { outcome, consumed, skip_len } => {
                answer_store(worker, answer, key.bytes(), outcome, request.value_len, out);
                Done::Answered { consumed, skip_len }
            }
            Begun::Arriving { upload, consumed } => {
                Done::Arriving(consumed, Arriving { upload, answer: *answer })
            }
        }
    }

    fn delete(self, request: &Delete<'_>) {
        let rules = self.rules();
        let Item { worker, answer, key, out } = self;
        let outcome = change::delete(worker, key, request, rules);
        match answer {
            Answer::Text(answer) => {
                Reply::new(worker, out, answer.noreply).line(text::deleted(outcome));
            }
            Answer::Meta(echo) => meta::deleted(echo, key.bytes(), outcome, out.bytes()),
            Answer::Binary(head) => binary::deleted(head, outcome, out.bytes()),
        }
    }

    fn arithmetic(self, request: &Arithmetic<'_>) {
        let Item { worker, answer, key, out } = self;
        let conditions = change::conditions(worker, request);
        let outcome = change::arithmetic(worker, key, request, &conditions);
        match answer {
            Answer::Text(answer) => match text::number(outcome) {
                Ok(_) if answer.noreply => {}
                Ok(number) => number_line(out.bytes(), number),
                Err(line) => Reply::new(worker, out, answer.noreply).line(line),
            },
            Answer::Meta(echo) => {
                let initial_expiry = conditions.initial.map(|initial| initial.expiry);
                let expiries = (conditions.touch, initial_expiry);
                meta::number(worker, (echo, key.bytes()), outcome, expiries, out.bytes());
            }
            Answer::Binary(head) => binary::number(worker, head, outcome, out.bytes()),
        }
    }

    fn touch(self, exptime: Exptime) {
        let Item { worker, answer, key, out } = self;
        let expiry = worker.expiry(exptime);
        match answer {
            Answer::Text(answer) => {
                let outcome = get::touch(worker, key, expiry);
                Reply::new(worker, out, answer.noreply).line(text::touched(outcome));
            }
            Answer::Binary(head) => {
                let flags_and_cas = |view: ItemView<'_, 'e>| (view.client_flags(), view.cas());
                let found = get::touch_and_show(worker, key, expiry, flags_and_cas);
                binary::touched(worker, head, found, out.bytes());
            }
            Answer::Meta(_) => unreachable!("the meta protocol touches by a get"),
        }
    }

    fn examine(self) {
        let Item { worker, answer, key, out } = self;
        let Answer::Meta(echo) = answer else {
            unreachable!("only the meta protocol examines items");
        };
        let (now, cas_enabled) = (worker.now, worker.shared.settings.cas_enabled);
        let request = (echo, key.bytes());
        let show =
            |view: ItemView<'_, 'e>| meta::examined(request, &view, cas_enabled, now, out.bytes());
        if get::examine(worker, key, show).is_none() {
            out.bytes().extend_from_slice(meta_reply::MISS);
        }
    }
}

/// A line counts as one request per this number of keys. A line of ten thousand keys thus yields to other clients,
/// while a line of fifty is answered in one write.
const KEYS_PER_REQUEST: u32 = 64;

pub(super) struct Keys {
    answer: TextAnswer,
    access: Access,
    keys_before_charge: u32,
}

pub(super) enum KeysStep {
    /// More keys may follow.
    GoesOn(Step),
    /// Consumed these bytes, including the end of the line.
    Ended(usize),
    /// Consumed these bytes; the rest of the line is to be skipped.
    Failed(usize),
}

impl Keys {
    pub(super) fn new(
        worker: &WorkerContext<'_>,
        touch: Option<Exptime>,
        answer: TextAnswer,
    ) -> Keys {
        let request = Get { touch, ..Get::default() };
        let access = Access::of(worker, &request, Rules::Classic);
        Keys { answer, access, keys_before_charge: KEYS_PER_REQUEST }
    }

    /// Takes the next key from the request budget; returns false if the budget is used up.
    fn try_charge(&mut self, worker: &mut WorkerContext<'_>) -> bool {
        if self.keys_before_charge == 0 {
            if worker.requests_left == 0 {
                return false;
            }
            charge(worker);
            self.keys_before_charge = KEYS_PER_REQUEST;
        }
        self.keys_before_charge -= 1;
        true
    }

    /// Serves the next keys, at most `count_max`, or the end of the line.
    pub(super) fn step<'e>(
        &mut self,
        worker: &mut WorkerContext<'e>,
        input: &[u8],
        count_max: usize,
        out: &mut Out<'e>,
    ) -> KeysStep {
        let mut consumed = 0;
        for _ in 0..count_max {
            match next_key(&input[consumed..]) {
                NextKey::Key(key, len) => {
                    if out.is_full() || !self.try_charge(worker) {
                        return KeysStep::GoesOn(Step::Pause(consumed, Next::Yield));
                    }
                    let key = worker.handle.hashed(key);
                    if look_up(worker, key, &self.access, self.answer, out).is_err() {
                        out.bytes().extend_from_slice(reply::NO_MEMORY);
                        return KeysStep::Failed(consumed);
                    }
                    consumed += len;
                }
                NextKey::End(len) => {
                    out.bytes().extend_from_slice(reply::END);
                    return KeysStep::Ended(consumed + len);
                }
                NextKey::Incomplete(len) => {
                    return KeysStep::GoesOn(Step::Pause(consumed + len, Next::Read));
                }
                NextKey::TooLong => {
                    out.bytes().extend_from_slice(reply::BAD_FORMAT);
                    return KeysStep::Failed(consumed);
                }
            }
        }
        KeysStep::GoesOn(Step::Took(consumed))
    }
}

/// Looks up one key and appends a reply for a hit. Fails only if there is no memory for a new expiry.
#[inline(always)]
pub(super) fn look_up<'e>(
    worker: &mut WorkerContext<'e>,
    key: HashedKey<'_>,
    access: &Access,
    answer: TextAnswer,
    out: &mut Out<'e>,
) -> Result<(), ReserveError> {
    let cas_enabled = worker.shared.settings.cas_enabled;
    get::get(worker, key, access, Rules::Classic, |view, _| {
        text::hit(view, answer.with_cas, cas_enabled, out)
    })?;
    Ok(())
}

pub(super) struct Arriving<'e> {
    pub(super) upload: Upload<'e>,
    pub(super) answer: Answer,
}

impl<'e> Arriving<'e> {
    /// Copies more of the value. Returns the number of bytes, and whether the value is complete or has no memory.
    pub(super) fn fill(&mut self, input: &[u8]) -> (usize, bool) {
        let reservation = &mut self.upload.reservation;
        let count = reservation.fill(input);
        let is_whole =
            reservation.remaining() == 0 && input.len() - count >= self.answer.value_end().len();
        (count, is_whole || reservation.is_starved())
    }

    /// Ends the store. `rest` is the input after the value's bytes so far. Returns the number of bytes to skip: missing
    /// bytes of the value, and its end.
    pub(super) fn finish(
        mut self,
        worker: &mut WorkerContext<'e>,
        rest: &[u8],
        out: &mut Out<'e>,
    ) -> usize {
        let reservation = &mut self.upload.reservation;
        let mut key = [0; KEY_LEN_MAX];
        let key_len = reservation.key().len();
        key[..key_len].copy_from_slice(reservation.key());
        let (key, value_len) = (&key[..key_len], reservation.value_len());
        let (remaining, value_end) = (reservation.remaining(), self.answer.value_end());
        if reservation.is_starved() {
            let outcome = self.upload.give_up(worker);
            answer_store(worker, &self.answer, key, outcome, value_len, out);
        } else if rest.starts_with(value_end) {
            let outcome = self.upload.store(worker);
            answer_store(worker, &self.answer, key, outcome, value_len, out);
        } else {
            bad_data(worker, &self.answer, out);
        }
        remaining + value_end.len()
    }
}

#[inline]
pub(super) fn answer_store<'e>(
    worker: &mut WorkerContext<'e>,
    answer: &Answer,
    key: &[u8],
    outcome: StoreOutcome,
    value_len: usize,
    out: &mut Out<'e>,
) {
    match answer {
        Answer::Text(answer) => {
            Reply::new(worker, out, answer.noreply).line(text::stored(outcome));
        }
        Answer::Meta(echo) => meta::stored(worker, (echo, key), outcome, value_len, out.bytes()),
        Answer::Binary(head) => binary::stored(worker, head, outcome, out.bytes()),
    }
}

fn bad_data<'e>(worker: &mut WorkerContext<'e>, answer: &Answer, out: &mut Out<'e>) {
    let noreply = match answer {
        Answer::Text(answer) => answer.noreply,
        // Errors of the meta protocol are not silenced by quiet mode.
        Answer::Meta(_) => false,
        Answer::Binary(_) => unreachable!("a binary value has no end marker"),
    };
    Reply::new(worker, out, noreply).line(reply::BAD_DATA);
}
