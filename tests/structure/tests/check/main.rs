//! The source tree keeps its structure, and the check itself is right on small crates.
#![forbid(unsafe_code)]

mod fake_crate;
mod lines;
mod names;
mod paths;
mod tree;
mod violations;
