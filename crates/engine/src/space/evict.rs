//! Where chunks come from, and where they go: free lists, the pool, the end of an item, and eviction.
//!
//! An eviction holds no stripe. A victim is taken out of its queue and pinned in one step under its class's
//! lock; then, that lock released, its stripe is locked and the entry removed if it is still there.
//! Between the two steps the item can be read, replaced or deleted as ever.
//!
//! A search for a victim first asks the class's order which item leaves, and which others move before. Where that item
//! is pinned, the queues are walked lane by lane, in the order COLD, HOT, WARM, TEMP: a pinned item goes to the
//! head of its queue, out of the next search's way.
//!
//! Invariant: under one hold of the class's lock a search looks at a bounded number of items; it goes on from
//! there, and ends without a victim only when it has passed every item of the class.

use super::shared::{AccessKind, Eviction, Space};
use crate::class::{CHAINED, ClassState, Standing, VictimStep};
use crate::evict::{COLDEST_FIRST, Lane, Move, Place};
use crate::mem::{Entry, OwnedChunk, Pin, QueueKind, Queued, Remains, Removed, State};
use slabwise_base::sync::{MutexGuard, lock};
use slabwise_base::{ClassId, Expiry, Now, Ticks};
use std::cmp::Reverse;

impl Space {
    /// A free chunk of a locked class, from a new page if need be, which only a class of the table gets.
    pub fn take_free(&self, state: &mut ClassState) -> Option<OwnedChunk> {
        if let Some(chunk) = state.pages.take() {
            return Some(chunk);
        }
        if state.standing() != Standing::Present {
            return None;
        }
        let beyond_limit =
            self.config.first_page_beyond_limit && state.pages.token.page_count() == 0;
        let page = lock(&self.pool).take(&self.memory, beyond_limit)?;
        state.adopt(page);
        state.pages.take()
    }

    /// Drops a pin; if it was the last on an unlinked item, the bodies are freed and the caller owns
    /// the first chunk.
    pub fn unpin_to_owned(&self, pin: impl Into<Pin>) -> Option<OwnedChunk> {
        Some(self.free_bodies(self.memory.unpin(pin)?))
    }

    /// Drops a pin; if it was the last on an unlinked item, all its chunks are freed. The first chunk of
    /// an item that was carried to another page leads to no body any more, so only it is given back.
    pub fn unpin(&self, pin: impl Into<Pin>) {
        if let Some(chunk) = self.unpin_to_owned(pin) {
            self.give_free(chunk);
        }
    }

    /// Frees the bodies of an ended item, if it has any, before its head, so that a body's owner is always an
    /// item. Returns the head.
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

    /// Gives a chunk back to its class.
    pub fn give_free(&self, chunk: OwnedChunk) {
        self.class(chunk.class()).lock().pages.give(chunk);
    }

    /// Ends an item that has left its table, whose stripe is still locked. The chunks of a large item take long to
    /// free, so the caller lets go of the stripe before it does that.
    pub fn unlink_unfreed(&self, item: Removed) -> Option<Remains> {
        self.class(item.queue_class(&self.memory)).lock().unlink(item)
    }

    /// Frees what an ended item left.
    #[inline(always)]
    pub fn free_remains(&self, remains: Option<Remains>) {
        if let Some(remains) = remains {
            let head = self.free_bodies(remains);
            self.give_free(head);
        }
    }

    /// Ends an item that has left its table, and frees it under the stripe.
    pub fn unlink(&self, item: Removed) {
        self.free_remains(self.unlink_unfreed(item));
    }
}

/// Victims that are detached in one hold of their class's lock: for each, a search may first move some tens
/// of active items out of its way.
const VICTIMS_A_HOLD_MAX: usize = 8;

/// What one eviction gave.
pub enum Evicted {
    /// The victim's chunk, of the class asked for.
    Chunk(OwnedChunk),
    /// Memory was freed, here or in another class.
    Freed,
    /// There is nothing that could leave.
    Nothing,
}

/// An item on its way out: out of its queue, pinned, not yet out of the index.
#[must_use = "a victim that is not removed stays in the index"]
pub struct Victim {
    pub pin: Pin,
    /// It is no eviction: it had expired, or was flushed.
    has_ended: bool,
    expiry: Expiry,
    now: Now,
}

/// How many items a step of a walk looks at.
const LOOKS_MAX: usize = 64;

/// A search for a victim, step by step.
#[derive(Debug, Default)]
struct VictimSearch {
    /// Whether the order has been asked: its candidate is pinned, or there is none.
    is_walking: bool,
    /// The lane that is being walked, and those before it that were passed.
    lane: Option<Lane>,
    /// Queues of it that were passed as a whole, of [`COLDEST_FIRST`].
    queues_passed: usize,
    /// Pinned items of the next queue that were passed.
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
        for _ in 0..LOOKS_MAX {
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
        VictimStep::Further
    }
}

impl Space {
    /// Evicts for the sake of `class`: from its own queues, or, where its chunks hold heads and bodies only,
    /// a chained item. The largest chunks hold whole items and bodies alike: there the colder leaves.
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

    /// The same where a chunk is wanted for an item that can be evicted itself: no chained item leaves for it
    /// that may have no chunk of this class.
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

    /// How cold the item is that a search in a class looks at first: its age in ticks, and among equals the older
    /// store is colder. `None`: the class has no item.
    pub fn coldness(&self, class: ClassId, now: Now) -> Option<(u32, Reverse<u64>)> {
        let class = self.class(class).lock();
        class.coldest(now.ticks).map(|item| (item.time().age_at(now.ticks), Reverse(item.cas())))
    }

