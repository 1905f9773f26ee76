//! TLS over real sockets: a server as a process, rustls's client, certificates made for each test.
//!
//! What is asked of the server: the same replies as without TLS however the bytes are cut, in memory
//! that a client cannot raise; nobody let in who should not be; and whoever misbehaves harms nobody
//! else.

mod admission;
mod misbehaviour;
mod refresh;
mod round_trips;
mod scene;
