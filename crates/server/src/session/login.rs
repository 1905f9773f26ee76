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

use super::step::Next;
use crate::context::WorkerContext;
use crate::out::Out;
use crate::passwords::Verdict;
use slabwise_protocol::text::login::{Login, parse};
use slabwise_protocol::text::reply;
use std::sync::atomic::Ordering;

pub(super) enum LoginStep {
    /// Took these bytes; the client is to try again.
    Refused(usize),
    /// Took these bytes; the client is let in.
    LetIn(usize),
    Pause(Next),
    /// No client of this protocol.
    Hangup,
}

pub(super) fn login<'e>(
    worker: &mut WorkerContext<'e>,
    input: &[u8],
    out: &mut Out<'e>,
) -> LoginStep {
    let Some(passwords) = &worker.shared.logins else {
        unreachable!("nobody logs in where nobody is asked to");
    };
    if worker.requests_left == 0 || out.is_full() {
        return LoginStep::Pause(Next::Yield);
    }
    let (step, answer) = match parse(input) {
        Login::Incomplete => return LoginStep::Pause(Next::Read),
        Login::Hangup => return LoginStep::Hangup,
        Login::Refused { reply, consumed } => (LoginStep::Refused(consumed), reply),
        Login::Credentials { user, password, consumed } => {
            let counters = &worker.shared.counters;
            counters.auth_commands.fetch_add(1, Ordering::Relaxed);
            match passwords.check(user, password) {
                Verdict::Known => (LoginStep::LetIn(consumed), reply::STORED),
                Verdict::Unknown => {
                    counters.auth_errors.fetch_add(1, Ordering::Relaxed);
                    (LoginStep::Refused(consumed), reply::AUTH_FAILED)
                }
            }
        }
    };
    worker.charge();
    out.bytes().extend_from_slice(answer);
    step
}
