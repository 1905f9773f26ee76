//! The tables of options, one for each section of the help. A new option is one row in a table and the field of
//! [`Settings`](super::Settings) that the row sets.

mod extended;
mod flags;
mod ignored;
mod ours;
mod tls;

pub(super) use extended::ACTING;
pub(super) use flags::{EXTENDED, FLAGS, HELP, LICENSE, VERSION};
pub(super) use ignored::{MISSING, WITHOUT_EFFECT};
pub(super) use ours::OURS;
pub(super) use tls::{TLS, TLS_PREFIX};

use super::option::ServerOption;
use ignored::MissingFeature;

pub(super) fn extended() -> impl Iterator<Item = &'static ServerOption> {
    ACTING.iter().chain(TLS).chain(WITHOUT_EFFECT).chain(OURS)
}

pub(super) fn extended_names() -> impl Iterator<Item = &'static str> {
    extended().map(|row| row.name).chain(MISSING.iter().flat_map(MissingFeature::names))
}
