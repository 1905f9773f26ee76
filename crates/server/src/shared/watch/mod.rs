//! Watchers: connections that read what happens, one line an event.
//!
//! ```text
//!   an event site, on any thread         WatchLog, one lock            the watcher's worker
//!
//!   is_watched? -----> write(event) ---> number, time, line ---> buffer --take--> out --> socket
//!    one load              |             for each watcher that     |  ^
//!                          |             asked for the kind        |  |
//!                          '--> deliver(), once the thread's round is over: wakes the worker
//! ```
//!
//! Invariants:
//! - UNWATCHED: a site costs one relaxed load and a branch while nobody asked for its kind.
//! - BOUNDED: a watcher's buffer holds at most `-o watcher_logbuf_size`, and the worker takes it only
//!   when the socket has taken what it took before: a watcher that does not read costs three such
//!   buffers at most (the log's, the one it is exchanged with, and what the socket has not taken), and
//!   nobody waits for it.
//! - COUNTED: a line that finds no room is dropped, and so are those after it until the buffer is taken; at
//!   their place the watcher reads `skipped=` and their number.
//! - IN-ORDER: number and line are given under one lock, so every watcher reads rising numbers.
//! - LAST-LOCK: the log's lock is taken under any other and none under it. No system call is made with
//!   it held, and none in `write`: an eviction is written under the mover's lock. Whoever may have
//!   written calls `deliver` before it waits.
//! - ONE-WAKE: a worker is woken when a buffer that was empty has something, not for each line.
//!
//! Who may call it: event sites, through the hooks of `ops`; the
//! session that watches; drivers of threads, for `deliver`.

mod event;
mod log;

pub use event::{CloseReason, WatchEvent};
pub use log::{WatchCounts, WatchLog, Watcher};
