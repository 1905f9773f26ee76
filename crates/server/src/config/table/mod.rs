//! The tables of options, one for each section of the help. A new option is one row in a table and the field of
//! [`Settings`](super::Settings) that the row sets.

mod extended;
mod flags;
mod ignored;
mod ours;
mod tls;

pub(super) use flags::{EXTENDED, FLAGS, HELP, LICENSE, VERSION};
pub(super) use ignored::MISSING;
pub(super) use tls::TLS_PREFIX;

use super::option::ServerOption;
use extended::ACTING;
use ignored::{MissingFeature, WITHOUT_EFFECT};
use ours::OURS;
use tls::TLS;

/// The commands of slabwise: usage and description.
pub(super) const COMMANDS: &[(&str, &str)] = &[
    ("slabwise [options]", "start the server"),
    ("slabwise classes [options]", "print the chunk sizes that these options give"),
    ("slabwise classes --from-...", "recommend chunk sizes (classes --help)"),
    ("slabwise replay --help", "measure a server with a workload"),
    ("slabwise lab --help", "reproduce experiments"),
    ("slabwise demo --help", "compare slabwise with memcached in the terminal"),
];

/// A part of the help: a title and its options.
pub(super) struct Section {
    pub title: &'static str,
    pub rows: &'static [ServerOption],
}

/// The options of `-o`, in the order of the help.
pub(super) static SECTIONS: &[Section] = &[
    Section { title: "-o: slabwise's own options", rows: OURS },
    Section { title: "-o: memcached's options", rows: ACTING },
    Section { title: "-o: memcached's TLS options (with -Z)", rows: TLS },
    Section {
        title: "-o: memcached's options that are accepted without effect",
        rows: WITHOUT_EFFECT,
    },
];

pub(super) fn extended() -> impl Iterator<Item = &'static ServerOption> {
    SECTIONS.iter().flat_map(|section| section.rows)
}

pub(super) fn extended_names() -> impl Iterator<Item = &'static str> {
    extended().map(|row| row.name).chain(MISSING.iter().flat_map(MissingFeature::names))
}
