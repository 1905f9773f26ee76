//! The options of the server and the settings that result from them. The command line is memcached's; slabwise's own
//! options are values of `-o`.
//!
//! ```text
//!   file, argv --parse--> row of a table --set--> Draft --resolve--> Settings ----.
//!                                                                                 |
//!   stats settings <--report-- row of a table <--- Running <----------------------+---- Tunables <--- commands
//! ```
//!
//! Each option is one row of a [`table`]. A row contains the option's names, the type of its value, its help, its
//! setter, its lines of `stats settings`, and the commands that change the option while the server runs. The parser,
//! the help, the errors and `stats settings` use these rows. A setter writes a field of [`Settings`], or a field of
//! `Given` if a setting depends on several options. The function [`resolve`](resolve::resolve) derives such settings
//! from `Given`, and rejects options that conflict.
//!
//! Invariants:
//! - With an unknown option or an invalid value the server does not start. The server prints one line that names the
//!   option, and the allowed values or the remedy.
//! - An option of memcached whose effect slabwise lacks causes a warning.
//! - With an option for memcached's proxy, which slabwise lacks, the server does not start.

mod conf_file;
mod draft;
mod engine;
mod help;
mod http;
mod listen;
mod man;
mod option;
mod parse;
mod paths;
mod policy;
mod report;
mod resolve;
mod settings;
mod source;
mod table;

#[cfg(test)]
mod tests;

/// The exit code if the command line is invalid: `EX_USAGE` of sysexits.h, as in memcached.
pub const EXIT_USAGE: u8 = 64;

pub(crate) use draft::THREADS_DEFAULT_MAX;
pub(crate) use http::HOT_KEYS_MAX;
pub use http::{HttpAddress, HttpSettings};
pub use parse::{Request, parse, reread, with_page_size_of};
#[cfg(test)]
pub use report::changeable;
pub use report::report;
pub use settings::{
    IoChoice, IoKind, Listen, ListenAddress, ListenSecurity, Protocol, Running, Settings, Tunables,
};
pub(crate) use source::GivenOptions;
