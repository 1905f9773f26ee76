//! Item requests: each runs one operation on at most one item, and writes the reply in the client's dialect.
//!
//! This file also serves the value of a store ([`UnfinishedStore`]), which is consumed as it arrives.

use super::control::is_permitted;
use crate::ops::change;
use crate::ops::get::{self, Access, Rules};
use crate::ops::store::{StoreStart, start_store};
use crate::ops::upload::{Room, Upload};
use crate::out::Out;
use crate::sasl::Exchange;
use crate::shared::WorkerContext;
use crate::wire::text::Reply;
use crate::wire::{binary, meta, text};
use slabwise_base::HashedKey;
use slabwise_engine::{ItemView, ReserveError, StoreOutcome};
use slabwise_protocol::binary::{compose as packet, parse as parse_packet};
use slabwise_protocol::meta::{
    KEY_BUFFER_LEN, begins, decode_key, parse as parse_meta, reply as meta_reply,
};
use slabwise_protocol::text::{parse as parse_text, reply, write_number_line};
use slabwise_protocol::{
    Answer, Arithmetic, Delete, Exptime, Get, KEY_LEN_MAX, Parsed, Request, Store, TextAnswer,
};

/// The result of [`Session::consume`](super::Session::consume).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The number of input bytes that the session consumed.
    pub consumed: usize,
    pub next: Next,
}

/// The next action that a session requests from its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Receive more input.
    Read,
    /// Call the session again after the output is written and other connections were served, even without new input.
    Yield,
    /// Receive nothing. Call the session again when memory may be free for the value that is arriving.
    AwaitMemory,
    /// Receive nothing. Call the session again when other clients may have read their replies.
    AwaitReplies,
    /// Close the connection after the output is written.
    Close,
}

/// The result of one step of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The step consumed this number of bytes. The next step can run at once.
    Consumed(usize),
    /// The step consumed this number of bytes. No further step can run before the caller has taken this action.
    Pause(usize, Next),
}

impl Step {
    /// Adds the number of bytes that the caller consumed before this step.
    #[inline]
    pub(super) fn add_consumed(self, count: usize) -> Step {
        match self {
            Step::Consumed(more) => Step::Consumed(count + more),
            Step::Pause(more, next) => Step::Pause(count + more, next),
        }
    }
}

/// The dialect of a connection, with the state that the dialect needs.
#[derive(Default)]
pub(super) enum Dialect {
    /// Lines of the classic text protocol and of the meta protocol.
    #[default]
    Text,
    /// Packets of the binary protocol. The exchange records whether the client has authenticated (`-S`).
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

    /// True if the server may serve this request. With `-S` most requests need an authenticated client.
    #[inline]
    pub(super) fn allows(&self, worker: &WorkerContext<'_>, answer: &Answer) -> bool {
        match (self, answer) {
            (Dialect::Binary(exchange), Answer::Binary(head)) => {
                is_permitted(worker, exchange, head.opcode)
            }
            _ => true,
        }
    }
}

/// Counts a request, and subtracts it from the request budget: the number of requests that the worker may still serve
/// in the current round of the connection.
#[inline]
pub(super) fn charge(worker: &mut WorkerContext<'_>) {
    worker.requests_left -= 1;
    worker.served.requests += 1;
}

/// True if the request is a get of a large value, so that it must wait in this round.
#[cold]
pub(super) fn get_must_wait(
    worker: &mut WorkerContext<'_>,
    (request, answer, key): (&Request<'_>, &Answer, HashedKey<'_>),
) -> bool {
    if !matches!(request, Request::Get(_)) {
        return false;
    }
    match answer {
        // The reply has no value.
        Answer::Meta(echo) if !echo.has(b'v') => return false,
        Answer::Meta(echo) if echo.key_is_base64 => {}
        _ => return get::has_large_value(worker, key),
    }
    let mut buffer = [0; KEY_BUFFER_LEN];
    let key = worker.handle.hashed(decode_key(key.bytes(), &mut buffer));
    get::has_large_value(worker, key)
}

