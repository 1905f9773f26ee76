//! Live servers: processes that experiments and the demo drive by the wire.

mod server;

pub use server::{Allocation, Server, ServerError, open};
