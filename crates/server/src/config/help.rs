//! The texts of `-h`, `-i` and `-V`. The help is generated from the option tables. It does not name
//! missing features: scripts, such as memcached's own tests, search it for what a server supports.

use super::option::ServerOption;
use super::table::{ACTING, FLAGS, OURS, TLS, WITHOUT_EFFECT};
use slabwise_engine::EvictionKind;
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

pub(super) fn help() -> String {
    let mut text = version();
    text += "
Usage: slabwise [options]               start the server
       slabwise classes [options]       print the chunk sizes that these options give
       slabwise classes --from-...      recommend chunk sizes (classes --help)
       slabwise replay --help           measure a server with a workload
       slabwise lab --help              reproduce experiments
       slabwise demo --help             compare slabwise with memcached in the terminal

";
    for row in FLAGS {
        let short = row.short.map_or_else(|| "    ".to_owned(), |short| format!("-{short}, "));
        line(&mut text, &format!("{short}--"), row);
    }
    section(&mut text, "-o: slabwise's own options:", OURS);
    section(&mut text, "-o: memcached's options:", ACTING);
    section(&mut text, "-o: memcached's TLS options (with -Z):", TLS);
    section(&mut text, "-o: memcached's options that are accepted without effect:", WITHOUT_EFFECT);
    page_policies(&mut text);
    text
}

fn page_policies(text: &mut String) {
    let _ = writeln!(text, "\n-o page_policy=: page policies and their options (default):");
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
        help => help.replace("{eviction kinds}", &EvictionKind::help()),
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
