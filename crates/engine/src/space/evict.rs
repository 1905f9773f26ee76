//! Allocation and release of chunks: free lists, the pool, unlinking of items, and eviction.
//!
//! An eviction holds no stripe. A victim is removed from its queue and pinned in one step under its class's
//! lock. After that lock is released, its stripe is locked and its entry removed if it is still there. Between
//! the two steps the item can be read, replaced or deleted.
//!
//! A search for a victim first lets the class's order choose one. If that item is pinned, the search walks the
//! queues lane by lane, in the order COLD, HOT, WARM, TEMP, and moves each pinned item to the head of its queue,
//! out of the way of later searches.
//!
//! Invariant: a search checks a bounded number of items in one hold of the class's lock. It ends without a victim
//! only after it has passed every item of the class.

use super::shared::{AccessKind, Eviction, Space};
use crate::class::{CHAINED, ClassState, ClassStatus, VictimStep};
use crate::evict::{COLDEST_FIRST, Lane, Move, Place};
use crate::mem::{Entry, OwnedChunk, Pin, QueueKind, Queued, Remains, Removed, State};
use slabwise_base::sync::{MutexGuard, lock};
use slabwise_base::{ClassId, Expiry, Now, Ticks};
use std::cmp::Reverse;

impl Space {
    /// Takes a free chunk of a locked class, from a new page if necessary. Only a class of the table gets a page.
    pub fn take_free(&self, state: &mut ClassState) -> Option<OwnedChunk> {
        if let Some(chunk) = state.pages.take() {
            return Some(chunk);
        }
        if state.status() != ClassStatus::Present {
            return None;
        }
        let beyond_limit =
            self.config.first_page_beyond_limit && state.pages.token.page_count() == 0;
        let page = lock(&self.pool).take(&self.memory, beyond_limit)?;
        state.adopt(page);
        state.pages.take()
    }

    /// Drops a pin. If it was the last on an unlinked item, the bodies are freed and the first chunk is returned.
    pub fn unpin_to_owned(&self, pin: impl Into<Pin>) -> Option<OwnedChunk> {
        Some(self.free_bodies(self.memory.unpin(pin)?))
    }

    /// Drops a pin. If it was the last on an unlinked item, its chunks are freed. If the item was carried to
    /// another page, its bodies belong to the copy, so only the first chunk is freed.
    pub fn unpin(&self, pin: impl Into<Pin>) {
        if let Some(chunk) = self.unpin_to_owned(pin) {
            self.give_free(chunk);
        }
    }

