//! Deletes that depend on a CAS value, and those that leave something behind.

use super::handle::Handle;
use super::item::{Found, Lookup};
use super::reservation::{ExpirySet, Reservation, Room, Spare, publish_over};
use crate::layout::ItemMeta;
use crate::space::AccessKind;
use slabwise_base::{ClassId, Expiry, LookupKey, Now};

/// What a delete leaves in the item's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// Nothing.
    Nothing,
    /// The item, stale: readers are shown that it is, and one may claim to store it anew.
    Stale {
        /// When it ends now, if that changes.
        expiry: Option<Expiry>,
        /// Its CAS value, if not the engine's next.
        new_cas: Option<u64>,
    },
    /// An item without a value.
    Empty {
        /// What is said of it.
        meta: ItemMeta,
        /// Whether it is stale.
        stale: bool,
        /// Its CAS value; `None`: the old item's, or, if it is stale, the engine's next.
        new_cas: Option<u64>,
    },
}

/// What became of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteOutcome {
    /// The item is gone, or is what was to be left.
    Done,
    /// There is no such item.
    NotFound,
    /// The CAS value did not match.
    Exists,
    /// No memory for what was to be left; the item is as it was.
    OutOfMemory,
}

impl<'e> Handle<'e> {
    /// Deletes an item, or invalidates it, if its CAS value is the one expected.
    pub fn delete_if<'k>(
        &mut self,
        key: impl LookupKey<'k>,
        expected_cas: Option<u64>,
        leave: Leave,
        now: Now,
    ) -> DeleteOutcome {
        let (cache, space) = (self.cache(), self.space());
        let key = key.hashed_by(&space.hasher);
        let mut spare = Spare::new(cache);
        loop {
            let Lookup::Found(found) = Lookup::of(space, key, now, self.counters()) else {
                self.counters().delete_misses.bump();
                space.show_access(key.hash(), AccessKind::Delete, None);
                return DeleteOutcome::NotFound;
            };
            let cas = found.item().cas();
            if expected_cas.is_some_and(|expected| expected != cas) {
                self.counters().delete_misses.bump();
                return DeleteOutcome::Exists;
            }
            match leave {
                Leave::Nothing => {
                    let class = self.count_delete(&found);
                    found.remove();
                    space.show_access(key.hash(), AccessKind::Delete, Some(class));
                    return DeleteOutcome::Done;
                }
                Leave::Stale { expiry, new_cas } => {
                    let found = match expiry {
                        None => found,
                        Some(expiry) => match spare.set_expiry(found, key, expiry, now) {
                            Ok(ExpirySet::Done(found)) => found,
                            Ok(ExpirySet::LookAgain) => continue,
                            Err(_) => return DeleteOutcome::OutOfMemory,
                        },
                    };
                    found.item().mark_stale();
                    space.flush.give_cas(found.item(), new_cas, now);
                    return DeleteOutcome::Done;
                }
                Leave::Empty { meta, stale, new_cas } => {
                    match spare.room(found, key, 0, meta, now) {
                        Ok(Room::LookAgain) => {}
                        Ok(Room::Ready(found, empty)) => {
                            if !stale {
                                self.count_delete(&found);
                            }
                            self.counters().items_total.bump();
                            empty_over((empty, new_cas), found, stale, now);
                            return DeleteOutcome::Done;
                        }
                        Err(_) => return DeleteOutcome::OutOfMemory,
                    }
                }
            }
        }
    }

    /// Returns the class in whose queue the item is.
    fn count_delete(&self, found: &Found<'_>) -> ClassId {
        let class = found.class();
        self.counters().class(class).delete_hits.bump();
        class
    }
}

/// Publishes an item without a value in the place of the one found.
fn empty_over(
    (empty, new_cas): (Reservation<'_>, Option<u64>),
    found: Found<'_>,
    stale: bool,
    now: Now,
) {
    let cas = if stale {
        empty.item().mark_stale();
        new_cas
    } else {
        new_cas.or(Some(found.item().cas()))
    };
    publish_over(empty, found, cas, now);
}
