//! The phases of a session.

use super::batch::Batch;
use super::items::{Arriving, Dialect, Done, Item, Keys, KeysStep, Next, Progress, Step, charge};
use super::orders::{self, refuse};
use crate::admin::commands::NextAction;
use crate::admin::crawl::Crawl;
use crate::config::Protocol;
use crate::out::Out;
use crate::passwords::Verdict;
use crate::sasl::Exchange;
use crate::shared::{CloseReason, Watcher, WorkerContext};
use crate::wire::text;
use slabwise_base::HashedKey;
use slabwise_engine::Pinned;
use slabwise_protocol::binary::{REQUEST_MAGIC, Status, compose};
use slabwise_protocol::meta::{KEY_BUFFER_LEN, decode_key};
use slabwise_protocol::text::login::{self, Login};
use slabwise_protocol::text::{join_sole_key, reply};
use slabwise_protocol::{Answer, Parsed, Refusal, Request};
use std::sync::atomic::Ordering;

/// The protocol state of one connection.
pub struct Session<'e> {
    phase: Phase<'e>,
    /// The protocol of its listener.
    protocol: Protocol,
    dialect: Dialect,
    /// The values pinned by `debugitem`; used by tests only.
    debug_held: Vec<Pinned<'e>>,
}

/// The phases of a session, which decide how the next bytes of input are interpreted.
#[derive(Default)]
#[expect(
    clippy::large_enum_variant,
    reason = "a box would be an allocation in the middle of a set"
)]
enum Phase<'e> {
    /// The first byte, which selects the dialect; then a command.
    Begin,
    /// A command. The other phases lead here, unless the connection closes.
    #[default]
    Command,
    Login,
    Keys(Keys),
    /// A value, then its end of line if the dialect has one.
    Value(Arriving<'e>),
    /// Data of this length, which is ignored.
    Skip(usize),
    SkipLine,
    /// Input waits until the crawl is over.
    Crawl(Box<Crawl<'e>>),
    /// Input of a watcher is ignored.
    Watch(Watcher<'e>),
    /// Input is ignored.
    Closed(CloseReason),
}

impl Default for Session<'_> {
    fn default() -> Self {
        Session::speaking(Protocol::Auto)
    }
}

impl<'e> Session<'e> {
    /// Makes a session for a connection to a listener with this protocol.
    pub fn speaking(protocol: Protocol) -> Session<'e> {
        let (phase, dialect) = (Phase::Begin, Dialect::default());
        Session { phase, protocol, dialect, debug_held: Vec::new() }
    }

    /// Serves the complete requests in `input`, and appends their replies to `out`.
    pub fn consume(
        &mut self,
        worker: &mut WorkerContext<'e>,
        input: &[u8],
        out: &mut Out<'e>,
    ) -> Progress {
        let mut consumed = 0;
        loop {
            let rest = &input[consumed..];
            let step = if text::logs_dialogue() {
                self.logged_step(worker, rest, out)
            } else if matches!(self.phase, Phase::Command) {
                self.requests(worker, rest, out)
            } else {
                self.step(worker, rest, usize::MAX, out)
            };
            match step {
                Step::Took(count) => consumed += count,
                Step::Pause(count, next) => {
                    return Progress { consumed: consumed + count, next };
                }
            }
            if consumed == input.len() && matches!(self.phase, Phase::Command) {
                return Progress { consumed, next: Next::Read };
            }
        }
    }

    /// The place for the socket's next bytes while a value is arriving. `None` at other times, and when little of the
    /// value is missing, because a read into the connection's buffer then also receives later requests.
    pub fn upload_target(&mut self) -> Option<&mut [u8]> {
        match &mut self.phase {
            Phase::Value(arriving) => arriving.upload.target(),
            _ => None,
        }
    }

    /// Records that `count` bytes were read into [`Session::upload_target`].
    pub fn upload_advance(&mut self, count: usize) {
        match &mut self.phase {
            Phase::Value(arriving) => arriving.upload.reservation.advance(count),
            _ => panic!("bytes were read into a value, but none is expected"),
        }
    }

    /// True if no command is in progress.
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Begin | Phase::Command | Phase::Login)
    }

    /// True if a reply is begun but not complete.
    pub fn is_mid_reply(&self) -> bool {
        matches!(self.phase, Phase::Keys(_) | Phase::Crawl(_))
    }

    /// True if the connection is a watcher.
    pub fn is_watching(&self) -> bool {
        matches!(self.phase, Phase::Watch(_))
    }

    /// Appends the waiting lines of a watcher; does nothing for other connections. Call it when all earlier output is
    /// written.
    pub fn take_lines(&mut self, out: &mut Out<'e>) {
        if let Phase::Watch(watcher) = &mut self.phase {
            watcher.take_lines(out.bytes());
        }
    }

    /// The reason why the session requested to close the connection, if it did.
    pub fn close_reason(&self) -> Option<CloseReason> {
        match self.phase {
            Phase::Closed(reason) => Some(reason),
            _ => None,
        }
    }

    /// Runs one step and logs it (`-vv`): one request, or one key.
    #[cold]
    fn logged_step(
        &mut self,
        worker: &mut WorkerContext<'e>,
        input: &[u8],
        out: &mut Out<'e>,
    ) -> Step {
        let before = out.bytes().len();
        // A login is never logged: it holds a password.
        if matches!(self.phase, Phase::Command) && worker.requests_left > 0 && !out.is_full() {
            text::request(worker, input);
        }
        let step = self.step(worker, input, 1, out);
        match self.dialect {
            Dialect::Text => text::replies(worker, &out.bytes()[before..]),
            Dialect::Binary(_) => text::packet(worker, '>', &out.bytes()[before..]),
        }
        step
    }

    /// Returns a pause if no request can be served now.
    #[inline]
    fn pause(worker: &WorkerContext<'_>, input: &[u8], out: &Out<'_>) -> Option<Step> {
        if input.is_empty() {
            Some(Step::Pause(0, Next::Read))
        } else if worker.requests_left == 0 || out.is_full() {
            Some(Step::Pause(0, Next::Yield))
        } else {
            None
        }
    }

    /// Serves the requests at the start of `input`.
    #[inline]
    fn requests(
        &mut self,
        worker: &mut WorkerContext<'e>,
        input: &[u8],
        out: &mut Out<'e>,
    ) -> Step {
        if let Some(pause) = Self::pause(worker, input, out) {
            return pause;
        }
        let mut parsed = self.dialect.parse(worker, input);
        join_sole_key(&mut parsed, input);
        match parsed.end(input.len()) {
            Some(end) if end < input.len() && worker.requests_left > 1 => {
                let mut batch = Batch::new();
                batch.read(worker, &self.dialect, input, &parsed, end);
                self.batch(worker, &batch, input, out)
            }
            _ => self.serve(worker, &parsed, input, out),
        }
    }

    fn batch(
        &mut self,
        worker: &mut WorkerContext<'e>,
        batch: &Batch<'_>,
        input: &[u8],
        out: &mut Out<'e>,
    ) -> Step {
        for ((parsed, &key), &start) in batch.items() {
            if worker.requests_left == 0 || out.is_full() {
                return Step::Pause(start, Next::Yield);
            }
            let Parsed::Request { request, answer, consumed } = parsed else {
                unreachable!("items are requests");
            };
            let line_end = start + consumed;
            match self.serve_item(worker, (request, answer, key), &input[line_end..], out) {
                Step::Took(count) if !matches!(self.phase, Phase::Command) => {
                    return Step::Took(line_end + count);
                }
                Step::Took(_) => {}
                Step::Pause(count, next) => return Step::Pause(line_end + count, next),
            }
        }
        let (end, last) = batch.rest();
        let (Some(last), rest) = (last, &input[end..]) else { return Step::Took(end) };
        if let Some(Step::Pause(_, next)) = Self::pause(worker, rest, out) {
            return Step::Pause(end, next);
        }
        self.serve(worker, last, rest, out).behind(end)
    }

    /// Runs one step in any phase, with at most `keys_max` keys of a retrieval.
    fn step(
        &mut self,
        worker: &mut WorkerContext<'e>,
        input: &[u8],
        keys_max: usize,
        out: &mut Out<'e>,
    ) -> Step {
        match &mut self.phase {
            Phase::Begin | Phase::Command | Phase::Keys(_) if input.is_empty() => {
                Step::Pause(0, Next::Read)
            }
            Phase::Begin => self.begin(worker, input[0]),
            Phase::Login => self.login(worker, input, out),
            Phase::Command => match Self::pause(worker, input, out) {
                Some(pause) => pause,
                None => {
                    let parsed = self.dialect.parse(worker, input);
                    self.serve(worker, &parsed, input, out)
                }
            },
            Phase::Keys(keys) => {
                let (phase, count) = match keys.step(worker, input, keys_max, out) {
                    KeysStep::GoesOn(step) => return step,
                    KeysStep::Ended(count) => (Phase::Command, count),
                    KeysStep::Failed(count) => (Phase::SkipLine, count),
                };
                self.phase = phase;
                Step::Took(count)
            }
            Phase::Value(arriving) => {
                let (count, is_over) = arriving.fill(input);
                if !is_over {
                    return Step::Pause(count, Next::Read);
                }
                let Phase::Value(arriving) = std::mem::take(&mut self.phase) else {
                    unreachable!("it was a value above");
                };
                self.phase = Phase::Skip(arriving.finish(worker, &input[count..], out));
                Step::Took(count)
            }
            Phase::Crawl(crawl) => {
                if out.is_full() || !crawl.step(worker, out.bytes()) {
                    return Step::Pause(0, Next::Yield);
                }
                self.phase = Phase::Command;
                Step::Took(0)
            }
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

    fn begin(&mut self, worker: &WorkerContext<'_>, first: u8) -> Step {
        if worker.shared.logins.is_some() {
            self.phase = Phase::Login;
            return Step::Took(0);
        }
        let is_binary = match self.protocol {
            // SASL exists in the binary protocol only, so `-S` overrides the listener's protocol.
            _ if worker.shared.settings.sasl_enabled => true,
            Protocol::Auto => first == REQUEST_MAGIC,
            Protocol::Ascii => false,
            Protocol::Binary => true,
        };
        if is_binary {
            self.dialect = Dialect::Binary(Exchange::default());
        }
        self.phase = Phase::Command;
        Step::Took(0)
    }

    /// Serves a client that has not authenticated yet (`-Y`).
    ///
    /// Invariants: before the login nothing reaches the engine, in any protocol. A value takes no memory before it has
    /// arrived. A client that fails gets no details, and may try again.
    fn login(&mut self, worker: &mut WorkerContext<'e>, input: &[u8], out: &mut Out<'e>) -> Step {
        let Some(passwords) = &worker.shared.logins else {
            unreachable!("this phase exists only with `-Y`");
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
        Step::Took(consumed)
    }

    /// Serves a parsed request, which is at the start of `input`.
    fn serve(
        &mut self,
        worker: &mut WorkerContext<'e>,
        parsed: &Parsed<'_>,
        input: &[u8],
        out: &mut Out<'e>,
    ) -> Step {
        match parsed {
            Parsed::Incomplete => Step::Pause(0, Next::Read),
            Parsed::Hangup => self.close(input.len(), CloseReason::Error),
            Parsed::Refused { refusal, consumed, skip_len } => {
                charge(worker);
                let stays_open = match (refusal, &mut self.dialect) {
                    (Refusal::Line(reply), _) => {
                        out.bytes().extend_from_slice(reply);
                        true
                    }
                    (Refusal::Packet(head, fault), Dialect::Binary(exchange)) => {
                        refuse(worker, exchange, head, *fault, out.bytes())
                    }
                    _ => unreachable!("packets exist in the binary dialect only"),
                };
                if !stays_open {
                    return self.close(*consumed, CloseReason::Error);
                }
                self.phase = Phase::Skip(*skip_len);
                Step::Took(*consumed)
            }
            Parsed::Request { request, answer, consumed } => match request {
                Request::Retrieve(touch) => {
                    charge(worker);
                    let Answer::Text(answer) = answer else {
                        unreachable!("only the classic text protocol names several keys");
                    };
                    self.phase = Phase::Keys(Keys::new(worker, *touch, *answer));
                    Step::Took(*consumed)
                }
                Request::Version
                | Request::Quit
                | Request::Stats(_)
                | Request::Admin(_)
                | Request::Sasl(_) => self
                    .order(worker, (request, answer), input.len() - consumed, out)
                    .behind(*consumed),
                _ => {
                    let item = (request, answer, worker.handle.hashed(request.key()));
                    self.serve_item(worker, item, &input[*consumed..], out).behind(*consumed)
                }
            },
        }
    }

    /// Serves a request about at most one item. `rest` is the input after its line.
    #[inline(always)]
    fn serve_item(
        &mut self,
        worker: &mut WorkerContext<'e>,
        (request, answer, mut key): (&Request<'_>, &Answer, HashedKey<'_>),
        rest: &[u8],
        out: &mut Out<'e>,
    ) -> Step {
        charge(worker);
        if !self.dialect.allows(worker, answer) {
            return self.forbid(answer, rest.len(), out);
        }
        worker.served.others += u32::from(!matches!(request, Request::Get(_) | Request::NoOp));
        let mut buffer;
        if matches!(answer, Answer::Meta(echo) if echo.key_is_base64) {
            buffer = [0; KEY_BUFFER_LEN];
            key = worker.handle.hashed(decode_key(key.bytes(), &mut buffer));
        }
        match (Item { worker, answer, key, out }).carry_out(request, rest) {
            Done::Answered { consumed, skip_len } => {
                if skip_len > 0 {
                    self.phase = Phase::Skip(skip_len);
                }
                Step::Took(consumed)
            }
            Done::Arriving(count, arriving) => {
                self.phase = Phase::Value(arriving);
                Step::Took(count)
            }
        }
    }

    /// Serves an administrative request, which is followed by input of this length.
    fn order(
        &mut self,
        worker: &mut WorkerContext<'e>,
        (request, answer): (&Request<'_>, &Answer),
        rest_len: usize,
        out: &mut Out<'e>,
    ) -> Step {
        charge(worker);
        if !self.dialect.allows(worker, answer) {
            return self.forbid(answer, rest_len, out);
        }
        worker.served.others += 1;
        let then = match (answer, &mut self.dialect) {
            (Answer::Text(answer), _) => {
                orders::line(worker, *request, *answer, &mut self.debug_held, out)
            }
            (Answer::Binary(head), Dialect::Binary(exchange)) => {
                orders::packet(worker, *request, head, exchange, out.bytes())
            }
            _ => unreachable!("meta has no such requests, and packets have their own dialect"),
        };
        match then {
            NextAction::Nothing => {}
            NextAction::Crawl(crawl) => self.phase = Phase::Crawl(crawl),
            NextAction::Watch(watcher) => self.phase = Phase::Watch(watcher),
            NextAction::Close(reason) => return self.close(0, reason),
        }
        Step::Took(0)
    }

    /// Answers a packet from a client that has not authenticated, and closes.
    #[cold]
    fn forbid(&mut self, answer: &Answer, consumed: usize, out: &mut Out<'e>) -> Step {
        if let Answer::Binary(head) = answer {
            compose::error(out.bytes(), head, Status::AuthError);
        }
        self.close(consumed, CloseReason::Error)
    }

    fn close(&mut self, consumed: usize, reason: CloseReason) -> Step {
        self.phase = Phase::Closed(reason);
        Step::Pause(consumed, Next::Close)
    }
}
