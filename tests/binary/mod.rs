//! The binary protocol over a real socket. The same packets go to slabwise and to the machine's
//! memcached, and what comes back is compared byte by byte; only CAS values are compared by which of
//! them are equal, as each server counts its own.
//!
//! Where slabwise answers otherwise on purpose, the dialogue says why where it does. Random packets are
//! drawn from `BINARY_SEED`, which a failure prints.

mod dialogues;
mod narration;
mod packet;
mod peer;
mod random;
mod sasl;
mod stats;
