//! The dialogue in the binary protocol.
//!
//! One packet is one command. Its head, extras and key are parsed in place; a value goes the way of all
//! values (`storage.rs`), large ones are sent from where they lie (`retrieval.rs`), statistics are rows
//! in another form (`stats/rows.rs`). So this folder is about what only packets have: opaque bytes and
//! CAS values in every reply, quiet commands, and SASL.
//!
//! Laws: every reply repeats its request's opcode and opaque bytes; a quiet command is answered only with
//! an error, a quiet retrieval only with a hit; with `-S` a client that has not authenticated is told the
//! version and how to authenticate, and is hung up on for anything else; where the next packet begins is
//! always known, or the connection closes.

mod items;
mod sasl;
mod store;

pub(super) use store::StoreAck;

use super::{Dialect, Next, Phase, Session, Step, VERSION, admin};
use crate::context::WorkerContext;
use crate::out::Out;
use crate::shared::CloseReason;
use crate::stats::{self, Rows, StatsForm};
use slabwise_protocol::StatsRequest;
use slabwise_protocol::binary::{Fault, Head, Parsed, Request, Status, compose, opcode, parse};
use std::sync::atomic::Ordering;

/// What a request came to, beside its answer.
enum Then {
    /// The next packet.
    Nothing,
    /// The end of the connection.
    Close,
}

impl<'e> Session<'e> {
    /// A packet.
    pub(super) fn packet(
        &mut self,
        worker: &mut WorkerContext<'e>,
        input: &[u8],
        out: &mut Out<'e>,
    ) -> Step {
        match parse(input) {
            Parsed::Incomplete => Step::Pause(0, Next::Read),
            Parsed::Hangup => self.close(input.len(), CloseReason::Error),
            Parsed::Refused { head, fault, consumed, skip_len } => {
                worker.charge();
                match self.refuse(worker, &head, fault, out.bytes()) {
                    Then::Close => self.close(consumed, CloseReason::Error),
                    Then::Nothing => {
                        self.phase = Phase::Skip(skip_len);
                        Step::Took(consumed)
                    }
                }
            }
            Parsed::Request { head, .. } if !self.may_ask(worker, head.opcode) => {
                worker.charge();
                compose::error(out.bytes(), &head, Status::AuthError);
                self.close(input.len(), CloseReason::Error)
            }
            Parsed::Request { head, request: Request::Store(order), consumed } => {
                worker.charge();
                worker.served.others += 1;
                let order = store::order(worker, &head, &order);
                Step::Took(consumed + self.begin_store(worker, order, &input[consumed..], out))
            }
            Parsed::Request { head, request, consumed } => {
                worker.charge();
                let is_get = matches!(request, Request::Get { .. } | Request::GetAndTouch { .. });
                let is_other = !is_get && !matches!(request, Request::Noop);
                worker.served.others += u32::from(is_other);
                match self.carry_out(worker, &head, request, out) {
                    Then::Nothing => Step::Took(consumed),
                    Then::Close => self.close(consumed, CloseReason::Normal),
                }
            }
        }
    }

    /// Whether the client may use this command, being who it is.
    fn may_ask(&self, worker: &WorkerContext<'_>, opcode: u8) -> bool {
        let Dialect::Binary(exchange) = &self.dialect else {
            unreachable!("packets come in the binary dialect only");
        };
        let is_open = matches!(
            opcode,
            opcode::SASL_LIST_MECHS | opcode::SASL_AUTH | opcode::SASL_STEP | opcode::VERSION
        );
        is_open || !worker.shared.settings.sasl_enabled || exchange.is_authenticated()
    }

    /// Answers a packet that cannot be acted on.
    fn refuse(
        &mut self,
        worker: &WorkerContext<'_>,
        head: &Head,
        fault: Fault,
        out: &mut Vec<u8>,
    ) -> Then {
        if !fault.precedes_authentication() && !self.may_ask(worker, head.opcode) {
            compose::error(out, head, Status::AuthError);
            return Then::Close;
        }
        match fault {
            Fault::MechanismTooLong | Fault::ResponseTooLong => {
                self.refuse_sasl(worker, head, fault, out);
            }
            _ => compose::error(out, head, fault.status()),
        }
        if fault.closes() { Then::Close } else { Then::Nothing }
    }

    /// A request that has no value after it.
    fn carry_out(
        &mut self,
        worker: &mut WorkerContext<'e>,
        head: &Head,
        request: Request<'_>,
        out: &mut Out<'e>,
    ) -> Then {
        match request {
            Request::Store(_) => unreachable!("these go on beyond their key"),
            Request::Get { key, with_key } => items::get(worker, head, key, None, with_key, out),
            Request::GetAndTouch { key, exptime, with_key } => {
                items::get(worker, head, key, Some(exptime), with_key, out);
            }
            Request::Touch { key, exptime } => items::touch(worker, head, key, exptime, out),
            Request::Delete { key } => items::delete(worker, head, key, out.bytes()),
            Request::Arithmetic { key, direction, delta, initial } => {
                let change = items::Change::new(worker, direction, delta, initial);
                items::arithmetic(worker, head, key, change, out.bytes());
            }
            Request::Flush { exptime } => flush(worker, head, exptime, out.bytes()),
            Request::Noop => compose::success(out.bytes(), head, 0),
            Request::Version => {
                compose::text(out.bytes(), head, Status::Success, VERSION.as_bytes());
            }
            Request::Stats(question) => self.stats(worker, head, question, out.bytes()),
            Request::SaslListMechanisms => sasl::list_mechanisms(worker, head, out.bytes()),
            Request::SaslAuth { .. } | Request::SaslStep { .. } => {
                self.authenticate(worker, head, request, out.bytes());
            }
            Request::Quit => {
                if !head.quiet {
                    compose::success(out.bytes(), head, 0);
                }
                return Then::Close;
            }
        }
        Then::Nothing
    }

    fn stats(
        &mut self,
        worker: &WorkerContext<'e>,
        head: &Head,
        question: StatsRequest<'_>,
        out: &mut Vec<u8>,
    ) {
        let is_allowed = worker.shared.settings.dump_enabled;
        if matches!(question, StatsRequest::Detail(_)) && !is_allowed {
            compose::error(out, head, Status::NotFound);
            return;
        }
        let form = StatsForm::Binary { opaque: head.opaque };
        if let Some(crawl) = stats::answer(worker, question, &mut Rows::new(out, form)) {
            self.phase = Phase::Crawl(Box::new(crawl));
        }
    }
}

fn flush(worker: &WorkerContext<'_>, head: &Head, exptime: u32, out: &mut Vec<u8>) {
    if !worker.shared.settings.flush_enabled {
        compose::error(out, head, Status::AuthError);
        return;
    }
    worker.shared.counters.flushes.fetch_add(1, Ordering::Relaxed);
    admin::end_all_items(worker, (exptime > 0).then(|| worker.second_unsigned(exptime)));
    if !head.quiet {
        compose::success(out, head, 0);
    }
}
