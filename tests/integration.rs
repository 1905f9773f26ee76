//! End-to-end tests: the command and the server run as processes, and clients connect over real sockets. All suites
//! share one binary, so it is built and linked once. `cargo test --test integration faults::` runs one suite.
//!
//! By default the server under test is the slabwise that Cargo built. The environment variable `TEST_SERVER` names
//! another command (`TEST_SERVER=memcached`), which must accept memcached's flags. The tests were first written
//! against memcached, and this repeats that check.

mod binary;
mod classes;
mod demo;
mod faults;
mod restart;
mod support;
mod tls;
mod transcripts;
mod udp;
