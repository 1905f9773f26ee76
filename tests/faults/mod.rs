//! Clients that misbehave over real sockets. Meanwhile the server must serve other clients. After the misbehaviour the
//! server may hold more memory than before only for items (up to `-m`) and a fixed amount for buffers. It may hold only
//! a few descriptors more than before.
//!
//! The server is slabwise, or the command in the environment variable `TEST_SERVER`. Random input is generated from a
//! seed, which a failed test prints. The environment variable `FAULT_SEED` sets the seed.

mod binary_protocol;
mod bytes;
mod connections;
mod fixture;
mod memory;
mod moves;
mod partial_uploads;
mod pipelines;
mod readers;
mod secrets;
mod slow_readers;
mod termination;
mod uploads;
mod waiting_gets;
mod waiting_uploads;
