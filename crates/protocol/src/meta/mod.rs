//! The meta text protocol: `mg`, `ms`, `md`, `ma`, `mn`, `me`.
//!
//! ```text
//!   mg <key> <flag>*            flag = a letter, for some with its token behind it: v  t  T30  Oabc
//!   ms <key> <datalen> <flag>*  then the value and its end of line
//! ```
//!
//! A client says by flags what it wants done and what it wants told; what it is told comes in the order of
//! its flags. So a request is two things: [`Options`], the flags as values, and [`Echo`], their letters in
//! order. It shares its connection with the classic protocol: [`begins`] tells the two apart by a line's
//! first bytes, and no classic command is slowed down by more than that look.
//!
//! Replies and errors are those of memcached 1.6.45, with these exceptions:
//! - the value of a refused `ms` is skipped whenever its length is known, so that it is never taken for
//!   commands;
//! - keys in base64 hold the characters of base64 and no others;
//! - `k` names the key in the form that the request had;
//! - `me <key> b` decodes its key, as its documentation says;
//! - `ma` with T gives its lifetime to a number that grows, too; `t` of an item that has just been ended is 0;
//! - a refused append, prepend or add leaves the item that is there.
//!
//! Two flags are ours: `G<units>` of `ms` tells what an item costs to recompute, `g` of `mg` asks for it.
//!
//! Who may call it: anyone with bytes. It keeps no state.

pub mod compose;
mod flags;
mod key;
mod line;
pub mod reply;

pub use flags::{Echo, FLAG_COUNT_MAX, OPAQUE_LEN_MAX, Options};
pub use key::{KEY_BUFFER_LEN, Key};
pub use line::{begins, parse};

/// What the beginning of some input is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Parsed<'a> {
    /// Not a whole line yet.
    Incomplete,
    /// A request.
    Request {
        /// What is asked for.
        request: Request<'a>,
        /// Bytes of the input that its line took. A set's value starts there.
        consumed: usize,
    },
    /// A line that cannot be acted on.
    Refused {
        /// The answer, its end of line included. Quiet mode does not suppress it.
        reply: &'static [u8],
        /// Bytes of the input that the line took.
        consumed: usize,
        /// Bytes after it that belong to it and mean nothing.
        skip_len: usize,
    },
    /// Not a client of this protocol: close the connection.
    Hangup,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request<'a> {
    /// What to do.
    pub verb: Verb,
    /// To which item; empty for [`Verb::NoOp`].
    pub key: Key<'a>,
    /// How to do it.
    pub options: Options,
    /// What to tell of it.
    pub echo: Echo<'a>,
}

/// The commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `mg`.
    Get,
    /// `ms`: the value follows.
    Set {
        /// Bytes of the value, without its end of line.
        value_len: usize,
        /// What it does with the item that is there.
        mode: SetMode,
    },
    /// `md`.
    Delete,
    /// `ma`.
    Arithmetic(crate::Direction),
    /// `mn`.
    NoOp,
    /// `me`.
    Debug,
}

/// What `ms` does with the item that is there: its `M` flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetMode {
    /// S: stores in any case.
    Set,
    /// E: stores if there is none.
    Add,
    /// R: stores if there is one.
    Replace,
    /// A: adds the value at the end of what is there.
    Append,
    /// P: adds the value before what is there.
    Prepend,
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
