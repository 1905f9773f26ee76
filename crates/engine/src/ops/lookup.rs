//! Finding a key's item, and what is done to an item that was found while its stripe is locked.

use crate::mem::{Entry, Linked, NewItem, State, StripeGuard};
use crate::space::{AccessKind, Death, Space};
use crate::stats::HandleCounters;
use slabwise_base::{ClassId, Expiry, HashedKey, Now};
use std::sync::atomic::Ordering::Relaxed;

/// A live item, found under its locked stripe.
pub struct Found<'e> {
    pub space: &'e Space,
    pub entry: Entry<'e>,
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
        let entry = match Entry::find(stripe, key.hash(), key.bytes()) {
            Ok(entry) => entry,
            Err(stripe) => return Lookup::Missing(stripe),
        };
        match space.death_of(entry.item(), now) {
            None => Lookup::Found(Found { space, entry }),
            Some(death) => {
                match death {
                    Death::Expired => counters.get_expired.bump(),
                    Death::Flushed => counters.get_flushed.bump(),
                }
                Found { space, entry }.remove_ended(key, now, counters)
            }
        }
    }
}

impl<'e> Found<'e> {
    /// The item.
    #[inline]
    pub fn item(&self) -> Linked<'_> {
        self.entry.item()
    }

    /// The class in whose queue the item is.
    #[inline]
    pub fn class(&self) -> ClassId {
        self.item().queue_class()
    }

    /// Removes an item that has ended on its own; a chained one's stripe is let go while its chunks are
    /// freed, so the key may be stored again meanwhile.
    #[cold]
    fn remove_ended(self, key: HashedKey<'_>, now: Now, counters: &HandleCounters) -> Lookup<'e> {
        let space = self.space;
        space.show_access(key.hash(), AccessKind::Delete, Some(self.class()));
        if self.item().state().chained() {
            self.remove();
            return Lookup::of(space, key, now, counters);
        }
        let (stripe, removed) = self.entry.remove();
        space.unlink(removed);
        Lookup::Missing(stripe)
    }

    /// Ends the item. Its chunks are freed after its stripe was let go.
    pub fn remove(self) {
        let (stripe, removed) = self.entry.remove();
        let remains = self.space.unlink_unfreed(removed);
        drop(stripe);
        self.space.free_remains(remains);
    }

    /// Marks a hit. Returns whether the item had been hit before.
    #[inline(always)]
    pub fn mark_hit(&mut self, now: Now) -> bool {
        let state = self.item().mark_hit();
        self.date(state, now);
        state.fetched()
    }

    /// Marks the item as in use, without a hit.
    pub fn mark_use(&mut self, now: Now) {
        self.item().mark_active();
        self.date(self.item().state(), now);
    }

    /// Notes that the item was accessed just now; `state` is a reading of its word.
    #[inline(always)]
    fn date(&mut self, state: State, now: Now) {
        let item = self.item();
        // The date of an item with a given CAS value never goes back, or a flush would seem to have ended it.
        if !state.has_given_cas() || now.ticks.is_after(item.time()) {
            item.set_time(now.ticks);
        }
        if self.space.acts_on_hits.load(Relaxed) {
            self.place_hit();
        }
    }

    /// Moves the item, which was accessed, to where it belongs by now.
    #[cold]
    fn place_hit(&mut self) {
        self.space.class(self.class()).lock().hit(&mut self.entry);
    }

    /// Whether the item can be given this expiry where it lies.
    pub fn can_hold(&self, expiry: Expiry) -> bool {
        expiry == Expiry::NEVER || self.item().state().has_expiry()
    }

    /// Gives the item an expiry that it can hold.
    pub fn set_expiry_in_place(&mut self, expiry: Expiry) {
        if self.item().state().has_expiry() {
            let mut class = self.space.class(self.class()).lock();
            self.entry.meta_right(class.pages.token_mut()).set_expiry(expiry);
        }
    }

    /// Publishes a copy in the place of the item, which ends. Its chunks are freed under the stripe, where
    /// its value was copied.
    pub fn supersede(&mut self, copy: NewItem) {
        let old = self.item().state();
        copy.item(&self.space.memory).inherit(old);
        let removed = self.entry.replace(copy);
        self.space.unlink(removed);
        let mut class = self.space.class(self.class()).lock();
        class.enqueue(self.entry.entered(), old.queue());
    }
}
