//! Observes a running memcached from outside, over its protocol. Nothing in it changes.
//!
//! [`settings`] and [`counters`] read the statistics of the server. [`traffic`] estimates the miss-ratio curve of each class
//! from the lines of `watch`.
#![forbid(unsafe_code)]

pub mod counters;
mod error;
pub mod settings;
pub mod traffic;

pub use error::ObserverError;
