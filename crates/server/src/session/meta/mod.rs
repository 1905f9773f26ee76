//! The meta protocol: one request at a time becomes an engine call and a reply.
//!
//! A verb a file. Each maps its flags to the options of one engine operation, and composes its reply while
//! the item stands still. As in memcached, nothing here counts by key prefix.

mod arithmetic;
mod debug;
mod delete;
mod get;
mod store;

pub(super) use store::MetaAck;

use super::{Next, Phase, Session, Step};
use crate::context::WorkerContext;
use crate::out::Out;
use crate::shared::CloseReason;
use slabwise_base::{Expiry, Now};
use slabwise_protocol::meta::{KEY_BUFFER_LEN, Parsed, Request, Verb, compose, parse, reply};

/// A request with its key's bytes.
#[derive(Clone, Copy)]
struct Asked<'a> {
    request: &'a Request<'a>,
    /// Decoded, if it was sent in base64.
    key: &'a [u8],
}

impl<'e> Session<'e> {
    /// A command line of the meta protocol.
    pub(super) fn meta(
        &mut self,
        worker: &mut WorkerContext<'e>,
        input: &[u8],
        out: &mut Out<'e>,
    ) -> Step {
        match parse(input) {
            Parsed::Incomplete => Step::Pause(0, Next::Read),
            Parsed::Hangup => self.close(input.len(), CloseReason::Error),
            Parsed::Refused { reply, consumed, skip_len } => {
                worker.charge();
                out.bytes().extend_from_slice(reply);
                self.phase = Phase::Skip(skip_len);
                Step::Took(consumed)
            }
            Parsed::Request { request, consumed } => {
                worker.charge();
                let is_other = !matches!(request.verb, Verb::Get | Verb::NoOp);
                worker.served.others += u32::from(is_other);
                let rest = &input[consumed..];
                Step::Took(consumed + self.meta_request(worker, &request, rest, out))
            }
        }
    }

    /// Carries a request out; returns how much it took of the input after its line.
    fn meta_request(
        &mut self,
        worker: &mut WorkerContext<'e>,
        request: &Request<'_>,
        rest: &[u8],
        out: &mut Out<'e>,
    ) -> usize {
        let mut buffer: [u8; KEY_BUFFER_LEN];
        let key = if request.key.is_base64() {
            buffer = [0; KEY_BUFFER_LEN];
            request.key.decode(&mut buffer)
        } else {
            request.key.wire()
        };
        let asked = Asked { request, key };
        match request.verb {
            Verb::Get => get::get(worker, asked, out),
            Verb::Set { value_len, mode } => {
                let order = store::order(worker, asked, value_len, mode);
                return self.begin_store(worker, order, rest, out);
            }
            Verb::Delete => delete::delete(worker, asked, out.bytes()),
            Verb::Arithmetic(direction) => {
                arithmetic::arithmetic(worker, asked, direction, out.bytes());
            }
            Verb::Debug => debug::debug(worker, asked, out.bytes()),
            Verb::NoOp => out.bytes().extend_from_slice(reply::NO_OP),
        }
        0
    }
}

impl Asked<'_> {
    fn has(&self, letter: u8) -> bool {
        self.request.options.has(letter)
    }

    /// A line that tells nothing of an item.
    fn bare_line(&self, out: &mut Vec<u8>, code: &[u8]) {
        let is_base64 = self.request.key.is_base64();
        compose::bare_line(out, code, &self.request.echo, is_base64, self.key);
    }

    /// The CAS value that the item must have, as the engine's to compare. Without CAS every item's is 0.
    fn expected_cas(&self, worker: &WorkerContext<'_>) -> Option<u64> {
        match self.request.options.expected_cas {
            Some(0) if !worker.shared.settings.cas_enabled => None,
            // No item has this one.
            Some(_) if !worker.shared.settings.cas_enabled => Some(0),
            expected => expected,
        }
    }

    /// The CAS value that the item is given.
    fn new_cas(&self, worker: &WorkerContext<'_>) -> Option<u64> {
        self.request.options.new_cas.filter(|_| worker.shared.settings.cas_enabled)
    }

    /// When an item ends that is made where there was none: by the last of N and T.
    fn vivify_expiry(&self, worker: &WorkerContext<'_>) -> Option<Expiry> {
        let options = &self.request.options;
        let vivify = options.vivify?;
        let exptime = options.exptime.filter(|_| self.request.echo.has_before(b'N', b'T'));
        Some(worker.expiry(exptime.unwrap_or(vivify)))
    }
}

/// What `t` tells at its place among the flags: T and N change it from there on.
struct Lifetime {
    expiry: Expiry,
    touch: Option<Expiry>,
    /// Of an item that was just made.
    vivify: Option<Expiry>,
}

impl Lifetime {
    /// Passes a flag.
    fn pass(&mut self, letter: u8) {
        let changed = match letter {
            b'T' => self.touch,
            b'N' => self.vivify,
            _ => return,
        };
        self.expiry = changed.unwrap_or(self.expiry);
    }

    fn ttl_seconds(&self, now: Now) -> Option<u32> {
        ttl_seconds(self.expiry, now)
    }
}

fn ttl_seconds(expiry: Expiry, now: Now) -> Option<u32> {
    expiry.second().map(|end| end.0.saturating_sub(now.seconds.0))
}
