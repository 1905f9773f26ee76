//! Checks of the source tree that the compiler does not make: which module may use which, the number of lines of the
//! product, the functions that a request passes through, banned phrases, and links in Markdown files.
//!
//! ```text
//!   command
//!   layers  files_touched  paths  lines  phrases  links
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
