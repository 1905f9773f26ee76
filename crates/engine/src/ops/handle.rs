//! A worker's operations that read, touch or delete.
//!
//! Each holds its key's stripe from the look-up to the end. A get takes no other lock (but under
//! `eviction=lru`): it marks the item and leaves moving it to others.

use super::cache::Cache;
use super::item::{Found, ItemView, Lookup};
use super::reservation::{ExpirySet, Reservation, ReserveError, Spare};
use crate::layout::ItemMeta;
use crate::space::{AccessKind, Space};
use crate::stats::{ClassOperations, HandleCounters};
use slabwise_base::{Expiry, HashedKey, LookupKey, Now};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A per-worker handle to the engine; see the crate's documentation.
pub struct Handle<'e> {
    cache: &'e Cache,
    space: &'e Space,
    counters: Arc<HandleCounters>,
}

impl<'e> Handle<'e> {
    pub(crate) fn new(cache: &'e Cache) -> Handle<'e> {
        Handle { cache, space: &cache.space, counters: cache.space.register() }
    }

    pub(super) fn cache(&self) -> &'e Cache {
        self.cache
    }

    pub(super) fn space(&self) -> &'e Space {
        self.space
    }

    pub(super) fn counters(&self) -> &HandleCounters {
        &self.counters
    }

    /// A key with its hash, so that the operations that follow need not hash it again.
    #[inline]
    pub fn hashed<'k>(&self, key: &'k [u8]) -> HashedKey<'k> {
        key.hashed_by(&self.space.hasher)
    }

    /// Asks for the cache lines that look-ups of these keys will need: one step of all keys after the
    /// other, so that they wait for memory together. A hint for at most 32 keys; it changes and counts
    /// nothing.
    pub fn prefetch(&self, keys: &[HashedKey<'_>]) {
        const KEYS_MAX: usize = 32;
        let space = self.space;
        let mut hashes = [0; KEYS_MAX];
        let keys = &keys[..keys.len().min(KEYS_MAX)];
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = key.hash();
            space.index.prefetch(*hash);
        }
        let hashes = &hashes[..keys.len()];
        space.index.prefetch_buckets(hashes);
        for &hash in hashes {
            if let Some(item) = space.index.lock(hash).candidate(hash) {
                item.prefetch();
            }
        }
        if space.acts_on_hits.load(Relaxed) {
            // A hit takes its item out from between two others.
            for &hash in hashes {
                if let Some(item) = space.index.lock(hash).candidate(hash) {
                    item.prefetch_neighbours();
                }
            }
        }
    }

    /// Looks a key up, marks the item as used, and shows it to `f`. The stripe is locked meanwhile, so
    /// `f` must be short and call no operation; for a large value it takes a pin and leaves.
    #[inline]
    pub fn get<'k, R>(
        &mut self,
        key: impl LookupKey<'k>,
        now: Now,
        f: impl FnOnce(ItemView<'_, 'e>) -> R,
    ) -> Option<R> {
        let key = key.hashed_by(&self.space.hasher);
        match Lookup::of_inline(self.space, key, now, &self.counters) {
            Lookup::Found(mut found) => {
                let class = found.class();
                let state = found.item().state();
                let counters = self.counters.class(class);
                counters.hits_to[state.queue().index()].bump();
                if state.fields().cost {
                    self.count_saved(&found, counters);
                }
                let shown = self.show(&mut found, now, f);
                drop(found);
                self.space.show_access(key.hash(), AccessKind::Hit, Some(class));
                Some(shown)
            }
            Lookup::Missing(stripe) => {
                drop(stripe);
                self.counters.get_misses.bump();
                self.space.show_access(key.hash(), AccessKind::Miss, None);
                None
            }
        }
    }

    /// The same without marking or counting.
    pub fn peek<'k, R>(
        &mut self,
        key: impl LookupKey<'k>,
        now: Now,
        f: impl FnOnce(ItemView<'_, 'e>) -> R,
    ) -> Option<R> {
        let space = self.space;
        let key = key.hashed_by(&space.hasher);
        let Lookup::Found(found) = Lookup::of(space, key, now, &self.counters) else {
            return None;
        };
        let item = found.item();
        let (last_access, fetched) = (item.time(), item.state().fetched());
        Some(f(ItemView::new(space, item, last_access, fetched)))
    }

    /// Changes when an item ends, then shows it to `f` like [`Handle::get`].
    /// Counts as a touch.
    pub fn get_and_touch<'k, R>(
        &mut self,
        key: impl LookupKey<'k>,
        expiry: Expiry,
        now: Now,
        f: impl FnOnce(ItemView<'_, 'e>) -> R,
    ) -> Result<Option<R>, ReserveError> {
        self.counters.touches.bump();
        let key = key.hashed_by(&self.space.hasher);
        match self.set_expiry(key, expiry, now)? {
            Some(mut found) => {
                let class = found.class();
                self.counters.class(class).touch_hits.bump();
                self.counters.class(class).gat_hits.bump();
                self.count_saved(&found, self.counters.class(class));
                let shown = self.show(&mut found, now, f);
                drop(found);
                self.space.show_access(key.hash(), AccessKind::Hit, Some(class));
                Ok(Some(shown))
            }
            None => {
                self.counters.touch_misses.bump();
                self.counters.gat_misses.bump();
                self.space.show_access(key.hash(), AccessKind::Miss, None);
                Ok(None)
            }
        }
    }

    /// Changes when an item ends. `Ok(false)`: there is no such item.
    pub fn touch<'k>(
        &mut self,
        key: impl LookupKey<'k>,
        expiry: Expiry,
        now: Now,
    ) -> Result<bool, ReserveError> {
        self.counters.touches.bump();
        let key = key.hashed_by(&self.space.hasher);
        match self.set_expiry(key, expiry, now)? {
            Some(mut found) => {
                let class = found.class();
                self.counters.class(class).touch_hits.bump();
                found.mark_hit(now);
                drop(found);
                self.space.show_access(key.hash(), AccessKind::Touch, Some(class));
                Ok(true)
            }
            None => {
                self.counters.touch_misses.bump();
                Ok(false)
            }
        }
    }

    /// Deletes an item. False: there is none.
    pub fn delete<'k>(&mut self, key: impl LookupKey<'k>, now: Now) -> bool {
        let key = key.hashed_by(&self.space.hasher);
        match Lookup::of(self.space, key, now, &self.counters) {
            Lookup::Found(found) => {
                let class = found.class();
                self.counters.class(class).delete_hits.bump();
                found.remove();
                self.space.show_access(key.hash(), AccessKind::Delete, Some(class));
                true
            }
            Lookup::Missing(stripe) => {
                drop(stripe);
                self.counters.delete_misses.bump();
                self.space.show_access(key.hash(), AccessKind::Delete, None);
                false
            }
        }
    }

    /// Removes an item without counting it as a delete: what a failed store leaves behind is stale.
    pub fn discard<'k>(&mut self, key: impl LookupKey<'k>, now: Now) {
        let key = key.hashed_by(&self.space.hasher);
        if let Lookup::Found(found) = Lookup::of(self.space, key, now, &self.counters) {
            let class = found.class();
            found.remove();
            self.space.show_access(key.hash(), AccessKind::Delete, Some(class));
        }
    }

    /// Takes memory for an item, evicting as needed; for a value of several chunks as it is filled, so
    /// look at [`Reservation::is_starved`] when it takes no more. Nobody sees the item before
    /// [`Handle::store`]. Keys have 1 to 250 bytes.
    pub fn reserve<'k>(
        &mut self,
        key: impl LookupKey<'k>,
        value_len: usize,
        meta: ItemMeta,
        now: Now,
    ) -> Result<Reservation<'e>, ReserveError> {
        let key = key.hashed_by(&self.space.hasher);
        let reserved = Reservation::take(self.cache, key, value_len, meta, now);
        match reserved {
            Ok(_) => {}
            Err(ReserveError::TooLarge) => self.counters.store_too_large.bump(),
            Err(ReserveError::OutOfMemory) => self.counters.store_no_memory.bump(),
        }
        reserved
    }

    /// Counts a store that the caller refused as too large, by a limit narrower than the engine's own.
    pub fn count_too_large(&mut self) {
        self.counters.store_too_large.bump();
    }

    /// Counts what a hit on this item saves.
    pub(super) fn count_saved(&self, found: &Found<'_>, counters: &ClassOperations) {
        if let Some(cost) = found.item().cost() {
            counters.cost_saved.add(u64::from(cost.units()));
            if self.space.class(found.class()).costs_are_apart() {
                found.item().mark_active();
            }
        }
    }

    fn show<R>(&self, found: &mut Found<'e>, now: Now, f: impl FnOnce(ItemView<'_, 'e>) -> R) -> R {
        let last_access = found.item().time();
        let fetched = found.mark_hit(now);
        f(ItemView::new(self.space, found.item(), last_access, fetched))
    }

    /// Finds an item and gives it a new expiry.
    fn set_expiry(
        &self,
        key: HashedKey<'_>,
        expiry: Expiry,
        now: Now,
    ) -> Result<Option<Found<'e>>, ReserveError> {
        let mut spare = Spare::new(self.cache);
        loop {
            let Lookup::Found(found) = Lookup::of(self.space, key, now, &self.counters) else {
                return Ok(None);
            };
            match spare.set_expiry(found, key, expiry, now)? {
                ExpirySet::Done(found) => return Ok(Some(found)),
                ExpirySet::LookAgain => {}
            }
        }
    }
}
