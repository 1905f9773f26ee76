//! Test support: sends bytes to a session without sockets, and collects the replies.
//!
//! A *script* is the text that a client sends. A *dialogue* is a script with its expected replies.

use super::{Next, Session};
use crate::config::Settings;
use crate::out::Out;
use crate::passwords::testing::logins;
use crate::shared::{ConnectionTable, Shared, WorkerContext};
use slabwise_base::Clock;
use slabwise_engine::{Engine, EngineConfig};
use std::sync::Arc;

/// The parts of a server: an empty cache, a manual clock, and options.
pub(crate) struct Fixture {
    pub(crate) engine: Engine,
    pub(crate) clock: Arc<Clock>,
    pub(crate) settings: Settings,
    /// The text of the password file for `-Y`; `None` without `-Y`.
    pub(crate) passwords: Option<&'static str>,
    pub(crate) connection_table: ConnectionTable,
}

/// The number of requests that a client can make in one round.
const REQUESTS_PER_ROUND: u32 = 20;

/// The maximum size of an item, in bytes. It is small so that tests with a larger value are fast.
pub(crate) const ITEM_SIZE_BYTES_MAX: u64 = 100_000;

impl Fixture {
    pub(crate) fn new() -> Fixture {
        Fixture::with(|_| ())
    }

    /// Makes a fixture. `change` changes the configuration of its engine.
    pub(crate) fn with(change: impl FnOnce(&mut EngineConfig)) -> Fixture {
        let mut config = EngineConfig::new(8 << 20);
        config.item_size_bytes_max = ITEM_SIZE_BYTES_MAX;
        change(&mut config);
        Fixture {
            engine: Engine::new(config)
                .expect("the kernel maps 8 MiB of memory for the test's engine"),
            clock: Arc::new(Clock::manual()),
            settings: Settings::default(),
            passwords: None,
            connection_table: ConnectionTable::default(),
        }
    }

    /// Makes the state that all connections of the test's server share.
    pub(crate) fn shared(&self) -> Shared<'_> {
        let wake = Box::new(|_| ());
        let mut shared =
            Shared::new(&self.engine, &self.clock, &self.settings, &self.connection_table, wake);
        shared.logins = self.passwords.map(logins);
        shared
    }

    /// Makes a worker at the start of a round.
    pub(crate) fn worker<'e>(&'e self, shared: &'e Shared<'e>) -> WorkerContext<'e> {
        WorkerContext { requests_left: REQUESTS_PER_ROUND, ..WorkerContext::new(shared, 0) }
    }

    /// Sends these pieces on a new connection, and returns the replies.
    pub(crate) fn talk<'p>(&self, pieces: impl IntoIterator<Item = &'p [u8]>) -> Vec<u8> {
        let shared = self.shared();
        let mut client = Client::new(self.worker(&shared));
        for piece in pieces {
            client.send(piece);
        }
        client.received
    }
}

/// A client with its connection: passes bytes to a session as an event loop does.
pub(crate) struct Client<'e> {
    pub(crate) worker: WorkerContext<'e>,
    session: Session<'e>,
    /// Sent bytes that the session has not consumed.
    pending: Vec<u8>,
    /// The replies since the start of the connection, or since a test cleared them.
    pub(crate) received: Vec<u8>,
    /// True if the session has closed the connection.
    pub(crate) is_closed: bool,
    /// The number of times that the session returned [`Next::Yield`].
    pub(crate) yields: u32,
    /// The number of bytes of values that were written directly into the cache's memory.
    pub(crate) uploaded: usize,
}

