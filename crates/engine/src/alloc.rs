//! Where chunks come from and go: free ones, the pool, eviction, and at the last a page of another
//! class.
//!
//! No stripe is held here. A victim is taken out of its queue and pinned in one step under its class's
//! lock; then, that lock released, its stripe is locked and the entry removed if it is still there.
//! Between the two steps the item can be read, replaced or deleted as ever.

use crate::class::{CHAINED, ClassState, Standing, VictimSearch, VictimStep};
use crate::engine::Engine;
use crate::mem::{ChunkAddress, OwnedChunk, Pin, ReadProof, State};
use crate::size_map::Choice;
use crate::tap::AccessKind;
use slabwise_base::sync::lock;
use slabwise_base::{ClassId, Expiry, Now};
use std::sync::atomic::Ordering::Relaxed;

/// Evictions that one allocation tries: others may take what it frees, and a chained victim may free
/// chunks of other classes only.
const EVICTIONS_MAX: usize = 32;

/// Victims that are detached in one hold of their class's lock: for each, a search may first move some tens
/// of active items out of its way.
const VICTIMS_A_HOLD_MAX: usize = 8;

/// Pages that one allocation tries to take from other classes.
const SEIZURES_MAX: usize = 3;

/// What one eviction gave.
pub(crate) enum Evicted {
    /// The victim's chunk, of the class asked for.
    Chunk(OwnedChunk),
    /// Memory was freed, here or in another class.
    Freed,
    /// There is nothing that could leave.
    Nothing,
}

/// An item on its way out: out of its queue, pinned, not yet out of the index.
#[must_use = "a victim that is not removed stays in the index for ever"]
pub(crate) struct Victim {
    pub pin: Pin,
    /// Its expiry, if somebody wants to see it leave.
    wanted: Option<Expiry>,
    /// It is no eviction: it had expired, or was flushed.
    ended: bool,
    now: Now,
}

/// What one step of a search for a victim came to.
enum Detached {
    Victim(Victim),
    /// None yet: let go of the class for a moment, and go on.
    Further,
    Nothing,
}

/// The chunks of an item that has ended, if nobody pins it: its head, and what that leads to.
#[must_use = "the chunks of an ended item are lost unless they are freed"]
pub(crate) struct Remains(Option<OwnedChunk>);

/// Why no chunk was given.
enum Refusal {
    /// Nothing is free and nothing can leave.
    OutOfMemory,
    /// The class is not in the table any more: the choice is to be made anew.
    Retired,
}

impl Engine {
    /// A chunk for an item or a part of one: of the class that the table gives its size (the largest for a
    /// part of whatever size), or of the next larger class where that one owns nothing; `None`: out of
    /// memory.
    pub(crate) fn allocate(&self, size_bytes: usize, now: Now) -> Option<OwnedChunk> {
        let size_bytes = size_bytes.min(self.config.classes.chunk_size_bytes_max());
        // Every turn but the last is a change of the table meanwhile.
        loop {
            let choice = self.size_map.class_for(size_bytes)?;
            match self.allocate_as(choice, now) {
                Ok(chunk) => return Some(chunk),
                Err(Refusal::OutOfMemory) => {
                    self.class(choice.id).lock().counters.out_of_memory += 1;
                    return None;
                }
                Err(Refusal::Retired) => {}
            }
        }
    }

    fn allocate_as(&self, choice: Choice, now: Now) -> Result<OwnedChunk, Refusal> {
        match self.allocate_in(choice, now) {
            Err(Refusal::OutOfMemory) => {}
            outcome => return outcome,
        }
        if !self.config.eviction_enabled || !self.may_take_anothers(choice) {
            return Err(Refusal::OutOfMemory);
        }
        for larger in self.larger_close_in_size(choice) {
            if self.class(larger.id).lock().page_count() > 0 {
                self.class(choice.id).lock().counters.homeless += 1;
                if let Ok(chunk) = self.allocate_in(larger, now) {
                    return Ok(chunk);
                }
            }
        }
        for _ in 0..SEIZURES_MAX {
            if !self.seize_page(choice.id, now) {
                break;
            }
            match self.allocate_in(choice, now) {
                Err(Refusal::OutOfMemory) => {}
                outcome => return outcome,
            }
        }
        // A class that was retired meanwhile gets no page; the table has another for such items.
        let is_present = self.class(choice.id).lock().accepts(choice);
        Err(if is_present { Refusal::OutOfMemory } else { Refusal::Retired })
    }

