//! `slabwise upgrade`: a new process takes over from a running server.

mod ends;
mod load;
mod refusals;
mod setup;
mod sockets;
