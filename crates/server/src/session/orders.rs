//! Requests that are not about an item: version, quit, statistics, administrative commands and authentication.

use crate::admin::commands::{self, NextAction};
use crate::admin::debug;
use crate::out::Out;
use crate::sasl::{Answer, Exchange, MECHANISMS};
use crate::shared::{CloseReason, WorkerContext};
use crate::stats;
use crate::wire::VERSION;
use crate::wire::rows::{Rows, StatsForm};
use crate::wire::text::Reply;
use slabwise_engine::Pinned;
use slabwise_protocol::binary::{Fault, Head, Status, compose, opcode};
use slabwise_protocol::{Admin, Exptime, Request, Sasl, StatsRequest, TextAnswer};
use std::sync::atomic::Ordering;

pub(super) fn line<'e>(
    worker: &mut WorkerContext<'e>,
    request: Request<'_>,
    answer: TextAnswer,
    held: &mut Vec<Pinned<'e>>,
    out: &mut Out<'e>,
) -> NextAction<'e> {
    match request {
        Request::Version => {
            let line = ["VERSION ", VERSION, "\r\n"].concat();
            out.bytes().extend_from_slice(line.as_bytes());
        }
        Request::Quit => return NextAction::Close(CloseReason::Normal),
        Request::Stats(subject) => {
            return statistics(worker, subject, &mut Rows::text(out.bytes()));
        }
        Request::Admin(Admin::Watch(kinds)) => return commands::watch(worker, kinds, out),
        Request::Admin(Admin::Debug(order)) => {
            debug::carry_out(worker, order, held, &mut Reply::new(worker, out, answer.noreply));
        }
        Request::Admin(order) => {
            let reply = &mut Reply::new(worker, out, answer.noreply);
            return commands::carry_out(worker, order, reply);
        }
        _ => unreachable!("the caller passes no item requests"),
    }
    NextAction::Nothing
}

pub(super) fn packet<'e>(
    worker: &mut WorkerContext<'e>,
    request: Request<'_>,
    head: &Head,
    exchange: &mut Exchange,
    out: &mut Vec<u8>,
) -> NextAction<'e> {
    match request {
        Request::Version => compose::text(out, head, Status::Success, VERSION.as_bytes()),
        Request::Quit => {
            if !head.quiet {
                compose::success(out, head, 0);
            }
            return NextAction::Close(CloseReason::Normal);
        }
        Request::Stats(StatsRequest::Detail(_)) if !worker.shared.settings.dump_enabled => {
            compose::error(out, head, Status::NotFound);
        }
        Request::Stats(subject) => {
            let form = StatsForm::Binary { opaque: head.opaque };
            return statistics(worker, subject, &mut Rows::new(out, form));
        }
        Request::Admin(Admin::FlushAll(exptime)) => flush(worker, head, exptime, out),
        Request::Sasl(request) => authenticate(worker, exchange, head, request, out),
        _ => unreachable!("the binary protocol has no other requests"),
    }
    NextAction::Nothing
}

fn statistics<'e>(
    worker: &mut WorkerContext<'e>,
    subject: StatsRequest<'_>,
    rows: &mut Rows<'_>,
) -> NextAction<'e> {
    stats::answer(worker, subject, rows)
        .map_or(NextAction::Nothing, |crawl| NextAction::Crawl(Box::new(crawl)))
}

fn flush(worker: &WorkerContext<'_>, head: &Head, exptime: Exptime, out: &mut Vec<u8>) {
    if !worker.shared.settings.flush_enabled {
        compose::error(out, head, Status::AuthError);
        return;
    }
    commands::end_all_items(worker, exptime);
    if !head.quiet {
        compose::success(out, head, 0);
    }
}

/// True if the client may send this opcode, given that SASL may require authentication.
#[inline]
pub(super) fn may_send(worker: &WorkerContext<'_>, exchange: &Exchange, opcode: u8) -> bool {
    !worker.shared.settings.sasl_enabled
        || exchange.is_authenticated()
        || matches!(
            opcode,
            opcode::SASL_LIST_MECHS | opcode::SASL_AUTH | opcode::SASL_STEP | opcode::VERSION
        )
}

/// Runs a step of the SASL exchange. The round ends with it, because a search of the whole password file is slow and
/// clients that guess passwords must not delay others.
fn authenticate(
    worker: &mut WorkerContext<'_>,
    exchange: &mut Exchange,
    head: &Head,
    request: Sasl<'_>,
    out: &mut Vec<u8>,
) {
    if !worker.shared.settings.sasl_enabled {
        compose::error(out, head, Status::UnknownCommand);
        return;
    }
    let passwords = worker.shared.passwords.as_ref();
    let answer = match request {
        Sasl::ListMechanisms => return compose::text(out, head, Status::Success, MECHANISMS),
        Sasl::Auth { mechanism, response } => exchange.begin(mechanism, response, passwords),
        Sasl::Step(response) => exchange.go_on(response, passwords),
    };
    worker.requests_left = 0;
    match answer {
        Answer::Authenticated => compose::text(out, head, Status::Success, b"Authenticated"),
        Answer::Continue => compose::error(out, head, Status::AuthContinue),
        Answer::Refused => compose::error(out, head, Status::AuthError),
    }
    count(worker, answer);
}

/// Answers an invalid packet. Returns false if the connection is to be closed.
pub(super) fn refuse(
    worker: &WorkerContext<'_>,
    exchange: &mut Exchange,
    head: &Head,
    fault: Fault,
    out: &mut Vec<u8>,
) -> bool {
    if !fault.precedes_authentication() && !may_send(worker, exchange, head.opcode) {
        compose::error(out, head, Status::AuthError);
        return false;
    }
    let mut status = fault.status();
    if matches!(fault, Fault::MechanismTooLong | Fault::ResponseTooLong) {
        if worker.shared.settings.sasl_enabled {
            // The client loses an earlier authentication.
            exchange.end();
            // As in memcached, an invalid mechanism does not count as an attempt.
            if fault == Fault::ResponseTooLong {
                count(worker, Answer::Refused);
            }
        } else {
            status = Status::UnknownCommand;
        }
    }
    compose::error(out, head, status);
    !fault.closes()
}

/// Counts an exchange that has ended.
fn count(worker: &WorkerContext<'_>, answer: Answer) {
    let counters = &worker.shared.counters;
    if answer != Answer::Continue {
        counters.auth_commands.fetch_add(1, Ordering::Relaxed);
    }
    if answer == Answer::Refused {
        counters.auth_errors.fetch_add(1, Ordering::Relaxed);
    }
}
