//! The cache that handles work on, and where its chunks for new items come from: free ones, the pool, eviction,
//! and at the last a page of another class.

use crate::config::EngineConfig;
use crate::mem::{Arena, OwnedChunk};
use crate::mover::Mover;
use crate::size_map::Choice;
use crate::space::{Evicted, Space};
use slabwise_base::Now;
use std::sync::atomic::Ordering::Relaxed;

/// Evictions that one allocation tries: others may take what it frees, and a chained victim may free
/// chunks of other classes only.
const EVICTIONS_MAX: usize = 32;

/// Pages that one allocation tries to take from other classes.
const SEIZURES_MAX: usize = 3;

/// Why no chunk was given.
enum Refusal {
    /// Nothing is free and nothing can leave.
    OutOfMemory,
    /// The class is not in the table any more: the choice is to be made anew.
    Retired,
}

/// Items in their space, and the mover that divides it among the classes.
pub struct Cache {
    pub space: Space,
    pub mover: Mover,
}

impl Cache {
    /// An empty cache in an arena that has room for it.
    pub fn new(config: EngineConfig, arena: Arena) -> Cache {
        let space = Space::new(config, arena);
        let mover = Mover::new(&space.memory);
        Cache { space, mover }
    }

    /// A chunk for an item or a part of one: of the class that the table gives its size (the largest for a
    /// part of whatever size), or of the next larger class where that one owns nothing; `None`: out of
    /// memory. The caller holds no stripe.
    pub fn allocate(&self, size_bytes: usize, now: Now) -> Option<OwnedChunk> {
        let size_bytes = size_bytes.min(self.space.config.classes.chunk_size_bytes_max());
        // Every turn but the last is a change of the table meanwhile.
        loop {
            let choice = self.space.size_map.class_for(size_bytes)?;
            match self.allocate_as(choice, now) {
                Ok(chunk) => return Some(chunk),
                Err(Refusal::OutOfMemory) => {
                    self.space.class(choice.id).lock().counters.out_of_memory += 1;
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
        if !self.space.config.eviction_enabled || !self.may_take_anothers(choice) {
            return Err(Refusal::OutOfMemory);
        }
        for larger in self.larger_close_in_size(choice) {
            if self.space.class(larger.id).lock().page_count() > 0 {
                self.space.class(choice.id).lock().counters.homeless += 1;
                if let Ok(chunk) = self.allocate_in(larger, now) {
                    return Ok(chunk);
                }
            }
        }
        for _ in 0..SEIZURES_MAX {
            if !self.mover.seize_page(&self.space, choice.id, now) {
                break;
            }
            match self.allocate_in(choice, now) {
                Err(Refusal::OutOfMemory) => {}
                outcome => return outcome,
            }
        }
        // A class that was retired meanwhile gets no page; the table has another for such items.
        let is_present = self.space.class(choice.id).lock().accepts(choice);
        Err(if is_present { Refusal::OutOfMemory } else { Refusal::Retired })
    }

    /// Whether a class for which nothing is left may turn to others. Where it is granted a first page
    /// beyond the limit, only if there was none to be had.
    fn may_take_anothers(&self, choice: Choice) -> bool {
        !self.space.config.first_page_beyond_limit
            || self.space.class(choice.id).lock().page_count() == 0
    }

    /// The larger classes in which an item may live without wasting more than it needs, least first.
    fn larger_close_in_size(&self, choice: Choice) -> Vec<Choice> {
        let sizes = choice.chunk_size_bytes + 1..2 * choice.chunk_size_bytes;
        let table = self.space.class_table();
        let larger = table.classes().filter(|(_, size)| sizes.contains(size));
        larger.map(|(id, chunk_size_bytes)| Choice { id, chunk_size_bytes }).collect()
    }

    fn allocate_in(&self, choice: Choice, now: Now) -> Result<OwnedChunk, Refusal> {
        let class = choice.id;
        if self.space.exact_order.load(Relaxed) {
            // Without segments nobody else looks at tails, as in memcached without its maintainer.
            drop(self.space.reclaim_tail(self.space.class(class).lock(), now));
        }
        for _ in 0..EVICTIONS_MAX {
            {
                let mut state = self.space.class(class).lock();
                if !state.accepts(choice) {
                    return Err(Refusal::Retired);
                }
                if let Some(chunk) = self.space.take_free(&mut state) {
                    return Ok(chunk);
                }
            }
            if !self.space.config.eviction_enabled {
                break;
            }
            match self.space.evict_for(class, now) {
                Evicted::Chunk(chunk) if is_of(&chunk, choice) => return Ok(chunk),
                // The class's number has come to stand for another one.
                Evicted::Chunk(chunk) => self.space.give_free(chunk),
                Evicted::Freed => {}
                Evicted::Nothing => break,
            }
        }
        Err(Refusal::OutOfMemory)
    }
}

/// Whether a chunk is of the class that was chosen, retired meanwhile or not.
#[inline]
fn is_of(chunk: &OwnedChunk, choice: Choice) -> bool {
    chunk.size_bytes() == choice.chunk_size_bytes
}
