//! What must hold for every input of a parser, used by the stable test and by the fuzz targets.

#![allow(dead_code, reason = "each fuzz target uses one dialect")]

pub mod binary;
pub mod text;

/// Reads what comes next; `None` when more input is needed.
type Step = fn(&mut Reader, &[u8]) -> Option<usize>;

/// What the caller of a parser has to remember between two pieces of input.
#[derive(Clone, Copy)]
enum Expecting {
    Request,
    /// What is not a request by itself.
    Part(Step),
    Skip(usize),
    Nothing,
}

/// Reads input as a server does, and writes down what it was told.
struct Reader {
    request: Step,
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

    /// The connection is to be closed.
    fn hang_up(&mut self) -> Option<usize> {
        self.events.push("hangup".to_owned());
        self.expecting = Expecting::Nothing;
        None
    }
}

/// What a server is told when the input arrives in these pieces.
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

/// Panics unless: nothing panics, nothing is consumed that is not there, and the input means the same
/// wherever it is cut.
fn check_cuts(request: Step, input: &[u8]) {
    let whole = events(request, [input]);
    assert_eq!(events(request, input.chunks(1)), whole, "byte by byte");
    // Every cut of a short input; a spread of them for a long one, so that a fuzzer gets on.
    let stride = 1 + input.len() / 64;
    for cut in (1..input.len()).step_by(stride) {
        let (head, tail) = input.split_at(cut);
        assert_eq!(events(request, [head, tail]), whole, "cut at {cut}");
    }
}
