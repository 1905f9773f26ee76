//! Watchers: connections that receive a line for each event of the kinds they requested.
//!
//! ```text
//!   an event site, on any thread         WatchLog, one lock            the watcher's worker
//!
//!   is_watched? -----> write(event) ---> number, time, line ---> buffer --take--> out --> socket
//!    one load              |             for each watcher that     |  ^
//!                          |             requested the kind        |  |
//!                          '--> deliver(), before the thread waits: wakes the worker
//! ```
//!
//! Invariants:
//! - UNWATCHED: an event site costs one relaxed load and a branch while no watcher requested its kind.
//! - BOUNDED: a watcher's buffer holds at most `-o watcher_logbuf_size`. The worker takes the buffer only after the
//!   socket accepted everything taken before. A watcher that does not read therefore uses at most three such buffers
//!   (the log's, the one it is exchanged with, and the unsent output), and no thread waits for it.
//! - COUNTED: a line that does not fit is dropped, and so are all later lines until the buffer is taken. In their
//!   place the watcher reads `skipped=` and their number.
//! - IN-ORDER: number and line are assigned under one lock, so every watcher reads increasing numbers.
//! - LAST-LOCK: the log's lock may be taken under any other lock, and no lock is taken under it. `write` and code
//!   under the lock make no system call, because an eviction is written under the mover's lock. A thread that may
//!   have written calls `deliver` before it waits.
//! - ONE-WAKE: a worker is woken when an empty buffer receives a line, not for each line.
//!
//! Callers: event sites, through the hooks of `ops`; the watching session; and for `deliver` the threads' main loops.

mod event;
mod log;

pub use event::{CloseReason, WatchEvent};
pub use log::{WatchCounts, WatchLog, Watcher};
