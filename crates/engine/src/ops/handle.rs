//! A worker's handle, the lookup of a key's item, and the changes to a found item whose stripe is locked.
//!
//! An operation locks its key's stripe from the lookup to its end. A get takes no other lock unless hits move
//! items (as under `eviction=lru`): it marks the item, and evictions and the maintainer move it later.

use super::item::ItemView;
use crate::config::EngineConfig;
use crate::mem::{Arena, Entry, Linked, NewItem, State, StripeGuard};
use crate::mover::Mover;
use crate::space::{AccessKind, EndReason, Space};
use crate::stats::{ClassOperations, HandleCounters};
use slabwise_base::sync::Mutex;
use slabwise_base::{ClassId, Expiry, HashedKey, LookupKey, Now};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The shared space, and the mover that distributes its pages among the classes.
pub struct Cache {
    pub space: Space,
    pub mover: Mutex<Mover>,
}

impl Cache {
    pub fn new(config: EngineConfig, arena: Arena) -> Cache {
        let space = Space::new(config, arena);
        let mover = Mutex::new(Mover::new(&space.memory));
        Cache { space, mover }
    }
}

/// A per-worker handle to the engine; see the crate's documentation.
pub struct Handle<'e> {
    cache: &'e Cache,
    counters: Arc<HandleCounters>,
}

impl<'e> Handle<'e> {
    pub(crate) fn new(cache: &'e Cache) -> Handle<'e> {
        Handle { cache, counters: cache.space.register() }
    }

    pub(super) fn cache(&self) -> &'e Cache {
        self.cache
    }

    pub(super) fn space(&self) -> &'e Space {
        &self.cache.space
    }

    pub(super) fn counters(&self) -> &HandleCounters {
        &self.counters
    }

    /// Returns a key with its hash, so that the following operations need not hash it again.
    #[inline]
    pub fn hashed<'k>(&self, key: &'k [u8]) -> HashedKey<'k> {
        key.hashed_by(&self.space().hasher)
    }

    /// Prefetches the cache lines that lookups of these keys need, in steps over all keys, so that the memory
    /// accesses overlap. A hint for at most 32 keys, without side effects.
    pub fn prefetch(&self, keys: &[HashedKey<'_>]) {
        // A hit unlinks its item from its neighbours in the queue.
        self.prefetch_items(keys, self.space().acts_on_hits.load(Relaxed));
    }

    /// Prefetches the cache lines that stores and deletes of these keys need: those of their lookups, and the
    /// neighbours of the items that will be unlinked from their queues. A hint for at most 32 keys, without side effects.
    pub fn prefetch_for_writes(&self, keys: &[HashedKey<'_>]) {
        self.prefetch_items(keys, true);
    }

    #[inline]
    fn prefetch_items(&self, keys: &[HashedKey<'_>], with_neighbours: bool) {
        const KEYS_MAX: usize = 32;
        let space = self.space();
        let mut hashes = [0; KEYS_MAX];
        let keys = &keys[..keys.len().min(KEYS_MAX)];
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = key.hash();
            space.index.prefetch(*hash);
        }
        let hashes = &hashes[..keys.len()];
        space.index.prefetch_buckets(hashes);
        let mut slots = [None; KEYS_MAX];
        for (slot, &hash) in slots.iter_mut().zip(hashes) {
            if let Some((found, item)) = space.index.lock(hash).candidate(hash) {
                *slot = Some(found);
                item.prefetch();
            }
        }
        if with_neighbours {
            for (slot, &hash) in slots.iter().zip(hashes) {
                let Some(slot) = *slot else { continue };
                if let Some(item) = space.index.lock(hash).item_at(slot) {
                    item.prefetch_neighbours();
                }
            }
        }
    }

    /// Looks a key up, marks the item as used, and calls `f` with it. The stripe is locked while `f` runs, so it
    /// must be short and call no operation; for a large value it should only pin the item.
    #[inline]
    pub fn get<'k, R>(
        &mut self,
        key: impl LookupKey<'k>,
        now: Now,
        f: impl FnOnce(ItemView<'_, 'e>) -> R,
    ) -> Option<R> {
        let key = key.hashed_by(&self.space().hasher);
        match Lookup::of_inline(self.space(), key, now, &self.counters) {
            Lookup::Found(mut found) => {
                let class = found.class();
                let state = found.item().state();
                let counters = self.counters.class(class);
                counters.hits_to[state.queue().index()].bump();
                if state.fields().cost {
                    self.count_saved(&found, counters);
                }
                let shown = self.show(&mut found, true, now, f);
                drop(found);
                self.space().report_access(key.hash(), AccessKind::Hit, Some(class));
                Some(shown)
            }
            Lookup::Missing(stripe) => {
                drop(stripe);
                self.counters.get_misses.bump();
                self.space().report_access(key.hash(), AccessKind::Miss, None);
                None
            }
        }
    }

    /// Looks a key up and calls `f` with the item, without marking the item or counting the lookup.
    pub fn peek<'k, R>(
        &mut self,
        key: impl LookupKey<'k>,
        now: Now,
        f: impl FnOnce(ItemView<'_, 'e>) -> R,
    ) -> Option<R> {
        let key = key.hashed_by(&self.space().hasher);
        match Lookup::of(self.space(), key, now, &self.counters) {
            Lookup::Found(mut found) => Some(self.show(&mut found, false, now, f)),
            Lookup::Missing(_) => None,
        }
    }

    /// Counts the cost that a hit on this item saves, and marks the item as active if costs differ widely.
    pub(super) fn count_saved(&self, found: &Found<'_>, counters: &ClassOperations) {
        if let Some(cost) = found.item().cost() {
            counters.cost_saved.add(u64::from(cost.units()));
            if self.space().class(found.class()).costs_differ_widely() {
                found.item().marks().mark_active();
            }
        }
    }

    /// Calls `f` with an item, after marking it as used if `marks`.
    #[inline(always)]
    pub(super) fn show<R>(
        &self,
        found: &mut Found<'e>,
        marks: bool,
        now: Now,
        f: impl FnOnce(ItemView<'_, 'e>) -> R,
    ) -> R {
        let last_access = found.item().time();
        let fetched = if marks { found.mark_hit(now) } else { found.item().state().fetched() };
        f(ItemView { space: self.space(), item: found.item(), last_access, fetched })
    }
}

