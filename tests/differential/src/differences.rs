//! The listed differences: those that `docs/differences.md` explains.

use crate::player::Reply;
use crate::step::Step;

/// A step and the replies of both servers.
pub struct Exchange<'a> {
    pub step: &'a Step,
    /// The earlier steps since all items were removed.
    pub history: &'a [Step],
    pub memcached: &'a Reply,
    pub slabwise: &'a Reply,
}

/// A listed difference.
pub struct Listed {
    /// The heading in `docs/differences.md`.
    pub heading: &'static str,
    /// The first cell of the row below this heading.
    pub row: &'static str,
    /// True if this row explains the difference of an exchange.
    pub explains: fn(&Exchange<'_>) -> bool,
}

/// All listed differences.
pub static LISTED: [Listed; 0] = [];
