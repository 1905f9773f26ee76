//! Checks the structure of the source tree, and tests the checker itself on small crates.
#![forbid(unsafe_code)]

mod fake_crate;
mod lines;
mod links;
mod names;
mod paths;
mod phrases;
mod tree;
mod violations;