/// The outcome of an item request.
#[expect(clippy::large_enum_variant, reason = "a boxed value would cost each set an allocation")]
pub(super) enum ItemOutcome<'e> {
    /// The request is served and its reply is written.
    Answered {
        /// The number of bytes after the request's line that the request consumed.
        consumed: usize,
        /// The number of bytes after the consumed bytes that belong to the request and that the session must ignore.
        skip_len: usize,
    },
    /// The request is a store, and a part of its value has not arrived.
    Receiving {
        /// The number of bytes after the request's line that the request consumed.
        consumed: usize,
        store: UnfinishedStore<'e>,
    },
}

/// The context of one item request: its worker, the form of its reply, its key, and the connection's output.
pub(super) struct ItemContext<'i, 'e> {
    pub(super) worker: &'i mut WorkerContext<'e>,
    pub(super) answer: &'i Answer,
    /// The key in binary. A key that the client sent in base64 is decoded.
    pub(super) key: HashedKey<'i>,
    pub(super) out: &'i mut Out<'e>,
}

impl<'e> ItemContext<'_, 'e> {
    /// Serves an item request. `rest` is the input after the request's line or packet head.
    #[inline(always)]
    pub(super) fn carry_out(self, request: &Request<'_>, rest: &[u8]) -> ItemOutcome<'e> {
        match request {
            Request::Get(request) => self.get(request),
            Request::Store(request) => return self.store(request, rest),
            Request::Delete(request) => self.delete(request),
            Request::Arithmetic(request) => self.arithmetic(request),
            Request::Touch(_, exptime) => self.touch(*exptime),
            Request::Examine(_) => self.examine(),
            Request::NoOp => match self.answer {
                Answer::Binary(head) => packet::write_success(self.out.bytes(), head, 0),
                _ => self.out.bytes().extend_from_slice(meta_reply::NO_OP),
            },
            _ => unreachable!("the caller passes only item requests to carry_out"),
        }
        ItemOutcome::Answered { consumed: 0, skip_len: 0 }
    }

    /// Returns the rules for the request: the meta protocol has rules of its own, and the binary protocol has those of
    /// the classic text protocol.
    fn rules(&self) -> Rules {
        match self.answer {
            Answer::Text(_) | Answer::Binary(_) => Rules::Classic,
            Answer::Meta(_) => Rules::Meta,
        }
    }

    #[inline(always)]
    fn get(self, request: &Get<'_>) {
        let ItemContext { worker, answer, key, out } = self;
        let (now, cas_enabled) = (worker.now, worker.shared.settings.cas_enabled);
        match answer {
            Answer::Text(answer) => {
                let access = Access::of(worker, request, Rules::Classic);
                let looked_up = get_and_write(worker, key, &access, *answer, out);
                let end = if looked_up.is_ok() { reply::END } else { reply::NO_MEMORY };
                out.bytes().extend_from_slice(end);
            }
            Answer::Meta(echo) => {
                let access = &Access::of(worker, request, Rules::Meta);
                let touch = request.touch.map(|exptime| worker.expiry(exptime));
                let vivify = request.vivify.map(|vivify| worker.expiry(vivify.first_exptime));
                let recache = request.recache.map(|exptime| worker.expiry(exptime));
                let bytes = key.bytes();
                let hit = meta::Hit { echo, key: bytes, now, cas_enabled, touch, vivify, recache };
                let show = |view: &ItemView<'_, 'e>, effects| hit.write(view, effects, out);
                match get::get(worker, key, access, Rules::Meta, show) {
                    Ok(Some(_)) => {}
                    Ok(None) => meta::write_miss(echo, bytes, out.bytes()),
                    Err(_) => out.bytes().extend_from_slice(meta_reply::NO_MEMORY),
                }
            }
            Answer::Binary(head) => {
                let access = &Access::of(worker, request, Rules::Classic);
                let reply = get::get(worker, key, access, Rules::Classic, |view, _| {
                    binary::write_hit(view, head, cas_enabled, out)
                });
                binary::write_miss_or_error(head, key.bytes(), reply, out.bytes());
            }
        }
    }

    #[inline(always)]
    fn store(self, request: &Store<'_>, rest: &[u8]) -> ItemOutcome<'e> {
        let rules = self.rules();
        let ItemContext { worker, answer, key, out } = self;
        match start_store(worker, key, request, rules, rest, answer.value_end()) {
            StoreStart::Finished { outcome, consumed, skip_len } => {
                write_store_reply(worker, answer, key.bytes(), outcome, request.value_len, out);
                ItemOutcome::Answered { consumed, skip_len }
            }
            StoreStart::Receiving { upload, consumed } => {
                let store = UnfinishedStore { upload, answer: *answer };
                ItemOutcome::Receiving { consumed, store }
            }
        }
    }

    fn delete(self, request: &Delete<'_>) {
        let rules = self.rules();
        let ItemContext { worker, answer, key, out } = self;
        let outcome = change::delete(worker, key, request, rules);
        match answer {
            Answer::Text(answer) => {
                Reply::new(worker, out, answer.noreply).line(text::delete_line(outcome));
            }
            Answer::Meta(echo) => meta::write_delete(echo, key.bytes(), outcome, out.bytes()),
            Answer::Binary(head) => binary::write_delete(head, outcome, out.bytes()),
        }
    }

    fn arithmetic(self, request: &Arithmetic<'_>) {
        let ItemContext { worker, answer, key, out } = self;
        let conditions = change::conditions(worker, request);
        let outcome = change::arithmetic(worker, key, request, &conditions);
        match answer {
            Answer::Text(answer) => match text::number_or_error(outcome) {
                Ok(_) if answer.noreply => {}
                Ok(number) => write_number_line(out.bytes(), number),
                Err(line) => Reply::new(worker, out, answer.noreply).line(line),
            },
            Answer::Meta(echo) => {
                let first_exptime = request.initial.map(|initial| initial.first_exptime);
                let initial_expiry = first_exptime.map(|exptime| worker.expiry(exptime));
                let expiries = (conditions.touch, initial_expiry);
                meta::write_arithmetic(worker, (echo, key.bytes()), outcome, expiries, out.bytes());
            }
            Answer::Binary(head) => binary::write_arithmetic(worker, head, outcome, out.bytes()),
        }
    }

    fn touch(self, exptime: Exptime) {
        let ItemContext { worker, answer, key, out } = self;
        let expiry = worker.expiry(exptime);
        match answer {
            Answer::Text(answer) => {
                let outcome = get::touch(worker, key, expiry);
                Reply::new(worker, out, answer.noreply).line(text::touch_line(outcome));
            }
            Answer::Binary(head) => {
                let flags_and_cas = |view: ItemView<'_, 'e>| (view.client_flags(), view.cas());
                let found = get::touch_and_show(worker, key, expiry, flags_and_cas);
                binary::write_touch(worker, head, found, out.bytes());
            }
            Answer::Meta(_) => unreachable!("the meta protocol has no touch command"),
        }
    }

    fn examine(self) {
        let ItemContext { worker, answer, key, out } = self;
        let Answer::Meta(echo) = answer else {
            unreachable!("only the meta protocol has the command me");
        };
        let (now, cas_enabled) = (worker.now, worker.shared.settings.cas_enabled);
        let request = (echo, key.bytes());
        let show = |view: ItemView<'_, 'e>| {
            meta::write_examine(request, &view, cas_enabled, now, out.bytes())
        };
        if get::examine(worker, key, show).is_none() {
            out.bytes().extend_from_slice(meta_reply::MISS);
        }
    }
}

/// Looks up one key and appends the item if it is found. Fails only if there is no memory for the expiry that `gat` or
/// `gats` sets.
#[inline(always)]
pub(super) fn get_and_write<'e>(
    worker: &mut WorkerContext<'e>,
    key: HashedKey<'_>,
    access: &Access,
    answer: TextAnswer,
    out: &mut Out<'e>,
) -> Result<(), ReserveError> {
    let cas_enabled = worker.shared.settings.cas_enabled;
    get::get(worker, key, access, Rules::Classic, |view, _| {
        text::write_hit(view, answer.with_cas, cas_enabled, out)
    })?;
    Ok(())
}

