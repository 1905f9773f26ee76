//! The binary protocol over a real socket. Each test sends the same packets to slabwise and to the installed
//! memcached and compares the replies byte by byte. CAS values differ between servers, so only their order of first
//! appearance is compared.
//!
//! Where slabwise differs on purpose, a comment at that step gives the reason. Random packets come from
//! `BINARY_SEED`, which a failed test prints.

mod dialogues;
mod narration;
mod packet;
mod peer;
mod random;
mod sasl;
mod stats;
