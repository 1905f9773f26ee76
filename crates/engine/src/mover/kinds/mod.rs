//! The kinds of mover. They differ in how they choose a page and how they empty it.
//!
//! | kind | treatment of the items on the page |
//! |---|---|
//! | `warm` | carried to free chunks of the class; if chunks and free pages are short, cold items of the page and the coldest items of the class are evicted |
//! | `base`, `base_next`, `fast` | carried to free chunks of the class; dropped if none is free, as in the paper (`published.rs`) |
//! | `stock` | carried to free chunks of the class; dropped if there are none, as in memcached 1.6 |
//!
//! A page that a policy has chosen, as Twemcache's policies do, is emptied without carrying any item (`whole.rs`).
//!
//! A page of a retired class is always emptied by the kind `warm`, which carries the items to the successor classes
//! (`retired.rs`).

mod ahead;
mod batch;
mod published;
mod retired;
mod stock;
mod warm;
mod whole;

use super::job::MoverRules;
use crate::config::MoverKind;

/// All kinds of mover, the default first. A new kind needs a file in this folder and a row in this table.
const KINDS: &[(MoverKind, &dyn MoverRules)] = &[
    (MoverKind::WARM, &warm::Warm),
    (MoverKind::BASE, &published::BASE),
    (MoverKind::BASE_NEXT, &published::BASE_NEXT),
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

/// The rules by which a page is emptied whose items are all evicted. They are no kind of mover that an option can
/// select, because a policy requests them for a single page.
pub const WHOLE_PAGE: &dyn MoverRules = &whole::Whole;

/// Returns the kind of mover with this name.
pub fn mover_kind(name: &str) -> Option<MoverKind> {
    KINDS.iter().map(|&(kind, _)| kind).find(|kind| kind.name() == name)
}

/// Returns the rules by which this kind of mover empties a page.
pub fn rules_of(kind: MoverKind) -> &'static dyn MoverRules {
    let row = KINDS.iter().find(|&&(other, _)| other == kind);
    row.expect("the table has a row for every kind of mover").1
}
