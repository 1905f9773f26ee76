//! Allocation and release of chunks, unlinking of items, and eviction.
//!
//! An eviction has two steps. First, under the lock of its class, a victim is *detached*: removed from its queue and
//! pinned. Then this lock is released, the victim's stripe is locked, and the victim's entry is removed from the index,
//! unless another thread has removed it before. Between the two steps, other threads may read, replace or delete the
//! item. No lock of a stripe is held while a class is searched for a victim.
//!
//! A search for a victim first lets the eviction order of the class select one. If that item is pinned, the search
//! walks over the queues, lane by lane, and within a lane in the order COLD, HOT, WARM, TEMP. It moves each pinned item
//! at a tail to the head of the same queue, so that later searches do not check this item again soon.
//!
//! Invariant: a search checks a bounded number of items before it releases the class's lock. It ends without a victim
//! only after it has checked every item of the class.

use super::observers::Eviction;
use super::shared::{AccessKind, Space};
use super::work_clock::WorkClock;
use crate::class::{CHAINED, ClassState, ClassStatus, VictimStep};
use crate::counted_lock::CountedGuard;
use crate::evict::{COLDEST_FIRST, Lane, Move, Place, Position};
use crate::mem::{
    Entry, OwnedChunk, Pin, QueueKind, Queued, Removed, SPARES_MAX, Slot, State, UnlinkedChunks,
};
use slabwise_base::{ClassId, Expiry, Now, WorkTime};
use std::cmp::Reverse;

impl Space {
    /// Takes a free chunk of a locked class. If the class has none, it gets a page from the page pool, unless the class
    /// is retired. Returns `None` if there is neither a free chunk nor a page.
    pub fn take_free(&self, state: &mut ClassState) -> Option<OwnedChunk> {
        if let Some(chunk) = state.pages.take() {
            return Some(chunk);
        }
        if state.status() != ClassStatus::Present {
            return None;
        }
        let beyond_limit =
            self.config.first_page_beyond_limit && state.pages.token.page_count() == 0;
        let page = self.lock_pool().take(&self.memory, beyond_limit)?;
        state.adopt(page);
        state.pages.take()
    }

    /// Drops a pin. If this was the last pin of an unlinked item, frees the item's bodies and returns its first chunk.
    /// Otherwise returns `None`.
    pub fn unpin_to_owned(&self, pin: impl Into<Pin>) -> Option<OwnedChunk> {
        Some(self.free_bodies(self.memory.unpin(pin)?))
    }

    /// Drops a pin. If this was the last pin of an unlinked item, frees the item's chunks. If the mover has copied the
    /// item to another page, the bodies belong to the copy, so only the first chunk is freed.
    pub fn unpin(&self, pin: impl Into<Pin>) {
        if let Some(chunk) = self.unpin_to_owned(pin) {
            self.give_free(chunk);
        }
    }

    /// Frees the bodies of an unlinked item and returns its first chunk, the head. The caller frees the head after the
    /// bodies, because a body refers to its head as long as the body is in use.
    #[inline(always)]
    pub fn free_bodies(&self, mut remains: UnlinkedChunks) -> OwnedChunk {
        loop {
            let class = match remains.try_into_chunk(&self.memory) {
                Ok(head) => return head,
                Err((rest, class)) => {
                    remains = rest;
                    class
                }
            };
            let mut class = self.class(class).lock();
            let body = remains.take_body(&mut class.pages.token);
            class.pages.give(body);
        }
    }

    /// Returns a chunk to its class.
    pub fn give_free(&self, chunk: OwnedChunk) {
        self.class(chunk.class()).lock().pages.give(chunk);
    }

    /// Removes an item from its queue after it was removed from the index. The item's stripe is still locked. The
    /// chunks are not freed here: an item may have many of them, so the caller unlocks the stripe first.
    pub fn unlink_without_freeing(&self, item: Removed) -> Option<UnlinkedChunks> {
        self.class(item.queue_class(&self.memory)).lock().unlink(item)
    }

    /// Frees the chunks of an unlinked item.
    #[inline(always)]
    pub fn free_unlinked(&self, remains: Option<UnlinkedChunks>) {
        if let Some(remains) = remains {
            let head = self.free_bodies(remains);
            self.give_free(head);
        }
    }

