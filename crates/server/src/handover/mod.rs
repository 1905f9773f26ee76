//! The handover of a running server to a new process (`slabwise upgrade`): listening sockets, idle connections, and the
//! memory with all items.
//!
//! The new process is started from outside and connects to the control socket of the running one (`-o upgradable`). The
//! running process executes no program, so its confinement (`-o drop_privileges`) stays complete. Only processes of the
//! same user are answered: the socket has the mode 0600, and the kernel reports the user of the other process.
//!
//! ```text
//!   old process                                             new process
//!   SERVES                          <-- hello ----------    reads its options
//!                                   --- offer --------->    compares versions, formats and settings
//!                                   --- socket ... ---->    matches sockets with its addresses, opens new ones
//!                                   --- memory -------->    maps the arena read-only, commits memory for the index
//!   reserves memory for the state   <-- collect --------
//!   PAUSED: no thread uses an item  --- connections ... ->
//!                                   --- counters ... -->
//!   writes the state                --- state --------->    makes index and queues from the state
//!                                   <-- ready ----------
//!   GONE: uses no item any more     --- take ---------->    SERVES: makes the memory writable, starts its threads
//!   ends                            <-- serving --------
//! ```
//!
//! Everything that takes time in proportion to the memory or to the items happens before `collect`, except the copy of the
//! index, about 10 bytes per item: the old process writes it to the file of the state, and the new one reads it from there
//! (`engine/src/background/restart/image.rs`).
//!
//! Which versions can hand over to each other:
//!
//! | what differs | effect |
//! |---|---|
//! | nothing, or only what follows | the index is handed over |
//! | the format of the index | the new process rebuilds the index from the items during the pause, and logs how long it takes |
//! | the format of the arena | the new process takes sockets and connections over, and starts with an empty cache |
//! | the settings of the layout | refused: the administrator can give the old settings |
//! | no common version of the messages | refused |
//!
//! Invariants:
//!
//! - ONE-SERVES: at every moment at most one process changes the memory or answers clients. The old process may do so
//!   until its call that sends `take` has succeeded, and the new one from then on. While the old process is paused, nobody
//!   does, and requests wait in the sockets.
//! - READ-ONLY-UNTIL-TAKE: the new process maps the memory without the permission to write until it has `take`. So the old
//!   process can continue as if nothing had happened.
//! - NO-EARLY-READ: the new process reads no byte of the memory before `state`. So nothing that it reads can change later.
//! - NO-DESTRUCTORS: after `take` the old process ends without dropping connections and handles, because this would free
//!   chunks in the memory that belongs to the new process. The state names the chunks and pins that they hold, and the new
//!   process frees them.
//! - DETACHED: when a connection is sent, the old process has no request to the kernel that could still receive from it. So
//!   no byte of a request is lost between the two processes.
//! - The listening sockets are open in one of the processes at all times, so the kernel queues new connections and refuses
//!   none.
//!
//! What happens if a process ends, for example by SIGKILL (`tests/upgrade/kills.rs` kills both before every message):
//!
//! | process | when | effect |
//! |---|---|---|
//! | new | before `take` | the channel is closed: the old process ends its pause and serves. So it does if the new process is silent for too long |
//! | new | after `take` | the old process sees that the channel is closed, and ends with exit code 1. The items are lost, and the service manager starts the server again |
//! | old | before `state` | the new process ends with exit code 1, and the service manager starts the server again |
//! | old | from `state` to `take` | the channel is closed without `abort`. The kernel closes it when all threads of the old process have ended, so the new process serves |
//! | old | after `take` | no effect: the new process serves |
//!
//! A process that gives up sends `abort`, so that the other one can distinguish this from its end.

mod counters;
mod dialogue;
mod giver;
mod message;
mod taker;

pub use dialogue::recompose;
pub(crate) use dialogue::send_connections;
pub(crate) use giver::{Giver, duplicates};
pub(crate) use message::SocketKind;
pub(crate) use taker::{MovedConnection, Taker};

/// The help text of `slabwise upgrade`.
pub(crate) const HELP: &str = "\
Usage: slabwise upgrade [options of a server]

Starts a server that takes over from the running one: its listening sockets, its
idle connections and all items. The running server must have been started by the
same user with -o upgradable. Give the same options to the new one.

  slabwise -m 1024 -o upgradable,control=/run/slabwise/control
  slabwise upgrade -m 1024 -o upgradable,control=/run/slabwise/control

With -d, the command ends when the outcome is known. The exit code is 0 if the
new server serves. Otherwise it is 1, and the running server serves on.

  --help   print this text; slabwise --help describes the options
";
