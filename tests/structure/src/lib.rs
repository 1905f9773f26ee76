//! Checks of the source tree that the compiler does not make: the layers of modules and crates, the functions that a
//! request passes through, banned phrases, and links in Markdown files. Also counts the lines of product code.
//!
//! A module uses only modules of the rows below its own row:
//!
//! ```text
//!   main, the tests in tests/check
//!   layers  paths  lines  phrases  links
//!   folders
//!   references  graph
//!   source
//!   test_code  texts
//! ```
#![forbid(unsafe_code)]

pub mod folders;
pub mod graph;
pub mod layers;
pub mod lines;
pub mod links;
pub mod paths;
pub mod phrases;
pub mod references;
pub mod source;
pub mod test_code;
pub mod texts;
