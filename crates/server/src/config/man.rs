//! The manual page slabwise(1) in the format roff. Its options are generated from the option tables.

use super::option::ServerOption;
use super::table::{COMMANDS, FLAGS, SECTIONS};
use roff::{Inline, Roff, bold, italic, line_break, roman};
use slabwise_policy::PagePolicy;

const DESCRIPTION: &str = "\
    slabwise is a cache server that speaks memcached's protocol and accepts memcached's options. It tunes its memory \
    while it runs: it adjusts the chunk sizes and the number of pages of each class. An option of memcached whose \
    effect slabwise lacks causes a warning. With an unknown option or an invalid value the server does not start.";

/// Each environment variable and its description.
const VARIABLES: &[(&str, &str)] = &[
    (
        "LISTEN_FDS, LISTEN_PID",
        "Sockets that the service manager has opened: sd_listen_fds(3). They replace -l, -p, -s and -U.",
    ),
    ("MEMCACHED_PORT_FILENAME", "File to which the server writes the ports on which it listens."),
    ("MEMCACHED_SASL_PWDB", "File of user:password lines for SASL authentication (-S)."),
    (
        "NOTIFY_SOCKET",
        "Socket of the service manager, which the server notifies when it is ready, reloads files or stops: \
        sd_notify(3).",
    ),
];

/// Each signal and its effect.
const SIGNALS: &[(&str, &str)] = &[
    ("SIGTERM, SIGINT", "Stop the server. The cache is lost."),
    (
        "SIGHUP",
        "Reload the password file (-Y), the TLS certificates (-Z) and the options of -o conf_file, of which a \
        changed -m is applied. If a file is invalid, the old passwords, certificates or options stay active.",
    ),
    (
        "SIGUSR1",
        "Stop the server. With -e the items stay in the memory file, and the next start with the \
        same file is a warm restart.",
    ),
];

/// Each file and its content.
const FILES: &[(&str, &str)] = &[
    (
        "/etc/slabwise.conf, /etc/slabwise/INSTANCE.conf",
        "The files of -o conf_file in the units slabwise.service and slabwise@INSTANCE.service. A line has options \
        as on the command line, quoted as in a shell. A # begins a comment. The options -d, -h, -i and -V have no \
        effect in a file.",
    ),
    (
        "FILE, FILE.meta",
        "With -e FILE: FILE contains the items. After a stop by SIGUSR1 or `shutdown graceful`, \
        FILE.meta contains the other data that a warm restart needs.",
    ),
];

/// Each exit status and its meaning.
const EXIT_STATUS: &[(&str, &str)] = &[
    ("0", "A signal or a command stopped the server, or a text such as the help was printed."),
    ("1", "The server could not start, or it stopped because of an error."),
    ("64", "The command line is not valid."),
];

/// Returns the manual page.
pub(super) fn page() -> String {
    let mut page = Roff::new();
    let source = concat!("slabwise ", env!("CARGO_PKG_VERSION"));
    // In roff two quotation marks are an empty argument, so the page has no date.
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
        "slabwise-classes(1), slabwise-replay(1), slabwise-top(1), slabwise-advise(1), slabwise-steer(1), \
         slabwise-lab(1), slabwise-demo(1), memcached(1)",
    )]);
    page.render()
}

/// Appends the section of the page policies.
fn policies(page: &mut Roff) {
    page.control("SH", ["PAGE POLICIES"]);
    page.text([roman(
        "The values of -o page_policy. Each policy is followed by its options with their defaults.",
    )]);
    for name in PagePolicy::NAMES {
        page.control("SS", [name]);
        for info in PagePolicy::options(name).unwrap_or_default() {
            let left = [bold(format!(":{}", info.name)), roman(format!("={}", info.default))];
            let text = format!("{} ({})", info.help, info.values);
            page.control("TP", []).text(left).text([roman(text)]);
        }
    }
}

/// Appends a section whose entries have a term and a text.
fn entries(page: &mut Roff, title: &str, entries: &[(&str, &str)]) {
    page.control("SH", [title]);
    for &(term, text) in entries {
        page.control("TP", []).text([bold(term)]).text([roman(text)]);
    }
}

/// Appends an option with its names, value, description and default.
fn option(page: &mut Roff, mut names: Vec<Inline>, row: &ServerOption) {
    if let Some(value) = row.takes.placeholder() {
        names.extend([roman("="), italic(value)]);
    }
    let text = ServerOption::with_default(&row.description(), row.default);
    page.control("TP", []).text(names).text([roman(text)]);
}
