//! Parses the command line, and the file of `-o conf_file`. clap splits the arguments into options and values, as getopt
//! does. The option tables define what the options mean.

use super::conf_file::{self, Content, Line};
use super::draft::Draft;
use super::help;
use super::option::ValueKind;
use super::paths::absolute;
use super::resolve::resolve;
use super::settings::Settings;
use super::source::{GivenOptions, Source};
use super::table::{self, EXTENDED, FLAGS, MISSING, TLS_PREFIX};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command};
use slabwise_engine::Engine;
use std::ffi::OsString;
use std::path::Path;

/// The action that a command line requests.
#[derive(Debug)]
pub enum Request {
    /// Print each warning as a line on stderr, and start the server.
    Serve { settings: Box<Settings>, warnings: Vec<String> },
    /// Print this text on stdout, and exit.
    Print(String),
}

/// Parses a command line, which does not include the program's name. An error is one line that names the remedy.
/// `processors` is the number of processors that the server may use.
pub fn parse(
    args: impl IntoIterator<Item = OsString>,
    processors: usize,
) -> Result<Request, String> {
    let command_line: Vec<OsString> = args.into_iter().collect();
    let matches = split(command_line.iter().cloned())?;
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
    let file = conf_file::named_in(values(&matches, EXTENDED));
    let conf_file = file.map(absolute).transpose()?;
    let source = Source { command_line, conf_file, ..Source::without_options(processors) };
    let (settings, warnings) = resolve(draft(source, &matches)?)?;
    Ok(Request::Serve { settings: Box::new(settings), warnings })
}

/// The options that SIGHUP changes, and all options to compare them with those of the last read.
#[derive(Debug)]
pub struct Reread {
    /// The value of `-m`, or its default.
    pub memory_limit_mib: u32,
    pub options: GivenOptions,
}

/// Reads the file of `-o conf_file` again and applies the command line to it. The file may have changed.
pub fn reread(source: &Source) -> Result<Reread, String> {
    let matches = split(source.command_line.iter().cloned())?;
    let source = Source { options: GivenOptions::default(), ..source.clone() };
    let Draft { settings, given, .. } = draft(source, &matches)?;
    let default_mib = (settings.engine.memory_limit_bytes >> 20) as u32;
    Ok(Reread {
        memory_limit_mib: given.memory_limit_mib.unwrap_or(default_mib),
        options: settings.source.options,
    })
}

/// Returns the settings with the page size of a cache with this layout ([`Engine::layout`]), which stands in for a missing
/// `-o page_size`. Returns `None` if this does not make the settings those of the layout.
pub fn with_page_size_of(settings: &Settings, layout: &str) -> Option<Settings> {
    if Engine::has_layout(layout, &settings.engine) {
        return None;
    }
    let page_size_bytes = Engine::layout_page_size_bytes(layout)?;
    let source = Source { options: GivenOptions::default(), ..settings.source.clone() };
    let matches = split(source.command_line.iter().cloned()).ok()?;
    let mut draft = draft(source, &matches).ok()?;
    if draft.given.page_size_bytes.is_some() {
        return None;
    }
    draft.given.page_size_bytes = Some(page_size_bytes as i64);
    // The warnings were reported when the settings were derived first.
    let (settings, _) = resolve(draft).ok()?;
    Engine::has_layout(layout, &settings.engine).then_some(settings)
}

/// Sets the options of the file, and then those of the command line, so that the command line replaces values of the file.
fn draft(source: Source, command_line: &ArgMatches) -> Result<Draft, String> {
    let file = source.conf_file.clone();
    let mut draft = Draft::default();
    draft.settings.source = source;
    if let Some(path) = file {
        apply_file(&mut draft, &path)?;
        // The addresses of all `-l` of one source add up, but those of the command line replace those of the file.
        if command_line.value_source("listen").is_some() {
            draft.settings.interfaces.clear();
        }
    }
    apply(&mut draft, command_line)?;
    warn_of_operands(&mut draft, command_line);
    Ok(draft)
}

/// Splits arguments into options and their values.
fn split(args: impl IntoIterator<Item = OsString>) -> Result<ArgMatches, String> {
    command().try_get_matches_from(args).map_err(|error| usage_error(&error))
}

/// Sets the options of the file of `-o conf_file`.
fn apply_file(draft: &mut Draft, path: &Path) -> Result<(), String> {
    for Line { place, content } in conf_file::read(path)? {
        let at_place = |reason: String| format!("{place}: {reason}");
        let options = match content {
            Content::Options(options) => options,
            Content::WithoutEffect(reason) => {
                draft.warn(at_place(reason));
                continue;
            }
        };
        let mut matches = split(options).map_err(at_place)?;
        if conf_file::named_in(values(&matches, EXTENDED)).is_some() {
            let reason = "-o conf_file cannot be in a file: give it on the command line";
            return Err(at_place(reason.to_owned()));
        }
        for row in FLAGS.iter().filter(|row| conf_file::ignores(row.name)) {
            matches.remove_many::<String>(row.name);
        }
        let warnings_before = draft.warnings.len();
        apply(draft, &matches).map_err(at_place)?;
        warn_of_operands(draft, &matches);
        for warning in &mut draft.warnings[warnings_before..] {
            *warning = format!("{place}: {warning}");
        }
    }
    Ok(())
}

fn warn_of_operands(draft: &mut Draft, matches: &ArgMatches) {
    for operand in values(matches, OPERANDS) {
        draft.warn(format!("'{operand}' is not an option and has no effect: leave it out"));
    }
}

/// Sets the options of a command line or of a line of a file, in the order of the table of flags.
fn apply(draft: &mut Draft, matches: &ArgMatches) -> Result<(), String> {
    for row in FLAGS {
        for text in values(matches, row.name) {
            if row.name == EXTENDED {
                apply_extended(draft, text)?;
            } else {
                let given = row.given_name();
                draft.settings.source.options.add(&given, text);
                row.apply(draft, &given, Some(text))?;
            }
        }
    }
    Ok(())
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
        draft.settings.source.options.add(&given, text.unwrap_or_default());
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
