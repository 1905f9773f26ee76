//! Helpers that the test suites share: server processes, clients, certificates, page moves and waiting.

pub mod certificates;
mod client;
pub mod moves;
pub mod record_writer;
pub mod refused_calls;
mod server;
pub mod stream_client;
mod wait;

pub use client::Client;
pub use server::{
    Server, ServerCommand, built_slabwise, is_memcached, stock_memcached, under_test,
};
pub use wait::{Deadline, pause, wait_until};
