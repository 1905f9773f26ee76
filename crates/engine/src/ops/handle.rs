//! A worker's handle, the lookup of a key's item, and the changes to an item that a lookup has found.
//!
//! An operation holds the lock of its key's stripe from the lookup to its end. A get takes no other lock, unless the
//! eviction kind moves items at hits, as `eviction=lru` does. Otherwise a get only marks the item, and a store, an
//! eviction or the LRU maintainer moves the marked item later.

use super::item::ItemView;
use super::own_spares::OwnSpares;
use crate::config::EngineConfig;
use crate::counted_lock::CountedLock;
use crate::mem::{Arena, Entry, Linked, MappingError, NewItem, State, StripeGuard, UnlinkedChunks};
use crate::mover::Mover;
use crate::space::{AccessKind, InvalidReason, Space};
use crate::stats::{ClassOperations, HandleCounters};
use slabwise_base::random::mix;
use slabwise_base::{ClassId, Expiry, HashedKey, LookupKey, Now, WorkTime};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The largest number of keys for which one call prefetches cache lines.
const PREFETCHED_KEYS_MAX: usize = 32;

/// The state that all handles share: the space, and the mover of pages between the classes.
pub struct Cache {
    pub space: Space,
    pub mover: CountedLock<Mover>,
}

impl Cache {
    /// Creates an empty cache in the arena. Returns an error if the system refuses to reserve the address space for the
    /// index.
    pub fn new(config: EngineConfig, arena: Arena) -> Result<Cache, MappingError> {
        let space = Space::new(config, arena)?;
        let mover = CountedLock::new(Mover::new(&space.memory));
        Ok(Cache { space, mover })
    }
}

/// A worker's handle to the engine. Each worker has its own, with its own counters.
pub struct Handle<'e> {
    cache: &'e Cache,
    counters: Arc<HandleCounters>,
    spares: OwnSpares<'e>,
    /// The state of the sequence of random numbers.
    random_state: Cell<u64>,
}

impl<'e> Handle<'e> {
    pub(crate) fn new(cache: &'e Cache) -> Handle<'e> {
        let (counters, spares) = (cache.space.register(), OwnSpares::new(&cache.space));
        Handle { cache, counters, spares, random_state: Cell::new(0) }
    }

    /// Returns a number whose upper bits are random enough for [`Uses::add`](slabwise_base::Uses::add): a Weyl sequence,
    /// mixed by one multiplication. Without it, the numbers for a key that is requested at regular distances are almost
    /// equal for some distances.
    #[inline]
    pub(super) fn random(&self) -> u64 {
        // 2^64 divided by the golden ratio.
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let state = self.random_state.get().wrapping_add(STEP);
        self.random_state.set(state);
        (state ^ (state >> 32)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    pub(super) fn cache(&self) -> &'e Cache {
        self.cache
    }

    pub(super) fn space(&self) -> &'e Space {
        &self.cache.space
    }

    pub(super) fn spares(&self) -> &OwnSpares<'e> {
        &self.spares
    }

    pub(super) fn counters(&self) -> &HandleCounters {
        &self.counters
    }

    /// Returns the number of items that this handle has stored.
    pub fn stored(&self) -> u64 {
        self.counters.items_total.get()
    }

    /// Counts an item of this size that is being stored, and advances the work clock.
    #[inline]
    pub(super) fn count_stored(&self, size_bytes: u64) {
        let before = self.counters.bytes_stored.get();
        self.counters.count_stored(size_bytes);
        self.space().work.count_stored(before, before + size_bytes);
    }