/// A live item, found under its locked stripe.
pub struct Found<'e> {
    pub space: &'e Space,
    pub entry: Entry<'e>,
}

/// The result of a lookup. The stripe stays locked in both cases.
pub enum Lookup<'e> {
    Found(Found<'e>),
    Missing(StripeGuard<'e>),
}

impl<'e> Lookup<'e> {
    /// Finds a key's item; removes it if it is expired or flushed.
    pub fn of(
        space: &'e Space,
        key: HashedKey<'_>,
        now: Now,
        counters: &HandleCounters,
    ) -> Lookup<'e> {
        Lookup::of_inline(space, key, now, counters)
    }

    /// [`Lookup::of`], inlined for the hottest caller, so that results stay in registers.
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
        match space.end_reason(entry.item(), now) {
            None => Lookup::Found(Found { space, entry }),
            Some(death) => {
                match death {
                    EndReason::Expired => counters.get_expired.bump(),
                    EndReason::Flushed => counters.get_flushed.bump(),
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

    /// The class that queues the item.
    #[inline]
    pub fn class(&self) -> ClassId {
        self.item().queue_class()
    }

    /// Removes an expired or flushed item. For a chained item the stripe is unlocked before its chunks are freed,
    /// so another thread may store the key, and the lookup is repeated.
    #[cold]
    fn remove_ended(self, key: HashedKey<'_>, now: Now, counters: &HandleCounters) -> Lookup<'e> {
        let space = self.space;
        space.report_access(key.hash(), AccessKind::Delete, Some(self.class()));
        if self.item().state().chained() {
            self.remove();
            return Lookup::of(space, key, now, counters);
        }
        let (stripe, removed) = self.entry.remove();
        space.unlink(removed);
        Lookup::Missing(stripe)
    }

    /// Removes the item. Its chunks are freed after its stripe is unlocked.
    pub fn remove(self) {
        let (stripe, removed) = self.entry.remove();
        let remains = self.space.unlink_unfreed(removed);
        drop(stripe);
        self.space.free_remains(remains);
    }

    /// Marks a hit. Returns true if the item had been hit before.
    #[inline(always)]
    pub fn mark_hit(&mut self, now: Now) -> bool {
        let state = self.item().marks().mark_hit();
        self.note_access(state, now);
        state.fetched()
    }

    /// Marks the item as in use, without a hit.
    pub fn mark_use(&mut self, now: Now) {
        self.item().marks().mark_active();
        self.note_access(self.item().state(), now);
    }

    /// Sets the access time, and reorders the item if hits do that; `state` is a copy of the item's state.
    #[inline(always)]
    fn note_access(&mut self, state: State, now: Now) {
        let item = self.item();
        // With a CAS value chosen by a client, an earlier access time could make the item look flushed.
        if !state.has_given_cas() || now.ticks.is_after(item.time()) {
            item.set_time(now.ticks);
        }
        if self.space.acts_on_hits.load(Relaxed) {
            self.reorder();
        }
    }

    /// Reorders the item in its class after a hit.
    #[cold]
    fn reorder(&mut self) {
        self.space.class(self.class()).lock().hit(&mut self.entry);
    }

    /// True if this expiry can be set without moving the item.
    pub fn can_hold(&self, expiry: Expiry) -> bool {
        expiry == Expiry::NEVER || self.item().state().fields().expiry
    }

    /// Sets an expiry that the item [can hold](Found::can_hold).
    pub fn set_expiry_in_place(&mut self, expiry: Expiry) {
        if self.item().state().fields().expiry {
            let mut class = self.space.class(self.class()).lock();
            self.entry.meta_access(&mut class.pages.token).set_expiry(expiry);
        }
    }

    /// Replaces the item by a copy. The old chunks are freed under the stripe's lock.
    pub fn supersede(&mut self, copy: NewItem) {
        let old = self.item().state();
        copy.item(&self.space.memory).marks().inherit(old);
        let removed = self.entry.replace(copy);
        self.space.unlink(removed);
        let mut class = self.space.class(self.class()).lock();
        class.enqueue(self.entry.entered(), old.queue());
    }
}
