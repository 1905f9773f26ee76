//! The texts of `-h`, `--help=TOPIC`, `-i` and `-V`. The help is generated from the option tables. Scripts, such as
//! memcached's own tests, search the output of `-h` for the features of a server: it contains `enable-sasl`,
//! `enable-ssl` and `unix-socket`, and it does not name missing features.

use super::man;
use super::option::ServerOption;
use super::table::{self, COMMANDS, FLAGS, SECTIONS};
use slabwise_policy::PagePolicy;
use std::fmt::Write;

const MEMCACHED_VERSION: &str = "1.6.45";
const HELP_COLUMN: usize = 32;

pub(super) fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!("slabwise {version} (accepts the options of memcached {MEMCACHED_VERSION})\n")
}

pub(super) fn license() -> String {
    version()
        + "Licensed under the Apache License, Version 2.0:\n\
           <https://www.apache.org/licenses/LICENSE-2.0>\n"
}

/// Returns the text of `--help=TOPIC`; the topic of `-h` is empty.
pub(super) fn text(topic: &str) -> Result<String, String> {
    match topic {
        "" => Ok(short()),
        "policies" => Ok(policies()),
        "all" => Ok(all()),
        "man" => Ok(man::page()),
        _ => Err(format!("--help: takes policies, all, man or no value, not '{topic}'")),
    }
}

/// Returns the help with the options that operators use most. It fits on two screens.
fn short() -> String {
    let mut text = usage();
    for row in FLAGS.iter().filter(|row| row.is_daily) {
        short_line(&mut text, &flag_names(row), row);
    }
    text += "\n-o: frequently used options\n";
    for row in table::extended().filter(|row| row.is_daily) {
        short_line(&mut text, &format!("  {}", row.name), row);
    }
    text + "\nMore: --help=policies (page policies), --help=all (all options), --help=man (a manual page)\n"
}

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

fn policies() -> String {
    let mut text = "-o page_policy=: page policies and their options (default):\n".to_owned();
    for name in PagePolicy::NAMES {
        let _ = writeln!(text, "  {name}");
        for info in PagePolicy::options(name).unwrap_or_default() {
            let left = format!("    :{}={}", info.name, info.default);
            let _ = writeln!(text, "{left:<HELP_COLUMN$} {} ({})", info.help, info.values);
        }
    }
    text
}

fn usage() -> String {
    let mut text = version() + "\n";
    let mut label = "Usage:";
    for (usage, description) in COMMANDS {
        let _ = writeln!(text, "{label:6} {usage:HELP_COLUMN$} {description}");
        label = "";
    }
    text + "\n"
}

fn flag_names(row: &ServerOption) -> String {
    let short = row.short.map_or_else(|| "    ".to_owned(), |short| format!("-{short}, "));
    format!("{short}--{}", row.name)
}

fn short_line(text: &mut String, names: &str, row: &ServerOption) {
    line(text, names, row, first_clause(&row.description()), first_clause(row.default));
}

fn first_clause(text: &str) -> &str {
    text.split_once(';').map_or(text, |(first, _)| first)
}

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