    /// Returns a key with its hash. Operations that get this value need not compute the hash again.
    #[inline]
    pub fn hashed<'k>(&self, key: &'k [u8]) -> HashedKey<'k> {
        key.hashed_by(&self.space().hasher)
    }

    /// Prefetches the cache lines that lookups of these keys will read. Each step of the prefetch runs over all keys
    /// before the next step, so that the memory accesses of the keys overlap. Ignores all keys after the first 32.
    pub fn prefetch(&self, keys: &[HashedKey<'_>]) {
        // A hit that moves its item in the queue changes the links of the item's neighbours.
        self.prefetch_items(keys, self.space().acts_on_hits.load(Relaxed));
    }

    /// Prefetches the cache lines that stores and deletes of these keys will read or write: those of their lookups, of
    /// the requests for evicted keys, and of the neighbours of the items that they will remove from the queues. Ignores
    /// all keys after the first 32.
    pub fn prefetch_for_writes(&self, keys: &[HashedKey<'_>]) {
        let keys = &keys[..keys.len().min(PREFETCHED_KEYS_MAX)];
        keys.iter().for_each(|key| self.space().prefetch_ghosts(key.hash()));
        self.prefetch_items(keys, true);
    }

    #[inline]
    fn prefetch_items(&self, keys: &[HashedKey<'_>], with_neighbours: bool) {
        let space = self.space();
        let mut hashes = [0; PREFETCHED_KEYS_MAX];
        let keys = &keys[..keys.len().min(PREFETCHED_KEYS_MAX)];
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = key.hash();
            space.index.prefetch(*hash);
        }
        let hashes = &hashes[..keys.len()];
        hashes.iter().for_each(|&hash| space.index.prefetch_bucket(hash));
        let mut positions = [None; PREFETCHED_KEYS_MAX];
        for (position, &hash) in positions.iter_mut().zip(hashes) {
            if let Some((found, item)) = space.index.lock(hash).candidate(hash) {
                *position = Some(found);
                item.prefetch();
            }
        }
        if with_neighbours {
            for (position, &hash) in positions.iter().zip(hashes) {
                let Some(position) = *position else { continue };
                if let Some(item) = space.index.lock(hash).item_at(position) {
                    item.prefetch_neighbours();
                }
            }
        }
    }

    /// Looks a key up, marks the item as used, calls `f` with the item and returns the result of `f`. `None`: the key
    /// has no item. The item's stripe is locked while `f` runs. So `f` must be short and must call no operation; if the
    /// value is large, `f` should only pin the item.
    #[inline]
    pub fn get<'k, R>(
        &mut self,
        key: impl LookupKey<'k>,
        now: Now,
        f: impl FnOnce(ItemView<'_, 'e>) -> R,
    ) -> Option<R> {
        let key = key.hashed_by(&self.space().hasher);
        match Lookup::find_inline(self.space(), key, now, &self.counters) {
            Lookup::Found(mut found) => {
                let class = found.class();
                let state = found.item().state();
                let counters = self.counters.class(class);
                counters.hits_to[state.queue().index()].bump();
                if state.fields().cost {
                    self.count_saved(&found, counters);
                }
                let result = self.call_with_view(&mut found, true, now, f);
                let access = self.space().access_to(key.hash(), AccessKind::Hit, found.item());
                drop(found);
                self.space().report(access);
                Some(result)
            }
            Lookup::Missing(stripe) => {
                drop(stripe);
                self.counters.get_misses.bump();
                self.space().report_access(key.hash(), AccessKind::Miss, None);
                None
            }
        }
    }

    /// Looks a key up and calls `f` with the item, as [`Handle::get`] does, but neither marks the item nor counts the
    /// lookup. Removes an expired or flushed item.
    pub fn peek<'k, R>(
        &mut self,
        key: impl LookupKey<'k>,
        now: Now,
        f: impl FnOnce(ItemView<'_, 'e>) -> R,
    ) -> Option<R> {
        let key = key.hashed_by(&self.space().hasher);
        match Lookup::find(self.space(), key, now, &self.counters) {
            Lookup::Found(mut found) => Some(self.call_with_view(&mut found, false, now, f)),
            Lookup::Missing(_) => None,
        }
    }

    /// Adds the cost of an item that a get has hit to the statistic of saved costs. Also marks the item as active if
    /// the costs in its class differ widely. Does nothing if the item's cost is unknown.
    pub(super) fn count_saved(&self, found: &Found<'_>, counters: &ClassOperations) {
        if let Some(cost) = found.item().cost() {
            counters.cost_saved.add(u64::from(cost.units()));
            if self.space().class(found.class()).costs_differ_widely() {
                found.item().marks().mark_active();
            }
        }
    }

    /// Calls `f` with an item and returns the result of `f`. If `marks` is true, marks the item as used first.
    #[inline(always)]
    pub(super) fn call_with_view<R>(
        &self,
        found: &mut Found<'e>,
        marks: bool,
        now: Now,
        f: impl FnOnce(ItemView<'_, 'e>) -> R,
    ) -> R {
        let last_access = found.item().time();
        let fetched = if marks {
            found.mark_hit(now, || self.random())
        } else {
            found.item().state().fetched()
        };
        f(ItemView { space: self.space(), item: found.item(), last_access, fetched })
    }
}

