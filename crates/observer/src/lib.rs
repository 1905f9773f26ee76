//! Observes a running memcached from outside, over its protocol.
//!
//! [`traffic`] estimates the miss-ratio curve of each class from the lines of `watch`.
#![forbid(unsafe_code)]

pub mod traffic;
