//! The manual page slabwise(1) in roff, generated from the option tables.

use super::option::ServerOption;
use super::table::{COMMANDS, FLAGS, SECTIONS};
use roff::{Inline, Roff, bold, italic, line_break, roman};
use slabwise_policy::PagePolicy;

const DESCRIPTION: &str = "\
    slabwise is a cache server that speaks memcached's protocol and accepts memcached's options. It tunes its memory \
    while it runs: chunk sizes, pages per class and eviction. An option without effect causes a warning. An unknown \
    option or an invalid value stops the start.";

const VARIABLES: &[(&str, &str)] = &[
    ("MEMCACHED_PORT_FILENAME", "File to which the server writes the ports on which it listens."),
    ("MEMCACHED_SASL_PWDB", "File of user:password lines for SASL authentication (-S)."),
];

const SIGNALS: &[(&str, &str)] = &[
    ("SIGTERM, SIGINT", "Stop the server."),
    (
        "SIGHUP",
        "Reload the password file (-Y) and the TLS certificates (-Z). If a file cannot be used, \
        the old passwords or certificates stay active.",
    ),
    ("SIGUSR1", "Stop the server and keep the items in the memory file (-e), for a warm restart."),
];

const FILES: &[(&str, &str)] = &[(
    "FILE, FILE.meta",
    "With -e FILE: the item memory, and the data that a warm restart needs beside it.",
)];

const EXIT_STATUS: &[(&str, &str)] = &[
    ("0", "The server was stopped by a signal or a command, or it printed a text."),
    ("1", "The server could not start, or it failed."),
    ("64", "The command line is not valid."),
];

pub(super) fn page() -> String {
    let mut page = Roff::new();
    let source = concat!("slabwise ", env!("CARGO_PKG_VERSION"));
    // Two quotation marks are an empty date.
    page.control("TH", ["SLABWISE", "1", "\"\"", source, "User Commands"]);
    page.control("SH", ["NAME"]);
    page.text([roman(
        "slabwise - cache server with memcached's protocol that tunes its own memory",
    )]);
    page.control("SH", ["SYNOPSIS"]);
    page.text([bold("slabwise"), roman(" [options]"), line_break()]);
    page.text([bold("slabwise "), italic("command"), roman(" [options]")]);
    page.control("SH", ["DESCRIPTION"]).text([roman(DESCRIPTION)]);
    entries(&mut page, "COMMANDS", COMMANDS);
    page.control("SH", ["OPTIONS"]);
    for row in FLAGS {
        let short = row.short.map(|short| [bold(format!("-{short}")), roman(", ")]);
        let mut names: Vec<Inline> = short.into_iter().flatten().collect();
        names.push(bold(format!("--{}", row.name)));
        option(&mut page, names, row);
    }
    for section in SECTIONS {
        page.control("SS", [section.title]);
        for row in section.rows {
            option(&mut page, vec![bold(row.name)], row);
        }
    }
    policies(&mut page);
    entries(&mut page, "ENVIRONMENT", VARIABLES);
    entries(&mut page, "SIGNALS", SIGNALS);
    entries(&mut page, "FILES", FILES);
    entries(&mut page, "EXIT STATUS", EXIT_STATUS);
    page.control("SH", ["SEE ALSO"]);
    page.text([roman(
        "slabwise-classes(1), slabwise-replay(1), slabwise-lab(1), slabwise-demo(1), memcached(1)",
    )]);
    page.render()
}

fn policies(page: &mut Roff) {
    page.control("SH", ["PAGE POLICIES"]);
    page.text([roman("The values of -o page_policy, each with its options and their defaults.")]);
    for name in PagePolicy::NAMES {
        page.control("SS", [name]);
        for info in PagePolicy::options(name).unwrap_or_default() {
            let left = [bold(format!(":{}", info.name)), roman(format!("={}", info.default))];
            let text = format!("{} ({})", info.help, info.values);
            page.control("TP", []).text(left).text([roman(text)]);
        }
    }
}

fn entries(page: &mut Roff, title: &str, entries: &[(&str, &str)]) {
    page.control("SH", [title]);
    for &(left, text) in entries {
        page.control("TP", []).text([bold(left)]).text([roman(text)]);
    }
}

fn option(page: &mut Roff, mut names: Vec<Inline>, row: &ServerOption) {
    if let Some(value) = row.takes.placeholder() {
        names.extend([roman("="), italic(value)]);
    }
    let text = ServerOption::with_default(&row.description(), row.default);
    page.control("TP", []).text(names).text([roman(text)]);
}
