//! The binary protocol over real sockets. Most tests send the same packets to slabwise and to the installed memcached,
//! and compare the replies byte by byte. Servers assign different CAS values, so a test compares only the order in
//! which new CAS values appear.
//!
//! A test of an intended difference from memcached has a comment with the reason. Random packets are generated from a
//! seed, which a failed test prints. The environment variable `BINARY_SEED` sets the seed.

mod connected_server;
mod dialogues;
pub mod packet;
mod packet_log;
mod random;
mod sasl;
mod stats;
