//! `page_mover=warm`: a move evicts the cold items of the moving page, and the items that the class's eviction order selects
//! on any page of the class. It carries the other items of the moving page to free chunks on other pages.
//!
//! ```text
//!   0. ahead      evict items until the class has a page's worth of free chunks (`ahead.rs`)
//!   for each batch of chunks of the page, until the page is empty:
//!     1. reserve  count the items that can be carried now, and take as many free chunks of the class outside the page;
//!                 if they are too few, recall the spare chunks of the class
//!     2. evict    if chunks are missing: add a page from the page pool to the class if the pool has one, or else
//!                 evict the next victim of the class for each missing chunk
//!     3. repeat step 1, because some victims may have been in the batch
//!     4. carry    copy each item to a reserved chunk; the item keeps its position in its queue
//! ```
//!
//! Invariant EXACT-LOSS: let `u` be the number of used chunks on the page, and `f` the number of free chunks of the
//! class outside the page. An eviction reduces `u - f` by one: if the victim is on the page, `u` falls, and otherwise
//! `f` rises. The mover evicts only if there are more items to carry than reserved chunks, which implies `u > f`. So a
//! move evicts exactly `u - f` items if `u > f` at its start, and otherwise none, provided that the page pool is empty
//! and no other thread changes the class. If the order of the class knows no cold items, and none has expired, these are the
//! items that the class would have evicted next. Otherwise the cold items of the page are evicted first (`ahead.rs`).
//!
//! Chunks are processed in batches, so that the cache lines of a batch can be prefetched together. A move spends nearly
//! all its time waiting for memory.

use super::ahead;
use super::batch::{self, BATCH_CHUNKS_MAX, prefetch_entries};
use super::retired;
use crate::class::ClassStatus;
use crate::layout::ChunkAddress;
use crate::mem::{Entry, OwnedChunk, Pin, Queued};
use crate::mover::job::{Candidate, Choice, MoverRules, Pass, PassStep};
use crate::space::Evicted;
use slabwise_base::{ClassId, PageId};

/// The largest number of pages that are compared to choose the page with the fewest items to carry, besides those of the
/// items at the tail of the class.
const PAGES_COMPARED_MAX: usize = 64;

/// The largest number of bytes of a chunk that are prefetched. The processor prefetches the following bytes by itself,
/// because they are read in sequence.
const PREFETCH_SIZE_BYTES_MAX: usize = 512;

/// The result of reserving chunks for a batch.
enum Reserved {
    /// This number of chunks is missing: the batch needs more than were free.
    Missing(usize),
    /// The victim is a retired class, so the batch must be carried to successor classes.
    Retired,
}

/// The rules of the kind `warm`.
pub struct Warm;

impl MoverRules for Warm {
    /// Chooses the page with the fewest items to carry among those compared.
    fn choose(&self, choice: &Choice<'_>) -> Option<PageId> {
        let compared = choice.coldest().chain(choice.candidates().take(PAGES_COMPARED_MAX));
        let estimate = ahead::estimate(choice);
        let rank = |it: &Candidate<'_>| (it.is_last_choice, estimate(it));
        compared.min_by_key(rank).map(|candidate| candidate.id)
    }

    fn pass(&self, pass: &mut Pass<'_>, budget_chunks: usize) -> PassStep {
        let mut left = budget_chunks.max(1);
        left -= ahead::evict_cold(pass, left);
        left -= ahead::evict_victims(pass, left);
        while left > 0 {
            if pass.space.memory.page(pass.job.page).used() == 0 {
                return PassStep::Ended;
            }
            let next = std::iter::from_fn(|| pass.next_chunk());
            let batch: Vec<ChunkAddress> = next.take(left.min(BATCH_CHUNKS_MAX)).collect();
            if batch.is_empty() {
                return PassStep::Ended;
            }
            left -= batch.len();
            pass.counters.visits += batch.len() as u64;
            empty_batch(pass, batch);
        }
        PassStep::Continue
    }
}

/// Empties a batch of chunks of the page. Chunks that are busy are visited again later.
fn empty_batch(pass: &mut Pass<'_>, mut batch: Vec<ChunkAddress>) {
    loop {
        let missing = match reserve_chunks(pass, &mut batch) {
            Reserved::Missing(0) => break,
            Reserved::Missing(missing) => missing,
            Reserved::Retired => return retired::empty_batch(pass, batch),
        };
        // Items are evicted only when the page pool is empty.
        if ensure_free_chunk(pass, pass.job.request.victim) {
            continue;
        }
        let evicted = evict_and_reserve(pass, missing);
        pass.counters.evicted += evicted as u64;
        if evicted == 0 {
            // Nothing can be evicted, for example because all chunks of the class hold bodies of chained items. Some
            // items of the batch are then dropped.
            for address in batch.split_off(batch.len() - missing) {
                let dropped = pass.drop_item_of(address);
                pass.record_visit(dropped, address);
            }
            break;
        }
        pass.record_progress();
    }
    carry_batch(pass, &batch);
}

/// Adds a page of the page pool to a class without free chunks. Returns false if the pool has no page. Otherwise the
/// caller tries to reserve chunks again. The memory of the page is populated at once, while no class is locked, so that
/// later writes to the page cause no page faults.
fn ensure_free_chunk(pass: &Pass<'_>, class: ClassId) -> bool {
    let space = pass.space;
    let page = {
        let mut state = space.class(class).lock();
        if state.pages.partial().is_some() || state.status() != ClassStatus::Present {
            return true;
        }
        // The page is taken from the pool and added to the class under one hold of the class's lock. Otherwise a store
        // could find neither a free chunk nor a page in between, and evict an item without need.
        let taken = space.lock_pool().take(&space.memory, false);
        let Some(page) = taken else { return false };
        state.adopt(page)
    };
    space.memory.populate(page);
    true
}