/// A valid item that a lookup has found. Its stripe is locked as long as this value exists.
pub struct Found<'e> {
    pub space: &'e Space,
    pub entry: Entry<'e>,
}

/// The result of a lookup. The stripe stays locked in both cases.
pub enum Lookup<'e> {
    /// The key has a valid item.
    Found(Found<'e>),
    /// The key has no item. The guard locks the key's stripe.
    Missing(StripeGuard<'e>),
}

impl<'e> Lookup<'e> {
    /// Finds the item of a key. Removes the item if it has expired or was flushed.
    pub fn find(
        space: &'e Space,
        key: HashedKey<'_>,
        now: Now,
        counters: &HandleCounters,
    ) -> Lookup<'e> {
        Lookup::find_inline(space, key, now, counters)
    }

    /// Does the same as [`Lookup::find`], but is inlined, so that the results stay in registers. For [`Handle::get`],
    /// the most frequent operation.
    #[inline(always)]
    pub fn find_inline(
        space: &'e Space,
        key: HashedKey<'_>,
        now: Now,
        counters: &HandleCounters,
    ) -> Lookup<'e> {
        space.observe_time(now);
        let stripe = space.index.lock(key.hash());
        let entry = match Entry::find(stripe, key.hash(), key.bytes()) {
            Ok(entry) => entry,
            Err(stripe) => return Lookup::Missing(stripe),
        };
        match space.invalid_reason(entry.item(), now) {
            None => Lookup::Found(Found { space, entry }),
            Some(reason) => {
                match reason {
                    InvalidReason::Expired => counters.get_expired.bump(),
                    InvalidReason::Flushed => counters.get_flushed.bump(),
                }
                Found { space, entry }.remove_invalid(key, now, counters)
            }
        }
    }
}

