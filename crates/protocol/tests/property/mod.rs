//! What must hold for every input, used by the stable test and by the fuzz target.

use slabwise_protocol::meta;
use slabwise_protocol::text::{NextKey, Parsed, next_key, parse};
use slabwise_protocol::{LIMITS, Request};

/// What the caller of the parser has to remember between two pieces of input.
#[derive(Clone, Copy)]
enum Expecting {
    Command,
    Keys,
    Skip(usize),
    LineEnd,
    Nothing,
}

/// Reads input as a server does, and writes down what it was told.
struct Reader {
    expecting: Expecting,
    events: Vec<String>,
}

impl Reader {
    /// Reads as much as it can; returns how much that was.
    fn read(&mut self, input: &[u8]) -> usize {
        let mut start = 0;
        while let Some(consumed) = self.step(&input[start..]) {
            assert!(consumed <= input.len() - start, "more was consumed than there is");
            start += consumed;
        }
        start
    }

    /// One step; `None` when more input is needed.
    fn step(&mut self, input: &[u8]) -> Option<usize> {
        match self.expecting {
            Expecting::Nothing => None,
            Expecting::Command => self.command(input),
            Expecting::Keys => self.key(input),
            Expecting::Skip(0) => {
                self.expecting = Expecting::Command;
                Some(0)
            }
            Expecting::Skip(left) if !input.is_empty() => {
                let consumed = left.min(input.len());
                self.expecting = Expecting::Skip(left - consumed);
                Some(consumed)
            }
            Expecting::Skip(_) => None,
            Expecting::LineEnd => {
                let end = input.iter().position(|&byte| byte == b'\n')?;
                self.expecting = Expecting::Command;
                Some(end + 1)
            }
        }
    }

    fn command(&mut self, input: &[u8]) -> Option<usize> {
        if meta::begins(input) {
            return self.meta(input);
        }
        match parse(input) {
            Parsed::Incomplete => None,
            Parsed::Hangup => {
                self.events.push("hangup".to_owned());
                self.expecting = Expecting::Nothing;
                None
            }
            Parsed::Refused { reply, consumed, skip_len } => {
                self.events.push(format!("{reply:?} {skip_len}"));
                self.expecting = Expecting::Skip(skip_len);
                assert!(consumed > 0, "a line has an end");
                Some(consumed)
            }
            Parsed::Request { request, noreply, consumed } => {
                self.events.push(format!("{request:?} {noreply}"));
                self.expecting = match request {
                    Request::Get(_) => Expecting::Keys,
                    Request::Store(header) => {
                        assert!(header.key.len() <= LIMITS.key_len_max);
                        Expecting::Skip(header.value_len + 2)
                    }
                    _ => Expecting::Command,
                };
                assert!(consumed > 0, "a command has a name");
                Some(consumed)
            }
        }
    }

    fn meta(&mut self, input: &[u8]) -> Option<usize> {
        match meta::parse(input) {
            meta::Parsed::Incomplete => None,
            meta::Parsed::Hangup => {
                self.events.push("hangup".to_owned());
                self.expecting = Expecting::Nothing;
                None
            }
            meta::Parsed::Refused { reply, consumed, skip_len } => {
                assert!(reply.ends_with(b"\r\n"), "a reply is a line");
                self.events.push(format!("{reply:?} {skip_len}"));
                self.expecting = Expecting::Skip(skip_len);
                Some(consumed)
            }
            meta::Parsed::Request { request, consumed } => {
                check_meta(&request);
                self.events.push(format!("{request:?}"));
                if let meta::Verb::Set { value_len, .. } = request.verb {
                    self.expecting = Expecting::Skip(value_len + 2);
                }
                Some(consumed)
            }
        }
    }

    fn key(&mut self, input: &[u8]) -> Option<usize> {
        match next_key(input) {
            NextKey::Key { key, consumed } => {
                assert!((1..=LIMITS.key_len_max).contains(&key.len()));
                self.events.push(format!("key {key:?}"));
                Some(consumed)
            }
            NextKey::End { consumed } => {
                self.events.push("end".to_owned());
                self.expecting = Expecting::Command;
                Some(consumed)
            }
            NextKey::Incomplete { consumed: 0 } => None,
            NextKey::Incomplete { consumed } => Some(consumed),
            NextKey::TooLong => {
                self.events.push("key too long".to_owned());
                self.expecting = Expecting::LineEnd;
                Some(0)
            }
        }
    }
}

/// A request of the meta protocol can be carried out and answered.
fn check_meta(request: &meta::Request<'_>) {
    let mut buffer = [0; meta::KEY_BUFFER_LEN];
    let key = match request.key.is_base64() {
        true => request.key.decode(&mut buffer),
        false => request.key.wire(),
    };
    assert!(!key.is_empty() || request.verb == meta::Verb::NoOp, "an item has a key");
    assert!(key.len() <= LIMITS.key_len_max && request.echo.opaque().len() <= meta::OPAQUE_LEN_MAX);
    let mut letters = request.echo.letters().to_vec();
    assert!(letters.iter().all(|&letter| request.options.has(letter)), "each flag is noted");
    letters.sort_unstable();
    letters.dedup();
    assert_eq!(letters.len(), request.echo.letters().len(), "each flag is there once");
    let mut reply = Vec::new();
    let is_base64 = request.key.is_base64();
    meta::compose::bare_line(&mut reply, meta::reply::CODE_MISS, &request.echo, is_base64, key);
    assert!(reply.starts_with(b"EN") && reply.ends_with(b"\r\n"));
}

/// What a server is told when the input arrives in these pieces.
fn events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let mut reader = Reader { expecting: Expecting::Command, events: Vec::new() };
    let mut pending = Vec::new();
    for piece in pieces {
        pending.extend_from_slice(piece);
        let consumed = reader.read(&pending);
        pending.drain(..consumed);
    }
    reader.events
}

/// Panics unless: nothing panics, nothing is consumed that is not there, and the input means the
/// same wherever it is cut.
pub fn check(input: &[u8]) {
    let whole = events([input]);
    // How a line beyond the limit is read depends on whether its end is in sight, as in memcached.
    let has_long_line =
        input.split(|&byte| byte == b'\n').any(|line| line.len() > LIMITS.line_len_max);
    if has_long_line {
        return;
    }
    assert_eq!(events(input.chunks(1)), whole, "byte by byte");
    // Every cut of a short input; a spread of them for a long one, so that a fuzzer gets on.
    let stride = 1 + input.len() / 64;
    for cut in (1..input.len()).step_by(stride) {
        let (head, tail) = input.split_at(cut);
        assert_eq!(events([head, tail]), whole, "cut at {cut}");
    }
}
