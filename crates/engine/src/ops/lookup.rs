//! Finding a key's item, and what is done to an item that was found while its stripe is locked.

use crate::layout::{ChunkAddress, ItemMeta};
use crate::mem::{Header, MetaRight, OwnedChunk, ReadProof, State};
use crate::mem::{Slot, StripeGuard};
use crate::space::{AccessKind, Death, Space};
use crate::stats::HandleCounters;
use slabwise_base::{ClassId, Expiry, HashedKey, Now};
use std::sync::atomic::Ordering::Relaxed;

/// A live item, found under its locked stripe.
pub struct Found<'e> {
    pub space: &'e Space,
    pub stripe: StripeGuard<'e>,
    pub slot: Slot,
    pub address: ChunkAddress,
}

/// What a look-up came to. The stripe stays locked either way.
pub enum Lookup<'e> {
    Found(Found<'e>),
    Missing(StripeGuard<'e>),
}

impl<'e> Lookup<'e> {
    /// Finds a key's item; one that has ended is removed on the way.
    pub fn of(
        space: &'e Space,
        key: HashedKey<'_>,
        now: Now,
        counters: &HandleCounters,
    ) -> Lookup<'e> {
        Lookup::of_inline(space, key, now, counters)
    }

    /// [`Lookup::of`] for the hottest caller: nothing is passed through memory.
    #[inline(always)]
    pub fn of_inline(
        space: &'e Space,
        key: HashedKey<'_>,
        now: Now,
        counters: &HandleCounters,
    ) -> Lookup<'e> {
        space.flush.settle(now);
        let stripe = space.index.lock(key.hash());
        let proof = ReadProof::under_stripe(&stripe);
        let is_match = |address| space.memory.key(address, proof) == key.bytes();
        let Some((slot, address)) = stripe.find(key.hash(), is_match) else {
            return Lookup::Missing(stripe);
        };
        match space.death_of(address, now, proof) {
            None => Lookup::Found(Found { space, stripe, slot, address }),
            Some(death) => {
                match death {
                    Death::Expired => counters.get_expired.bump(),
                    Death::Flushed => counters.get_flushed.bump(),
                }
                Found { space, stripe, slot, address }.remove_ended(key, now, counters)
            }
        }
    }
}

impl<'e> Found<'e> {
    /// Nobody writes the item while its stripe is locked.
    #[inline]
    pub fn proof(&self) -> ReadProof<'_> {
        ReadProof::under_stripe(&self.stripe)
    }

    #[inline]
    pub fn header(&self) -> Header<'e> {
        self.space.memory.header(self.address)
    }

    /// The class in whose queue the item is.
    #[inline]
    pub fn class(&self) -> ClassId {
        self.space.queue_class(self.address)
    }

    pub fn expiry(&self) -> Expiry {
        self.space.memory.expiry(self.address, self.proof())
    }

    pub fn value_len(&self) -> usize {
        self.space.memory.value_len(self.address, self.proof())
    }

    /// What its client said of it.
    pub fn meta(&self) -> ItemMeta {
        self.space.memory.meta(self.address, self.proof())
    }

    /// Removes an item that has ended on its own; a chained one's stripe is let go while its chunks are
    /// freed, so the key may be stored again meanwhile.
    #[cold]
    fn remove_ended(
        mut self,
        key: HashedKey<'_>,
        now: Now,
        counters: &HandleCounters,
    ) -> Lookup<'e> {
        let space = self.space;
        space.show_access(key.hash(), AccessKind::Delete, Some(self.class()));
        if self.header().state().load().chained() {
            self.remove();
            return Lookup::of(space, key, now, counters);
        }
        self.stripe.remove(self.slot);
        space.unlink(self.address);
        Lookup::Missing(self.stripe)
    }

    /// Ends the item. Its chunks are freed after its stripe was let go.
    pub fn remove(mut self) {
        self.stripe.remove(self.slot);
        let (space, remains) = (self.space, self.space.unlink_unfreed(self.address));
        drop(self);
        space.free_remains(remains);
    }

    /// Marks a hit. Returns whether the item had been hit before.
    #[inline(always)]
    pub fn mark_hit(&self, now: Now) -> bool {
        mark_hit_at(self.space, self.address, &self.stripe, now)
    }

    /// Marks the item as in use, without a hit.
    pub fn mark_use(&self, now: Now) {
        let word = self.header().state();
        word.mark_active();
        date(self.space, self.address, &self.stripe, word.load(), now);
    }

    /// Whether the item can be given this expiry where it lies.
    pub fn can_hold(&self, expiry: Expiry) -> bool {
        expiry == Expiry::NEVER || self.header().state().load().has_expiry()
    }

    /// Gives the item an expiry that it can hold.
    pub fn set_expiry_in_place(&self, expiry: Expiry) {
        if self.header().state().load().has_expiry() {
            let class = self.space.class(self.class()).lock();
            let right = MetaRight::under_both(self.address, &self.stripe, &class);
            self.space.memory.set_expiry(&right, expiry);
        }
    }

    /// Publishes `chunk` in the place of the item, which ends. Its chunks are freed under the stripe, where
    /// its value was copied.
    pub fn supersede(&mut self, chunk: OwnedChunk) {
        let space = self.space;
        let old = self.header().state().load();
        space.memory.header(chunk.address()).state().inherit(old);
        self.stripe.replace(self.slot, chunk.address());
        space.unlink(self.address);
        let class = space.queue_class(chunk.address());
        self.address = space.class(class).lock().enqueue(&space.memory, chunk, old.queue());
    }
}

/// Marks a hit on an item whose stripe the caller holds. Returns whether it had been hit before.
#[inline(always)]
pub fn mark_hit_at(
    space: &Space,
    address: ChunkAddress,
    stripe: &StripeGuard<'_>,
    now: Now,
) -> bool {
    let state = space.memory.header(address).state().mark_hit();
    date(space, address, stripe, state, now);
    state.fetched()
}

/// Notes that an item was accessed just now; `state` is a reading of its word.
#[inline(always)]
fn date(space: &Space, address: ChunkAddress, stripe: &StripeGuard<'_>, state: State, now: Now) {
    let header = space.memory.header(address);
    // The date of an item with a given CAS value never goes back, or a flush would seem to have ended it.
    if !state.has_given_cas() || now.ticks.is_after(header.time()) {
        header.set_time(now.ticks);
    }
    if space.acts_on_hits.load(Relaxed) {
        place_hit(space, address, stripe);
    }
}

/// Moves an item that was accessed to where it belongs by now.
#[cold]
fn place_hit(space: &Space, address: ChunkAddress, stripe: &StripeGuard<'_>) {
    space.class(space.queue_class(address)).lock().hit(&space.memory, address, stripe);
}
