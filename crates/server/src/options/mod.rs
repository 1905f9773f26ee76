//! memcached's command line, and ours beside it in `-o`.
//!
//! ```text
//!   argv --clap--> (option, text) --Kind--> Value --apply--> Raw --validate--> Settings
//!                       ^                     ^               ^
//!                  table of options: name, kind with unit and range, default, help
//! ```
//!
//! Two tables ([`flags`] and [`extended`]) are the only places that know an option's name; parsing, help
//! and error texts follow from them. `Raw` holds what was said, [`Settings`] what follows from it.
//!
//! Laws: an unknown name or a bad value stops the start with one line that names what is allowed; an
//! option that makes no sense here says so and is otherwise ignored; one that promises protection which
//! is not built stops the start, as ignoring it in silence would be a lie.

mod command_line;
mod engine;
mod extended;
mod flags;
mod help;
mod kind;
mod listen;
mod ours;
mod policy;
mod ranking;
mod raw;
mod tls;
mod validate;

#[cfg(test)]
mod tests;

use crate::settings::Settings;
use std::ffi::OsString;
use std::fmt;

/// What a command line asks for.
#[derive(Debug)]
pub enum Request {
    /// Serve, after printing these warnings.
    Serve {
        /// The options, checked.
        settings: Box<Settings>,
        /// What to say on stderr first, a line each.
        warnings: Vec<String>,
    },
    /// Print this and end.
    Print(String),
}

/// Why a command line is refused: one line that says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionsError(pub(crate) String);

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OptionsError {}

/// Reads a command line, the program's name not included.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Request, OptionsError> {
    let raw = match command_line::read(args)? {
        command_line::Read::Print(text) => return Ok(Request::Print(text)),
        command_line::Read::Options(raw) => raw,
    };
    let (settings, warnings) = validate::validate(*raw)?;
    Ok(Request::Serve { settings: Box::new(settings), warnings })
}

/// The settings of a command line without options.
pub fn defaults() -> Settings {
    let (settings, _) = validate::validate(raw::Raw::default()).expect("the defaults go together");
    settings
}

/// The name among `known` that `unknown` was probably meant to be.
fn nearest<'a>(unknown: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|name| (strsim::jaro_winkler(unknown, name), name))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}
