//! Packets by which a client authenticates, and what may be asked before.

use crate::context::WorkerContext;
use crate::sasl::{Answer, Exchange, MECHANISMS};
use slabwise_protocol::Sasl;
use slabwise_protocol::binary::{Fault, Head, Status, compose, opcode};
use std::sync::atomic::Ordering;

const AUTHENTICATED: &[u8] = b"Authenticated";

#[inline]
pub(super) fn may_ask(worker: &WorkerContext<'_>, exchange: &Exchange, opcode: u8) -> bool {
    !worker.shared.settings.sasl_enabled
        || exchange.is_authenticated()
        || matches!(
            opcode,
            opcode::SASL_LIST_MECHS | opcode::SASL_AUTH | opcode::SASL_STEP | opcode::VERSION
        )
}

/// A step of the exchange. The turn ends with it: passwords are looked for in a whole file, and no other client
/// shall wait for one that guesses.
pub(super) fn authenticate(
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
        Sasl::Step { response } => exchange.go_on(response, passwords),
    };
    worker.requests_left = 0;
    match answer {
        Answer::Authenticated => compose::text(out, head, Status::Success, AUTHENTICATED),
        Answer::Continue => compose::error(out, head, Status::AuthContinue),
        Answer::Refused => compose::error(out, head, Status::AuthError),
    }
    count(worker, answer);
}

/// Answers a packet that cannot be acted on. False: the connection closes.
pub(super) fn refuse(
    worker: &WorkerContext<'_>,
    exchange: &mut Exchange,
    head: &Head,
    fault: Fault,
    out: &mut Vec<u8>,
) -> bool {
    if !fault.precedes_authentication() && !may_ask(worker, exchange, head.opcode) {
        compose::error(out, head, Status::AuthError);
        return false;
    }
    match fault {
        Fault::MechanismTooLong | Fault::ResponseTooLong => {
            refuse_sasl(worker, exchange, head, fault, out);
        }
        _ => compose::error(out, head, fault.status()),
    }
    !fault.closes()
}

/// A step that is too long to be one. A client that was authenticated before is so no longer.
fn refuse_sasl(
    worker: &WorkerContext<'_>,
    exchange: &mut Exchange,
    head: &Head,
    fault: Fault,
    out: &mut Vec<u8>,
) {
    if !worker.shared.settings.sasl_enabled {
        compose::error(out, head, Status::UnknownCommand);
        return;
    }
    exchange.end();
    // As in memcached, where a mechanism that has no such name is no attempt.
    if fault == Fault::ResponseTooLong {
        count(worker, Answer::Refused);
    }
    compose::error(out, head, fault.status());
}

/// Counts an exchange that has come to its end.
fn count(worker: &WorkerContext<'_>, answer: Answer) {
    let counters = &worker.shared.counters;
    if answer != Answer::Continue {
        counters.auth_commands.fetch_add(1, Ordering::Relaxed);
    }
    if answer == Answer::Refused {
        counters.auth_errors.fetch_add(1, Ordering::Relaxed);
    }
}
