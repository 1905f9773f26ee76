//! The texts of `-h`, `--help=TOPIC`, `-i` and `-V`. The help is generated from the option tables.
//!
//! Scripts, such as memcached's own tests, search the output of `-h` for options to find out which features a server
//! has. The short help therefore contains `enable-sasl`, `enable-ssl` and `unix-socket`, and no option of a feature
//! that slabwise lacks.

use super::man;
use super::option::ServerOption;
use super::table::{self, COMMANDS, FLAGS, SECTIONS};
use slabwise_policy::PagePolicy;
use std::fmt::Write;

/// The version of memcached whose options slabwise accepts.
const MEMCACHED_VERSION: &str = "1.6.45";
/// The column of the help in which descriptions start, counted from 0.
const HELP_COLUMN: usize = 32;

/// Returns the text of `-V`.
pub(super) fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!("slabwise {version} (accepts the options of memcached {MEMCACHED_VERSION})\n")
}

/// Returns the text of `-i`.
pub(super) fn license() -> String {
    version()
        + "Licensed under the Apache License, Version 2.0:\n\
           <https://www.apache.org/licenses/LICENSE-2.0>\n"
}

/// Returns the text of `--help=TOPIC`. The topic of `-h` and of `--help` without a value is empty.
pub(super) fn text(topic: &str) -> Result<String, String> {
    match topic {
        "" => Ok(short()),
        "policies" => Ok(policies()),
        "all" => Ok(all()),
        "man" => Ok(man::page()),
        _ => Err(format!(
            "unknown topic --help='{topic}': give --help, --help=policies, --help=all or --help=man"
        )),
    }
}

/// Returns the help with the options that operators use most. The text fits on two screens of 24 lines.
fn short() -> String {
    let mut text = version() + "\n";
    let names: Vec<&str> = COMMANDS.iter().filter_map(|(usage, _)| command(usage)).collect();
    usage_line(&mut text, "Usage:", "slabwise [options]", "start the server");
    usage_line(
        &mut text,
        "",
        "slabwise <command> --help",
        "describe a command (slabwise help: all)",
    );
    let _ = writeln!(text, "{:7}Commands: {}\n", "", names.join(", "));
    for row in FLAGS.iter().filter(|row| row.is_frequent) {
        short_line(&mut text, &flag_names(row), row);
    }
    text += "\n-o: frequently used options\n";
    for row in table::extended().filter(|row| row.is_frequent) {
        short_line(&mut text, &format!("  {}", row.name), row);
    }
    text + "\nMore: --help=policies (page policies), --help=all (all options), --help=man (a manual page)\n"
}

/// Returns the help with all options.
fn all() -> String {
    let mut text = usage();
    for row in FLAGS {
        line(&mut text, &flag_names(row), row, &row.description(), row.default);
    }
    for section in SECTIONS {
        let _ = writeln!(text, "\n{}:", section.title);
        for row in section.rows {
            line(&mut text, &format!("  {}", row.name), row, &row.description(), row.default);
        }
    }
    text + "\n" + &policies()
}

/// Returns the help of the page policies and their options.
fn policies() -> String {
    let mut text = "-o page_policy=NAME[:OPTION=VALUE]...: the page policies, each with its options and their \
                    defaults:\n"
        .to_owned();
    for name in PagePolicy::NAMES {
        let _ = writeln!(text, "  {name}");
        for info in PagePolicy::options(name).unwrap_or_default() {
            let left = format!("    :{}={}", info.name, info.default);
            let _ = writeln!(text, "{left:<HELP_COLUMN$} {} ({})", info.help, info.values);
        }
    }
    text
}

/// Returns the version and the commands of slabwise with their descriptions.
fn usage() -> String {
    let mut text = version() + "\n";
    let mut label = "Usage:";
    for (usage, description) in COMMANDS {
        usage_line(&mut text, label, usage, description);
        label = "";
    }
    text + "\n"
}

fn usage_line(text: &mut String, label: &str, usage: &str, description: &str) {
    let _ = writeln!(text, "{label:6} {usage:HELP_COLUMN$} {description}");
}

/// Returns the name of the command in its usage; `None` for that of the server.
fn command(usage: &str) -> Option<&str> {
    usage.split(' ').nth(1).filter(|name| !name.starts_with('['))
}

/// Returns the short and the long name of a flag as the help shows them.
fn flag_names(row: &ServerOption) -> String {
    let short = row.short.map_or_else(|| "    ".to_owned(), |short| format!("-{short}, "));
    format!("{short}--{}", row.name)
}

/// Appends an option to the short help. The description and the default end at their first semicolons.
fn short_line(text: &mut String, names: &str, row: &ServerOption) {
    line(text, names, row, first_clause(&row.description()), first_clause(row.default));
}

fn first_clause(text: &str) -> &str {
    text.split_once(';').map_or(text, |(first, _)| first)
}

/// Appends an option to the help: its names, value, description and default.
fn line(text: &mut String, names: &str, row: &ServerOption, description: &str, default: &str) {
    let value = row.takes.placeholder().map(|value| format!("={value}")).unwrap_or_default();
    let left = format!("{names}{value}");
    let help = ServerOption::with_default(description, default);
    if left.len() < HELP_COLUMN {
        let _ = writeln!(text, "{left:HELP_COLUMN$}{help}");
    } else {
        let _ = writeln!(text, "{left}\n{:HELP_COLUMN$}{help}", "");
    }
}
