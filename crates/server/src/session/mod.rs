//! The dialogue on one connection: requests become engine calls and replies.
//!
//! ```text
//!                 line            keys...
//!     Begin
//!        |  first byte: which dialect; before it a login where `-Y` asks for one (see `login`)
//!     Command ------------> Keys ---------> Command
//!        |  line                value         \r\n
//!        |--------> Value -------------> Value (full) ---> Command
//!        |  refused line        data
//!        |--------> Skip -----------> Command
//!        |  dump                steps
//!        |--------> Crawl ----------> Command
//!        |  watch
//!        '--------> Watch
//! ```
//!
//! A session does no input and no output. It is given bytes that arrived, says how many it is done
//! with, and appends replies. What is larger than a line is a phase of its own, so that a call is
//! always short and no value, no list of keys and no dump needs a buffer of its size: a value that
//! is not wholly at hand is read from the socket straight into the arena.
//!
//! In the binary dialect a command is a head with its extras and key, and the way is the same, but for
//! keys, of which a command has one.
//!
//! Laws: replies come in the order of requests, whatever the pieces the input comes in; a call ends
//! when its requests are used up or the output is full, and then says [`Next::Yield`]; dropping a
//! session gives back everything it holds.
//!
//! Who may call it: the worker that owns the connection.

mod ack;
mod admin;
mod binary;
pub(crate) mod crawl;
mod debug;
mod login;
mod lookahead;
mod meta;
mod narration;
mod one_key;
mod retrieval;
mod storage;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod watch;

use crate::context::WorkerContext;
use crate::out::Out;
use crate::sasl::Exchange;
use crate::settings::Protocol;
use crate::shared::{CloseReason, Watcher};
use crate::stats;
use crate::stats::Rows;
use crawl::Crawl;
use lookahead::Ahead;
use retrieval::Keys;
use slabwise_engine::Pinned;
use slabwise_protocol::binary::REQUEST_MAGIC;
use slabwise_protocol::text::{Parsed, parse};
use slabwise_protocol::{Admin, Request};
use std::os::fd::RawFd;
use storage::Arriving;

/// What the server calls itself. Clients read the numbers to know what they may ask for, so they
/// are those of the memcached whose classic protocol is spoken here.
pub const VERSION: &str = "1.6.45";

/// What a call of [`Session::consume`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the input that are done with.
    pub consumed: usize,
    /// What the session wants next.
    pub next: Next,
}

/// What a session wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// More input.
    Read,
    /// To be called again, even without new input, once the output has drained and other
    /// connections had their turn.
    Yield,
    /// The connection closed, once the output has drained.
    Close,
}

/// The dialogue on one connection.
pub struct Session<'e> {
    phase: Phase<'e>,
    /// What its listener speaks.
    protocol: Protocol,
    dialect: Dialect,
    /// What `debugitem` made it hold; nothing, but in tests.
    debug_held: Vec<Pinned<'e>>,
}

/// How the client speaks, from its first byte on.
#[derive(Default)]
enum Dialect {
    /// Lines.
    #[default]
    Text,
    /// Packets, from a client that may have to say who it is.
    Binary(Exchange),
}

impl Dialect {
    /// Of a client that begins with this byte.
    fn of(first: u8, protocol: Protocol) -> Dialect {
        match protocol {
            Protocol::Binary => Dialect::Binary(Exchange::default()),
            Protocol::Auto if first == REQUEST_MAGIC => Dialect::Binary(Exchange::default()),
            Protocol::Auto | Protocol::Ascii => Dialect::Text,
        }
    }
}

