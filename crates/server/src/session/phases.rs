//! The phases of a session: how each phase interprets the next bytes of input, and which phase follows.

mod login;

use super::batch::Batch;
use super::control::{self, write_refusal};
use super::items::{
    Dialect, ItemContext, ItemOutcome, Next, Progress, Step, UnfinishedStore, UploadStep, charge,
    get_must_wait,
};
use super::retrieval::{Retrieval, RetrievalStep};
use crate::admin::commands::NextAction;
use crate::admin::crawl::Crawl;
use crate::config::Protocol;
use crate::out::Out;
use crate::sasl::Exchange;
use crate::shared::{CloseReason, Shared, Watcher, WorkerContext};
use crate::wire::text;
use slabwise_base::HashedKey;
use slabwise_engine::Pinned;
use slabwise_protocol::meta::{KEY_BUFFER_LEN, decode_key};
use slabwise_protocol::text::join_sole_key;
use slabwise_protocol::{Answer, Parsed, Refusal, Request};

/// The protocol state of one connection.
pub struct Session<'e> {
    phase: Phase<'e>,
    /// The protocol that the operator configured for the listener of this connection.
    protocol: Protocol,
    /// True if the client has authenticated to the process that this one has taken over from.
    has_logged_in_before: bool,
    dialect: Dialect,
    /// Items that the test command `debugitem ref` has pinned on this connection.
    debug_pins: Vec<Pinned<'e>>,
}

