//! What `-h`, `-i` and `-V` print. The help follows from the tables. It names no feature that is not
//! here: scripts, memcached's own tests among them, look in it for what a server can do.

use super::option::ServerOption;
use super::table::{ACTING, FLAGS, OURS, TLS, WITHOUT_EFFECT};
use slabwise_policy::PagePolicy;
use std::fmt::Write;

const MEMCACHED_VERSION: &str = "1.6.45";
const HELP_COLUMN: usize = 32;

/// `-V`.
pub(super) fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!("slabwise {version} (takes the options of memcached {MEMCACHED_VERSION})\n")
}

/// `-i`.
pub(super) fn license() -> String {
    version()
        + "Licensed under the Apache License, Version 2.0:\n\
           <https://www.apache.org/licenses/LICENSE-2.0>\n"
}

/// `-h`.
pub(super) fn help() -> String {
    let mut text = version();
    text += "
Usage: slabwise [options]              serves
       slabwise classes [options]      shows the chunk sizes those options give
       slabwise classes --from-...     advises on chunk sizes; classes --help
       slabwise replay|lab|demo --help  measures servers, reproduces experiments, shows both

";
    for row in FLAGS {
        let short = row.short.map_or_else(|| "    ".to_owned(), |short| format!("-{short}, "));
        line(&mut text, &format!("{short}--"), row);
    }
    section(&mut text, "-o, slabwise's own:", OURS);
    section(&mut text, "-o, memcached's:", ACTING);
    section(&mut text, "-o, memcached's, for TLS (with -Z):", TLS);
    section(&mut text, "-o, memcached's, accepted without effect:", WITHOUT_EFFECT);
    page_policies(&mut text);
    text
}

/// Every page policy with its options, as `-o page_policy` takes them.
fn page_policies(text: &mut String) {
    let _ = writeln!(text, "\n-o page_policy=, and what may stand behind a name, with defaults:");
    for name in PagePolicy::NAMES {
        let _ = writeln!(text, "  {name}");
        for info in PagePolicy::options(name).unwrap_or_default() {
            let left = format!("    :{}={}", info.name, info.default);
            let _ = writeln!(text, "{left:<HELP_COLUMN$} {} ({})", info.help, info.values);
        }
    }
}

fn section(text: &mut String, title: &str, rows: &[ServerOption]) {
    let _ = writeln!(text, "\n{title}");
    for row in rows {
        line(text, "  ", row);
    }
}

fn line(text: &mut String, indent: &str, row: &ServerOption) {
    let value = row.takes.placeholder().map(|value| format!("={value}")).unwrap_or_default();
    let left = format!("{indent}{}{value}", row.name);
    let help = match row.help {
        "" => format!("no effect: {}", row.no_effect),
        help => help.to_owned(),
    };
    let default = match row.default {
        "" => String::new(),
        default => format!(" (default: {default})"),
    };
    if left.len() < HELP_COLUMN {
        let _ = writeln!(text, "{left:HELP_COLUMN$}{help}{default}");
    } else {
        let _ = writeln!(text, "{left}\n{:HELP_COLUMN$}{help}{default}", "");
    }
}
