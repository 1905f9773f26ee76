//! Watchers: connections that receive a line for each event of the kinds that they requested.
//!
//! An *event site* is a place in the code at which an event occurs, such as the end of a get.
//!
//! ```text
//!   an event site, in any thread         WatchLog, with its lock       the watcher's worker
//!
//!   is_watched? -----> write(event) ---> number, time, line ---> buffer --take--> out --> socket
//!    one load              |             for each watcher that               ^
//!                          |             requested the kind                  |
//!                          '--> deliver(), before the thread waits: wakes the worker
//! ```
//!
//! Invariants:
//! - UNWATCHED: while no watcher has requested the kind of an event, its event site only does one relaxed load and a
//!   branch.
//! - BOUNDED: a watcher's buffer has at most `-o watcher_logbuf_size` bytes. The worker takes the buffer only after the
//!   socket has accepted all lines that the worker took before. A watcher that does not read therefore uses the memory
//!   of at most three such buffers: the buffer in the log, the empty buffer with which the worker replaces it, and the
//!   output that is not sent. No thread waits for the watcher.
//! - COUNTED: a line that does not fit into the buffer is dropped, and so is every later line until the worker takes
//!   the buffer. The watcher then receives the line `skipped=` with the number of dropped lines.
//! - IN-ORDER: an event gets its number and is written to the buffers under the same lock, so every watcher receives
//!   increasing numbers.
//! - LAST-LOCK: a thread may take the log's lock while it holds any other lock, and takes no other lock while it holds
//!   the log's lock. [`WatchLog::write`] makes no system call, because the mover holds its own lock while it writes
//!   evictions. A thread that may have written events calls [`WatchLog::deliver`] before it waits.
//! - ONE-WAKE: only a line that is written to an empty buffer causes a wake of the worker.

mod event;
mod log;

pub use event::{CloseReason, WatchEvent};
pub(crate) use log::WATCHERS_MAX;
pub use log::{WatchCounts, WatchLog, Watcher};