    /// Frees the bodies of an unlinked item and returns its head. The head is freed last, because the owner of a
    /// body must be an item.
    #[inline(always)]
    fn free_bodies(&self, mut remains: Remains) -> OwnedChunk {
        loop {
            let class = match remains.into_chunk(&self.memory) {
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

    /// Unlinks an item that was removed from the index and whose stripe is still locked. The caller unlocks the
    /// stripe before it frees the chunks, since a large item has many.
    pub fn unlink_unfreed(&self, item: Removed) -> Option<Remains> {
        self.class(item.queue_class(&self.memory)).lock().unlink(item)
    }

    /// Frees the chunks of an unlinked item.
    #[inline(always)]
    pub fn free_remains(&self, remains: Option<Remains>) {
        if let Some(remains) = remains {
            let head = self.free_bodies(remains);
            self.give_free(head);
        }
    }

    /// Unlinks an item that was removed from the index, and frees it under the stripe's lock.
    pub fn unlink(&self, item: Removed) {
        self.free_remains(self.unlink_unfreed(item));
    }
}

/// The most victims that are detached in one hold of their class's lock. The search for each may first move some
/// tens of active items.
const VICTIMS_PER_HOLD_MAX: usize = 8;

/// The result of one eviction.
pub enum Evicted {
    /// The victim's chunk, which is of the requested class.
    Chunk(OwnedChunk),
    /// Memory was freed, in this class or another.
    Freed,
    /// No item can be evicted.
    Nothing,
}

/// A detached item: out of its queue and pinned, but still in the index.
#[must_use = "a victim that is not removed stays in the index"]
pub struct Victim {
    pub pin: Pin,
    /// Expired or flushed, so its removal does not count as an eviction.
    has_ended: bool,
    expiry: Expiry,
    now: Now,
}

/// The most items that one step of a walk checks.
const CHECKS_MAX: usize = 64;

/// A search for a victim, step by step.
#[derive(Debug, Default)]
struct VictimSearch {
    /// True after the order's candidate was pinned, or missing.
    is_walking: bool,
    /// The lane being walked; lower lanes are done.
    lane: Option<Lane>,
    /// The number of its queues, in the order of [`COLDEST_FIRST`], that are done.
    queues_passed: usize,
    /// The number of pinned items of the next queue that were passed.
    items_passed: u64,
}

impl VictimSearch {
    fn step(&mut self, class: &mut ClassState, now: Ticks) -> VictimStep {
        if !self.is_walking {
            match class.choose_victim(now) {
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
                        return VictimStep::Found(place);
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
    /// Evicts an item to free a chunk of `class`: one from its own queues, or a chained item if its chunks hold
    /// only heads and bodies. The largest chunks hold both whole items and bodies, so there the colder of the two
    /// is evicted.
    pub fn evict_for(&self, class: ClassId, now: Now) -> Evicted {
        if class == self.largest && self.chained_are_colder_than(class, now) {
            match self.evict(CHAINED, class, now) {
                Evicted::Nothing => self.evict(class, class, now),
                outcome => outcome,
            }
        } else {
            match self.evict(class, class, now) {
                Evicted::Nothing if self.class(class).lock().unqueued_count() > 0 => {
                    self.evict(CHAINED, class, now)
                }
                outcome => outcome,
            }
        }
    }

    /// Evicts an item to free a chunk of `class` for an item that is carried. Unlike [`Space::evict_for`], evicts
    /// no chained item that may have no chunk of this class, since the carried item itself can be evicted.
    pub fn evict_for_carried(&self, class: ClassId, now: Now) -> Evicted {
        if class == self.largest || self.coldest_chained_has_head_in(class, now) {
            self.evict_for(class, now)
        } else {
            self.evict(class, class, now)
        }
    }

    fn coldest_chained_has_head_in(&self, class: ClassId, now: Now) -> bool {
        let chained = self.class(CHAINED).lock();
        chained.coldest(now.ticks).is_some_and(|head| head.chunk_class() == class)
    }

    fn chained_are_colder_than(&self, class: ClassId, now: Now) -> bool {
        let chained = self.coldness(CHAINED, now);
        chained.is_some() && chained > self.coldness(class, now)
    }

    /// The coldness of the item at which a search in a class begins: its age in ticks; if equal, the item stored
    /// earlier is colder. `None`: the class has no item.
    pub fn coldness(&self, class: ClassId, now: Now) -> Option<(u32, Reverse<u64>)> {
        let class = self.class(class).lock();
        class.coldest(now.ticks).map(|item| (item.time().age_at(now.ticks), Reverse(item.cas())))
    }

    /// Evicts the next victim of the queues of `from`, to free a chunk of `class`.
    fn evict(&self, from: ClassId, class: ClassId, now: Now) -> Evicted {
        let mut search = VictimSearch::default();
        let victim = loop {
            match self.detach_victim(&mut search, &mut self.class(from).lock(), now) {
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

    /// Makes one step of a search, and detaches the victim if it is found.
    fn detach_victim(
        &self,
        search: &mut VictimSearch,
        state: &mut ClassState,
        now: Now,
    ) -> VictimStep<Victim> {
        let place = match search.step(state, now.ticks) {
            VictimStep::Found(place) => place,
            VictimStep::Continue => return VictimStep::Continue,
            VictimStep::Nothing => return VictimStep::Nothing,
        };
        let Some(victim) = state.tail(place) else { return VictimStep::Nothing };
        let info = self.victim_info(victim, now);
        info.count(state);
        state.note_evicted(place, now.ticks);
        match state.detach_tail(place) {
            Some(pin) => VictimStep::Found(info.into_victim(pin, now)),
            None => VictimStep::Nothing,
        }
    }

    /// Detaches up to `count` victims of a class, several in one hold of its lock.
    pub fn detach_victims(&self, class: ClassId, count: usize, now: Now) -> Vec<Victim> {
        let mut victims = Vec::with_capacity(count);
        let mut search = VictimSearch::default();
        while victims.len() < count {
            let mut state = self.class(class).lock();
            let count_now = count.min(victims.len() + VICTIMS_PER_HOLD_MAX);
            while victims.len() < count_now {
                match self.detach_victim(&mut search, &mut state, now) {
                    VictimStep::Found(victim) => victims.push(victim),
                    VictimStep::Continue => break,
                    VictimStep::Nothing => return victims,
                }
                search = VictimSearch::default();
            }
        }
        victims
    }

    /// Removes a detached victim from the index; `hash` is its key's. Returns its chunk if that is unpinned and of
    /// `class`.
    pub fn finish_eviction(&self, victim: Victim, hash: u64, class: ClassId) -> Option<OwnedChunk> {
        if self.observers.observes_evictions() && !victim.has_ended {
            self.report_eviction(&victim);
        }
        self.remove_hashed(&victim.pin, hash, victim.has_ended);
        let chunk = self.unpin_to_owned(victim.pin)?;
        // The chunk is returned even if its page is draining. Otherwise a class whose coldest items are on the
        // draining page could evict one after the other without getting a chunk. The mover visits the chunk again
        // on its next pass, and each chunk is reused in this way at most once per turnover of the queue.
        if chunk.class() != class {
            self.give_free(chunk);
            return None;
        }
        Some(chunk)
    }

    /// Reads a victim's data. Its expiry cannot change under the class's lock, but can once it is only pinned.
    pub fn victim_info(&self, item: Queued<'_>, now: Now) -> VictimInfo {
        VictimInfo {
            state: item.state(),
            has_ended: self.end_reason(item, now).is_some(),
            expiry: item.expiry(),
            age_ticks: item.time().age_at(now.ticks),
        }
    }

    /// Unlinks a detached item, unless another thread has done so in the meantime.
    fn remove_hashed(&self, pin: &Pin, hash: u64, ended: bool) {
        let stripe = self.index.lock(hash);
        if let Ok(entry) = Entry::find_address(stripe, hash, pin.address()) {
            let (stripe, removed) = entry.remove();
            let left = removed.unlink(&self.memory);
            debug_assert!(left.is_none(), "the caller's pin is still there");
            drop(stripe);
            if ended {
                let class = pin.item(&self.memory).queue_class();
                self.report_access(hash, AccessKind::Delete, Some(class));
            }
        }
    }

    #[cold]
    fn report_eviction(&self, Victim { pin, expiry, now, .. }: &Victim) {
        let victim = pin.item(&self.memory);
        self.observers.report_eviction(&Eviction {
            key: victim.key(),
            value_len: victim.value_len(),
            expiry: *expiry,
            last_access: victim.time(),
            fetched: victim.state().fetched(),
            class: self.stats_class(victim.queue_class()),
            now: *now,
        });
    }

    /// Removes an expired or flushed item at a tail of the class. If there is none, returns the guard, still locked.
    pub fn reclaim_tail<'c>(
        &self,
        mut state: MutexGuard<'c, ClassState>,
        now: Now,
    ) -> Option<MutexGuard<'c, ClassState>> {
        let Some(place) = self.ended_tail(&state, now) else { return Some(state) };
        let is_fetched = state.tail(place).is_some_and(|ended| ended.state().fetched());
        state.counters.reclaimed += 1;
        state.counters.expired_unfetched += u64::from(!is_fetched);
        let pin = state.detach_tail(place);
        drop(state);
        if let Some(pin) = pin {
            self.remove_hashed(&pin, self.hash_of(pin.item(&self.memory)), true);
            self.unpin(pin);
        }
        None
    }

    /// A queue whose last item is expired or flushed, and unpinned.
    fn ended_tail(&self, state: &ClassState, now: Now) -> Option<Place> {
        let places = |lane| QueueKind::ALL.into_iter().map(move |queue| Place { lane, queue });
        state.lanes.all().flat_map(places).find(|&place| {
            let ended =
                |tail: Queued<'_>| tail.is_unpinned() && self.end_reason(tail, now).is_some();
            state.tail(place).is_some_and(ended)
        })
    }
}

/// The data of a victim that is read before it is detached.
pub struct VictimInfo {
    state: State,
    /// Expired or flushed, so its removal does not count as an eviction.
    has_ended: bool,
    expiry: Expiry,
    age_ticks: u32,
}

impl VictimInfo {
    pub fn count(&self, class: &mut ClassState) {
        let counters = &mut class.counters;
        if self.has_ended {
            counters.reclaimed += 1;
            counters.direct_reclaims += 1;
            counters.expired_unfetched += u64::from(!self.state.fetched());
            return;
        }
        counters.evicted += 1;
        counters.evicted_age_seconds = u64::from(self.age_ticks / Ticks::PER_SECOND);
        counters.evicted_nonzero += u64::from(self.expiry != Expiry::NEVER);
        counters.evicted_unfetched += u64::from(!self.state.fetched());
        counters.evicted_active += u64::from(self.state.active());
    }

    pub fn into_victim(self, pin: Pin, now: Now) -> Victim {
        Victim { pin, has_ended: self.has_ended, expiry: self.expiry, now }
    }
}