    /// Removes an item from its queue after it was removed from the index, and frees its chunks. The item's stripe
    /// stays locked meanwhile.
    pub fn unlink(&self, item: Removed) {
        self.free_unlinked(self.unlink_without_freeing(item));
    }
}

/// The largest number of victims that are detached before the lock of their class is released. The search for each of
/// them may move some tens of active items.
const VICTIMS_PER_LOCK_MAX: usize = 8;

/// Why an item is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evictor {
    /// A store needs its chunk.
    Store,
    /// The mover makes room for items of a page that moves.
    Mover,
}

/// The result of one eviction.
pub enum Evicted {
    /// The victim had this chunk, which is of the requested class. The caller owns the chunk now.
    Chunk(OwnedChunk),
    /// An item was evicted, but the caller gets no chunk. The chunks are free, in the requested class or in others, or
    /// are freed with the item's last pin.
    Freed,
    /// No item can be evicted.
    Nothing,
}

/// A detached item: it was removed from its queue and pinned, but it is still in the index.
#[must_use = "a detached item stays in the index until `finish_eviction` removes it"]
pub struct DetachedVictim {
    /// The pin that keeps the item's bytes in place.
    pub pin: Pin,
    /// True if the item has expired or was flushed. Its removal then does not count as an eviction.
    is_invalid: bool,
    /// The item's expiry when it was detached.
    expiry: Expiry,
    /// The time of the operation that evicts the item.
    now: Now,
}

/// Detached victims of one class.
#[derive(Default)]
#[must_use = "detached items stay in the index until `finish_batch` removes them"]
pub struct DetachedBatch([Option<DetachedVictim>; SPARES_MAX]);

/// The largest number of items that one step of a search over the queues checks.
const CHECKS_MAX: usize = 64;

/// A search for a victim in one class, which other threads may change between the steps.
#[derive(Debug, Default)]
struct VictimSearch {
    /// True after the class's eviction order has found no item that can be evicted. The search then walks over the
    /// queues.
    is_walking: bool,
    /// The lane that the search is in; lanes with lower numbers are done. `None`: the walk has not begun.
    lane: Option<Lane>,
    /// The number of queues of this lane that are done, in the order of [`COLDEST_FIRST`].
    queues_passed: usize,
    /// The number of pinned items of the current queue that the search has moved to the head.
    items_passed: u64,
}

impl VictimSearch {
    /// Makes the next step of the search, under the class's lock.
    fn step(
        &mut self,
        class: &mut ClassState,
        now: WorkTime,
        is_invalid: impl Fn(Queued<'_>) -> bool,
    ) -> VictimStep {
        if !self.is_walking {
            match class.choose_victim(now, is_invalid) {
                VictimStep::Nothing => self.is_walking = true,
                step => return step,
            }
        }
        for _ in 0..CHECKS_MAX {
            let from = self.lane.unwrap_or_default();
            let Some(lane) = class.lanes.next_from(from) else {
                return VictimStep::Nothing;
            };
            if self.lane != Some(lane) {
                (self.lane, self.queues_passed, self.items_passed) = (Some(lane), 0, 0);
            }
            let Some(&queue) = COLDEST_FIRST.get(self.queues_passed) else {
                (self.lane, self.queues_passed) = (Some(Lane(lane.0 + 1)), 0);
                continue;
            };
            let place = Place { lane, queue };
            match class.tail(place) {
                Some(tail) if self.items_passed < class.lanes.queue(place).count() => {
                    if tail.is_unpinned() {
                        return VictimStep::Found(Position::Tail(place));
                    }
                    class.counters.tail_pinned += 1;
                    class.apply(Move::within(lane, queue, queue));
                    self.items_passed += 1;
                }
                _ => (self.queues_passed, self.items_passed) = (self.queues_passed + 1, 0),
            }
        }
        VictimStep::Continue
    }
}

impl Space {
    /// Evicts an item of the class's own queues, to free a chunk of `class`. The chunks of the largest class hold both
    /// whole items and bodies, so there the next chained item is evicted instead if it is colder.
    pub fn evict_first_for(&self, class: ClassId, evictor: Evictor, now: Now) -> Evicted {
        if class == self.largest && self.chained_is_colder_than(class) {
            match self.evict(CHAINED, class, evictor, now) {
                Evicted::Nothing => {}
                outcome => return outcome,
            }
        }
        self.evict(class, class, evictor, now)
    }

