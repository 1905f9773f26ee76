//! Packets by which a client says who it is.

use super::super::{Dialect, Session};
use crate::context::WorkerContext;
use crate::sasl::{Answer, MECHANISMS};
use slabwise_protocol::binary::{Fault, Head, Request, Status, compose};
use std::sync::atomic::Ordering;

/// What a client is told that is in.
const AUTHENTICATED: &[u8] = b"Authenticated";

pub(super) fn list_mechanisms(worker: &WorkerContext<'_>, head: &Head, out: &mut Vec<u8>) {
    if worker.shared.settings.sasl_enabled {
        compose::text(out, head, Status::Success, MECHANISMS);
    } else {
        compose::error(out, head, Status::UnknownCommand);
    }
}

impl Session<'_> {
    /// A step of the exchange. The turn ends with it: passwords are looked for in a whole file, and nobody
    /// else shall wait for a client that guesses.
    pub(super) fn authenticate(
        &mut self,
        worker: &mut WorkerContext<'_>,
        head: &Head,
        request: Request<'_>,
        out: &mut Vec<u8>,
    ) {
        if !worker.shared.settings.sasl_enabled {
            compose::error(out, head, Status::UnknownCommand);
            return;
        }
        worker.requests_left = 0;
        let Dialect::Binary(exchange) = &mut self.dialect else {
            unreachable!("packets come in the binary dialect only");
        };
        let passwords = worker.shared.passwords.as_ref();
        let answer = match request {
            Request::SaslAuth { mechanism, response } => {
                exchange.begin(mechanism, response, passwords)
            }
            Request::SaslStep { response } => exchange.go_on(response, passwords),
            _ => unreachable!("the caller has sent others elsewhere"),
        };
        match answer {
            Answer::Authenticated => compose::text(out, head, Status::Success, AUTHENTICATED),
            Answer::Continue => compose::error(out, head, Status::AuthContinue),
            Answer::Refused => compose::error(out, head, Status::AuthError),
        }
        count(worker, answer);
    }

    /// A step that is too long to be one. Whoever was in before is out.
    pub(super) fn refuse_sasl(
        &mut self,
        worker: &WorkerContext<'_>,
        head: &Head,
        fault: Fault,
        out: &mut Vec<u8>,
    ) {
        if !worker.shared.settings.sasl_enabled {
            compose::error(out, head, Status::UnknownCommand);
            return;
        }
        let Dialect::Binary(exchange) = &mut self.dialect else {
            unreachable!("packets come in the binary dialect only");
        };
        exchange.end();
        // As in memcached, where a mechanism that has no such name is no attempt.
        if fault == Fault::ResponseTooLong {
            count(worker, Answer::Refused);
        }
        compose::error(out, head, fault.status());
    }
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
