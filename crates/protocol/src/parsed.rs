//! What a parser finds at the beginning of some input.

use crate::answer::Answer;
use crate::fault::Fault;
use crate::head::Head;
use crate::request::Request;

/// What the beginning of some input is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Parsed<'a> {
    /// Not a whole request yet.
    Incomplete,
    /// Not a client of this protocol: close the connection.
    Hangup,
    /// A request.
    Request {
        /// What is asked for.
        request: Request<'a>,
        /// How it is answered.
        answer: Answer,
        /// Bytes of the input that it took. A retrieval's keys or a store's value start there.
        consumed: usize,
    },
    /// A request that cannot be acted on.
    Refused {
        /// Why.
        refusal: Refusal,
        /// Bytes of the input that it took.
        consumed: usize,
        /// Bytes after them that belong to it and mean nothing.
        skip_len: usize,
    },
}

/// Why a request cannot be acted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// What to answer a line, its end included; empty if the client wants none.
    Line(&'static [u8]),
    /// What is wrong with a packet.
    Packet {
        /// What the reply repeats.
        head: Head,
        /// What is wrong.
        fault: Fault,
    },
}

impl Parsed<'_> {
    /// Where in an input of this length the request ends, if it is about one item or none and all of it is at
    /// hand. Then what follows is another request, whatever comes of this one.
    #[inline]
    pub fn end(&self, input_len: usize) -> Option<usize> {
        let Parsed::Request { request, answer, consumed } = self else { return None };
        match request {
            Request::Get(_)
            | Request::Delete(_)
            | Request::Arithmetic(_)
            | Request::Touch { .. }
            | Request::Examine { .. }
            | Request::NoOp => Some(*consumed),
            Request::Store(store) => {
                let end = consumed + store.value_len + answer.value_end().len();
                (end <= input_len).then_some(end)
            }
            _ => None,
        }
    }
}