    /// Removes the item that leaves the queues of `from` next; its chunk is wanted for `class`.
    fn evict(&self, from: ClassId, class: ClassId, now: Now) -> Evicted {
        let mut search = VictimSearch::default();
        let victim = loop {
            match self.detach_victim(&mut search, &mut self.class(from).lock(), now) {
                VictimStep::Found(victim) => break victim,
                VictimStep::Further => {}
                VictimStep::Nothing => return Evicted::Nothing,
            }
        };
        let hash = self.hash_of(victim.pin.item(&self.memory));
        match self.finish_eviction(victim, hash, class) {
            Some(chunk) => Evicted::Chunk(chunk),
            None => Evicted::Freed,
        }
    }

    /// Takes the item that a class gives up next out of its queue, or looks a little further for one.
    fn detach_victim(
        &self,
        search: &mut VictimSearch,
        state: &mut ClassState,
        now: Now,
    ) -> VictimStep<Victim> {
        let place = match search.step(state, now.ticks) {
            VictimStep::Found(place) => place,
            VictimStep::Further => return VictimStep::Further,
            VictimStep::Nothing => return VictimStep::Nothing,
        };
        let Some(victim) = state.tail(place) else { return VictimStep::Nothing };
        let leaving = self.leaving(victim, now);
        leaving.count(state);
        state.note_evicted(place, now.ticks);
        match state.detach_tail(place) {
            Some(pin) => VictimStep::Found(leaving.out(pin, now)),
            None => VictimStep::Nothing,
        }
    }

    /// Takes up to `count` items that a class gives up next out of its queues, many in one hold of its lock.
    pub fn detach_victims(&self, class: ClassId, count: usize, now: Now) -> Vec<Victim> {
        let mut victims = Vec::with_capacity(count);
        let mut search = VictimSearch::default();
        while victims.len() < count {
            let mut state = self.class(class).lock();
            let count_now = count.min(victims.len() + VICTIMS_A_HOLD_MAX);
            while victims.len() < count_now {
                match self.detach_victim(&mut search, &mut state, now) {
                    VictimStep::Found(victim) => victims.push(victim),
                    VictimStep::Further => break,
                    VictimStep::Nothing => return victims,
                }
                search = VictimSearch::default();
            }
        }
        victims
    }

    /// Removes a detached victim, of whose key this is the hash. `Some`: its chunk, if nobody else holds it and it serves `class`.
    pub fn finish_eviction(&self, victim: Victim, hash: u64, class: ClassId) -> Option<OwnedChunk> {
        if self.tap.wants_evictions() && !victim.has_ended {
            self.show_eviction(&victim);
        }
        self.remove_hashed(&victim.pin, hash, victim.has_ended);
        let chunk = self.unpin_to_owned(victim.pin)?;
        // The page may be draining: an eviction is given the victim's chunk wherever it lies, or a class whose
        // coldest items share the draining page could evict one after the other and still have no chunk. The mover
        // meets the chunk again on its next pass; each is handed over so at most once a turn of the queue.
        if chunk.class() != class {
            self.give_free(chunk);
            return None;
        }
        Some(chunk)
    }

    /// What is to be known of an item that leaves; its expiry stands still under the class's lock, and not under
    /// the pin that follows.
    pub fn leaving(&self, item: Queued<'_>, now: Now) -> Leaving {
        Leaving {
            state: item.state(),
            has_ended: self.death_of(item, now).is_some(),
            expiry: item.expiry(),
            age_ticks: item.time().age_at(now.ticks),
        }
    }

    /// Unlinks an item that the caller took out of its queue and pinned, if nobody else did meanwhile.
    fn remove_hashed(&self, pin: &Pin, hash: u64, ended: bool) {
        let stripe = self.index.lock(hash);
        if let Ok(entry) = Entry::find_address(stripe, hash, pin.address()) {
            let (stripe, removed) = entry.remove();
            let left = removed.unlink(&self.memory);
            debug_assert!(left.is_none(), "the caller's pin is still there");
            drop(stripe);
            if ended {
                let class = pin.item(&self.memory).queue_class();
                self.show_access(hash, AccessKind::Delete, Some(class));
            }
        }
    }

    #[cold]
    fn show_eviction(&self, Victim { pin, expiry, now, .. }: &Victim) {
        let victim = pin.item(&self.memory);
        self.tap.show_eviction(&Eviction {
            key: victim.key(),
            value_len: victim.value_len(),
            expiry: *expiry,
            last_access: victim.time(),
            fetched: victim.state().fetched(),
            class: self.shown_class(victim.queue_class()),
            now: *now,
        });
    }

    /// Removes an item at a tail of the class that has ended. The class stays locked only if there is none.
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

    /// A queue whose last item has ended and that nobody pins.
    fn ended_tail(&self, state: &ClassState, now: Now) -> Option<Place> {
        let places = |lane| QueueKind::ALL.into_iter().map(move |queue| Place { lane, queue });
        state.lanes.all().flat_map(places).find(|&place| {
            let ended = |tail: Queued<'_>| tail.is_unpinned() && self.death_of(tail, now).is_some();
            state.tail(place).is_some_and(ended)
        })
    }
}

/// What is to be known of an item that leaves.
pub struct Leaving {
    state: State,
    /// It is no eviction: it had expired, or was flushed.
    has_ended: bool,
    expiry: Expiry,
    age_ticks: u32,
}

impl Leaving {
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

    /// The item, out of its queue and pinned.
    pub fn out(self, pin: Pin, now: Now) -> Victim {
        Victim { pin, has_ended: self.has_ended, expiry: self.expiry, now }
    }
}
