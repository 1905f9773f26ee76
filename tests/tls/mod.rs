//! TLS over real sockets: a server process, clients that use rustls, and certificates that each test makes.
//!
//! The replies must be the same as without TLS, however the bytes are split. The server must use bounded memory.
//! Clients without a valid certificate must be refused, and clients that misbehave must not affect other clients.

mod admission;
mod client_certificates;
mod clients;
mod fixture;
mod handshakes;
mod ipv6;
mod key_updates;
mod misbehaviour;
mod openssl;
mod raw_client;
mod refresh;
mod renegotiation;
mod round_trips;
mod server_names;
mod uploads;