    /// Whether a class for which nothing is left may turn to others. Where it is granted a first page
    /// beyond the limit, only if there was none to be had.
    fn may_take_anothers(&self, choice: Choice) -> bool {
        !self.config.first_page_beyond_limit || self.class(choice.id).lock().page_count() == 0
    }

    /// The larger classes in which an item may live without wasting more than it needs, least first.
    fn larger_close_in_size(&self, choice: Choice) -> Vec<Choice> {
        let sizes = choice.chunk_size_bytes + 1..2 * choice.chunk_size_bytes;
        let table = self.class_table();
        let larger = table.classes().filter(|(_, size)| sizes.contains(size));
        larger.map(|(id, chunk_size_bytes)| Choice { id, chunk_size_bytes }).collect()
    }

    fn allocate_in(&self, choice: Choice, now: Now) -> Result<OwnedChunk, Refusal> {
        let class = choice.id;
        if self.exact_order.load(Relaxed) {
            // Without segments nobody else looks at tails, as in memcached without its maintainer.
            drop(self.reclaim_tail(self.class(class).lock(), now));
        }
        for _ in 0..EVICTIONS_MAX {
            {
                let mut state = self.class(class).lock();
                if !state.accepts(choice) {
                    return Err(Refusal::Retired);
                }
                if let Some(chunk) = self.take_free(&mut state) {
                    return Ok(chunk);
                }
            }
            if !self.config.eviction_enabled {
                break;
            }
            match self.evict_for(class, now) {
                Evicted::Chunk(chunk) if self.is_of(&chunk, choice) => return Ok(chunk),
                // The class's number has come to stand for another one.
                Evicted::Chunk(chunk) => self.give_free(chunk),
                Evicted::Freed => {}
                Evicted::Nothing => break,
            }
        }
        Err(Refusal::OutOfMemory)
    }

    /// Whether a chunk is of the class that was chosen, retired meanwhile or not.
    #[inline]
    fn is_of(&self, chunk: &OwnedChunk, choice: Choice) -> bool {
        self.chunk_size_of(chunk) == choice.chunk_size_bytes
    }

    /// Bytes of a chunk, which stay as they are while somebody owns it.
    #[inline]
    pub(crate) fn chunk_size_of(&self, chunk: &OwnedChunk) -> usize {
        self.size_map.chunk_size_bytes(self.memory.class_of(chunk.address()))
    }

    /// A free chunk of a locked class, from a new page if need be, which only a class of the table gets.
    pub(crate) fn take_free(&self, state: &mut ClassState) -> Option<OwnedChunk> {
        if let Some(chunk) = state.take_free(&self.memory) {
            return Some(chunk);
        }
        if state.standing() != Standing::Present {
            return None;
        }
        let beyond_limit = self.config.first_page_beyond_limit && state.page_count() == 0;
        let page = lock(&self.pool).take(self.memory.pages.count(), beyond_limit)?;
        state.adopt(&self.memory, page);
        state.take_free(&self.memory)
    }

