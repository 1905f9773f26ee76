//! The protocol state machine of one connection: parses requests, runs operations and appends replies.
//!
//! ```text
//!                 line            keys...
//!     Begin
//!        |  first byte selects the dialect; with `-Y` a login precedes it
//!     Command ------------> Keys ---------> Command
//!        |  line                value         \r\n
//!        |--------> Value -------------> Value (full) ---> Command
//!        |  rejected line       data
//!        |--------> Skip -----------> Command
//!        |  dump                steps
//!        |--------> Crawl ----------> Command
//!        |  watch
//!        '--------> Watch
//! ```
//!
//! A session does no input or output itself. It receives the bytes that arrived, reports how many it consumed, and
//! appends replies. Anything larger than a line is a phase of its own. Therefore every call is short, and no value,
//! list of keys or dump needs a buffer of its size: an incomplete value is read from the socket straight into the
//! arena.
//!
//! Complete requests in the input are parsed a few at a time. Each key is hashed once, the lookups of all of them are
//! prefetched, and then the requests run in order (`batch`).
//!
//! In the binary dialect a command is a head with its extras and one key, so there is no phase `Keys`.
//!
//! Invariants: replies are in the order of requests, however the input is split. A call ends with [`Next::Yield`] when
//! the request budget is used up or the output is full. Dropping a session releases everything it holds.

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
