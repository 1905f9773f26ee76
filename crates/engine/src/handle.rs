//! A worker's operations that read, touch or delete.
//!
//! Each holds its key's stripe from the look-up to the end. A get takes no other lock (but under
//! `eviction=lru`): it marks the item and leaves moving it to others.

use crate::counters::{ClassOperations, HandleCounters};
use crate::engine::{Death, Engine};
use crate::flush_mark::is_later;
use crate::index::{Slot, StripeGuard};
use crate::item::ItemView;
use crate::mem::{ChunkAddress, OwnedChunk, ReadProof, State};
use crate::reservation::{ItemMeta, Reservation, ReserveError};
use crate::spare::{ExpirySet, Spare};
use crate::tap::AccessKind;
use slabwise_base::{Expiry, HashedKey, LookupKey, Now};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// One worker's face of the engine; see the crate's documentation.
pub struct Handle<'e> {
    engine: &'e Engine,
    counters: Arc<HandleCounters>,
}

/// A live item, found under its locked stripe.
pub(crate) struct Found<'e> {
    pub engine: &'e Engine,
    pub stripe: StripeGuard<'e>,
    pub slot: Slot,
    pub address: ChunkAddress,
}

/// What a look-up came to. The stripe stays locked either way.
pub(crate) enum Lookup<'e> {
    Found(Found<'e>),
    Missing(StripeGuard<'e>),
}

impl<'e> Handle<'e> {
    pub(crate) fn new(engine: &'e Engine, counters: Arc<HandleCounters>) -> Handle<'e> {
        Handle { engine, counters }
    }

    /// The engine behind it.
    pub fn engine(&self) -> &'e Engine {
        self.engine
    }

    pub(crate) fn counters(&self) -> &HandleCounters {
        &self.counters
    }

    /// A key with its hash, so that the operations that follow need not hash it again.
    #[inline]
    pub fn hashed<'k>(&self, key: &'k [u8]) -> HashedKey<'k> {
        key.hashed_by(&self.engine.hasher)
    }

    /// Asks for the cache lines that look-ups of these keys will need: one step of all keys after the
    /// other, so that they wait for memory together. A hint for at most 32 keys; it changes and counts
    /// nothing.
    pub fn prefetch(&self, keys: &[HashedKey<'_>]) {
        const KEYS_MAX: usize = 32;
        let engine = self.engine;
        let mut hashes = [0; KEYS_MAX];
        let keys = &keys[..keys.len().min(KEYS_MAX)];
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = key.hash();
            engine.index.prefetch(*hash);
        }
        let hashes = &hashes[..keys.len()];
        engine.index.prefetch_buckets(hashes);
        let mut candidates = [None; KEYS_MAX];
        for (candidate, &hash) in candidates.iter_mut().zip(hashes) {
            *candidate = engine.index.lock(hash).candidate(hash);
            if let Some(address) = *candidate {
                engine.memory.arena.prefetch_item(address);
            }
        }
        if engine.acts_on_hits.load(Relaxed) {
            // A hit takes its item out from between two others.
            for address in candidates.into_iter().flatten() {
                engine.memory.prefetch_neighbours(address);
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
        let key = key.hashed_by(&self.engine.hasher);
        match self.engine.lookup_inline(key, now, &self.counters) {
            Lookup::Found(found) => {
                let class = self.engine.queue_class(found.address);
                let state = self.engine.memory.header(found.address).state().load();
                let counters = self.counters.class(class);
                counters.hits_to[state.queue().index()].bump();
                if state.fields().cost {
                    self.count_saved(&found, counters);
                }
                let shown = self.show(&found, now, f);
                drop(found);
                self.engine.tap(key.hash(), AccessKind::Hit, Some(class));
                Some(shown)
            }
            Lookup::Missing(stripe) => {
                drop(stripe);
                self.counters.get_misses.bump();
                self.engine.tap(key.hash(), AccessKind::Miss, None);
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
        let engine = self.engine;
        let key = key.hashed_by(&engine.hasher);
        let Lookup::Found(found) = engine.lookup(key, now, &self.counters) else {
            return None;
        };
        let header = engine.memory.header(found.address);
        let (last_access, fetched) = (header.time(), header.state().load().fetched());
        let proof = ReadProof::under_stripe(&found.stripe);
        Some(f(ItemView::new(engine, found.address, proof, last_access, fetched)))
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
        let key = key.hashed_by(&self.engine.hasher);
        match self.set_expiry(key, expiry, now)? {
            Some(found) => {
                let class = self.engine.queue_class(found.address);
                self.counters.class(class).touch_hits.bump();
                self.counters.class(class).gat_hits.bump();
                self.count_saved(&found, self.counters.class(class));
                let shown = self.show(&found, now, f);
                drop(found);
                self.engine.tap(key.hash(), AccessKind::Hit, Some(class));
                Ok(Some(shown))
            }
            None => {
                self.counters.touch_misses.bump();
                self.counters.gat_misses.bump();
                self.engine.tap(key.hash(), AccessKind::Miss, None);
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
        let key = key.hashed_by(&self.engine.hasher);
        match self.set_expiry(key, expiry, now)? {
            Some(found) => {
                let class = self.engine.queue_class(found.address);
                self.counters.class(class).touch_hits.bump();
                self.engine.mark_hit(&found, now);
                drop(found);
                self.engine.tap(key.hash(), AccessKind::Touch, Some(class));
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
        let key = key.hashed_by(&self.engine.hasher);
        match self.engine.lookup(key, now, &self.counters) {
            Lookup::Found(found) => {
                let class = self.engine.queue_class(found.address);
                self.counters.class(class).delete_hits.bump();
                self.engine.remove(found);
                self.engine.tap(key.hash(), AccessKind::Delete, Some(class));
                true
            }
            Lookup::Missing(stripe) => {
                drop(stripe);
                self.counters.delete_misses.bump();
                self.engine.tap(key.hash(), AccessKind::Delete, None);
                false
            }
        }
    }

    /// Removes an item without counting it as a delete: what a failed store leaves behind is stale.
    pub fn discard<'k>(&mut self, key: impl LookupKey<'k>, now: Now) {
        let key = key.hashed_by(&self.engine.hasher);
        if let Lookup::Found(found) = self.engine.lookup(key, now, &self.counters) {
            let class = self.engine.queue_class(found.address);
            self.engine.remove(found);
            self.engine.tap(key.hash(), AccessKind::Delete, Some(class));
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
        let key = key.hashed_by(&self.engine.hasher);
        let reserved = self.engine.reserve(key, value_len, meta, now);
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
    pub(crate) fn count_saved(&self, found: &Found<'_>, counters: &ClassOperations) {
        let engine = self.engine;
        let proof = ReadProof::under_stripe(&found.stripe);
        if let Some(cost) = engine.memory.cost(found.address, proof) {
            counters.cost_saved.add(u64::from(cost.units()));
            if engine.class(engine.queue_class(found.address)).costs_are_apart() {
                engine.memory.header(found.address).state().mark_active();
            }
        }
    }

    fn show<R>(&self, found: &Found<'e>, now: Now, f: impl FnOnce(ItemView<'_, 'e>) -> R) -> R {
        let engine = self.engine;
        let last_access = engine.memory.header(found.address).time();
        let fetched = engine.mark_hit(found, now);
        let proof = ReadProof::under_stripe(&found.stripe);
        f(ItemView::new(engine, found.address, proof, last_access, fetched))
    }

    /// Finds an item and gives it a new expiry.
    fn set_expiry(
        &self,
        key: HashedKey<'_>,
        expiry: Expiry,
        now: Now,
    ) -> Result<Option<Found<'e>>, ReserveError> {
        let mut spare = Spare::default();
        loop {
            let Lookup::Found(found) = self.engine.lookup(key, now, &self.counters) else {
                return Ok(None);
            };
            match spare.set_expiry(found, key, expiry, now)? {
                ExpirySet::Done(found) => return Ok(Some(found)),
                ExpirySet::LookAgain => {}
            }
        }
    }
}

impl<'e> Engine {
    /// Finds a key's item; one that has ended is removed on the way.
    pub(crate) fn lookup(
        &'e self,
        key: HashedKey<'_>,
        now: Now,
        counters: &HandleCounters,
    ) -> Lookup<'e> {
        self.lookup_inline(key, now, counters)
    }

    /// The same for the hottest caller: nothing is passed through memory.
    #[inline(always)]
    fn lookup_inline(
        &'e self,
        key: HashedKey<'_>,
        now: Now,
        counters: &HandleCounters,
    ) -> Lookup<'e> {
        self.settle_flush(now);
        let stripe = self.index.lock(key.hash());
        let proof = ReadProof::under_stripe(&stripe);
        let is_match = |address| self.memory.key(address, proof) == key.bytes();
        let Some((slot, address)) = stripe.find(key.hash(), is_match) else {
            return Lookup::Missing(stripe);
        };
        match self.death_of(address, now, proof) {
            None => Lookup::Found(Found { engine: self, stripe, slot, address }),
            Some(death) => {
                match death {
                    Death::Expired => counters.get_expired.bump(),
                    Death::Flushed => counters.get_flushed.bump(),
                }
                let ended = Found { engine: self, stripe, slot, address };
                self.remove_ended(ended, key, now, counters)
            }
        }
    }

    /// Removes an item that has ended on its own; a chained one's stripe is let go while its chunks are
    /// freed, so the key may be stored again meanwhile.
    #[cold]
    fn remove_ended(
        &'e self,
        mut ended: Found<'e>,
        key: HashedKey<'_>,
        now: Now,
        counters: &HandleCounters,
    ) -> Lookup<'e> {
        self.tap(key.hash(), AccessKind::Delete, Some(self.queue_class(ended.address)));
        if self.memory.header(ended.address).state().load().chained() {
            self.remove(ended);
            return self.lookup(key, now, counters);
        }
        ended.stripe.remove(ended.slot);
        self.unlink(ended.address);
        Lookup::Missing(ended.stripe)
    }

    /// Ends a found item. Its chunks are freed after its stripe was let go.
    pub(crate) fn remove(&self, mut found: Found<'_>) {
        found.stripe.remove(found.slot);
        let remains = self.unlink_unfreed(found.address);
        drop(found);
        self.free_remains(remains);
    }

    /// Marks a hit. Returns whether the item had been hit before.
    #[inline(always)]
    pub(crate) fn mark_hit(&self, found: &Found<'_>, now: Now) -> bool {
        self.mark_hit_at(found.address, &found.stripe, now)
    }

    /// The same for an item whose stripe the caller holds.
    #[inline(always)]
    pub(crate) fn mark_hit_at(
        &self,
        address: ChunkAddress,
        stripe: &StripeGuard<'_>,
        now: Now,
    ) -> bool {
        let state = self.memory.header(address).state().mark_hit();
        self.date(address, stripe, state, now);
        state.fetched()
    }

    /// Notes that an item was accessed just now; `state` is a reading of its word.
    #[inline(always)]
    pub(crate) fn date(
        &self,
        address: ChunkAddress,
        stripe: &StripeGuard<'_>,
        state: State,
        now: Now,
    ) {
        let header = self.memory.header(address);
        // The date of an item with a given CAS value never goes back: FlushMark's law.
        if !state.has_given_cas() || is_later(now.ticks, header.time()) {
            header.set_time(now.ticks);
        }
        if self.acts_on_hits.load(Relaxed) {
            self.place_hit(address, stripe);
        }
    }

    /// Moves an item that was accessed to where it belongs by now.
    #[cold]
    fn place_hit(&self, address: ChunkAddress, stripe: &StripeGuard<'_>) {
        self.class(self.queue_class(address)).lock().hit(&self.memory, address, stripe);
    }

    /// Publishes `chunk` in the place of the item that was found, which ends. Its chunks are freed under
    /// the stripe, where its value was copied.
    pub(crate) fn supersede(&self, found: &mut Found<'_>, chunk: OwnedChunk) {
        let old = self.memory.header(found.address).state().load();
        self.memory.header(chunk.address()).state().inherit(old);
        found.stripe.replace(found.slot, chunk.address());
        self.unlink(found.address);
        let class = self.queue_class(chunk.address());
        found.address = self.class(class).lock().enqueue(&self.memory, chunk, old.queue());
    }
}