/// What the next bytes of input are.
#[derive(Default)]
enum Phase<'e> {
    /// The first byte of all, which tells the dialect; then a command.
    Begin,
    /// A command. Where a phase ends, this is what follows: a session begins only once.
    #[default]
    Command,
    /// What lets the client in.
    Login,
    /// The keys of a retrieval.
    Keys(Keys),
    /// A value, then its end of line if the dialect has one.
    Value(Arriving<'e>),
    /// Data that means nothing, so many bytes of it.
    Skip(usize),
    /// The rest of a line that means nothing.
    SkipLine,
    /// Not looked at before the crawl is over.
    Crawl(Box<Crawl<'e>>),
    /// Nothing; what happens in the server is told, in its place.
    Watch(Watcher<'e>),
    /// Never looked at again.
    Closed(CloseReason),
}

/// What a step came to.
enum Step {
    /// Took so many bytes; there may be more to do.
    Took(usize),
    /// Took so many bytes; nothing more to do for now.
    Pause(usize, Next),
}

impl Default for Session<'_> {
    fn default() -> Self {
        Session::new()
    }
}

impl<'e> Session<'e> {
    /// A dialogue that has not begun.
    pub fn new() -> Session<'e> {
        Session {
            phase: Phase::Begin,
            protocol: Protocol::Auto,
            dialect: Dialect::default(),
            debug_held: Vec::new(),
        }
    }

    /// A dialogue on a listener that speaks this.
    pub fn speaking(protocol: Protocol) -> Session<'e> {
        Session { protocol, ..Session::new() }
    }

    /// Consumes what is complete in `input`, appends replies to `out`.
    pub fn consume(
        &mut self,
        worker: &mut WorkerContext<'e>,
        input: &[u8],
        out: &mut Out<'e>,
    ) -> Progress {
        let mut consumed = 0;
        let mut looked_at = 0;
        loop {
            if consumed >= looked_at && self.expects_command(worker) {
                let ahead = Ahead::of(&input[consumed..]);
                if ahead.keys().len() > 1 {
                    let mut hashed = [worker.handle.hashed(b""); lookahead::KEYS_MAX];
                    for (hashed, key) in hashed.iter_mut().zip(ahead.keys()) {
                        *hashed = worker.handle.hashed(key);
                    }
                    worker.handle.prefetch(&hashed[..ahead.keys().len()]);
                }
                looked_at = consumed + ahead.len.max(1);
            }
            match self.narrated_step(worker, &input[consumed..], out) {
                Step::Took(count) => consumed += count,
                Step::Pause(count, next) => {
                    return Progress { consumed: consumed + count, next };
                }
            }
        }
    }

    /// While a value that was not wholly at hand is arriving: where the socket's next bytes go.
    /// `None` otherwise, and when so little is missing that one read had better take what follows,
    /// too.
    pub fn upload_target(&mut self) -> Option<&mut [u8]> {
        match &mut self.phase {
            Phase::Value(arriving) => arriving.upload.target(),
            _ => None,
        }
    }

    /// Notes that `count` bytes were read into [`Session::upload_target`].
    pub fn upload_advance(&mut self, count: usize) {
        match &mut self.phase {
            Phase::Value(arriving) => arriving.upload.advance(count),
            _ => panic!("bytes were read into a value, but none is expected"),
        }
    }

    /// Whether no command is half finished.
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Begin | Phase::Command | Phase::Login)
    }

    /// Whether the next bytes are a command line that will be served.
    #[inline]
    fn expects_command(&self, worker: &WorkerContext<'_>) -> bool {
        match self.phase {
            Phase::Command => true,
            Phase::Begin => worker.shared.logins.is_none(),
            _ => false,
        }
    }

    /// Whether a reply is begun that is not complete yet.
    pub fn is_mid_reply(&self) -> bool {
        matches!(self.phase, Phase::Keys(_) | Phase::Crawl(_))
    }

    /// Why the session wanted the connection closed, if it did.
    pub fn close_reason(&self) -> Option<CloseReason> {
        match self.phase {
            Phase::Closed(reason) => Some(reason),
            _ => None,
        }
    }

    /// A step, told on stderr to whoever started the server with `-vv`.
    #[inline]
    fn narrated_step(
        &mut self,
        worker: &mut WorkerContext<'e>,
        input: &[u8],
        out: &mut Out<'e>,
    ) -> Step {
        if !narration::is_on() {
            return self.step(worker, input, out);
        }
        let before = out.bytes().len();
        // A login is never told: it holds a password.
        if self.expects_command(worker) && worker.requests_left > 0 && !out.is_full() {
            narration::request(worker, input);
        }
        let step = self.step(worker, input, out);
        match self.dialect {
            Dialect::Text => narration::replies(worker, &out.bytes()[before..]),
            Dialect::Binary(_) => narration::packet(worker, '>', &out.bytes()[before..]),
        }
        step
    }

    fn step(&mut self, worker: &mut WorkerContext<'e>, input: &[u8], out: &mut Out<'e>) -> Step {
        match &mut self.phase {
            Phase::Begin | Phase::Command | Phase::Keys(_) if input.is_empty() => {
                Step::Pause(0, Next::Read)
            }
            Phase::Begin if worker.shared.logins.is_some() => {
                self.phase = Phase::Login;
                self.login(worker, input, out)
            }
            Phase::Login => self.login(worker, input, out),
            Phase::Begin => {
                // Where SASL is asked for nothing else is spoken, whatever the listener says.
                let protocol = match worker.shared.settings.sasl_enabled {
                    true => Protocol::Binary,
                    false => self.protocol,
                };
                self.dialect = Dialect::of(input[0], protocol);
                self.phase = Phase::Command;
                self.step(worker, input, out)
            }
            Phase::Command if worker.requests_left == 0 || out.is_full() => {
                Step::Pause(0, Next::Yield)
            }
            Phase::Command => match self.dialect {
                Dialect::Text => self.command(worker, input, out),
                Dialect::Binary(_) => self.packet(worker, input, out),
            },
            Phase::Keys(_) => self.key(worker, input, out),
            Phase::Value(_) => self.value(worker, input, out),
            Phase::Crawl(_) => self.crawl(worker, out),
            Phase::Watch(_) => Step::Pause(input.len(), Next::Read),
            Phase::Closed(_) => Step::Pause(input.len(), Next::Close),
            Phase::Skip(0) => {
                self.phase = Phase::Command;
                Step::Took(0)
            }
            Phase::Skip(_) if input.is_empty() => Step::Pause(0, Next::Read),
            Phase::Skip(left) => {
                let count = input.len().min(*left);
                *left -= count;
                Step::Took(count)
            }
            Phase::SkipLine => match input.iter().position(|&byte| byte == b'\n') {
                Some(end) => {
                    self.phase = Phase::Command;
                    Step::Took(end + 1)
                }
                None => Step::Pause(input.len(), Next::Read),
            },
        }
    }

    /// A command line.
    #[inline(always)]
    fn command(&mut self, worker: &mut WorkerContext<'e>, input: &[u8], out: &mut Out<'e>) -> Step {
        if slabwise_protocol::meta::begins(input) {
            return self.meta(worker, input, out);
        }
        match parse(input, worker.shared.settings.cost_wire) {
            Parsed::Incomplete => Step::Pause(0, Next::Read),
            Parsed::Hangup => self.close(input.len(), CloseReason::Error),
            Parsed::Refused { reply, consumed, skip_len } => {
                worker.charge();
                out.bytes().extend_from_slice(reply);
                self.phase = Phase::Skip(skip_len);
                Step::Took(consumed)
            }
            Parsed::Request { request, noreply, consumed } => {
                worker.charge();
                worker.served.others += u32::from(!matches!(request, Request::Get(_)));
                let rest = &input[consumed..];
                match request {
                    Request::Get(retrieval) => {
                        self.phase = Phase::Keys(Keys::new(retrieval, worker));
                        Step::Took(consumed)
                    }
                    Request::Store(header) => {
                        let count = self.store(worker, header, noreply, rest, out);
                        Step::Took(consumed + count)
                    }
                    Request::Admin(Admin::Watch(kinds)) => self.watch(worker, kinds, consumed, out),
                    _ => self.execute(worker, request, noreply, consumed, out),
                }
            }
        }
    }

    /// A request that is complete with its line.
    fn execute(
        &mut self,
        worker: &mut WorkerContext<'e>,
        request: Request<'_>,
        noreply: bool,
        consumed: usize,
        out: &mut Out<'e>,
    ) -> Step {
        let reply = &mut Reply::new(worker, out, noreply);
        match request {
            Request::Get(_) | Request::Store(_) => unreachable!("these go on beyond their line"),
            Request::Delete { key } => one_key::delete(worker, key, reply),
            Request::Touch { key, exptime } => one_key::touch(worker, key, exptime, reply),
            Request::Arithmetic { key, direction, delta } => {
                one_key::arithmetic(worker, key, direction, delta, reply);
            }
            Request::Version => {
                reply.out.extend_from_slice(b"VERSION ");
                reply.out.extend_from_slice(VERSION.as_bytes());
                reply.out.extend_from_slice(b"\r\n");
            }
            Request::Quit => return self.close(consumed, CloseReason::Normal),
            Request::Stats(question) => {
                if let Some(crawl) = stats::answer(worker, question, &mut Rows::text(out.bytes())) {
                    self.phase = Phase::Crawl(Box::new(crawl));
                }
            }
            Request::Admin(Admin::Debug(order)) => {
                debug::carry_out(worker, order, &mut self.debug_held, reply);
            }
            Request::Admin(order) => match admin::carry_out(worker, order, reply) {
                admin::Then::Nothing => {}
                admin::Then::Crawl(crawl) => self.phase = Phase::Crawl(crawl),
                admin::Then::Close => return self.close(consumed, CloseReason::Shutdown),
            },
        }
        Step::Took(consumed)
    }

    fn close(&mut self, consumed: usize, reason: CloseReason) -> Step {
        self.phase = Phase::Closed(reason);
        Step::Pause(consumed, Next::Close)
    }
}

/// Where a one-line answer goes, if it is wanted.
struct Reply<'o> {
    out: &'o mut Vec<u8>,
    noreply: bool,
    descriptor: RawFd,
}

impl<'o> Reply<'o> {
    fn new(worker: &WorkerContext<'_>, out: &'o mut Out<'_>, noreply: bool) -> Reply<'o> {
        Reply { out: out.bytes(), noreply, descriptor: worker.descriptor }
    }

    #[inline]
    fn line(&mut self, line: &[u8]) {
        if !self.noreply {
            self.out.extend_from_slice(line);
        } else if narration::is_on() {
            narration::unwanted_reply(self.descriptor, line);
        }
    }
}
