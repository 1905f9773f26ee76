//! The allocation of a chunk for a store.
//!
//! An allocation takes the first chunk that it finds in this order:
//!
//! 1. a spare chunk of the handle;
//! 2. a free chunk of the class, or of a page from the page pool;
//! 3. the chunk of an evicted item of the class's queues;
//! 4. a spare chunk of another handle;
//! 5. the chunk of an evicted chained item;
//! 6. a chunk of a class with somewhat larger chunks;
//! 7. as the last resort, a page of another class.
//!
//! In steps 2 and 3 it takes several chunks, so that the next stores of the handle find spare chunks. Without eviction
//! and in exact LRU order, step 4 precedes step 3: then no store fails, and no item is evicted, while a chunk of its
//! class is spare.

use super::handle::Cache;
use super::own_spares::OwnSpares;
use crate::class::ClassState;
use crate::heap::ClassChoice;
use crate::mem::OwnedChunk;
use crate::space::{DetachedBatch, Evicted, Evictor};
use slabwise_base::{ClassId, Now};
use std::sync::atomic::Ordering::Relaxed;

/// The largest number of evictions of one allocation. One eviction may not be enough: another thread may take the freed
/// chunk, and an evicted chained item may have no chunk of the class that allocates.
const EVICTIONS_MAX: usize = 32;

/// The largest number of pages that one allocation tries to take from other classes.
const SEIZED_PAGES_MAX: usize = 3;

/// The reason why an allocation in a class failed.
enum Refusal {
    /// No chunk is free and no item can be evicted.
    OutOfMemory,
    /// The class table no longer has this class with this chunk size, so the caller must read the table again.
    Retired,
}

impl Cache {
    /// Allocates a chunk for an item or a body of this size. A size above the largest chunk size counts as the largest.
    /// The chunk is of the class for the size, or of a class with larger chunks if the class for the size can get no
    /// chunk. `None`: there is no memory. Takes a chunk of `spares` if there is one, and otherwise may add some. The
    /// caller must hold no stripe lock.
    pub fn allocate(
        &self,
        size_bytes: usize,
        now: Now,
        spares: Option<&OwnSpares<'_>>,
    ) -> Option<OwnedChunk> {
        let size_bytes = size_bytes.min(self.space.config.classes.chunk_size_bytes_max());
        // The loop is repeated only after a change of the class table.
        loop {
            let choice = self.space.size_map.class_for(size_bytes)?;
            if let Some(chunk) = spares.and_then(|spares| spares.take(choice)) {
                return Some(chunk);
            }
            match self.allocate_for(choice, now, spares) {
                Ok(chunk) => return Some(chunk),
                Err(Refusal::OutOfMemory) => {
                    self.space.class(choice.id).lock().counters.out_of_memory += 1;
                    return None;
                }
                Err(Refusal::Retired) => {}
            }
        }
    }

    /// Allocates a chunk of the chosen class, or else of a larger class, or else from a page of another class.
    fn allocate_for(
        &self,
        choice: ClassChoice,
        now: Now,
        spares: Option<&OwnSpares<'_>>,
    ) -> Result<OwnedChunk, Refusal> {
        match self.allocate_in(choice, now, spares) {
            Err(Refusal::OutOfMemory) => {}
            outcome => return outcome,
        }
        if !self.space.config.eviction_enabled || !self.may_use_other_classes(choice) {
            return Err(Refusal::OutOfMemory);
        }
        for larger in self.larger_close_in_size(choice) {
            if self.space.class(larger.id).lock().pages.token.page_count() > 0 {
                self.space.class(choice.id).lock().counters.allocated_in_larger_class += 1;
                let own = spares.and_then(|spares| spares.take(larger));
                if let Some(chunk) = own.or_else(|| self.allocate_in(larger, now, None).ok()) {
                    return Ok(chunk);
                }
            }
        }
        let mut blocked = Vec::new();
        for _ in 0..SEIZED_PAGES_MAX {
            if !self.mover.lock().seize_page(&self.space, choice.id, &mut blocked, now) {
                break;
            }
            match self.allocate_in(choice, now, None) {
                Err(Refusal::OutOfMemory) => {}
                outcome => return outcome,
            }
        }
        // If the class was retired meanwhile, it gets no page, but the new table has another class for this size.
        let is_present = self.space.class(choice.id).lock().accepts(choice);
        Err(if is_present { Refusal::OutOfMemory } else { Refusal::Retired })
    }

    /// True if a class that can get no chunk may use the memory of other classes. If every class gets its first page
    /// beyond the memory limit, this is true only for a class that owns no page.
    fn may_use_other_classes(&self, choice: ClassChoice) -> bool {
        !self.space.config.first_page_beyond_limit
            || self.space.class(choice.id).lock().pages.token.page_count() == 0
    }

