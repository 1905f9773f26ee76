//! `slabwise classes --from-...` on real servers. Each test takes the advice, starts a second server with it and
//! compares the predicted number of pages with `stats slabs`.
//!
//! Tests that need memcached print a message and return if it is not installed.

mod advice;
mod bad_input;
mod items;
mod real_servers;