    /// Evicts a chained item to free a chunk of `class`, if the class's chunks hold heads or bodies. The caller has found no
    /// item to evict in the class's own queues.
    pub fn evict_chained_for(&self, class: ClassId, evictor: Evictor, now: Now) -> Evicted {
        if self.unqueued_count(&self.class(class).lock()) > 0 {
            self.evict(CHAINED, class, evictor, now)
        } else {
            Evicted::Nothing
        }
    }

    /// Evicts an item to free a chunk of `class` for an item that the mover carries: an item of the class's own queues.
    /// If there is none, evicts a chained item, but only if the next one has its head in the class, or the class is the
    /// largest: other chained items may have no chunk of the class. If nothing was evicted, the mover can drop the carried
    /// item itself.
    pub fn evict_for_carried(&self, class: ClassId, now: Now) -> Evicted {
        let may_evict_chained = || class == self.largest || self.coldest_chained_has_head_in(class);
        match self.evict_first_for(class, Evictor::Mover, now) {
            Evicted::Nothing if may_evict_chained() => {
                self.evict_chained_for(class, Evictor::Mover, now)
            }
            outcome => outcome,
        }
    }

    /// True if the chained item that would be evicted next has its head in this class.
    fn coldest_chained_has_head_in(&self, class: ClassId) -> bool {
        let chained = self.class(CHAINED).lock();
        chained.coldest(self.work.now()).is_some_and(|head| head.chunk_class() == class)
    }

    /// True if the chained item that would be evicted next is colder than the next victim of this class.
    fn chained_is_colder_than(&self, class: ClassId) -> bool {
        let chained = self.coldness(CHAINED);
        chained.is_some() && chained > self.coldness(class)
    }

    /// Returns the coldness of the item that a search for a victim in the class would check first: the estimate of the
    /// order, if it compares classes. Otherwise an item is colder than another if the time since its last access is
    /// longer. If both times are equal, the item with the lower CAS value is colder. `None`: the class has no item.
    pub fn coldness(&self, class: ClassId) -> Option<(u32, Reverse<u64>)> {
        let (class, now) = (self.class(class).lock(), self.work.now());
        let coldest = class.coldest(now)?;
        let age = class.coldness(now).unwrap_or_else(|| coldest.time().age_at(now));
        Some((age, Reverse(coldest.cas())))
    }

    /// Evicts the next victim in the queues of class `from`, to free a chunk of `class`.
    fn evict(&self, from: ClassId, class: ClassId, evictor: Evictor, now: Now) -> Evicted {
        let mut search = VictimSearch::default();
        let victim = loop {
            match self.detach_victim(&mut search, &mut self.class(from).lock(), evictor, now) {
                VictimStep::Found(victim) => break victim,
                VictimStep::Continue => {}
                VictimStep::Nothing => return Evicted::Nothing,
            }
        };
        let hash = self.hash_of(victim.pin.item(&self.memory));
        match self.finish_eviction(victim, hash, class) {
            Some(chunk) => Evicted::Chunk(chunk),
            None => Evicted::Freed,
        }
    }

    /// Makes one step of a search for a victim. Detaches the victim if this step finds it.
    fn detach_victim(
        &self,
        search: &mut VictimSearch,
        state: &mut ClassState,
        evictor: Evictor,
        now: Now,
    ) -> VictimStep<DetachedVictim> {
        // A search may compare many items. Most of them store no expiry, and most caches are never flushed.
        let was_flushed = self.flush.has_happened();
        let is_invalid = |item: Queued<'_>| {
            (was_flushed || item.state().fields().expiry)
                && self.invalid_reason(item, now).is_some()
        };
        let position = match search.step(state, self.work.now(), is_invalid) {
            VictimStep::Found(position) => position,
            VictimStep::Continue => return VictimStep::Continue,
            VictimStep::Nothing => return VictimStep::Nothing,
        };
        let detached = self.detach_at(state, position, evictor, now);
        detached.map_or(VictimStep::Nothing, VictimStep::Found)
    }

