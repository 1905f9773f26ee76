//! Parses the command line. clap splits the arguments into options and values, as getopt does. The option tables define
//! what the options mean.

use super::help;
use super::option::ValueKind;
use super::resolve::resolve;
use super::settings::{Draft, Settings};
use super::table::{self, EXTENDED, FLAGS, MISSING, TLS_PREFIX};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::ffi::OsString;

/// The action that a command line requests.
#[derive(Debug)]
pub enum Request {
    /// Print each warning as a line on stderr, and start the server.
    Serve { settings: Box<Settings>, warnings: Vec<String> },
    /// Print this text on stdout, and exit.
    Print(String),
}

/// Parses a command line, which does not include the program's name. An error is one line that names the remedy.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Request, String> {
    let matches = command().try_get_matches_from(args).map_err(|error| usage_error(&error))?;
    if let Some(topic) = values(&matches, table::HELP).last() {
        return help::text(topic).map(Request::Print);
    }
    for (name, text) in
        [(table::LICENSE, help::license as fn() -> String), (table::VERSION, help::version)]
    {
        if matches.contains_id(name) {
            return Ok(Request::Print(text()));
        }
    }
    let mut draft = Draft::default();
    for row in FLAGS {
        for text in values(&matches, row.name) {
            if row.name == EXTENDED {
                apply_extended(&mut draft, text)?;
            } else {
                let given =
                    row.short.map_or_else(|| row.name.to_owned(), |short| format!("-{short}"));
                row.apply(&mut draft, &given, Some(text))?;
            }
        }
    }
    for operand in values(&matches, OPERANDS) {
        draft.warn(format!("'{operand}' is not an option and has no effect: leave it out"));
    }
    let (settings, warnings) = resolve(draft)?;
    Ok(Request::Serve { settings: Box::new(settings), warnings })
}

/// clap's name for the arguments that are not options. memcached also ignores them.
const OPERANDS: &str = "operands";

/// Returns clap's description of the command line, made from the table of flags.
fn command() -> Command {
    let mut command = Command::new("slabwise")
        .no_binary_name(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .infer_long_args(true);
    for row in FLAGS {
        let mut arg = Arg::new(row.name).long(row.name).action(ArgAction::Append);
        if let Some(short) = row.short {
            arg = arg.short(short);
        }
        arg = match row.takes {
            // memcached accepts `--verbose=1` and ignores the value.
            ValueKind::Nothing(_) => {
                arg.num_args(0..=1).require_equals(true).default_missing_value("")
            }
            _ => arg.num_args(1).allow_hyphen_values(true),
        };
        command = command.arg(arg);
    }
    command.arg(Arg::new(OPERANDS).num_args(0..).action(ArgAction::Append))
}

/// Returns all values of a flag, in the order of the command line.
fn values<'a>(matches: &'a ArgMatches, name: &str) -> impl Iterator<Item = &'a str> {
    let texts = matches.get_many::<String>(name).into_iter().flatten();
    texts.map(|text| text.trim_start())
}

/// Sets the options in a value of `-o`, which has the form `name=value,name,...`.
fn apply_extended(draft: &mut Draft, list: &str) -> Result<(), String> {
    for element in list.split(',').filter(|element| !element.is_empty()) {
        let (name, text) = match element.split_once('=') {
            Some((name, text)) => (name, Some(text)),
            None => (element, None),
        };
        let given = format!("-o {name}");
        if let Some(row) = table::extended().find(|row| row.name == name) {
            if name.starts_with(TLS_PREFIX) {
                draft.given.tls_names.push(row.name);
            }
            row.apply(draft, &given, text)?;
            continue;
        }
        match MISSING.iter().find(|feature| feature.names().any(|it| it == name)) {
            Some(feature) if feature.is_error => {
                return Err(format!("{given}: {}", feature.reason));
            }
            Some(feature) => draft.warn(format!("{given} has no effect: {}", feature.reason)),
            None => return Err(unknown_option(&given, nearest(name, table::extended_names()))),
        }
    }
    Ok(())
}

/// Returns the error for an unknown option. `similar` is the name of a similar option.
fn unknown_option(given: &str, similar: Option<&str>) -> String {
    let hint = match similar {
        Some(similar) => format!("did you mean '{similar}'? (see --help=all)"),
        None => "see --help=all".to_owned(),
    };
    format!("{given}: unknown option; {hint}")
}

/// Converts an error of clap to one line.
fn usage_error(error: &clap::Error) -> String {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let given = context(ContextKind::InvalidArg);
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let name = given.trim_start_matches('-');
            let long =
                given.starts_with("--").then(|| nearest(name, FLAGS.iter().map(|row| row.name)));
            let similar = long.flatten().map(|name| format!("--{name}"));
            unknown_option(given, similar.as_deref())
        }
        ErrorKind::InvalidUtf8 => "an argument is not valid UTF-8: correct its encoding".to_owned(),
        _ => {
            let row = FLAGS.iter().find(|row| given.starts_with(&format!("--{}", row.name)));
            let takes = row.map(|row| row.takes.describe()).unwrap_or_default();
            format!("{given}: needs {takes}")
        }
    }
}

/// Returns the name in `known` that is most similar to `unknown`, or `None` if no name is similar.
fn nearest<'a>(unknown: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|name| (strsim::jaro_winkler(unknown, name), name))
        .filter(|(similarity, _)| *similarity > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}