/// What a session does after it has copied bytes of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UploadStep {
    /// More input is needed.
    Read,
    /// Nothing is read before there is memory for the value.
    Wait,
    /// The store ends: the value and its line end have arrived, or there is no memory for the rest.
    End,
}

/// A store whose line was parsed, and whose value has not arrived completely.
pub(super) struct UnfinishedStore<'e> {
    /// The value in unpublished memory.
    pub(super) upload: Upload<'e>,
    /// The form of the reply. [`end`](Self::end) writes the reply.
    pub(super) answer: Answer,
}

impl<'e> UnfinishedStore<'e> {
    /// Copies more bytes of the value from `input`. Returns the number of copied bytes, and what the session does next.
    pub(super) fn fill(
        &mut self,
        worker: &mut WorkerContext<'e>,
        input: &[u8],
    ) -> (usize, UploadStep) {
        let (count, room) = self.upload.fill(worker, input);
        let step = match room {
            Room::Waits => UploadStep::Wait,
            Room::Refused => UploadStep::End,
            Room::Ready => {
                let end_len = self.answer.value_end().len();
                let has_end = self.upload.remaining() == 0 && input.len() - count >= end_len;
                if has_end { UploadStep::End } else { UploadStep::Read }
            }
        };
        (count, step)
    }

