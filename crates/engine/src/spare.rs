//! Memory for rewriting an item that is there.
//!
//! What an item becomes (longer, shorter, with an expiry) depends on what it is, and memory is taken with
//! no stripe locked. So a rewrite goes in rounds: look, take memory, look again; if the item needs other
//! memory by then, the next round takes that. Each further round means that another writer made progress.

use crate::engine::Engine;
use crate::handle::Found;
use crate::mem::{MetaRight, ReadProof};
use crate::reservation::{ItemMeta, Reservation, ReserveError};
use slabwise_base::{Expiry, HashedKey, Now};

/// The memory that one operation has taken so far.
#[derive(Default)]
pub(crate) struct Spare<'e>(Option<Reservation<'e>>);

/// What one round came to.
pub(crate) enum Room<'e> {
    /// Here is memory for what the item is to become; its stripe is still locked.
    Ready(Found<'e>, Reservation<'e>),
    /// Memory was taken, and the stripe let go: look the item up again.
    LookAgain,
}

/// What giving an item an expiry came to.
pub(crate) enum ExpirySet<'e> {
    /// It has it; perhaps in another chunk.
    Done(Found<'e>),
    /// Memory was taken, and the stripe let go: look the item up again.
    LookAgain,
}

impl<'e> Spare<'e> {
    /// Memory of this shape: what was taken in an earlier round, or else taken now.
    pub fn room(
        &mut self,
        found: Found<'e>,
        key: HashedKey<'_>,
        value_len: usize,
        meta: ItemMeta,
        now: Now,
    ) -> Result<Room<'e>, ReserveError> {
        if let Some(mut ready) = self.0.take_if(|spare| spare.fits(value_len, meta)) {
            ready.set_meta(meta);
            return Ok(Room::Ready(found, ready));
        }
        self.0 = None;
        let engine = found.engine;
        self.0 = Some(engine.reserve_beside(found, key, value_len, meta, now)?);
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
        let engine = found.engine;
        if engine.can_hold(&found, expiry) {
            engine.set_expiry_in_place(&found, expiry);
            return Ok(ExpirySet::Done(found));
        }
        let proof = ReadProof::under_stripe(&found.stripe);
        let value_len = engine.memory.value_len(found.address, proof);
        let meta = ItemMeta { expiry, ..engine.memory.meta(found.address, proof) };
        match self.room(found, key, value_len, meta, now)? {
            Room::LookAgain => Ok(ExpirySet::LookAgain),
            Room::Ready(same, reservation) => {
                found = same;
                let chunk = engine.copy_into(reservation, &found);
                engine.supersede(&mut found, chunk);
                Ok(ExpirySet::Done(found))
            }
        }
    }
}

impl Engine {
    /// Whether a found item can be given this expiry where it lies.
    pub(crate) fn can_hold(&self, found: &Found<'_>, expiry: Expiry) -> bool {
        expiry == Expiry::NEVER || self.memory.header(found.address).state().load().has_expiry()
    }

    /// Gives a found item an expiry that it can hold.
    pub(crate) fn set_expiry_in_place(&self, found: &Found<'_>, expiry: Expiry) {
        if self.memory.header(found.address).state().load().has_expiry() {
            let class = self.class(self.queue_class(found.address)).lock();
            let right = MetaRight::under_both(found.address, &found.stripe, &class);
            self.memory.set_expiry(&right, expiry);
        }
    }
}