/// Removes from the batch all chunks whose contents cannot be carried now. Reserves free chunks outside the page for
/// the others.
fn reserve_chunks(pass: &mut Pass<'_>, batch: &mut Vec<ChunkAddress>) -> Reserved {
    free_chunks_of_other_classes(pass);
    let mut class = pass.space.class(pass.job.request.victim).lock();
    if class.status() == ClassStatus::Retired {
        return Reserved::Retired;
    }
    pass.keep_carriable(batch, &class);
    while pass.job.reserved.len() < batch.len() {
        let Some(chunk) = pass.space.take_free_or_spare(&mut class) else { break };
        pass.job.reserved.push(chunk);
    }
    Reserved::Missing(batch.len().saturating_sub(pass.job.reserved.len()))
}

/// Frees the reserved chunks of other classes. There are such chunks only if the victim was retired and then revived.
fn free_chunks_of_other_classes(pass: &mut Pass<'_>) {
    let (space, victim) = (pass.space, pass.job.request.victim);
    let is_of_other_class = |chunk: &mut OwnedChunk| chunk.class() != victim;
    pass.job.reserved.extract_if(.., is_of_other_class).for_each(|chunk| space.give_free(chunk));
}

/// Evicts up to `count` items of the class, and reserves their chunks if these are outside the page. Returns the number
/// of evicted items.
fn evict_and_reserve(pass: &mut Pass<'_>, count: usize) -> usize {
    let (space, now) = (pass.space, pass.now);
    if !space.config.eviction_enabled {
        return 0;
    }
    let class = pass.job.request.victim;
    // In the largest class, each eviction compares the next whole item with the next chained item. So several victims
    // of this class cannot be detached together.
    if class != space.largest {
        let (evicted, chunks) = batch::evict(pass, count);
        chunks.into_iter().for_each(|chunk| pass.reserve_or_free(chunk));
        if evicted > 0 {
            return evicted;
        }
    }
    match space.evict_for_carried(class, now) {
        Evicted::Chunk(chunk) => {
            pass.reserve_or_free(chunk);
            1
        }
        Evicted::Freed => 1,
        Evicted::Nothing => 0,
    }
}

/// Carries the contents of the batch to the reserved chunks. There must be a reserved chunk for each chunk of the
/// batch.
fn carry_batch(pass: &mut Pass<'_>, batch: &[ChunkAddress]) {
    let memory = &pass.space.memory;
    let (pins, others) = pin_plain_items(pass, batch);
    let size_bytes = pass.job.chunk_size_bytes.min(PREFETCH_SIZE_BYTES_MAX);
    for (pin, reserved) in pins.iter().zip(pass.job.reserved.iter().rev()) {
        pin.item(memory).prefetch_neighbours();
        memory.prefetch_chunk(pin.address(), size_bytes);
        memory.prefetch_chunk(reserved.address(), size_bytes);
    }
    let hashes = prefetch_entries(pass, pins.iter());
    let rescued = carry_plain_items(pass, pins, &hashes);
    if rescued > 0 {
        pass.counters.rescued += rescued;
        pass.record_progress();
    }
    // The other chunks hold heads or bodies of chained items, or have changed since they were checked.
    for address in others {
        let carried = pass.carry_chunk(address);
        pass.record_visit(carried, address);
    }
}

/// Carries items to reserved chunks of their class. The mover has pinned the items. Returns the number of carried
/// items.
fn carry_plain_items(pass: &mut Pass<'_>, pins: Vec<Pin>, hashes: &[u64]) -> u64 {
    let space = pass.space;
    let class = space.class(pass.job.request.victim);
    let mut rescued = 0;
    let mut emptied = Vec::with_capacity(pins.len());
    for (pin, &hash) in pins.into_iter().zip(hashes) {
        let carried = match Entry::find_address(space.index.lock(hash), hash, pin.address()) {
            Ok(mut entry) => pass.carry_within(&pin, &mut entry, class),
            Err(_) => None,
        };
        match carried {
            Some(_) => rescued += 1,
            None => pass.job.busy.push(pin.address()),
        }
        emptied.extend(space.unpin_to_owned(pin));
    }
    let mut class = class.lock();
    emptied.into_iter().for_each(|chunk| class.pages.give(chunk));
    rescued
}

/// Pins the items of a batch that are unpinned and not chained. Returns the pins, and the addresses of all other chunks
/// of the batch.
fn pin_plain_items(pass: &Pass<'_>, batch: &[ChunkAddress]) -> (Vec<Pin>, Vec<ChunkAddress>) {
    let (mut pins, mut others) = (Vec::with_capacity(batch.len()), Vec::new());
    // No thread can free a queued item while this lock is held, so the items stay valid until they are pinned.
    let class = pass.space.class(pass.job.request.victim).lock();
    for &address in batch {
        let item = class.pages.token.queued(address).filter(|item| item.is_unpinned());
        match item.and_then(Queued::pin_key) {
            Some(pin) => pins.push(pin),
            None => others.push(address),
        }
    }
    (pins, others)
}