impl<'e> Client<'e> {
    pub(crate) fn new(worker: WorkerContext<'e>) -> Client<'e> {
        let session = Session::new(worker.shared.settings.protocol);
        Client {
            worker,
            session,
            pending: Vec::new(),
            received: Vec::new(),
            is_closed: false,
            yields: 0,
            uploaded: 0,
        }
    }

    /// Sends bytes, and calls the session until it needs more input.
    pub(crate) fn send(&mut self, mut bytes: &[u8]) {
        loop {
            if let Some(target) = self.session.upload_target() {
                assert!(
                    self.pending.is_empty(),
                    "a session with an upload target has consumed all sent bytes"
                );
                let count = target.len().min(bytes.len());
                target[..count].copy_from_slice(&bytes[..count]);
                self.session.upload_advance(&self.worker, count);
                self.uploaded += count;
                bytes = &bytes[count..];
                if count > 0 {
                    continue;
                }
            }
            self.pending.extend_from_slice(bytes);
            bytes = b"";
            self.serve();
            if self.is_closed || self.session.upload_target().is_none() || bytes.is_empty() {
                return;
            }
        }
    }

    /// Returns the log lines that wait for this watcher, without their timestamps.
    pub(crate) fn watched_lines(&mut self) -> Vec<String> {
        let mut out = Out::default();
        self.session.take_lines(&mut out);
        let text = String::from_utf8(out.drain())
            .expect("log lines are UTF-8, because keys are percent-encoded");
        assert!(text.is_empty() || text.ends_with('\n'), "each log line has a line end: {text:?}");
        let untimed = |line: &str| match line.strip_prefix("ts=") {
            Some(timed) => timed
                .split_once(' ')
                .expect("a space follows the timestamp of a log line")
                .1
                .to_owned(),
            None => line.to_owned(),
        };
        text.lines().map(untimed).collect()
    }

    /// Calls the session, and starts another round after each yield, until the session needs more input or closes.
    fn serve(&mut self) {
        let mut out = Out::default();
        loop {
            let progress = self.session.consume(&mut self.worker, &self.pending, &mut out);
            self.pending.drain(..progress.consumed);
            self.received.extend(out.drain());
            match progress.next {
                Next::Read | Next::AwaitMemory | Next::AwaitReplies => return,
                Next::Yield => {
                    self.yields += 1;
                    self.worker.requests_left = REQUESTS_PER_ROUND;
                }
                Next::Close => {
                    self.is_closed = true;
                    return;
                }
            }
        }
    }
}

/// Parses a dialogue into the sent bytes and the expected replies. A line that the client sends starts with `>`, a line
/// of the reply with `<`. `{k*250}` means 250 letters k.
pub(crate) fn parse_dialogue(lines: &str) -> (Vec<u8>, Vec<u8>) {
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    for line in lines.lines().map(str::trim_start).filter(|line| !line.is_empty()) {
        let (side, text) = match line.split_at(1) {
            (">", text) => (&mut sent, text),
            ("<", text) => (&mut received, text),
            _ => panic!("a line of a dialogue starts with > or <, not: {line}"),
        };
        let text = text.strip_prefix(' ').unwrap_or(text);
        side.extend_from_slice(expand(text).as_bytes());
        side.extend_from_slice(b"\r\n");
    }
    (sent, received)
}

/// Replaces each `{text*count}` by `count` repetitions of the text.
fn expand(text: &str) -> String {
    let mut expanded = text.to_owned();
    while let Some(start) = expanded.find('{') {
        let end = expanded.find('}').expect("each { of a dialogue has a }");
        let (part, count) =
            expanded[start + 1..end].split_once('*').expect("braces contain text*count");
        let repeated = part.repeat(count.parse().expect("a number follows * in braces"));
        expanded.replace_range(start..=end, &repeated);
    }
    expanded
}

/// Plays a dialogue several times, each time against a new server, and checks the replies. The script is sent whole,
/// byte by byte, and in two pieces that are cut at up to 500 places.
pub(crate) fn check(lines: &str) {
    check_with(|_| (), lines);
}

/// Plays a dialogue as [`check`] does, against servers whose options `change` changes.
pub(crate) fn check_with(change: impl Fn(&mut Settings), lines: &str) {
    let (sent, expected) = parse_dialogue(lines);
    let run = |pieces: &mut dyn Iterator<Item = &[u8]>, split: &str| {
        let mut fixture = Fixture::new();
        change(&mut fixture.settings);
        let received = fixture.talk(pieces);
        let text = String::from_utf8_lossy;
        assert_eq!(text(&received), text(&expected), "{split}\n{}", text(&sent));
    };
    run(&mut [&sent[..]].into_iter(), "sent whole");
    run(&mut sent.chunks(1), "sent byte by byte");
    let stride = 1 + sent.len() / 500;
    for cut in (1..sent.len()).step_by(stride) {
        let (head, tail) = sent.split_at(cut);
        run(&mut [head, tail].into_iter(), &format!("cut at {cut}"));
    }
}
