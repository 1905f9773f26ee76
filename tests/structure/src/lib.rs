//! Checks of the source tree that a compiler does not make: which module may use which, how many lines the
//! product has, and which files a request enters.
//!
//! ```text
//!   command
//!   layers  files_touched  paths  lines
//!   folders
//!   references  graph
//!   source
//!   test_code
//! ```
#![forbid(unsafe_code)]

pub mod folders;
pub mod graph;
pub mod layers;
pub mod lines;
pub mod paths;
pub mod references;
pub mod source;
pub mod test_code;
