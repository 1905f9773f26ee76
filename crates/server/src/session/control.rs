//! Control requests, which are about the server or the connection: version, quit, statistics, administrative commands
//! and authentication.

use crate::admin::commands::{self, NextAction};
use crate::admin::debug;
use crate::out::Out;
use crate::sasl::{Answer, Exchange, MECHANISMS};
use crate::shared::{CloseReason, WorkerContext};
use crate::stats::{self, StatsContext};
use crate::wire::VERSION;
use crate::wire::rows::{StatsForm, StatsRows};
use crate::wire::text::Reply;
use slabwise_engine::Pinned;
use slabwise_protocol::binary::{Fault, Head, Status, compose, opcode};
use slabwise_protocol::{Admin, Exptime, Request, Sasl, StatsRequest, TextAnswer};
use std::sync::atomic::Ordering;

/// Serves a control request of the classic text protocol. `debug_pins` are the items that `debugitem ref` has pinned.
pub(super) fn serve_line<'e>(
    worker: &mut WorkerContext<'e>,
    request: Request<'_>,
    answer: TextAnswer,
    debug_pins: &mut Vec<Pinned<'e>>,
    out: &mut Out<'e>,
) -> NextAction<'e> {
    match request {
        Request::Version => {
            let line = ["VERSION ", VERSION, "\r\n"].concat();
            out.bytes().extend_from_slice(line.as_bytes());
        }
        Request::Quit => return NextAction::Close(CloseReason::Normal),
        Request::Stats(subject) => {
            return write_statistics(worker, subject, &mut StatsRows::text(out.bytes()));
        }
        Request::Admin(Admin::Watch(kinds)) => return commands::watch(worker, kinds, out),
        Request::Admin(Admin::Debug(command)) => {
            let reply = &mut Reply::new(worker, out, answer.noreply);
            debug::carry_out(worker, command, debug_pins, reply);
        }
        Request::Admin(command) => {
            let reply = &mut Reply::new(worker, out, answer.noreply);
            return commands::carry_out(worker, command, reply);
        }
        _ => unreachable!("the caller passes only control requests of the text protocol"),
    }
    NextAction::Nothing
}

/// Serves a control request of the binary protocol.
pub(super) fn serve_packet<'e>(
    worker: &mut WorkerContext<'e>,
    request: Request<'_>,
    head: &Head,
    exchange: &mut Exchange,
    out: &mut Vec<u8>,
) -> NextAction<'e> {
    match request {
        Request::Version => compose::write_text(out, head, Status::Success, VERSION.as_bytes()),
        Request::Quit => {
            if !head.quiet {
                compose::write_success(out, head, 0);
            }
            return NextAction::Close(CloseReason::Normal);
        }
        Request::Stats(StatsRequest::Detail(_)) if !worker.shared.settings.dump_enabled => {
            compose::write_error(out, head, Status::NotFound);
        }
        Request::Stats(subject) => {
            let form = StatsForm::Binary { opaque: head.opaque };
            return write_statistics(worker, subject, &mut StatsRows::new(out, form));
        }
        Request::Admin(Admin::FlushAll(exptime)) => serve_flush(worker, head, exptime, out),
        Request::Sasl(request) => authenticate(worker, exchange, head, request, out),
        _ => unreachable!("the caller passes only control requests of the binary protocol"),
    }
    NextAction::Nothing
}

/// Writes the statistics of a subject. For a long list, returns a `Crawl`, with which the session writes the list in
/// several steps.
fn write_statistics<'e>(
    worker: &mut WorkerContext<'e>,
    subject: StatsRequest<'_>,
    rows: &mut StatsRows<'_>,
) -> NextAction<'e> {
    stats::answer(StatsContext::of(worker), subject, rows)
        .map_or(NextAction::Nothing, |crawl| NextAction::Crawl(Box::new(crawl)))
}

/// Serves `flush` and `flushq` of the binary protocol.
fn serve_flush(worker: &WorkerContext<'_>, head: &Head, exptime: Exptime, out: &mut Vec<u8>) {
    if !worker.shared.settings.flush_enabled {
        compose::write_error(out, head, Status::AuthError);
        return;
    }
    commands::flush_all(worker, exptime);
    if !head.quiet {
        compose::write_success(out, head, 0);
    }
}

/// True if the server may serve this opcode. With `-S` a client that has not authenticated can only authenticate and
/// ask for the version.
#[inline]
pub(super) fn is_permitted(worker: &WorkerContext<'_>, exchange: &Exchange, opcode: u8) -> bool {
    !worker.shared.settings.sasl_enabled
        || exchange.is_authenticated()
        || matches!(
            opcode,
            opcode::SASL_LIST_MECHS | opcode::SASL_AUTH | opcode::SASL_STEP | opcode::VERSION
        )
}

/// Runs a step of the SASL exchange. The connection's round then ends: a step searches the whole password file, and
/// clients that guess passwords must not delay other clients.
fn authenticate(
    worker: &mut WorkerContext<'_>,
    exchange: &mut Exchange,
    head: &Head,
    request: Sasl<'_>,
    out: &mut Vec<u8>,
) {
    if !worker.shared.settings.sasl_enabled {
        compose::write_error(out, head, Status::UnknownCommand);
        return;
    }
    let passwords = worker.shared.passwords.as_ref();
    let answer = match request {
        Sasl::ListMechanisms => return compose::write_text(out, head, Status::Success, MECHANISMS),
        Sasl::Auth { mechanism, response } => exchange.begin(mechanism, response, passwords),
        Sasl::Step(response) => exchange.continue_with(response, passwords),
    };
    worker.requests_left = 0;
    match answer {
        Answer::Authenticated => compose::write_text(out, head, Status::Success, b"Authenticated"),
        Answer::Continue => compose::write_error(out, head, Status::AuthContinue),
        Answer::Refused => compose::write_error(out, head, Status::AuthError),
    }
    count_attempt(worker, answer);
}

/// Writes the error for an invalid packet. Returns false if the caller should close the connection.
pub(super) fn write_refusal(
    worker: &WorkerContext<'_>,
    exchange: &mut Exchange,
    head: &Head,
    fault: Fault,
    out: &mut Vec<u8>,
) -> bool {
    if !fault.precedes_authentication() && !is_permitted(worker, exchange, head.opcode) {
        compose::write_error(out, head, Status::AuthError);
        return false;
    }
    let mut status = fault.status();
    if matches!(fault, Fault::MechanismTooLong | Fault::ResponseTooLong) {
        if worker.shared.settings.sasl_enabled {
            // As after every failed attempt, an earlier authentication of the client ends.
            exchange.end();
            // As in memcached, a mechanism whose name is too long does not count as an attempt.
            if fault == Fault::ResponseTooLong {
                count_attempt(worker, Answer::Refused);
            }
        } else {
            status = Status::UnknownCommand;
        }
    }
    compose::write_error(out, head, status);
    !fault.closes()
}

/// Counts an attempt to authenticate, and a failed attempt as an error. An attempt that needs another step is not
/// counted yet.
fn count_attempt(worker: &WorkerContext<'_>, answer: Answer) {
    let counters = &worker.shared.counters;
    if answer != Answer::Continue {
        counters.auth_commands.fetch_add(1, Ordering::Relaxed);
    }
    if answer == Answer::Refused {
        counters.auth_errors.fetch_add(1, Ordering::Relaxed);
    }
}
