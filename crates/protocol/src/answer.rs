//! How a request is to be answered: what a reply needs that is no part of the operation.
//!
//! An answer borrows nothing, because a value may arrive long after its line is gone.

use crate::echo::Echo;
use crate::head::Head;

/// How a request is to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// In lines of the classic text protocol.
    Text(TextAnswer),
    /// In a line of the meta protocol.
    Meta(Echo),
    /// In a packet that repeats this.
    Binary(Head),
}

/// What a client of the classic text protocol wants to be answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextAnswer {
    /// Nothing, not even an error.
    pub noreply: bool,
    /// Each value with its CAS value.
    pub with_cas: bool,
}

impl Answer {
    /// What follows a value on the wire.
    #[inline]
    pub fn value_end(&self) -> &'static [u8] {
        match self {
            Answer::Text(_) | Answer::Meta(_) => b"\r\n",
            Answer::Binary(_) => b"",
        }
    }
}
