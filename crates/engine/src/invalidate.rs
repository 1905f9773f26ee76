//! Deletes that depend on a CAS value, and those that leave something behind.

use crate::handle::{Found, Handle, Lookup};
use crate::reservation::ItemMeta;
use crate::spare::{ExpirySet, Room, Spare};
use crate::tap::AccessKind;
use slabwise_base::{ClassId, Expiry, LookupKey, Now};

/// What a delete leaves in the item's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// Nothing.
    Nothing,
    /// The item, stale: whoever reads it is told so, and one reader may claim to store it anew.
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
        let engine = self.engine();
        let key = key.hashed_by(&engine.hasher);
        let mut spare = Spare::default();
        loop {
            let Lookup::Found(found) = engine.lookup(key, now, self.counters()) else {
                self.counters().delete_misses.bump();
                engine.tap(key.hash(), AccessKind::Delete, None);
                return DeleteOutcome::NotFound;
            };
            let header = engine.memory.header(found.address);
            if expected_cas.is_some_and(|expected| expected != header.cas()) {
                self.counters().delete_misses.bump();
                return DeleteOutcome::Exists;
            }
            match leave {
                Leave::Nothing => {
                    let class = self.count_delete(&found);
                    engine.remove(found);
                    engine.tap(key.hash(), AccessKind::Delete, Some(class));
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
                    engine.memory.header(found.address).state().mark_stale();
                    engine.give_cas(found.address, new_cas, now);
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
                            engine.empty_over((empty, new_cas), found, stale, now);
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
        let class = self.engine().queue_class(found.address);
        self.counters().class(class).delete_hits.bump();
        class
    }
}
