//! A look at an item that leaves no trace: nothing is marked, counted or removed.

use super::handle::Handle;
use super::reservation::Reservation;
use crate::space::Death;
use slabwise_base::{ClassId, Expiry, LookupKey, Now};

/// What can be seen of an item without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The class it is in.
    pub class: ClassId,
    /// Bytes of the value.
    pub value_len: usize,
    /// When it ends.
    pub expiry: Expiry,
    /// Whether it would be found.
    pub life: Life,
}

/// Whether an item would be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It would.
    Live,
    /// Its expiry has come.
    Expired,
    /// A flush ended it.
    Flushed,
}

impl Handle<'_> {
    /// What a look-up of this key would meet; `None`: nothing.
    pub fn inspect<'k>(&self, key: impl LookupKey<'k>, now: Now) -> Option<Seen> {
        let space = self.space();
        space.flush.settle(now);
        let key = key.hashed_by(&space.hasher);
        let stripe = space.index.lock(key.hash());
        let item = stripe.get(key.hash(), key.bytes())?;
        let life = match space.death_of(item, now) {
            None => Life::Live,
            Some(Death::Expired) => Life::Expired,
            Some(Death::Flushed) => Life::Flushed,
        };
        Some(Seen {
            class: space.shown_class(item.queue_class()),
            value_len: item.value_len(),
            expiry: item.expiry(),
            life,
        })
    }
}

impl Reservation<'_> {
    /// What the item will be once it is stored.
    pub fn inspect(&self) -> Seen {
        let (space, item) = (&self.cache().space, self.item());
        Seen {
            class: space.shown_class(self.queue_class()),
            value_len: self.value_len(),
            expiry: item.expiry(),
            life: Life::Live,
        }
    }
}
