//! `slabwise upgrade`: a new process takes over from a running server.

mod daemon;
mod ends;
mod formats;
mod kills;
mod load;
mod refusals;
mod relay;
mod resize;
mod service;
mod setup;
mod sockets;