    /// Detaches the item at a position of a locked class.
    fn detach_at(
        &self,
        state: &mut ClassState,
        position: Position,
        evictor: Evictor,
        now: Now,
    ) -> Option<DetachedVictim> {
        let info = self.victim_info(state.item_at(position)?, now);
        info.count(state, evictor, &self.work, now);
        // An item that has expired says nothing about the items that will be evicted.
        if !(info.is_invalid && self.counts_uses) {
            state.note_evicted(position, self.work.now());
        }
        Some(info.into_victim(state.detach(position)?, now))
    }

    /// Detaches the item in a slot of a locked class for the mover, if it is unpinned, and is cold, has expired or was
    /// flushed.
    pub fn detach_if_cold(
        &self,
        state: &mut ClassState,
        slot: Slot,
        now: Now,
    ) -> Option<DetachedVictim> {
        let position = Position::In(slot);
        let item = state.item_at(position).filter(|item| item.is_unpinned())?;
        let is_cold =
            self.invalid_reason(item, now).is_some() || state.is_cold(item, self.work.now());
        is_cold.then(|| self.detach_at(state, position, Evictor::Mover, now))?
    }

    /// Detaches up to `count` victims of a class for the mover. Returns fewer if no other item of the class can be evicted.
    pub fn detach_victims(&self, class: ClassId, count: usize, now: Now) -> Vec<DetachedVictim> {
        let mut victims = Vec::with_capacity(count);
        let mut search = VictimSearch::default();
        while victims.len() < count {
            let mut state = self.class(class).lock();
            let count_now = count.min(victims.len() + VICTIMS_PER_LOCK_MAX);
            while victims.len() < count_now {
                match self.detach_victim(&mut search, &mut state, Evictor::Mover, now) {
                    VictimStep::Found(victim) => victims.push(victim),
                    VictimStep::Continue => break,
                    VictimStep::Nothing => return victims,
                }
                search = VictimSearch::default();
            }
        }
        victims
    }

    /// Detaches up to `count` victims of a locked class that is not the largest: those that single evictions would
    /// evict next. Detaches fewer if the search for one takes several steps.
    pub fn detach_batch(&self, state: &mut ClassState, count: usize, now: Now) -> DetachedBatch {
        let mut batch = DetachedBatch::default();
        for slot in &mut batch.0[..count] {
            let mut search = VictimSearch::default();
            match self.detach_victim(&mut search, state, Evictor::Store, now) {
                VictimStep::Found(victim) => *slot = Some(victim),
                VictimStep::Continue | VictimStep::Nothing => break,
            }
        }
        batch
    }

    /// Removes a batch of detached victims from the index. Returns those of their first chunks that are of `class` and
    /// that no other thread pins.
    pub fn finish_batch(
        &self,
        batch: DetachedBatch,
        class: ClassId,
    ) -> impl Iterator<Item = OwnedChunk> {
        let victims = batch.0.map(|victim| {
            let hash = self.hash_of(victim.as_ref()?.pin.item(&self.memory));
            self.index.prefetch(hash);
            self.prefetch_ghosts(hash);
            Some((victim?, hash))
        });
        victims.iter().flatten().for_each(|(_, hash)| self.index.prefetch_bucket(*hash));
        let victims = victims.into_iter().flatten();
        victims.filter_map(move |(victim, hash)| self.finish_eviction(victim, hash, class))
    }

    /// Removes a detached victim from the index. `hash` is the hash of its key. Returns the victim's first chunk if it
    /// is of `class` and no other thread pins the victim.
    pub fn finish_eviction(
        &self,
        victim: DetachedVictim,
        hash: u64,
        class: ClassId,
    ) -> Option<OwnedChunk> {
        if self.observers.observes_evictions() && !victim.is_invalid {
            self.report_eviction(&victim);
        }
        self.ghosts.insert(hash, victim.pin.item(&self.memory).uses());
        self.remove_detached(&victim.pin, hash, victim.is_invalid);
        let chunk = self.unpin_to_owned(victim.pin)?;
        // The chunk is returned even if its page is draining. Otherwise a class whose coldest items are on the draining
        // page could evict all these items without getting a chunk. The mover then visits the chunk again in its next
        // pass. The new item is the newest of its queue, so each chunk is reused in this way at most once per turnover.
        if chunk.class() != class {
            self.give_free(chunk);
            return None;
        }
        Some(chunk)
    }

