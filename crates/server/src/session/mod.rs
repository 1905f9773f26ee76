//! The dialogue on one connection: requests become operations and replies.
//!
//! ```text
//!                 line            keys...
//!     Begin
//!        |  first byte: which dialect; before it a login where `-Y` asks for one
//!     Command ------------> Keys ---------> Command
//!        |  line                value         \r\n
//!        |--------> Value -------------> Value (full) ---> Command
//!        |  refused line        data
//!        |--------> Skip -----------> Command
//!        |  dump                steps
//!        |--------> Crawl ----------> Command
//!        |  watch
//!        '--------> Watch
//! ```
//!
//! A session does no input and no output. It is given bytes that arrived, says how many it is done
//! with, and appends replies. What is larger than a line is a phase of its own, so that a call is
//! always short and no value, no list of keys and no dump needs a buffer of its size: a value that
//! is not wholly at hand is read from the socket straight into the arena.
//!
//! Requests that lie whole in the input are parsed a few at a time. Each key is hashed once, the look-ups of all
//! of them are prefetched, and then they are carried out in order (`batch`).
//!
//! In the binary dialect a command is a head with its extras and key, and the way is the same, but for
//! keys, of which a command has one.
//!
//! Invariants: replies come in the order of requests, whatever the pieces the input comes in; a call ends
//! when its requests are used up or the output is full, and then says [`Next::Yield`]; dropping a
//! session gives back everything it holds.

mod batch;
mod dialogue;
mod items;
mod orders;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use dialogue::Session;
pub use items::{Next, Progress};
