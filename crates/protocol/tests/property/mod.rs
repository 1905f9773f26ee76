//! Invariants of the parsers that hold for every input. The property tests and the fuzz targets check them.

#![allow(dead_code, reason = "each fuzz target uses one protocol")]

pub mod binary;
pub mod text;

/// Parses the bytes at the start of an input. Returns the number of bytes consumed. Returns `None` if the reader needs
/// more input or must not read on.
type Step = fn(&mut Reader, &[u8]) -> Option<usize>;

/// The state that the parser's caller keeps between two pieces of input.
#[derive(Clone, Copy)]
enum Expecting {
    /// The next bytes are a request.
    Request,
    /// The next bytes are a part of the current request. This function parses the part.
    Part(Step),
    /// This number of bytes must be skipped.
    Skip(usize),
    /// The connection is closed, so no bytes are read.
    Nothing,
}

/// Reads input as a server does and records the parser's results.
struct Reader {
    /// Parses one request.
    request: Step,
    expecting: Expecting,
    /// One text for each result of the parser.
    events: Vec<String>,
}

impl Reader {
    /// Parses requests until more input is needed, and returns the number of bytes consumed.
    fn read(&mut self, input: &[u8]) -> usize {
        let mut start = 0;
        while let Some(consumed) = self.step(&input[start..]) {
            assert!(
                consumed <= input.len() - start,
                "the parser consumed {consumed} bytes, but the input has fewer"
            );
            start += consumed;
        }
        start
    }

    /// Parses one request, parses one part of a request, or skips bytes. Returns the number of bytes consumed, or
    /// `None` if the reader needs more input or must not read on.
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

    /// Records that the parser requests to close the connection.
    fn close(&mut self) -> Option<usize> {
        self.events.push("hangup".to_owned());
        self.expecting = Expecting::Nothing;
        None
    }
}

/// Returns one text for each result of the parser, for an input that arrives in these pieces.
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

/// Panics if the parser panics, consumes more bytes than the input has, or returns other results when the input arrives
/// in other pieces.
fn check_splits(request: Step, input: &[u8]) {
    let whole = events(request, [input]);
    assert_eq!(
        events(request, input.chunks(1)),
        whole,
        "the results must not change if the input arrives byte by byte"
    );
    // A short input is split at every position. A long input is split at about 64 positions, to keep the fuzzer fast.
    let stride = 1 + input.len() / 64;
    for cut in (1..input.len()).step_by(stride) {
        let (head, tail) = input.split_at(cut);
        assert_eq!(
            events(request, [head, tail]),
            whole,
            "the results must not change if the input is split at byte {cut}"
        );
    }
}