    /// Reads a victim's data under the class's lock. The expiry can change after this lock is released.
    pub fn victim_info(&self, item: Queued<'_>, now: Now) -> VictimInfo {
        VictimInfo {
            state: item.state(),
            is_invalid: self.invalid_reason(item, now).is_some(),
            expiry: item.expiry(),
            last_access: item.time(),
        }
    }

    /// Removes a detached item from the index, unless another thread has done so in the meantime. `ended` is true if
    /// the item has expired or was flushed.
    fn remove_detached(&self, pin: &Pin, hash: u64, ended: bool) {
        let stripe = self.index.lock(hash);
        if let Ok(entry) = Entry::find_address(stripe, hash, pin.address()) {
            let (stripe, removed) = entry.remove();
            let remains = removed.unlink(&self.memory);
            debug_assert!(remains.is_none(), "the item is not freed, because the caller pins it");
            drop(stripe);
            if ended {
                let class = pin.item(&self.memory).queue_class();
                self.report_access(hash, AccessKind::Delete, Some(class));
            }
        }
    }

    #[cold]
    fn report_eviction(&self, DetachedVictim { pin, expiry, now, .. }: &DetachedVictim) {
        let victim = pin.item(&self.memory);
        self.observers.report_eviction(&Eviction {
            key: victim.key(),
            value_len: victim.value_len(),
            expiry: *expiry,
            last_access: self.work.second_of(victim.time()),
            fetched: victim.state().fetched(),
            class: self.stats_class(victim.queue_class()),
            now: *now,
        });
    }

    /// Removes one expired or flushed item at a tail of the class, and releases the class's lock. If there is no such
    /// item, returns the lock.
    pub fn reclaim_tail<'c>(
        &self,
        mut state: CountedGuard<'c, ClassState>,
        now: Now,
    ) -> Option<CountedGuard<'c, ClassState>> {
        let Some(place) = self.invalid_tail(&state, now) else { return Some(state) };
        let is_fetched = state.tail(place).is_some_and(|ended| ended.state().fetched());
        state.counters.reclaimed += 1;
        state.counters.expired_unfetched += u64::from(!is_fetched);
        let pin = state.detach_tail(place);
        drop(state);
        if let Some(pin) = pin {
            self.remove_detached(&pin, self.hash_of(pin.item(&self.memory)), true);
            self.unpin(pin);
        }
        None
    }

    /// Returns a queue whose tail is unpinned and has expired or was flushed.
    fn invalid_tail(&self, state: &ClassState, now: Now) -> Option<Place> {
        let places = |lane| QueueKind::ALL.into_iter().map(move |queue| Place { lane, queue });
        state.lanes.all().flat_map(places).find(|&place| {
            let ended =
                |tail: Queued<'_>| tail.is_unpinned() && self.invalid_reason(tail, now).is_some();
            state.tail(place).is_some_and(ended)
        })
    }
}

/// The data of a victim that are read before the victim is detached.
pub struct VictimInfo {
    state: State,
    /// True if the item has expired or was flushed. Its removal then does not count as an eviction.
    is_invalid: bool,
    expiry: Expiry,
    last_access: WorkTime,
}

impl VictimInfo {
    /// Counts the removal of the victim in the class's statistics.
    pub fn count(&self, class: &mut ClassState, evictor: Evictor, clock: &WorkClock, now: Now) {
        let counters = &mut class.counters;
        if self.is_invalid {
            counters.reclaimed += 1;
            counters.direct_reclaims += 1;
            counters.expired_unfetched += u64::from(!self.state.fetched());
            return;
        }
        counters.evicted += 1;
        counters.evicted_by_mover += u64::from(evictor == Evictor::Mover);
        counters.evicted_nonzero += u64::from(self.expiry != Expiry::NEVER);
        counters.evicted_unfetched += u64::from(!self.state.fetched());
        counters.evicted_active += u64::from(self.state.active());
        // The conversion to seconds is slow, so it is made only once a second.
        if class.evicted_age_set_at != now.seconds {
            class.evicted_age_set_at = now.seconds;
            let second = clock.second_of(self.last_access);
            class.counters.evicted_age_seconds = u64::from(now.seconds.0.saturating_sub(second.0));
        }
    }

    /// Returns the detached victim.
    pub fn into_victim(self, pin: Pin, now: Now) -> DetachedVictim {
        DetachedVictim { pin, is_invalid: self.is_invalid, expiry: self.expiry, now }
    }
}
