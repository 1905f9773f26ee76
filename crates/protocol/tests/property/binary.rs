//! What must hold for every input of the binary protocol, used by the stable test and by the fuzz target.

use slabwise_protocol::LIMITS;
use slabwise_protocol::binary::{HEAD_LEN, Parsed, REQUEST_MAGIC, Request, compose, parse};

/// What the caller of the parser has to remember between two pieces of input.
#[derive(Clone, Copy)]
enum Expecting {
    Request,
    Skip(usize),
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
            Expecting::Request => self.request(input),
            Expecting::Skip(0) => {
                self.expecting = Expecting::Request;
                Some(0)
            }
            Expecting::Skip(_) if input.is_empty() => None,
            Expecting::Skip(left) => {
                let consumed = left.min(input.len());
                self.expecting = Expecting::Skip(left - consumed);
                Some(consumed)
            }
        }
    }

    fn request(&mut self, input: &[u8]) -> Option<usize> {
        match parse(input) {
            Parsed::Incomplete => {
                assert!(input.len() < LIMITS.line_len_max, "so much is not waited for");
                None
            }
            Parsed::Hangup => {
                assert_ne!(input[0], REQUEST_MAGIC);
                self.events.push("hangup".to_owned());
                self.expecting = Expecting::Nothing;
                None
            }
            Parsed::Refused { head, fault, consumed, skip_len } => {
                assert!(consumed >= HEAD_LEN, "a request has a head");
                self.events.push(format!("{head:?} {fault:?} {skip_len}"));
                if fault.closes() {
                    self.expecting = Expecting::Nothing;
                    return None;
                }
                self.expecting = Expecting::Skip(skip_len);
                Some(consumed)
            }
            Parsed::Request { head, request, consumed } => {
                assert!(consumed >= HEAD_LEN, "a request has a head");
                self.events.push(format!("{head:?} {request:?}"));
                self.expecting = match request {
                    Request::Store(order) => {
                        assert!((1..=LIMITS.key_len_max).contains(&order.key.len()));
                        assert!(order.value_len <= LIMITS.body_len_max);
                        Expecting::Skip(order.value_len)
                    }
                    Request::Get { key, .. } => {
                        // What a server would answer has room in its lengths.
                        compose::hit(&mut Vec::new(), &head, 0, key, LIMITS.value_len_max, 0);
                        compose::miss_with_key(&mut Vec::new(), &head, key);
                        Expecting::Request
                    }
                    Request::Quit => Expecting::Nothing,
                    _ => Expecting::Request,
                };
                Some(consumed)
            }
        }
    }
}

/// What a server is told when the input arrives in these pieces.
fn events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let mut reader = Reader { expecting: Expecting::Request, events: Vec::new() };
    let mut pending = Vec::new();
    for piece in pieces {
        pending.extend_from_slice(piece);
        let consumed = reader.read(&pending);
        pending.drain(..consumed);
    }
    reader.events
}

/// Panics unless: nothing panics, nothing is consumed that is not there, nothing is waited for without
/// bound, and the input means the same wherever it is cut.
pub fn check(input: &[u8]) {
    let whole = events([input]);
    assert_eq!(events(input.chunks(1)), whole, "byte by byte");
    // Every cut of a short input; a spread of them for a long one, so that a fuzzer gets on.
    let stride = 1 + input.len() / 64;
    for cut in (1..input.len()).step_by(stride) {
        let (head, tail) = input.split_at(cut);
        assert_eq!(events([head, tail]), whole, "cut at {cut}");
    }
}
