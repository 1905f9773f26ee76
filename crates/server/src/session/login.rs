//! The dialogue before a client is let in, where `-Y` asks for passwords.
//!
//! ```text
//!   Begin -----> Login: set k 0 0 10 \ ana secret ----> Command, for good
//!                  ^          | anything else
//!                  '----------'
//! ```
//!
//! Laws: before the login nothing reaches the engine, whatever protocol it is written in; a value that is
//! announced takes no memory before it is there; who fails learns no more than that, and may try again.

use super::{Next, Phase, Session, Step};
use crate::context::WorkerContext;
use crate::out::Out;
use crate::passwords::Verdict;
use crate::shared::CloseReason;
use slabwise_protocol::text::login::{Login, parse};
use slabwise_protocol::text::reply;
use std::sync::atomic::Ordering;

impl<'e> Session<'e> {
    /// What comes from a client that is not let in yet.
    pub(super) fn login(
        &mut self,
        worker: &mut WorkerContext<'e>,
        input: &[u8],
        out: &mut Out<'e>,
    ) -> Step {
        let Some(passwords) = &worker.shared.logins else {
            unreachable!("nobody logs in where nobody is asked to");
        };
        if worker.requests_left == 0 || out.is_full() {
            return Step::Pause(0, Next::Yield);
        }
        let (answer, consumed) = match parse(input) {
            Login::Incomplete => return Step::Pause(0, Next::Read),
            Login::Hangup => return self.close(input.len(), CloseReason::Error),
            Login::Refused { reply, consumed } => (reply, consumed),
            Login::Credentials { user, password, consumed } => {
                let counters = &worker.shared.counters;
                counters.auth_commands.fetch_add(1, Ordering::Relaxed);
                let answer = match passwords.check(user, password) {
                    Verdict::Known => {
                        self.phase = Phase::Command;
                        reply::STORED
                    }
                    Verdict::Unknown => {
                        counters.auth_errors.fetch_add(1, Ordering::Relaxed);
                        reply::AUTH_FAILED
                    }
                };
                (answer, consumed)
            }
        };
        worker.charge();
        out.bytes().extend_from_slice(answer);
        Step::Took(consumed)
    }
}
