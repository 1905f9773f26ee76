//! `page_mover=warm`: what a class loses to a move is what its eviction order would have given up, wherever
//! that lies; what is left on the page is carried elsewhere.
//!
//! ```text
//!   a batch of chunks of the page
//!     look   what can be carried now is counted; free chunks of the class outside the page are taken
//!     room   for each that is missing the class evicts its coldest, many in one hold of its lock
//!     look   again: the coldest may have lain in the batch
//!     carry  each item is copied into a chunk of that room, and takes its old place in its queue
//! ```
//!
//! EXACT-LOSS: let the page hold `u` chunks in use and the class have `f` free ones outside. Every eviction
//! makes `u - f` smaller by one, whether its victim lies on the page or not; one is made only for a chunk
//! that can be carried and has no room, so that `u > f`. So exactly `u - f` items are evicted, in the order
//! of the class's eviction kind, as if it had been told to give up so many at that moment.
//!
//! Batches are for speed: nearly all of a move's time goes into waiting for memory, and the lines of a batch
//! are asked for together before they are needed.

use super::Job;
use super::counters::{Busy, MoverCounters};
use crate::alloc::Evicted;
use crate::class::{ClassState, Standing};
use crate::engine::Engine;
use crate::mem::{ChunkAddress, Kind, OwnedChunk, Pin, ReadProof};
use crate::page_table::PageState;
use slabwise_base::sync::lock;
use slabwise_base::{ClassId, Now};

/// Chunks looked at together, and the most victims that are taken in one hold of a class's lock.
const BATCH_CHUNKS_MAX: usize = 32;

/// Of larger chunks only the beginning is asked for early: the rest comes in a row.
const PREFETCH_SIZE_BYTES_MAX: usize = 512;

/// What a chunk of the page is, as the mover meets it.
pub(super) enum Met {
    /// Nobody uses it.
    Free,
    /// Its item can be carried now.
    Carriable,
    /// It cannot be emptied now.
    Busy(Busy),
}

/// What a look at a batch came to.
enum Looked {
    /// So many chunks are missing.
    Missing(usize),
    /// The class gets none: what is in the batch goes to its heirs.
    Retired,
}

impl Engine {
    /// Visits up to `budget_chunks` chunks; returns whether the pass has come to its end.
    pub(super) fn warm_pass(
        &self,
        job: &mut Job,
        counters: &mut MoverCounters,
        budget_chunks: usize,
        now: Now,
    ) -> bool {
        let mut left = budget_chunks.max(1);
        while left > 0 {
            let next = std::iter::from_fn(|| job.next_chunk(&self.memory));
            let batch: Vec<ChunkAddress> = next.take(left.min(BATCH_CHUNKS_MAX)).collect();
            if batch.is_empty() {
                return true;
            }
            left -= batch.len();
            counters.visits += batch.len() as u64;
            self.empty_batch(job, counters, batch, now);
        }
        false
    }

    fn empty_batch(
        &self,
        job: &mut Job,
        counters: &mut MoverCounters,
        mut batch: Vec<ChunkAddress>,
        now: Now,
    ) {
        loop {
            let missing = match self.look(job, counters, &mut batch) {
                Looked::Missing(0) => break,
                Looked::Missing(missing) => missing,
                Looked::Retired => return self.empty_retired_batch(job, counters, batch, now),
            };
            // Nothing is evicted while the pool has a page.
            if self.take_ready_page(job.order.victim) {
                continue;
            }
            let evicted = self.make_room(job, missing, now);
            counters.evicted += evicted as u64;
            if evicted == 0 {
                // As in a class of bodies only, none of which may leave for another.
                for address in batch.split_off(batch.len() - missing) {
                    let dropped = self.drop_for_move(job, counters, address, now);
                    job.note(dropped, address, counters, now);
                }
                break;
            }
            job.progress(now);
        }
        self.carry_batch(job, counters, &batch, now);
    }

    /// Sees to it that a class has a free chunk while the pool has a page; `false`: there is none, else look
    /// again. The page's memory is taken from the system at once, with no class locked: else the first write
    /// to each part of it would wait for that.
    fn take_ready_page(&self, class: ClassId) -> bool {
        let page = {
            let mut state = self.class(class).lock();
            if state.partial().is_some() || state.standing() != Standing::Present {
                return true;
            }
            // It is nobody's for no moment: who finds neither chunk nor page evicts.
            let taken = lock(&self.pool).take(self.memory.pages.count(), false);
            let Some(page) = taken else { return false };
            state.adopt(&self.memory, page);
            page
        };
        self.memory.arena.populate(page, self.memory.page_size_bytes());
        true
    }

    /// Leaves in the batch what can be carried now, and takes free chunks outside the page for it.
    fn look(
        &self,
        job: &mut Job,
        counters: &mut MoverCounters,
        batch: &mut Vec<ChunkAddress>,
    ) -> Looked {
        self.return_foreign_spares(job);
        let mut class = self.class(job.order.victim).lock();
        if class.standing() == Standing::Retired {
            return Looked::Retired;
        }
        batch.retain(|&address| match self.meet(job, address, &class) {
            Met::Free => false,
            Met::Carriable => true,
            Met::Busy(why) => {
                counters.note_busy(why);
                job.held.push(address);
                false
            }
        });
        while job.spares.len() < batch.len() {
            let Some(chunk) = class.take_free(&self.memory) else { break };
            job.spares.push(chunk);
        }
        Looked::Missing(batch.len().saturating_sub(job.spares.len()))
    }

    /// Gives back what was taken from the heirs of a class that is in the table again: its items stay in it.
    fn return_foreign_spares(&self, job: &mut Job) {
        let victim = job.order.victim;
        let foreign = |chunk: &mut OwnedChunk| self.memory.class_of(chunk.address()) != victim;
        job.spares.extract_if(.., foreign).for_each(|chunk| self.give_free(chunk));
    }

