//! End-to-end tests: servers and commands run as processes, and clients connect over real sockets. All suites share one
//! test binary, so Cargo builds and links only one. `cargo test --test integration faults::` runs one suite.
//!
//! By default the server under test is the slabwise that Cargo built. The environment variable `TEST_SERVER` names
//! another command, which must accept memcached's flags. `TEST_SERVER=memcached` checks the expectations of the tests:
//! they describe memcached's behaviour, except where a test says otherwise.

mod advise;
mod binary;
mod classes;
mod confine;
mod demo;
mod faults;
mod http;
mod policies;
mod restart;
mod service;
mod startup;
mod steer;
mod support;
mod tls;
mod top;
mod transcripts;
mod udp;
mod upgrade;
