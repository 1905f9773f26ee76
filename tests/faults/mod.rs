//! Clients that misbehave, over a real socket. Whatever they send or fail to do, the server goes
//! on serving others, and afterwards holds no more memory and no more descriptors than before.
//!
//! The server is slabwise, or what `TEST_SERVER` names. Random input is drawn from `FAULT_SEED`,
//! which a failure prints.

mod announced;
mod binary_protocol;
mod bytes;
mod connections;
mod memory;
mod moves;
mod readers;
mod scene;
mod termination;
