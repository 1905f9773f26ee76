//! TLS over real sockets: a server process, clients that use rustls, and certificates that each test makes.
//!
//! The replies must be the same as without TLS, however the bytes are split. The server must use bounded memory.
//! Clients without a valid certificate must be refused, and clients that misbehave must not affect other clients.

mod admission;
mod fixture;
mod misbehaviour;
mod refresh;
mod round_trips;
mod uploads;
