//! The dialect of a connection, and the login of its client (`-Y`, `-S`).

use super::{Phase, Session};
use crate::config::Protocol;
use crate::out::Out;
use crate::passwords::Verdict;
use crate::sasl::Exchange;
use crate::session::items::{Dialect, Next, Step, charge};
use crate::shared::{CloseReason, WorkerContext};
use slabwise_protocol::Answer;
use slabwise_protocol::binary::{REQUEST_MAGIC, Status, compose};
use slabwise_protocol::text::login::{self, Login};
use slabwise_protocol::text::reply;
use std::sync::atomic::Ordering;

impl<'e> Session<'e> {
    /// Selects the dialect by the first byte, the listener's protocol and the options. With `-Y` the dialect is text,
    /// and a login follows.
    pub(super) fn select_dialect(&mut self, worker: &WorkerContext<'_>, first: u8) -> Step {
        if worker.shared.logins.is_some() {
            let phase = if self.has_logged_in_before { Phase::Command } else { Phase::Login };
            self.phase = phase;
            return Step::Consumed(0);
        }
        let is_binary = match self.protocol {
            // SASL exists only in the binary protocol. Therefore `-S` overrides the listener's protocol.
            _ if worker.shared.settings.sasl_enabled => true,
            Protocol::Auto => first == REQUEST_MAGIC,
            Protocol::Ascii => false,
            Protocol::Binary => true,
        };
        if is_binary {
            let exchange = match self.has_logged_in_before {
                true => Exchange::Authenticated,
                false => Exchange::default(),
            };
            self.dialect = Dialect::Binary(exchange);
        }
        self.phase = Phase::Command;
        Step::Consumed(0)
    }

    /// Serves a client that has not authenticated yet (`-Y`).
    ///
    /// Invariants: before the login no request reaches the engine, in any protocol. A password is read into the
    /// connection's buffer, never into the cache's memory. The reply to a wrong login does not say whether the user or
    /// the password is wrong. The client can try again.
    pub(super) fn serve_login(
        &mut self,
        worker: &mut WorkerContext<'e>,
        input: &[u8],
        out: &mut Out<'e>,
    ) -> Step {
        let Some(passwords) = &worker.shared.logins else {
            unreachable!("a session enters the phase Login only with -Y");
        };
        if worker.requests_left == 0 || out.is_full() {
            return Step::Pause(0, Next::Yield);
        }
        let (consumed, answer) = match login::parse(input) {
            Login::Incomplete => return Step::Pause(0, Next::Read),
            Login::Hangup => return self.close(input.len(), CloseReason::Error),
            Login::Refused { reply, consumed } => (consumed, reply),
            Login::Credentials { user, password, consumed } => {
                let counters = &worker.shared.counters;
                counters.auth_commands.fetch_add(1, Ordering::Relaxed);
                match passwords.check(user, password) {
                    Verdict::Known => {
                        self.phase = Phase::Command;
                        (consumed, reply::STORED)
                    }
                    Verdict::Unknown => {
                        counters.auth_errors.fetch_add(1, Ordering::Relaxed);
                        (consumed, reply::AUTH_FAILED)
                    }
                }
            }
        };
        charge(worker);
        out.bytes().extend_from_slice(answer);
        Step::Consumed(consumed)
    }

    /// Writes an authentication error to a client that has not authenticated, and closes the connection.
    #[cold]
    pub(super) fn reject_unauthenticated(
        &mut self,
        answer: &Answer,
        consumed: usize,
        out: &mut Out<'e>,
    ) -> Step {
        if let Answer::Binary(head) = answer {
            compose::write_error(out.bytes(), head, Status::AuthError);
        }
        self.close(consumed, CloseReason::Error)
    }
}
