//! UDP over a real socket: what is asked in a datagram, what comes back, and what is not answered at all.
//!
//! The server is slabwise, or what `TEST_SERVER` names; `peers` runs the same dialogues against Debian's
//! memcached, too, and compares.

mod client;
mod hostile;
mod peers;
mod round_trip;
