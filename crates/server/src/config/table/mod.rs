//! The tables of options: one for the flags, and one for each section of the options of `-o` in the help. To add an
//! option, add a row to a table, and the field of [`Settings`](super::Settings) that the row sets.

mod extended;
mod flags;
mod ignored;
mod ours;
mod tls;

pub(super) use flags::{EXTENDED, FLAGS, HELP, LICENSE, VERSION};
pub(super) use ignored::MISSING;
pub(super) use tls::TLS_PREFIX;

use super::option::ServerOption;
use extended::WITH_EFFECT;
use ignored::{MissingFeature, WITHOUT_EFFECT};
use ours::OURS;
use tls::TLS;

/// The usage and the description of each command of slabwise.
pub(super) const COMMANDS: &[(&str, &str)] = &[
    ("slabwise [options]", "start the server"),
    ("slabwise upgrade [options]", "take over from the running server"),
    ("slabwise classes --help", "print or recommend chunk sizes"),
    ("slabwise replay --help", "send a workload to a server and measure its replies"),
    ("slabwise top --help", "show the statistics of servers in the terminal"),
    ("slabwise advise --help", "report what servers would gain from their memory"),
    ("slabwise steer --help", "move the pages of a running memcached"),
    ("slabwise lab --help", "run experiments from publications"),
    ("slabwise memory --help", "print the memory limit of a container"),
    ("slabwise probe --help", "check whether a server is ready"),
    ("slabwise demo --help", "compare slabwise with memcached in the terminal"),
];

/// A section of the help: its title, and the table of its options.
pub(super) struct Section {
    pub title: &'static str,
    pub rows: &'static [ServerOption],
}

/// The sections with the options of `-o`, in the order of the help.
pub(super) static SECTIONS: &[Section] = &[
    Section { title: "-o: slabwise's own options", rows: OURS },
    Section { title: "-o: memcached's options", rows: WITH_EFFECT },
    Section { title: "-o: memcached's TLS options (with -Z)", rows: TLS },
    Section {
        title: "-o: memcached's options that are accepted without effect",
        rows: WITHOUT_EFFECT,
    },
];

/// Returns the rows of all options of `-o`.
pub(super) fn extended() -> impl Iterator<Item = &'static ServerOption> {
    SECTIONS.iter().flat_map(|section| section.rows)
}

/// Returns the names of all options of `-o`, including those of features that slabwise lacks.
pub(super) fn extended_names() -> impl Iterator<Item = &'static str> {
    extended().map(|row| row.name).chain(MISSING.iter().flat_map(MissingFeature::names))
}
