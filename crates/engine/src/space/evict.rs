//! Eviction: which item leaves a class, and how it leaves.
//!
//! No stripe is held here. A victim is taken out of its queue and pinned in one step under its class's
//! lock; then, that lock released, its stripe is locked and the entry removed if it is still there.
//! Between the two steps the item can be read, replaced or deleted as ever.

use super::shared::Space;
use super::tap::{AccessKind, Eviction};
use crate::class::{CHAINED, ClassState, VictimSearch, VictimStep};
use crate::evict::Place;
use crate::layout::ChunkAddress;
use crate::mem::{OwnedChunk, Pin, QueueKind, ReadProof, State};
use slabwise_base::sync::MutexGuard;
use slabwise_base::{ClassId, Expiry, Now};

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
    pub fn detach_victims(&self, class: ClassId, count: usize, now: Now) -> Vec<Victim> {
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
    pub fn finish_eviction(&self, victim: Victim, hash: u64, class: ClassId) -> Option<OwnedChunk> {
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
    pub fn count_eviction(&self, state: &mut ClassState, victim: ChunkAddress, now: Now) -> bool {
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
    pub fn remove_detached(&self, pin: &Pin, ended: bool) {
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
                self.show_access(hash, AccessKind::Delete, Some(self.queue_class(pin.address())));
            }
        }
    }

    /// The expiry of a victim that is to be shown once it is detached; `None` if nobody wants to see it,
    /// or if it has ended: then its memory is reclaimed and nothing is lost.
    #[inline]
    pub fn wanted_eviction(
        &self,
        state: &ClassState,
        victim: ChunkAddress,
        now: Now,
    ) -> Option<Expiry> {
        if !self.tap.wants_evictions() {
            return None;
        }
        // The expiry stands still under this lock, and not under the pin that follows.
        let proof = ReadProof::under_class(state);
        let lives = self.death_of(victim, now, proof).is_none();
        lives.then(|| self.memory.expiry(victim, proof))
    }

    /// Shows a victim that the caller has detached and pinned.
    #[cold]
    pub fn show_eviction(&self, pin: &Pin, expiry: Expiry, now: Now) {
        // Under the pin the key stands still; the length of a value is never changed.
        let (victim, proof) = (pin.address(), ReadProof::under_pin(pin));
        let header = self.memory.header(victim);
        self.tap.show_eviction(&Eviction {
            key: self.memory.key(victim, proof),
            value_len: self.memory.value_len(victim, proof),
            expiry,
            last_access: header.time(),
            fetched: header.state().load().fetched(),
            class: self.shown_class(victim),
            now,
        });
    }

    /// Removes an item at a tail of the class that has ended. The class stays locked only if there is none.
    pub fn reclaim_tail<'c>(
        &self,
        mut state: MutexGuard<'c, ClassState>,
        now: Now,
    ) -> Option<MutexGuard<'c, ClassState>> {
        let Some(ended) = self.ended_tail(&state, now) else { return Some(state) };
        self.count_reclaim(&mut state, ended);
        let pin = state.detach(&self.memory, ended);
        drop(state);
        self.remove_detached(&pin, true);
        self.unpin(pin);
        None
    }

    /// A tail whose item has ended and that nobody pins.
    fn ended_tail(&self, state: &ClassState, now: Now) -> Option<ChunkAddress> {
        let proof = ReadProof::under_class(state);
        let tail = |lane, queue| state.lanes().queue(Place { lane, queue }).tail();
        let tails = |lane| QueueKind::ALL.into_iter().filter_map(move |queue| tail(lane, queue));
        state.lanes().all().flat_map(tails).find(|&tail| {
            let unpinned = self.memory.header(tail).state().load().pins() == 0;
            unpinned && self.death_of(tail, now, proof).is_some()
        })
    }

    pub fn count_reclaim(&self, state: &mut ClassState, ended: ChunkAddress) {
        let fetched = self.memory.header(ended).state().load().fetched();
        state.counters.reclaimed += 1;
        state.counters.expired_unfetched += u64::from(!fetched);
    }
}
