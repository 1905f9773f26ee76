//! Servers as processes, and a client that reads what they answer: what the tests over a real
//! socket share.
//!
//! The server under test is slabwise as Cargo built it. The environment variable `TEST_SERVER`
//! names another command (`TEST_SERVER=memcached`), which must take memcached's flags: the tests
//! were written against memcached that way, and can be checked against it again.

#![allow(dead_code, unused_imports, reason = "each test target uses its own part")]

mod client;
pub mod moves;
mod server;
mod wait;

pub use client::Client;
pub use server::{Server, ServerCommand, new_port_file, read_port};
pub use wait::{Deadline, pause, wait_until};
