//! Clients that misbehave over a real socket. The server must keep serving other clients, and afterwards it must
//! hold no more memory and descriptors than before.
//!
//! The server is slabwise, or the command in `TEST_SERVER`. Random input comes from `FAULT_SEED`, which a failed test
//! prints.

mod binary_protocol;
mod bytes;
mod connections;
mod fixture;
mod memory;
mod moves;
mod partial_uploads;
mod readers;
mod termination;
