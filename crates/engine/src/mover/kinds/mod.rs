//! The kinds of mover, which differ in how they empty a page.
//!
//! | kind | treatment of the items on the page |
//! |---|---|
//! | `warm` | carried to free chunks; the class's coldest items are evicted instead |
//! | `base`, `fast` | saved or unlinked, as published |
//! | `stock` | carried or dropped, as in memcached 1.6 |
//!
//! A page of a retired class is always emptied by `warm`, which carries its items to the successor classes
//! (`retired.rs`).

mod published;
mod retired;
mod stock;
mod warm;

use super::job::Kind;
use crate::config::MoverKind;

/// Every kind. A new kind is a file in this folder and a row here.
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

/// Returns the kind of mover with this name.
pub fn mover_kind(name: &str) -> Option<MoverKind> {
    KINDS.iter().map(|&(kind, _)| kind).find(|kind| kind.name() == name)
}

pub fn of(kind: MoverKind) -> &'static dyn Kind {
    let row = KINDS.iter().find(|&&(other, _)| other == kind);
    row.expect("every mover kind has a row").1
}
