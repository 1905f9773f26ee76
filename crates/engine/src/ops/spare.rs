//! Memory for rewriting an item that is there.
//!
//! What an item becomes (longer, shorter, with an expiry) depends on what it is, and memory is taken with
//! no stripe locked. So a rewrite goes in rounds: look, take memory, look again; if the item needs other
//! memory by then, the next round takes that. Each further round means that another writer made progress.

use super::cache::Cache;
use super::lookup::Found;
use super::reservation::{Reservation, ReserveError};
use crate::layout::ItemMeta;
use slabwise_base::{Expiry, HashedKey, Now};

/// The memory that one operation has taken so far.
pub struct Spare<'e> {
    cache: &'e Cache,
    taken: Option<Reservation<'e>>,
}

/// What one round came to.
pub enum Room<'e> {
    /// Here is memory for what the item is to become; its stripe is still locked.
    Ready(Found<'e>, Reservation<'e>),
    /// Memory was taken, and the stripe let go: look the item up again.
    LookAgain,
}

/// What giving an item an expiry came to.
pub enum ExpirySet<'e> {
    /// It has it; perhaps in another chunk.
    Done(Found<'e>),
    /// Memory was taken, and the stripe let go: look the item up again.
    LookAgain,
}

impl<'e> Spare<'e> {
    /// Nothing was taken yet.
    pub fn new(cache: &'e Cache) -> Spare<'e> {
        Spare { cache, taken: None }
    }

    /// Memory of this shape: what was taken in an earlier round, or else taken now.
    pub fn room(
        &mut self,
        found: Found<'e>,
        key: HashedKey<'_>,
        value_len: usize,
        meta: ItemMeta,
        now: Now,
    ) -> Result<Room<'e>, ReserveError> {
        if let Some(mut ready) = self.taken.take_if(|spare| spare.fits(value_len, meta)) {
            ready.set_meta(meta);
            return Ok(Room::Ready(found, ready));
        }
        self.taken = None;
        self.taken = Some(Reservation::beside(self.cache, found, key, value_len, meta, now)?);
        Ok(Room::LookAgain)
    }

    /// Gives a found item a new expiry: in place if it stores one, else in a new chunk with the same CAS
    /// value and marks.
    pub fn set_expiry(
        &mut self,
        mut found: Found<'e>,
        key: HashedKey<'_>,
        expiry: Expiry,
        now: Now,
    ) -> Result<ExpirySet<'e>, ReserveError> {
        if found.can_hold(expiry) {
            found.set_expiry_in_place(expiry);
            return Ok(ExpirySet::Done(found));
        }
        let item = found.item();
        let (value_len, meta) = (item.value_len(), ItemMeta { expiry, ..item.meta() });
        match self.room(found, key, value_len, meta, now)? {
            Room::LookAgain => Ok(ExpirySet::LookAgain),
            Room::Ready(same, reservation) => {
                found = same;
                let copy = reservation.into_copy_of(&found);
                found.supersede(copy);
                Ok(ExpirySet::Done(found))
            }
        }
    }
}