    /// Ends the store and writes its reply. `rest` is the input after the copied bytes of the value. If `is_refused` is
    /// true, the value is not stored, even if it is complete. Returns the number of bytes that the session must ignore:
    /// the missing bytes of the value, and the line end.
    pub(super) fn end(
        self,
        worker: &mut WorkerContext<'e>,
        rest: &[u8],
        out: &mut Out<'e>,
        is_refused: bool,
    ) -> usize {
        let UnfinishedStore { upload, answer } = self;
        let mut key = [0; KEY_LEN_MAX];
        let key_len = upload.key().len();
        key[..key_len].copy_from_slice(upload.key());
        let (key, value_len) = (&key[..key_len], upload.value_len());
        let (remaining, value_end) = (upload.remaining(), answer.value_end());
        let is_complete = upload.is_complete() && !is_refused;
        if is_complete && !rest.starts_with(value_end) {
            write_bad_data(worker, &answer, out);
        } else {
            let outcome = if is_complete { upload.store(worker) } else { upload.give_up(worker) };
            write_store_reply(worker, &answer, key, outcome, value_len, out);
        }
        remaining + value_end.len()
    }
}

/// Writes the reply to a store in the form of `answer`.
#[inline]
pub(super) fn write_store_reply<'e>(
    worker: &mut WorkerContext<'e>,
    answer: &Answer,
    key: &[u8],
    outcome: StoreOutcome,
    value_len: usize,
    out: &mut Out<'e>,
) {
    match answer {
        Answer::Text(answer) => {
            Reply::new(worker, out, answer.noreply).line(text::store_line(outcome));
        }
        Answer::Meta(echo) => {
            meta::write_store(worker, (echo, key), outcome, value_len, out.bytes())
        }
        Answer::Binary(head) => binary::write_store(worker, head, outcome, out.bytes()),
    }
}

/// Writes the error for a value that is not followed by a line end.
fn write_bad_data<'e>(worker: &mut WorkerContext<'e>, answer: &Answer, out: &mut Out<'e>) {
    let noreply = match answer {
        Answer::Text(answer) => answer.noreply,
        // The quiet mode of the meta protocol does not suppress errors.
        Answer::Meta(_) => false,
        Answer::Binary(_) => {
            unreachable!("a value of the binary protocol has no line end to check")
        }
    };
    Reply::new(worker, out, noreply).line(reply::BAD_DATA);
}
