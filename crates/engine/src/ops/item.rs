//! Finding a key's item, what is done to it while its stripe is locked, and what a reader sees of it: a view
//! inside a look-up, or a pin beyond it.

use crate::mem::{Entry, HeldValue, Linked, NewItem, State, StripeGuard, ValuePin};
use crate::space::{AccessKind, Death, Space};
use crate::stats::HandleCounters;
use slabwise_base::{ClassId, Cost, Expiry, HashedKey, Now, Ticks};
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

/// An item under its stripe's lock, for as long as the closure of a get runs.
#[derive(Clone, Copy)]
pub struct ItemView<'v, 'e> {
    space: &'e Space,
    item: Linked<'v>,
    last_access: Ticks,
    fetched: bool,
}

impl<'v, 'e: 'v> ItemView<'v, 'e> {
    /// A view of a linked item; `last_access` and `fetched` as they were before this look-up.
    pub fn new(
        space: &'e Space,
        item: Linked<'v>,
        last_access: Ticks,
        fetched: bool,
    ) -> ItemView<'v, 'e> {
        ItemView { space, item, last_access, fetched }
    }

    /// The key.
    pub fn key(&self) -> &'v [u8] {
        self.item.key()
    }

    /// Bytes of the value.
    pub fn value_len(&self) -> usize {
        self.item.value_len()
    }

    /// The client's opaque number.
    pub fn client_flags(&self) -> u32 {
        self.item.client_flags()
    }

    /// What it costs to recompute, if that is known.
    pub fn cost(&self) -> Option<Cost> {
        self.item.cost()
    }

    /// The CAS value.
    pub fn cas(&self) -> u64 {
        self.item.cas()
    }

    /// When it ends.
    pub fn expiry(&self) -> Expiry {
        self.item.expiry()
    }

    /// When it was last accessed, this look-up aside.
    pub fn last_access(&self) -> Ticks {
        self.last_access
    }

    /// Whether it was hit before this look-up.
    pub fn fetched(&self) -> bool {
        self.fetched
    }

    /// Whether it was marked stale.
    pub fn is_stale(&self) -> bool {
        self.item.state().stale()
    }

    /// Whether a client has been given the right to store it anew.
    pub fn is_claimed(&self) -> bool {
        self.item.state().claimed()
    }

    /// Notes that this client may store it anew; false if another has been told so. The note lasts until
    /// the item is stored or marked stale.
    pub fn claim(&self) -> bool {
        self.item.claim()
    }

    /// Bytes that the item takes, as the stats count them.
    pub fn size_bytes(&self) -> u64 {
        self.item.counted_size_bytes()
    }

    /// The class it is shown in; a chained item's is the last of the table.
    pub fn class(&self) -> ClassId {
        self.space.shown_class(self.item.queue_class())
    }

    /// The value, in order, in one slice, or in several if it is chained.
    pub fn value(&self) -> impl Iterator<Item = &'v [u8]> + use<'v, 'e> {
        self.item.value()
    }

    /// Appends the value to `out`.
    #[inline(always)]
    pub fn copy_value(&self, out: &mut Vec<u8>) {
        if self.item.state().chained() {
            self.value().for_each(|part| out.extend_from_slice(part));
        } else {
            out.extend_from_slice(self.item.value_in_first_chunk());
        }
    }

    /// Keeps the item's bytes alive and unchanged beyond this look-up. `None` when too many hold it.
    pub fn pin(&self) -> Option<Pinned<'e>> {
        Pinned::new(self.space, self.item)
    }
}

/// An item that stays as it is until this is dropped, whatever happens to its key.
#[must_use = "a pin keeps its item's memory until it is dropped"]
pub struct Pinned<'e> {
    space: &'e Space,
    /// `None` only while this is dropped.
    pin: Option<ValuePin>,
}

impl<'e> Pinned<'e> {
    /// Pins a linked item; `None` when too many hold it.
    pub fn new(space: &'e Space, item: Linked<'_>) -> Option<Pinned<'e>> {
        Some(Pinned { space, pin: Some(item.pin()?) })
    }
}

impl Pinned<'_> {
    /// The item's key.
    pub fn key(&self) -> &[u8] {
        self.item().key()
    }

    /// The value, in order, in one slice, or in several if it is chained.
    pub fn value(&self) -> impl Iterator<Item = &[u8]> {
        self.item().value()
    }

    /// Bytes of the value.
    pub fn value_len(&self) -> usize {
        self.item().value_len()
    }

    fn item(&self) -> HeldValue<'_> {
        self.pin.as_ref().expect("held until dropped").item(&self.space.memory)
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        if let Some(pin) = self.pin.take() {
            self.space.unpin(pin);
        }
    }
}
