//! The advisor: recommends how a running memcached or slabwise would use its memory better.
#![forbid(unsafe_code)]

pub mod chunk_sizes;
