//! slabwise as its users meet it: the command and the server as processes, over real sockets. One binary for all
//! suites, so that it is built and linked once; `cargo test --test integration faults::` runs one of them.
//!
//! The server under test is slabwise as Cargo built it. The environment variable `TEST_SERVER` names another command
//! (`TEST_SERVER=memcached`), which must take memcached's flags: the tests were written against memcached that way,
//! and can be checked against it again.

mod binary;
mod classes;
mod demo;
mod faults;
mod restart;
mod support;
mod tls;
mod transcripts;
mod udp;