    /// What a chunk of a locked class is.
    pub(super) fn meet(&self, job: &Job, address: ChunkAddress, _class: &ClassState) -> Met {
        let header = self.memory.header(address);
        let state = header.state().load();
        let holder = match state.kind() {
            Kind::Free => return Met::Free,
            Kind::Item => state,
            // While a body is in use its head is too, and it is freed under this lock.
            Kind::Body => match header.prev() {
                Some(head) => self.memory.header(head).state().load(),
                None => return Met::Busy(Busy::Unlinked),
            },
        };
        if holder.pins() == 0 || job.carries_pinned(state) {
            Met::Carriable
        } else if holder.linked() {
            Met::Busy(Busy::Held)
        } else {
            Met::Busy(Busy::Unlinked)
        }
    }

    /// Evicts up to `wanted` items for room outside the page; returns how many.
    fn make_room(&self, job: &mut Job, wanted: usize, now: Now) -> usize {
        if !self.config.eviction_enabled {
            return 0;
        }
        let class = job.order.victim;
        // Where whole items and bodies of chained ones lie side by side, each eviction compares them.
        if class != self.largest {
            let victims = self.detach_victims(class, wanted, now);
            let evicted = victims.len();
            let hashes = self.prefetch_entries(victims.iter().map(|victim| &victim.pin));
            for (victim, hash) in victims.into_iter().zip(hashes) {
                if let Some(chunk) = self.finish_eviction(victim, hash, class) {
                    self.keep_as_room(job, chunk);
                }
            }
            if evicted > 0 {
                return evicted;
            }
        }
        match self.evict_for_carried(class, now) {
            Evicted::Chunk(chunk) => {
                self.keep_as_room(job, chunk);
                1
            }
            Evicted::Freed => 1,
            Evicted::Nothing => 0,
        }
    }

    /// Keeps a victim's chunk for what is to be carried, unless it lies on the draining page itself.
    pub(super) fn keep_as_room(&self, job: &mut Job, chunk: OwnedChunk) {
        if self.memory.page_entry(chunk.address()).state() == PageState::Owned {
            job.spares.push(chunk);
        } else {
            self.give_free(chunk);
        }
    }

    /// The hashes of pinned items, whose index lines are asked for.
    fn prefetch_entries<'p>(&self, pins: impl Iterator<Item = &'p Pin>) -> Vec<u64> {
        let hash = |pin: &Pin| self.hash_of(pin.address(), ReadProof::under_pin(pin));
        let hashes: Vec<u64> = pins.map(hash).collect();
        hashes.iter().for_each(|&hash| self.index.prefetch(hash));
        self.index.prefetch_buckets(&hashes);
        hashes
    }

    /// Carries what is in the batch to the spares, of which there are enough.
    fn carry_batch(
        &self,
        job: &mut Job,
        counters: &mut MoverCounters,
        batch: &[ChunkAddress],
        now: Now,
    ) {
        let (pins, others) = self.pin_plain_items(job.order.victim, batch);
        let size_bytes = job.chunk_size_bytes().min(PREFETCH_SIZE_BYTES_MAX);
        for (pin, spare) in pins.iter().zip(job.spares.iter().rev()) {
            self.memory.prefetch_neighbours(pin.address());
            self.memory.arena.prefetch_chunk(pin.address(), size_bytes);
            self.memory.arena.prefetch_chunk(spare.address(), size_bytes);
        }
        let hashes = self.prefetch_entries(pins.iter());
        let rescued = self.carry_plain_items(job, pins, &hashes);
        if rescued > 0 {
            counters.rescued += rescued;
            job.progress(now);
        }
        // Heads and bodies of chained items, and what has changed since it was looked at.
        for address in others {
            let carried = self.carry_one(job, counters, address, now);
            job.note(carried, address, counters, now);
        }
    }

    /// Carries pinned items within their class; returns how many were carried.
    fn carry_plain_items(&self, job: &mut Job, pins: Vec<Pin>, hashes: &[u64]) -> u64 {
        let class = self.class(job.order.victim);
        let mut rescued = 0;
        let mut emptied = Vec::with_capacity(pins.len());
        for (pin, &hash) in pins.into_iter().zip(hashes) {
            let mut stripe = self.index.lock(hash);
            let copy = self.copy_out(job, &pin, hash, &stripe);
            let carried = copy
                .and_then(|copy| self.take_place(job, &pin, copy, &mut stripe, &mut class.lock()));
            drop(stripe);
            match carried {
                Some(_) => rescued += 1,
                None => job.held.push(pin.address()),
            }
            emptied.extend(self.unpin_to_owned(pin));
        }
        let mut class = class.lock();
        emptied.into_iter().for_each(|chunk| class.give_free(&self.memory, chunk));
        rescued
    }

    /// Pins the items of a batch that lie in one chunk each and that nobody holds; also returns the rest.
    fn pin_plain_items(
        &self,
        class: ClassId,
        batch: &[ChunkAddress],
    ) -> (Vec<Pin>, Vec<ChunkAddress>) {
        let (mut pins, mut others) = (Vec::with_capacity(batch.len()), Vec::new());
        // Under this lock a queued item cannot be freed, so the pin finds it alive.
        let _class = self.class(class).lock();
        for &address in batch {
            let state = self.memory.header(address).state().load();
            let plain = state.queued() && !state.chained() && state.pins() == 0;
            match plain.then(|| self.memory.arena.try_pin(address)).flatten() {
                Some(pin) => pins.push(pin),
                None => others.push(address),
            }
        }
        (pins, others)
    }
}
