//! The server's options and settings: memcached's command line, with slabwise's own options in `-o`.
//!
//! ```text
//!   argv --parse--> row of a table --set--> Draft --resolve--> Settings ----.
//!                                                                           |
//!   stats settings <--report-- row of a table <--- Running <----------------+---- Tunables <--- commands
//! ```
//!
//! An option is one row of a [`table`]: its names, the type of its value, its help, its setter, its line of
//! `stats settings` and the command that changes it while the server runs. Parsing, the help, error texts and
//! `stats settings` are generated from the rows. A row sets a field of [`Settings`], or of `Given` if a setting
//! depends on several options; [`resolve`] derives those settings and rejects options that conflict.
//!
//! Invariants:
//! - An unknown name or an invalid value stops the start with one line that names the allowed values.
//! - An option that has no effect here causes a warning.
//! - An option that requests protection that slabwise does not implement stops the start.

mod engine;
mod help;
mod listen;
mod man;
mod option;
mod parse;
mod policy;
mod report;
mod resolve;
mod settings;
mod table;

#[cfg(test)]
mod tests;

pub use parse::{Request, parse};
#[cfg(test)]
pub use report::changeable;
pub use report::report;
pub use settings::{Listen, ListenAddress, ListenSecurity, Protocol, Running, Settings, Tunables};
