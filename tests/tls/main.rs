//! TLS over real sockets: a server as a process, rustls's client, certificates made for each test.
//!
//! What is asked of the server: the same replies as without TLS however the bytes are cut, in memory
//! that a client cannot raise; nobody let in who should not be; and whoever misbehaves harms nobody
//! else.

mod admission;
#[path = "../support/certificates.rs"]
mod certificates;
mod misbehaviour;
mod refresh;
mod round_trips;
mod scene;
#[path = "../support/stream_client.rs"]
mod stream_client;
#[path = "../support/mod.rs"]
mod support;
