//! Checks of the source tree that the compiler does not make: which module may use which, the number of lines of the
//! product, and the functions that a request passes through.
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
