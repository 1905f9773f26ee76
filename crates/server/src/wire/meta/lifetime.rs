//! When an item ends, in a reply's order.

use slabwise_base::{Expiry, Now};

/// What `t` says at its place among the flags: T and N change it from there on.
pub(super) struct Lifetime {
    pub(super) expiry: Expiry,
    pub(super) touch: Option<Expiry>,
    /// Of an item that was just made.
    pub(super) vivify: Option<Expiry>,
}

impl Lifetime {
    /// Passes a flag.
    pub(super) fn pass(&mut self, letter: u8) {
        let changed = match letter {
            b'T' => self.touch,
            b'N' => self.vivify,
            _ => return,
        };
        self.expiry = changed.unwrap_or(self.expiry);
    }

    pub(super) fn ttl_seconds(&self, now: Now) -> Option<u32> {
        ttl_seconds(self.expiry, now)
    }
}

pub(super) fn ttl_seconds(expiry: Expiry, now: Now) -> Option<u32> {
    expiry.second().map(|end| end.0.saturating_sub(now.seconds.0))
}
