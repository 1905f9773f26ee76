//! UDP over a real socket: requests, replies, and datagrams that get no reply.
//!
//! The server is slabwise, or the command in `TEST_SERVER`. The module `peers` also sends the same datagrams to the
//! installed memcached and compares the replies.

mod client;
mod hostile;
mod peers;
mod round_trip;
