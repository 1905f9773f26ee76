//! The cache server.
#![forbid(unsafe_code)]

pub mod context;
pub mod net;
pub mod out;
pub mod session;
pub mod settings;
pub mod shared;
pub mod stats;
