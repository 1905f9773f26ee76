//! TLS over real sockets: a server process, rustls clients, and certificates made for each test.
//!
//! The replies must be the same as without TLS, however the bytes are split, in bounded memory. Clients without a
//! valid certificate must be refused, and clients that misbehave must not affect others.

mod admission;
mod fixture;
mod misbehaviour;
mod refresh;
mod round_trips;
