//! Servers that are confined (`-o drop_privileges`): what an attacker attempts fails, and what the server needs works.
//!
//! `./test` also runs all other suites against a confined server, by `TEST_SERVER`.

mod attempts;
mod features;
mod kernels;
mod logged_server;
