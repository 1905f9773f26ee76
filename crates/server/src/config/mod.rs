//! The server's options and settings: memcached's command line, and ours beside it in `-o`.
//!
//! ```text
//!   argv --parse--> row of a table --set--> Draft --resolve--> Settings ----.
//!                                                                           |
//!   stats settings <--report-- row of a table <--- Running <----------------+---- Tunables <--- commands
//! ```
//!
//! An option is one row ([`table`]): its names, what it takes, its help, how it is set, how `stats settings` shows
//! it, and the command that changes it while the server runs. Parsing, the help, error texts and `stats settings`
//! follow from the rows. A row sets a field of [`Settings`], or one of `Given` if a setting is derived from
//! several options; [`resolve`] derives those and refuses what cannot go together.
//!
//! Invariants: an unknown name or a bad value stops the start with one line that names what is allowed; an
//! option that makes no sense here says so and is otherwise ignored; one that promises protection that
//! is not built stops the start, as to ignore it in silence would be a lie.

mod engine;
mod help;
mod listen;
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
