//! From the arguments to what was said: clap takes flags apart as getopt does, the tables say what each
//! one means.

use super::extended;
use super::flags::{self, FLAGS};
use super::help;
use super::kind::OptionRow;
use super::raw::Raw;
use super::{OptionsError, nearest};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::ffi::OsString;

/// What the arguments come to.
pub(super) enum Read {
    Print(String),
    Options(Box<Raw>),
}

/// Reads the arguments, the program's name not included.
pub(super) fn read(args: impl IntoIterator<Item = OsString>) -> Result<Read, OptionsError> {
    let matches = command().try_get_matches_from(args).map_err(|error| refusal(&error))?;
    for (name, text) in [
        (flags::HELP, help::help as fn() -> String),
        (flags::LICENSE, help::license),
        (flags::VERSION, help::version),
    ] {
        if matches.contains_id(name) {
            return Ok(Read::Print(text()));
        }
    }
    let mut raw = Raw::default();
    for row in FLAGS {
        for text in values(&matches, row.name) {
            if row.name == flags::EXTENDED {
                apply_extended(&mut raw, text.unwrap_or_default())?;
            } else {
                let given =
                    row.short.map_or_else(|| row.name.to_owned(), |short| format!("-{short}"));
                apply(&mut raw, row, &given, text)?;
            }
        }
    }
    for operand in values(&matches, OPERANDS).flatten() {
        raw.warn(format!("'{operand}' is no option and has no effect"));
    }
    Ok(Read::Options(Box::new(raw)))
}

/// Arguments that are no options; memcached takes no notice of them.
const OPERANDS: &str = "operands";

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
        arg = match row.kind.placeholder() {
            Some(_) => arg.num_args(1).allow_hyphen_values(true),
            // memcached takes, and ignores, `--verbose=1`.
            None => arg.num_args(0..=1).require_equals(true).default_missing_value(""),
        };
        command = command.arg(arg);
    }
    command.arg(Arg::new(OPERANDS).num_args(0..).action(ArgAction::Append))
}

/// The values that an option was given, in order.
fn values<'a>(matches: &'a ArgMatches, name: &str) -> impl Iterator<Item = Option<&'a str>> {
    let texts = matches.get_many::<String>(name).into_iter().flatten();
    texts.map(|text| Some(text.trim_start()))
}

/// `name=value,name,name=value`.
fn apply_extended(raw: &mut Raw, list: &str) -> Result<(), OptionsError> {
    for element in list.split(',').filter(|element| !element.is_empty()) {
        let (name, text) = match element.split_once('=') {
            Some((name, text)) => (name, Some(text)),
            None => (element, None),
        };
        if let Some(row) = extended::all().find(|row| row.name == name) {
            apply(raw, row, &format!("-o {name}"), text)?;
            continue;
        }
        let not_here = extended::NOT_HERE.iter().find(|feature| feature.names.contains(&name));
        match not_here {
            Some(feature) if feature.stops => {
                return Err(OptionsError(format!("-o {name}: {}", feature.feature)));
            }
            Some(feature) => raw.warn(format!("-o {name} has no effect: {}", feature.feature)),
            None => return Err(unknown(&format!("-o {name}"), nearest(name, extended::names()))),
        }
    }
    Ok(())
}

fn apply(
    raw: &mut Raw,
    row: &OptionRow,
    given: &str,
    text: Option<&str>,
) -> Result<(), OptionsError> {
    row.kind
        .read(text)
        .and_then(|value| (row.apply)(raw, value))
        .map_err(|reason| OptionsError(format!("{given}: {reason}")))
}

fn unknown(given: &str, meant: Option<&str>) -> OptionsError {
    let hint = match meant {
        Some(meant) => format!("did you mean '{meant}'? (--help lists all)"),
        None => "--help lists all".to_owned(),
    };
    OptionsError(format!("{given}: there is no such option; {hint}"))
}

/// clap's error in one line.
fn refusal(error: &clap::Error) -> OptionsError {
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
            let meant = long.flatten().map(|name| format!("--{name}"));
            unknown(given, meant.as_deref())
        }
        ErrorKind::InvalidUtf8 => OptionsError("an argument is not valid UTF-8".to_owned()),
        _ => {
            let row = FLAGS.iter().find(|row| given.starts_with(&format!("--{}", row.name)));
            let takes = row.map(|row| row.kind.describe()).unwrap_or_default();
            OptionsError(format!("{given}: needs {takes}"))
        }
    }
}