impl<'e> Found<'e> {
    #[inline]
    pub fn item(&self) -> Linked<'_> {
        self.entry.item()
    }

    /// Returns the class that queues the item.
    #[inline]
    pub fn class(&self) -> ClassId {
        self.item().queue_class()
    }

    /// Removes an expired or flushed item and returns the result of the lookup. A chained item has many chunks, so its
    /// stripe is unlocked before they are freed. Another thread may store the key meanwhile, so the lookup is repeated.
    #[cold]
    fn remove_invalid(self, key: HashedKey<'_>, now: Now, counters: &HandleCounters) -> Lookup<'e> {
        let space = self.space;
        space.report_access(key.hash(), AccessKind::Delete, Some(self.class()));
        space.ghosts.insert(key.hash(), self.item().uses());
        if self.item().state().chained() {
            self.remove();
            return Lookup::find(space, key, now, counters);
        }
        let (stripe, removed) = self.entry.remove();
        space.unlink(removed);
        Lookup::Missing(stripe)
    }

    /// Removes the item. Frees its chunks after unlocking its stripe.
    fn remove(self) {
        let space = self.space;
        let remains = self.unlink();
        space.free_unlinked(remains);
    }

    /// Removes the item of the key with this hash, and remembers the requests for the key. Frees its chunks after
    /// unlocking its stripe, and keeps the first one as a spare chunk if possible.
    pub fn remove_into(self, hash: u64, spares: &OwnSpares<'_>) {
        self.space.ghosts.insert(hash, self.item().uses());
        let remains = self.unlink();
        spares.free_unlinked(remains);
    }

    /// Removes the item and unlocks its stripe. The caller frees its chunks.
    fn unlink(self) -> Option<UnlinkedChunks> {
        let (stripe, removed) = self.entry.remove();
        let remains = self.space.unlink_without_freeing(removed);
        drop(stripe);
        remains
    }

    /// Counts a request for the item at this time if the eviction kind counts requests. `random` returns a random number.
    #[inline(always)]
    fn count_use(&self, time: WorkTime, random: impl FnOnce() -> u64) {
        if self.space.counts_uses {
            let item = self.item();
            item.set_uses(item.uses().add(item.time().age_at(time), random()));
        }
    }

    /// Marks the item as hit and sets its access time. Returns true if the item had been hit before.
    #[inline(always)]
    pub fn mark_hit(&mut self, now: Now, random: impl FnOnce() -> u64) -> bool {
        let state = self.item().marks().mark_hit();
        let time = self.space.work.now();
        self.count_use(time, random);
        self.note_access(state, time, now);
        state.fetched()
    }

    /// Marks the item as active, counts a request and sets its access time, without marking a hit.
    pub fn mark_active_on_use(&mut self, now: Now) {
        self.item().marks().mark_active();
        let (cas, time) = (self.item().cas(), self.space.work.now());
        self.count_use(time, || mix(cas));
        self.note_access(self.item().state(), time, now);
    }

    /// Sets the access time to `time`, and reorders the item if the eviction kind reorders items at hits. `state` is a
    /// copy of the item's state.
    #[inline(always)]
    fn note_access(&mut self, state: State, time: WorkTime, now: Now) {
        let item = self.item();
        // The access time of an item whose CAS value a client chose must not decrease: a flush invalidates such an item
        // by its access time.
        if !state.has_given_cas() || time.is_after(item.time()) {
            item.set_time(time);
        }
        self.space.note_page_access(|| item.chunks(), now);
        if self.space.acts_on_hits.load(Relaxed) {
            self.reorder();
        }
    }

    /// Reorders the item in its class after a hit.
    #[cold]
    fn reorder(&mut self) {
        self.space.class(self.class()).lock().hit(&mut self.entry);
    }

    /// True if the item can store this expiry in place: it has a field for its expiry, or the item is not to expire.
    pub fn can_hold(&self, expiry: Expiry) -> bool {
        expiry == Expiry::NEVER || self.item().state().fields().expiry
    }

    /// Sets an expiry that the item can store in place ([`Found::can_hold`]).
    pub fn set_expiry_in_place(&mut self, expiry: Expiry) {
        if self.item().state().fields().expiry {
            let mut class = self.space.class(self.class()).lock();
            self.entry.meta_access(&mut class.pages.token).set_expiry(expiry);
        }
    }

    /// Replaces the item by a copy in other chunks. The copy gets the item's marks, except *active*, and enters the
    /// item's queue like a new item. Frees the old chunks while the stripe is locked.
    pub fn replace_by_copy(&mut self, copy: NewItem) {
        let old = self.item().state();
        copy.item(&self.space.memory).marks().inherit(old);
        let removed = self.entry.replace(copy);
        self.space.unlink(removed);
        let mut class = self.space.class(self.class()).lock();
        class.enqueue(self.entry.entered(), old.queue());
    }
}
