//! What a worker needs from the kernel: readiness of sockets, received bytes, and sent bytes.
//!
//! ```text
//!   Worker<L> --wait--> L: EventLoop --ready--> rounds of connections --receive, send--> L --await_next--> L
//!                       |
//!                       |-- Epoll: one system call to wait, one for each receive and each send
//!                       '-- Uring: one system call for an iteration of the worker's loop
//! ```
//!
//! A worker is compiled once for each implementation, so the choice costs nothing per request.
//!
//! The contract of [`EventLoop`]:
//! - An event is a hint. A connection that is served without need receives and sends nothing.
//! - A connection calls [`EventLoop::receive`] only after an event for its socket, or if the last call reported more input. If
//!   the call reports no more input, the connection calls [`EventLoop::await_next`], and the next input causes an event.
//! - Sent bytes are *accepted*: the implementation sends them in order, at the latest in the next [`EventLoop::wait`]. If the
//!   socket then takes only a part of them, the implementation keeps the rest, and reports [`Ready::is_blocked`]. It
//!   accepts nothing more before the rest is sent. So for each socket it keeps at most the bytes of one send.
//! - The worker calls [`EventLoop::remove`] before it closes a socket, and never uses the socket afterwards. Later waits
//!   report no event of a removed socket, even if a new socket gets its slot.
//!
//! UDP sockets only need events: the worker receives and sends their datagrams by system calls.

mod contract;
mod epoll;
#[cfg(test)]
mod tests;
mod uring;

pub(super) use contract::{Await, EventLoop, Ready, Socket, SocketSink, Source};
pub(super) use epoll::Epoll;
pub(super) use uring::Uring;
