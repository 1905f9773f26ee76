//! The protocol state machine of one connection: parses requests, runs operations and appends replies.
//!
//! ```text
//!                 line            keys...
//!     Begin
//!        |  the first byte selects the dialect; with `-Y` the dialect is text, and a login follows
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
//! A session does not read or write sockets. Its caller passes the bytes that arrived; the session reports how many of
//! them it consumed, and appends its replies to an output. Input that is larger than a line has a phase of its own:
//! a list of keys, a value, a dump. Therefore every call is short, and no phase needs a buffer of the size of a value,
//! a list or a dump. The caller reads an incomplete value from the socket directly into the cache's memory.
//!
//! There are two kinds of requests. An *item request* is about at most one item (`items`). A *control request* is about
//! the server or the connection: statistics, administrative commands, authentication (`control`).
//!
//! The session parses up to eight complete item requests ahead. It hashes each key once, prefetches the lookups of all
//! these keys, and then runs the requests in order (`batch`).
//!
//! In the binary dialect a command is a head with its extras and one key, so there is no phase `Keys`.
//!
//! Invariants: replies are in the order of requests, however the input is split. A call ends with [`Next::Yield`] when
//! the output is full, or when the session has served as many requests as its worker allows in one round (the request
//! budget, `WorkerContext::requests_left`). A dropped session releases the unfinished value, dump and watcher that it
//! owns.

mod batch;
mod control;
mod items;
mod phases;
mod retrieval;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use items::{Next, Progress};
pub use phases::Session;
