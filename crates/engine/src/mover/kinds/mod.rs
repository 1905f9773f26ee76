//! The kinds of mover: how each empties a page.
//!
//! | kind | what becomes of the items on the page |
//! |---|---|
//! | `warm` | carried into room that the class's coldest items make |
//! | `base`, `fast` | saved or unlinked, as published |
//! | `stock` | carried or dropped, as memcached does it today |
//!
//! A page of a retired class is always emptied by `warm`, whose items go to the classes that succeed it
//! (`retired.rs`).

mod published;
mod retired;
mod stock;
mod warm;

use super::job::Kind;
use crate::config::MoverKind;

/// Every kind. A new one is a file here and a row.
const KINDS: &[(MoverKind, &dyn Kind)] = &[
    (MoverKind::WARM, &warm::Warm),
    (MoverKind::BASE, &published::BASE),
    (MoverKind::FAST, &published::FAST),
    (MoverKind::STOCK, &stock::Stock),
];

/// The names of the kinds of mover, the default first.
pub const MOVER_NAMES: [&str; KINDS.len()] = {
    let mut names = [""; KINDS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = KINDS[at].0.name();
        at += 1;
    }
    names
};

/// The kind of mover of this name.
pub fn mover_kind(name: &str) -> Option<MoverKind> {
    KINDS.iter().map(|&(kind, _)| kind).find(|kind| kind.name() == name)
}

/// How a kind empties pages.
pub fn of(kind: MoverKind) -> &'static dyn Kind {
    let row = KINDS.iter().find(|&&(other, _)| other == kind);
    row.expect("a mover kind has its row").1
}
