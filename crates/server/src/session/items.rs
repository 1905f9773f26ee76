//! Requests about one item: each is one operation, answered in the client's dialect.

use super::keys::look_up;
use super::value::{Arriving, answer_store};
use crate::context::WorkerContext;
use crate::ops::get::Access;
use crate::ops::store::{Begun, Order, begin};
use crate::ops::{self, Rules};
use crate::out::Out;
use crate::wire::reply::Reply;
use crate::wire::{binary, meta, text};
use slabwise_base::HashedKey;
use slabwise_engine::ItemView;
use slabwise_protocol::binary::compose as packet;
use slabwise_protocol::meta::reply as meta_reply;
use slabwise_protocol::text::compose::number_line;
use slabwise_protocol::text::reply;
use slabwise_protocol::{Answer, Arithmetic, Delete, Exptime, Get, Request, Store};

/// What a request came to, beside its answer.
#[expect(
    clippy::large_enum_variant,
    reason = "a box would be an allocation in the middle of a set"
)]
pub(super) enum Done<'e> {
    /// It is answered; took these bytes behind its line.
    Answered(usize),
    /// It is answered; took these bytes behind its line, and skips those that follow.
    Skips { consumed: usize, skip_len: usize },
    /// Its value goes on arriving; took these bytes behind its line.
    Arriving(usize, Arriving<'e>),
}

/// Carries out a request about one item, or none. `rest` is the input behind its line.
#[inline(always)]
pub(super) fn carry_out<'e>(
    worker: &mut WorkerContext<'e>,
    request: &Request<'_>,
    answer: &Answer,
    key: HashedKey<'_>,
    rest: &[u8],
    out: &mut Out<'e>,
) -> Done<'e> {
    match request {
        Request::Get(request) => get(worker, request, answer, key, out),
        Request::Store(request) => return store(worker, request, answer, key, rest, out),
        Request::Delete(request) => delete(worker, request, answer, key, out),
        Request::Arithmetic(request) => arithmetic(worker, request, answer, key, out),
        Request::Touch { exptime, .. } => touch(worker, *exptime, answer, key, out),
        Request::Examine { .. } => examine(worker, answer, key, out),
        Request::NoOp => match answer {
            Answer::Binary(head) => packet::success(out.bytes(), head, 0),
            _ => out.bytes().extend_from_slice(meta_reply::NO_OP),
        },
        _ => unreachable!("the caller has sent others elsewhere"),
    }
    Done::Answered(0)
}

/// Whose rules a request follows that is answered so.
fn rules(answer: &Answer) -> Rules {
    match answer {
        Answer::Text(_) | Answer::Binary(_) => Rules::Classic,
        Answer::Meta(_) => Rules::Meta,
    }
}

#[inline(always)]
fn get<'e>(
    worker: &mut WorkerContext<'e>,
    request: &Get<'_>,
    answer: &Answer,
    key: HashedKey<'_>,
    out: &mut Out<'e>,
) {
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
            let recache = request.recache.map(|exptime| worker.expiry(exptime));
            let (touch, bytes) = (access.touch(), key.bytes());
            let hit = meta::Hit { echo, key: bytes, now, cas_enabled, touch, recache };
            let show = |view: &ItemView<'_, 'e>, met| hit.write(view, met, out);
            match ops::get::get(worker, key, access, Rules::Meta, show) {
                Ok(Some(_)) => {}
                Ok(None) => meta::missed(echo, bytes, out.bytes()),
                Err(_) => out.bytes().extend_from_slice(meta_reply::NO_MEMORY),
            }
        }
        Answer::Binary(head) => {
            let access = &Access::of(worker, request, Rules::Classic);
            let key_shown = if head.with_key { key.bytes() } else { b"" };
            let show =
                |view: &ItemView<'_, 'e>, _| binary::hit(view, head, key_shown, cas_enabled, out);
            let shown = ops::get::get(worker, key, access, Rules::Classic, show);
            binary::got(head, key.bytes(), shown, out.bytes());
        }
    }
}

#[inline(always)]
fn store<'e>(
    worker: &mut WorkerContext<'e>,
    request: &Store<'_>,
    answer: &Answer,
    key: HashedKey<'_>,
    rest: &[u8],
    out: &mut Out<'e>,
) -> Done<'e> {
    let order = Order::of(worker, key, request, rules(answer));
    match begin(worker, order, rest, answer.value_end()) {
        Begun::Finished { outcome, consumed, skip_len } => {
            answer_store(worker, answer, key.bytes(), outcome, request.value_len, out);
            match skip_len {
                0 => Done::Answered(consumed),
                _ => Done::Skips { consumed, skip_len },
            }
        }
        Begun::Arriving { upload, consumed } => {
            Done::Arriving(consumed, Arriving { upload, answer: *answer })
        }
    }
}

fn delete<'e>(
    worker: &mut WorkerContext<'e>,
    request: &Delete<'_>,
    answer: &Answer,
    key: HashedKey<'_>,
    out: &mut Out<'e>,
) {
    let outcome = ops::delete::delete(worker, key, request, rules(answer));
    match answer {
        Answer::Text(answer) => {
            Reply::new(worker, out, answer.noreply).line(text::deleted(outcome));
        }
        Answer::Meta(echo) => meta::deleted(echo, key.bytes(), outcome, out.bytes()),
        Answer::Binary(head) => binary::deleted(head, outcome, out.bytes()),
    }
}

fn arithmetic<'e>(
    worker: &mut WorkerContext<'e>,
    request: &Arithmetic<'_>,
    answer: &Answer,
    key: HashedKey<'_>,
    out: &mut Out<'e>,
) {
    let conditions = ops::arithmetic::conditions(worker, request);
    let outcome = ops::arithmetic::arithmetic(worker, key, request, &conditions);
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

fn touch<'e>(
    worker: &mut WorkerContext<'e>,
    exptime: Exptime,
    answer: &Answer,
    key: HashedKey<'_>,
    out: &mut Out<'e>,
) {
    let expiry = worker.expiry(exptime);
    match answer {
        Answer::Text(answer) => {
            let outcome = ops::touch::touch(worker, key, expiry);
            Reply::new(worker, out, answer.noreply).line(text::touched(outcome));
        }
        Answer::Binary(head) => {
            let flags_and_cas = |view: ItemView<'_, 'e>| (view.client_flags(), view.cas());
            let found = ops::touch::touch_and_show(worker, key, expiry, flags_and_cas);
            binary::touched(worker, head, found, out.bytes());
        }
        Answer::Meta(_) => unreachable!("the meta protocol touches by a get"),
    }
}

fn examine<'e>(
    worker: &mut WorkerContext<'e>,
    answer: &Answer,
    key: HashedKey<'_>,
    out: &mut Out<'e>,
) {
    let Answer::Meta(echo) = answer else {
        unreachable!("only the meta protocol examines items");
    };
    let (now, cas_enabled) = (worker.now, worker.shared.settings.cas_enabled);
    let seen = ops::look::examine(worker, key, |view| meta::seen_of(&view, cas_enabled, now));
    meta::examined(echo, key.bytes(), seen, out.bytes());
}
