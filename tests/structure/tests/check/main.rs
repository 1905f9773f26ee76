//! `tree` checks the source tree of this repository. The other modules test the checks on small crates and texts.
#![forbid(unsafe_code)]

mod fake_crate;
mod lines;
mod links;
mod names;
mod paths;
mod phrases;
mod tree;
mod violations;