    /// Returns the classes with larger chunks of less than twice the size, in ascending order of size.
    fn larger_close_in_size(&self, choice: ClassChoice) -> Vec<ClassChoice> {
        let sizes = choice.chunk_size_bytes + 1..2 * choice.chunk_size_bytes;
        let table = self.space.class_table();
        let larger = table.classes().filter(|(_, size)| sizes.contains(size));
        larger.map(|(id, chunk_size_bytes)| ClassChoice { id, chunk_size_bytes }).collect()
    }

    /// Allocates a chunk of the chosen class: a free one, one on a new page, or the chunk of an evicted item.
    fn allocate_in(
        &self,
        choice: ClassChoice,
        now: Now,
        spares: Option<&OwnSpares<'_>>,
    ) -> Result<OwnedChunk, Refusal> {
        let class = choice.id;
        if self.space.exact_order.load(Relaxed) {
            // In exact LRU order no LRU maintainer runs, so an allocation first removes an expired or flushed item at a
            // tail, as in memcached.
            drop(self.space.reclaim_tail(self.space.class(class).lock(), now));
        }
        let evicts = self.space.config.eviction_enabled;
        for attempt in 0..EVICTIONS_MAX {
            // Each store that finds no free chunk in the receiver of a page move helps the mover. So there, each store
            // evicts for itself.
            let is_receiver = self.space.is_receiver(class);
            let evicting = spares.filter(|_| evicts && !is_receiver && attempt == 0);
            let batch = {
                let mut state = self.space.class(class).lock();
                if !state.accepts(choice) {
                    return Err(Refusal::Retired);
                }
                if let Some(chunk) = self.space.take_free(&mut state) {
                    spares.inspect(|spares| spares.fill(&mut state));
                    return Ok(chunk);
                }
                if (!evicts || state.is_exact())
                    && let Some(chunk) = self.space.take_free_or_spare(&mut state)
                {
                    return Ok(chunk);
                }
                evicting.and_then(|spares| self.detach_batch(&mut state, spares, now))
            };
            if let Some((batch, spares)) = batch
                && let Some(chunk) = self.finish_batch(batch, class, spares)
            {
                return Ok(chunk);
            }
            if !evicts {
                break;
            }
            if is_receiver && self.help_mover(class, now) {
                continue;
            }
            match self.evict_or_recall(choice, now) {
                Evicted::Chunk(chunk) if chunk.size_bytes() == choice.chunk_size_bytes => {
                    return Ok(chunk);
                }
                // The class's number was assigned to a class of another chunk size meanwhile.
                Evicted::Chunk(chunk) => self.space.give_free(chunk),
                Evicted::Freed => {}
                Evicted::Nothing => break,
            }
        }
        Err(Refusal::OutOfMemory)
    }

    /// Detaches a batch of victims of a class, if the handle with these spare chunks takes more than one chunk at once.
    fn detach_batch<'s, 'e>(
        &self,
        class: &mut ClassState,
        spares: &'s OwnSpares<'e>,
        now: Now,
    ) -> Option<(DetachedBatch, &'s OwnSpares<'e>)> {
        let count = spares.batch_len(class.id());
        (count > 1).then(|| (self.space.detach_batch(class, count, now), spares))
    }

    /// Evicts a batch of detached victims. Returns the first of their chunks, and makes the others spare. `None`: no
    /// chunk of the class is free now.
    fn finish_batch(
        &self,
        batch: DetachedBatch,
        class: ClassId,
        spares: &OwnSpares<'_>,
    ) -> Option<OwnedChunk> {
        let mut chunks = self.space.finish_batch(batch, class);
        let first = chunks.next();
        chunks.for_each(|chunk| spares.free(chunk));
        first
    }

    /// Evicts an item to free a chunk of a class. But if the class's own queues have no item that can be evicted, takes
    /// a free or spare chunk of the class before a chained item is evicted: that item may have no chunk of the class.
    fn evict_or_recall(&self, choice: ClassChoice, now: Now) -> Evicted {
        match self.space.evict_first_for(choice.id, Evictor::Store, now) {
            Evicted::Nothing => {}
            evicted => return evicted,
        }
        {
            // Under one lock, so that no other thread recalls the spare chunks after this one has found no free chunk.
            let mut state = self.space.class(choice.id).lock();
            if !state.accepts(choice) {
                return Evicted::Freed;
            }
            let free = self.space.take_free(&mut state);
            let unused = free.or_else(|| self.space.take_free_or_spare(&mut state));
            if let Some(chunk) = unused {
                return Evicted::Chunk(chunk);
            }
        }
        self.space.evict_chained_for(choice.id, Evictor::Store, now)
    }

    /// Carries out a part of the current page move, whose receiver is `class`. Returns true if a page has arrived. Does
    /// nothing if another thread works as the mover.
    #[cold]
    fn help_mover(&self, class: ClassId, now: Now) -> bool {
        let units = self.space.help_units.load(Relaxed);
        if units == 0 {
            return false;
        }
        let mover = self.mover.try_lock();
        mover.is_some_and(|mut mover| mover.help(&self.space, class, units, now))
    }
}
