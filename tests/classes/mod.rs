//! `slabwise classes --from-server` and `--from-histogram`: advice on chunk sizes. Most tests start a second server
//! with the advised sizes, and compare the predicted number of pages with `stats slabs`.
//!
//! A test that needs memcached is skipped if memcached is not installed.

mod advice;
mod bad_input;
mod items;
mod real_servers;