    /// Evicts for the sake of `class`: from its own queues, or, where its chunks hold heads and bodies only,
    /// a chained item. The largest chunks hold whole items and bodies alike: there the colder leaves.
    fn evict_for(&self, class: ClassId, now: Now) -> Evicted {
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
    pub(crate) fn evict_for_carried(&self, class: ClassId, now: Now) -> Evicted {
        if class == self.largest || self.coldest_chained_has_head_in(class, now) {
            self.evict_for(class, now)
        } else {
            self.evict(class, class, now)
        }
    }

    fn coldest_chained_has_head_in(&self, class: ClassId, now: Now) -> bool {
        let chained = self.class(CHAINED).lock();
        chained
            .coldest(&self.memory, now.ticks)
            .is_some_and(|head| self.memory.class_of(head) == class)
    }

    fn chained_are_colder_than(&self, class: ClassId, now: Now) -> bool {
        let coldness = |id| self.class(id).lock().coldness(&self.memory, now.ticks);
        coldness(CHAINED).is_some_and(|chained| Some(chained) > coldness(class))
    }

    /// Removes the item that leaves the queues of `from` next; its chunk is wanted for `class`.
    fn evict(&self, from: ClassId, class: ClassId, now: Now) -> Evicted {
        let mut search = VictimSearch::default();
        let victim = loop {
            match self.detach_victim(&mut search, &mut self.class(from).lock(), now) {
                Detached::Victim(victim) => break victim,
                Detached::Further => {}
                Detached::Nothing => return Evicted::Nothing,
            }
        };
        let hash = self.hash_of(victim.pin.address(), ReadProof::under_pin(&victim.pin));
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
    ) -> Detached {
        let address = match search.step(state, &self.memory, now.ticks) {
            VictimStep::Found(address) => address,
            VictimStep::Further => return Detached::Further,
            VictimStep::Nothing => return Detached::Nothing,
        };
        let ended = self.count_eviction(state, address, now);
        let wanted = self.wanted_eviction(state, address, now);
        state.note_evicted(&self.memory, address, now.ticks);
        let pin = state.detach(&self.memory, address);
        Detached::Victim(Victim { pin, wanted, ended, now })
    }

    /// Takes up to `count` items that a class gives up next out of its queues, many in one hold of its lock.
    pub(crate) fn detach_victims(&self, class: ClassId, count: usize, now: Now) -> Vec<Victim> {
        let mut victims = Vec::with_capacity(count);
        let mut search = VictimSearch::default();
        while victims.len() < count {
            let mut state = self.class(class).lock();
            let count_now = count.min(victims.len() + VICTIMS_A_HOLD_MAX);
            while victims.len() < count_now {
                match self.detach_victim(&mut search, &mut state, now) {
                    Detached::Victim(victim) => victims.push(victim),
                    Detached::Further => break,
                    Detached::Nothing => return victims,
                }
                search = VictimSearch::default();
            }
        }
        victims
    }

    /// Removes a detached victim, of whose key this is the hash. `Some`: its chunk, if nobody else holds it and it serves `class`.
    pub(crate) fn finish_eviction(
        &self,
        victim: Victim,
        hash: u64,
        class: ClassId,
    ) -> Option<OwnedChunk> {
        if let Some(expiry) = victim.wanted {
            self.show_eviction(&victim.pin, expiry, victim.now);
        }
        self.remove_hashed(&victim.pin, hash, victim.ended);
        let mut chunk = self.unpin_to_owned(victim.pin)?;
        if !self.serves(chunk.address(), class) {
            self.give_free(chunk);
            return None;
        }
        self.memory.arena.set_state(&mut chunk, State::IN_HAND);
        Some(chunk)
    }

    /// Whether a chunk lies in a page of `class`. The page may be draining: whoever evicts is given the
    /// victim's chunk wherever it lies, or a class whose coldest items share the draining page could
    /// evict one after the other and still have no chunk. The mover meets the chunk again on its next
    /// pass; each is handed over so at most once a turn of the queue.
    fn serves(&self, address: ChunkAddress, class: ClassId) -> bool {
        self.memory.page_entry(address).owner() == Some(class)
    }

    /// Returns whether it is none: the item has ended.
    pub(crate) fn count_eviction(
        &self,
        state: &mut ClassState,
        victim: ChunkAddress,
        now: Now,
    ) -> bool {
        let proof = ReadProof::under_class(state);
        let item = self.memory.header(victim).state().load();
        let death = self.death_of(victim, now, proof);
        let ends = self.memory.expiry(victim, proof).second().is_some();
        if death.is_some() {
            state.counters.reclaimed += 1;
            state.counters.direct_reclaims += 1;
            state.counters.expired_unfetched += u64::from(!item.fetched());
            return true;
        }
        let age_ticks = self.memory.header(victim).time().age_at(now.ticks);
        let counters = &mut state.counters;
        counters.evicted += 1;
        counters.evicted_age_seconds = u64::from(age_ticks / slabwise_base::Ticks::PER_SECOND);
        counters.evicted_nonzero += u64::from(ends);
        counters.evicted_unfetched += u64::from(!item.fetched());
        counters.evicted_active += u64::from(item.active());
        false
    }

    /// Unlinks an item that the caller took out of its queue and pinned, if nobody else did meanwhile.
    pub(crate) fn remove_detached(&self, pin: &Pin, ended: bool) {
        self.remove_hashed(pin, self.hash_of(pin.address(), ReadProof::under_pin(pin)), ended);
    }

    fn remove_hashed(&self, pin: &Pin, hash: u64, ended: bool) {
        let mut stripe = self.index.lock(hash);
        if let Some((slot, address)) = stripe.find(hash, |candidate| candidate == pin.address()) {
            stripe.remove(slot);
            let owned = self.memory.arena.unlink(address);
            debug_assert!(owned.is_none(), "the caller's pin is still there");
            drop(stripe);
            if ended {
                self.tap(hash, AccessKind::Delete, Some(self.queue_class(pin.address())));
            }
        }
    }

    /// Drops a pin; if it was the last on an unlinked item, the bodies are freed and the caller owns
    /// the first chunk.
    pub(crate) fn unpin_to_owned(&self, pin: Pin) -> Option<OwnedChunk> {
        let chunk = self.memory.arena.unpin(pin)?;
        self.free_bodies(&chunk);
        Some(chunk)
    }

    /// Drops a pin; if it was the last on an unlinked item, all its chunks are freed. The first chunk of
    /// an item that was carried to another page leads to no body any more, so only it is given back.
    pub(crate) fn unpin(&self, pin: Pin) {
        if let Some(chunk) = self.unpin_to_owned(pin) {
            self.give_free(chunk);
        }
    }

    /// Frees the bodies of an item whose LAST-HOLDER the caller is, if it has any: before the head, so that
    /// a body's owner is always an item.
    #[inline(always)]
    fn free_bodies(&self, head: &OwnedChunk) {
        let mut body = self.memory.first_body(head.address(), ReadProof::owned(head));
        while let Some(address) = body {
            body = self.memory.header(address).next();
            self.give_free(self.memory.arena.claim_body(address, head));
        }
    }

    /// Gives a chunk back to its class.
    pub(crate) fn give_free(&self, chunk: OwnedChunk) {
        let class = self.memory.class_of(chunk.address());
        self.class(class).lock().give_free(&self.memory, chunk);
    }

    /// Ends a linked item: the caller holds its stripe and has removed or replaced its entry. The chunks of
    /// a large item take long to free, so the caller lets go of the stripe before it does that.
    pub(crate) fn unlink_unfreed(&self, address: ChunkAddress) -> Remains {
        Remains(self.class(self.queue_class(address)).lock().unlink(&self.memory, address))
    }

    /// Frees what an ended item left.
    #[inline(always)]
    pub(crate) fn free_remains(&self, Remains(head): Remains) {
        if let Some(head) = head {
            self.free_bodies(&head);
            self.give_free(head);
        }
    }

    /// The same in one, where the stripe is held on.
    pub(crate) fn unlink(&self, address: ChunkAddress) {
        self.free_remains(self.unlink_unfreed(address));
    }
}
