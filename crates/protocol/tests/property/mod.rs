//! Invariants of the parsers for every input, checked by the property tests and the fuzz targets.

#![allow(dead_code, reason = "each fuzz target uses one protocol")]

pub mod binary;
pub mod text;

/// Parses the next request. `None` if more input is needed.
type Step = fn(&mut Reader, &[u8]) -> Option<usize>;

/// The state that the parser's caller keeps between two pieces of input.
#[derive(Clone, Copy)]
enum Expecting {
    Request,
    /// Bytes that are not a request by themselves.
    Part(Step),
    Skip(usize),
    Nothing,
}

/// Reads input as a server does and records the parser's results.
struct Reader {
    request: Step,
    expecting: Expecting,
    events: Vec<String>,
}

impl Reader {
    /// Parses as much as possible and returns the number of bytes consumed.
    fn read(&mut self, input: &[u8]) -> usize {
        let mut start = 0;
        while let Some(consumed) = self.step(&input[start..]) {
            assert!(consumed <= input.len() - start, "more bytes were consumed than received");
            start += consumed;
        }
        start
    }

    /// Parses one request or one part of it. `None` if more input is needed.
    fn step(&mut self, input: &[u8]) -> Option<usize> {
        match self.expecting {
            Expecting::Nothing => None,
            Expecting::Request => (self.request)(self, input),
            Expecting::Part(step) => step(self, input),
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

    /// Records that the connection must be closed.
    fn close(&mut self) -> Option<usize> {
        self.events.push("hangup".to_owned());
        self.expecting = Expecting::Nothing;
        None
    }
}

/// Returns the parser's results for input that arrives in these pieces.
fn events<'a>(request: Step, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let mut reader = Reader { request, expecting: Expecting::Request, events: Vec::new() };
    let mut pending = Vec::new();
    for piece in pieces {
        pending.extend_from_slice(piece);
        let consumed = reader.read(&pending);
        pending.drain(..consumed);
    }
    reader.events
}

/// Panics if the parser panics, consumes more than there is, or depends on where the input is split.
fn check_cuts(request: Step, input: &[u8]) {
    let whole = events(request, [input]);
    assert_eq!(events(request, input.chunks(1)), whole, "byte by byte");
    // All splits of a short input; some of a long one, to keep the fuzzer fast.
    let stride = 1 + input.len() / 64;
    for cut in (1..input.len()).step_by(stride) {
        let (head, tail) = input.split_at(cut);
        assert_eq!(events(request, [head, tail]), whole, "cut at {cut}");
    }
}