/// The phase of a session. It determines how the session interprets the next bytes of input.
#[derive(Default)]
#[expect(clippy::large_enum_variant, reason = "a boxed value would cost each set an allocation")]
enum Phase<'e> {
    /// No byte has arrived yet. The first byte selects the dialect, unless an option does.
    Begin,
    /// The next byte begins a command. Each other phase except `Watch` and `Closed` leads to this phase, directly or
    /// through further phases.
    #[default]
    Command,
    /// The client must authenticate with a `set` command before it can send other commands (`-Y`).
    Login,
    /// The rest of a line of keys follows, as in `get a b c`.
    Keys(Retrieval),
    /// The rest of a value follows, then the end of its line if the dialect has one.
    Value(UnfinishedStore<'e>),
    /// The session ignores this number of bytes.
    Skip(usize),
    /// The session ignores the rest of the line.
    SkipLine,
    /// A long list is being written, such as a dump. The session reads no input until the list is complete.
    Crawl(Box<Crawl<'e>>),
    /// The connection is a watcher. The session ignores its input.
    Watch(Watcher<'e>),
    /// The caller should close the connection for this reason. The session ignores further input.
    Closed(CloseReason),
}

impl Default for Session<'_> {
    fn default() -> Self {
        Session::new(Protocol::Auto)
    }
}

impl<'e> Session<'e> {
    /// Makes a session for a connection that a listener with this protocol accepted.
    pub fn new(protocol: Protocol) -> Session<'e> {
        Session::resumed(protocol, false)
    }

    /// Makes a session for a connection of another process, in which the client has authenticated or not.
    pub fn resumed(protocol: Protocol, has_logged_in_before: bool) -> Session<'e> {
        let (phase, dialect) = (Phase::Begin, Dialect::default());
        Session { phase, protocol, has_logged_in_before, dialect, debug_pins: Vec::new() }
    }

    /// True if the server requires that clients authenticate, and the client of this session has done so.
    pub fn has_logged_in(&self, shared: &Shared<'_>) -> bool {
        if matches!(self.phase, Phase::Begin) {
            return self.has_logged_in_before;
        }
        match &self.dialect {
            Dialect::Text => shared.logins.is_some() && !matches!(self.phase, Phase::Login),
            Dialect::Binary(exchange) => exchange.is_authenticated(),
        }
    }

    /// True if the client has begun to authenticate by SASL.
    pub fn is_authenticating(&self) -> bool {
        matches!(&self.dialect, Dialect::Binary(Exchange::AwaitsResponse))
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
                self.serve_requests(worker, rest, out)
            } else {
                self.step(worker, rest, usize::MAX, out)
            };
            match step {
                Step::Consumed(count) => consumed += count,
                Step::Pause(count, next) => {
                    return Progress { consumed: consumed + count, next };
                }
            }
            if consumed == input.len() && matches!(self.phase, Phase::Command) {
                return Progress { consumed, next: Next::Read };
            }
        }
    }

    /// Returns the memory into which the caller should read the socket's next bytes while a value is arriving.
    ///
    /// Returns `None` if the caller should read into the connection's buffer: no value is arriving, or less than 4 KiB of
    /// the value is missing. With less than 4 KiB missing, a read into the buffer can receive the next requests too.
    pub fn upload_target(&mut self) -> Option<&mut [u8]> {
        match &mut self.phase {
            Phase::Value(store) => store.upload.target(),
            _ => None,
        }
    }

    /// Records that `count` bytes were read into [`Session::upload_target`].
    pub fn upload_advance(&mut self, worker: &WorkerContext<'e>, count: usize) {
        match &mut self.phase {
            Phase::Value(store) => store.upload.advance(worker, count),
            _ => panic!(
                "upload_advance({count}) was called, but no value is arriving on this connection"
            ),
        }
    }

    /// True if a value is arriving.
    pub fn is_uploading(&self) -> bool {
        matches!(self.phase, Phase::Value(_))
    }

    /// Refuses the value that is arriving if its upload was silent for too long. Returns true if it was refused. The
    /// session then ignores the rest of the value.
    pub fn refuse_silent_upload(
        &mut self,
        worker: &mut WorkerContext<'e>,
        out: &mut Out<'e>,
    ) -> bool {
        let Phase::Value(store) = &mut self.phase else { return false };
        let is_refused = store.upload.is_refused(worker);
        if is_refused {
            self.end_store(worker, &[], out, true);
        }
        is_refused
    }

    /// True if no command is in progress.
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Begin | Phase::Command | Phase::Login)
    }

    /// True if no command is in progress, or only a line whose rest has not arrived.
    pub fn awaits_line(&self) -> bool {
        self.is_idle() || matches!(self.phase, Phase::Keys(_) | Phase::SkipLine)
    }

    /// True if the session has written the first part of a reply, but not all of it.
    pub fn has_partial_reply(&self) -> bool {
        matches!(self.phase, Phase::Keys(_) | Phase::Crawl(_))
    }

    /// True if the connection is a watcher.
    pub fn is_watching(&self) -> bool {
        matches!(self.phase, Phase::Watch(_))
    }

    /// Appends the log lines that wait for this watcher. Does nothing if the connection is no watcher. The caller must
    /// first write all earlier output, so that the lines for a slow reader do not use unbounded memory.
    pub fn take_lines(&mut self, out: &mut Out<'e>) {
        if let Phase::Watch(watcher) = &mut self.phase {
            watcher.take_lines(out.bytes());
        }
    }

    /// Returns the reason why the caller should close the connection, or `None` if it should stay open.
    pub fn close_reason(&self) -> Option<CloseReason> {
        match self.phase {
            Phase::Closed(reason) => Some(reason),
            _ => None,
        }
    }

    /// Runs one step, and logs its request and replies (`-vv`). A step is one request, or one key of a retrieval.
    #[cold]
    fn logged_step(
        &mut self,
        worker: &mut WorkerContext<'e>,
        input: &[u8],
        out: &mut Out<'e>,
    ) -> Step {
        let before = out.bytes().len();
        // A login is not logged, because it contains a password.
        if matches!(self.phase, Phase::Command) && worker.requests_left > 0 && !out.is_full() {
            text::log_request(worker, input);
        }
        let step = self.step(worker, input, 1, out);
        match self.dialect {
            Dialect::Text => text::log_replies(worker, &out.bytes()[before..]),
            Dialect::Binary(_) => text::log_packet(worker, '>', &out.bytes()[before..]),
        }
        step
    }

    /// Returns a pause if there is no input, if the worker may serve no further request in this round, or if the output
    /// is full.
    #[inline]
    fn pause_before_request(
        worker: &WorkerContext<'_>,
        input: &[u8],
        out: &Out<'_>,
    ) -> Option<Step> {
        if input.is_empty() {
            Some(Step::Pause(0, Next::Read))
        } else if worker.requests_left == 0 || out.is_full() {
            Some(Step::Pause(0, Next::Yield))
        } else {
            None
        }
    }

    /// Serves one request, or a batch of item requests and the request after it, at the start of `input`.
    #[inline]
    fn serve_requests(
        &mut self,
        worker: &mut WorkerContext<'e>,
        input: &[u8],
        out: &mut Out<'e>,
    ) -> Step {
        if let Some(pause) = Self::pause_before_request(worker, input, out) {
            return pause;
        }
        let mut parsed = self.dialect.parse(worker, input);
        join_sole_key(&mut parsed, input);
        match parsed.end(input.len()) {
            Some(end)
                if end < input.len() && worker.requests_left > 1 && !worker.large_values_wait =>
            {
                let mut batch = Batch::new();
                batch.read(worker, &self.dialect, input, &parsed, end);
                self.serve_batch(worker, &batch, input, out)
            }
            _ => self.serve(worker, &parsed, input, out),
        }
    }

    /// Serves the item requests of a batch in order, then the request that ended the batch.
    fn serve_batch(
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
                unreachable!("a batch contains only valid item requests");
            };
            let line_end = start + consumed;
            match self.serve_item(worker, (request, answer, key), &input[line_end..], out) {
                Step::Consumed(count) if !matches!(self.phase, Phase::Command) => {
                    return Step::Consumed(line_end + count);
                }
                Step::Consumed(_) => {}
                Step::Pause(count, next) => return Step::Pause(line_end + count, next),
            }
        }
        let (end, last) = batch.rest();
        let (Some(last), rest) = (last, &input[end..]) else { return Step::Consumed(end) };
        if let Some(Step::Pause(_, next)) = Self::pause_before_request(worker, rest, out) {
            return Step::Pause(end, next);
        }
        self.serve(worker, last, rest, out).add_consumed(end)
    }

    /// Runs one step in any phase. In the phase `Keys` the step looks up at most `keys_max` keys.
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
            Phase::Begin => self.select_dialect(worker, input[0]),
            Phase::Login => self.serve_login(worker, input, out),
            Phase::Command => match Self::pause_before_request(worker, input, out) {
                Some(pause) => pause,
                None => {
                    let parsed = self.dialect.parse(worker, input);
                    self.serve(worker, &parsed, input, out)
                }
            },
            Phase::Keys(retrieval) => {
                let (phase, count) = match retrieval.step(worker, input, keys_max, out) {
                    RetrievalStep::Continues(step) => return step,
                    RetrievalStep::Finished(count) => (Phase::Command, count),
                    RetrievalStep::Failed(count) => (Phase::SkipLine, count),
                };
                self.phase = phase;
                Step::Consumed(count)
            }
            Phase::Value(store) => {
                let (count, step) = store.fill(worker, input);
                match step {
                    UploadStep::Read => return Step::Pause(count, Next::Read),
                    UploadStep::Wait => return Step::Pause(count, Next::AwaitMemory),
                    UploadStep::End => self.end_store(worker, &input[count..], out, false),
                }
                Step::Consumed(count)
            }
            Phase::Crawl(crawl) => {
                let room_bytes = out.room_bytes();
                if out.is_full() || !crawl.step(worker, room_bytes, out.bytes()) {
                    return Step::Pause(0, Next::Yield);
                }
                self.phase = Phase::Command;
                Step::Consumed(0)
            }
            Phase::Watch(_) => Step::Pause(input.len(), Next::Read),
            Phase::Closed(_) => Step::Pause(input.len(), Next::Close),
            Phase::Skip(0) => {
                self.phase = Phase::Command;
                Step::Consumed(0)
            }
            Phase::Skip(_) if input.is_empty() => Step::Pause(0, Next::Read),
            Phase::Skip(left) => {
                let count = input.len().min(*left);
                *left -= count;
                Step::Consumed(count)
            }
            Phase::SkipLine => match input.iter().position(|&byte| byte == b'\n') {
                Some(end) => {
                    self.phase = Phase::Command;
                    Step::Consumed(end + 1)
                }
                None => Step::Pause(input.len(), Next::Read),
            },
        }
    }

    /// Ends the store whose value is arriving, and writes its reply. The session then ignores the rest of the value.
    fn end_store(
        &mut self,
        worker: &mut WorkerContext<'e>,
        rest: &[u8],
        out: &mut Out<'e>,
        is_refused: bool,
    ) {
        let Phase::Value(store) = std::mem::take(&mut self.phase) else {
            unreachable!("a store ends only in the phase Value");
        };
        self.phase = Phase::Skip(store.end(worker, rest, out, is_refused));
    }

    /// Serves a request that was parsed at the start of `input`.
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
                        write_refusal(worker, exchange, head, *fault, out.bytes())
                    }
                    _ => unreachable!("only the binary dialect refuses packets"),
                };
                if !stays_open {
                    return self.close(*consumed, CloseReason::Error);
                }
                self.phase = Phase::Skip(*skip_len);
                Step::Consumed(*consumed)
            }
            Parsed::Request { request, answer, consumed } => match request {
                Request::Retrieve(touch) => {
                    charge(worker);
                    let Answer::Text(answer) = answer else {
                        unreachable!(
                            "only the classic text protocol has requests with several keys"
                        );
                    };
                    self.phase = Phase::Keys(Retrieval::new(worker, *touch, *answer));
                    Step::Consumed(*consumed)
                }
                Request::Version
                | Request::Quit
                | Request::Stats(_)
                | Request::Admin(_)
                | Request::Sasl(_) => self
                    .serve_control(worker, (request, answer), input.len() - consumed, out)
                    .add_consumed(*consumed),
                _ => {
                    let item = (request, answer, worker.handle.hashed(request.key()));
                    if worker.large_values_wait
                        && self.dialect.allows(worker, answer)
                        && get_must_wait(worker, item)
                    {
                        return Step::Pause(0, Next::AwaitReplies);
                    }
                    self.serve_item(worker, item, &input[*consumed..], out).add_consumed(*consumed)
                }
            },
        }
    }

    /// Serves an item request. `rest` is the input after the request's line or packet head.
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
            return self.reject_unauthenticated(answer, rest.len(), out);
        }
        worker.served.other_requests +=
            u32::from(!matches!(request, Request::Get(_) | Request::NoOp));
        let mut buffer;
        if matches!(answer, Answer::Meta(echo) if echo.key_is_base64) {
            buffer = [0; KEY_BUFFER_LEN];
            key = worker.handle.hashed(decode_key(key.bytes(), &mut buffer));
        }
        match (ItemContext { worker, answer, key, out }).carry_out(request, rest) {
            ItemOutcome::Answered { consumed, skip_len } => {
                if skip_len > 0 {
                    self.phase = Phase::Skip(skip_len);
                }
                Step::Consumed(consumed)
            }
            ItemOutcome::Receiving { consumed, store } => {
                self.phase = Phase::Value(store);
                Step::Consumed(consumed)
            }
        }
    }

    /// Serves a control request. `rest_len` is the length of the input after the request, in bytes.
    fn serve_control(
        &mut self,
        worker: &mut WorkerContext<'e>,
        (request, answer): (&Request<'_>, &Answer),
        rest_len: usize,
        out: &mut Out<'e>,
    ) -> Step {
        charge(worker);
        if !self.dialect.allows(worker, answer) {
            return self.reject_unauthenticated(answer, rest_len, out);
        }
        worker.served.other_requests += 1;
        let next = match (answer, &mut self.dialect) {
            (Answer::Text(answer), _) => {
                control::serve_line(worker, *request, *answer, &mut self.debug_pins, out)
            }
            (Answer::Binary(head), Dialect::Binary(exchange)) => {
                control::serve_packet(worker, *request, head, exchange, out.bytes())
            }
            _ => unreachable!("only text commands and binary packets are control requests"),
        };
        match next {
            NextAction::Nothing => {}
            NextAction::Crawl(crawl) => self.phase = Phase::Crawl(crawl),
            NextAction::Watch(watcher) => self.phase = Phase::Watch(watcher),
            NextAction::Close(reason) => return self.close(0, reason),
        }
        Step::Consumed(0)
    }

    /// Requests that the caller closes the connection. The session ignores further input.
    fn close(&mut self, consumed: usize, reason: CloseReason) -> Step {
        self.phase = Phase::Closed(reason);
        Step::Pause(consumed, Next::Close)
    }
}
