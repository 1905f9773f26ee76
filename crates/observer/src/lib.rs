//! Observes a running memcached from outside, over its protocol.
//!
//! [`settings`] and [`counters`] read the statistics of the server. Neither changes anything in it.
#![forbid(unsafe_code)]

pub mod counters;
mod error;
pub mod settings;

pub use error::ObserverError;
