//! UDP over real sockets: requests, replies, and invalid datagrams, to which the server must not reply.
//!
//! The server is slabwise, or the command in the environment variable `TEST_SERVER`. The module `peers` also sends the
//! same datagrams to the installed memcached, and compares the replies.

mod client;
mod hostile;
mod peers;
mod round_trip;
