//! `page_mover=warm`: a move evicts the items that the class's eviction order selects, on any page of the class, and
//! carries the other items of the moving page to free chunks on other pages.
//!
//! ```text
//!   0. ahead      evict the next victims of the class until it has a page's worth of free chunks, then change to the
//!                 emptiest of the pages that have lost items
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
//! and no other thread changes the class. These are the items that the class would have evicted next.
//!
//! Chunks are processed in batches, so that the cache lines of a batch can be prefetched together. A move spends nearly
//! all its time waiting for memory.

use super::retired;
use crate::class::{ClassState, ClassStatus};
use crate::layout::ChunkAddress;
use crate::mem::{Entry, OwnedChunk, PageState, Pin, Queued};
use crate::mover::job::{Candidate, MoverRules, Pass, PassStep};
use crate::space::Evicted;
use slabwise_base::{ClassId, PageId};

/// The largest number of pages that are compared to choose the page with the fewest used chunks.
const PAGES_COMPARED_MAX: usize = 64;

/// The largest number of chunks in a batch.
const BATCH_CHUNKS_MAX: usize = 32;

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
    /// Chooses the page with the fewest used chunks among those compared.
    fn choose(&self, candidates: &mut dyn Iterator<Item = Candidate<'_>>) -> Option<PageId> {
        let compared = candidates.take(PAGES_COMPARED_MAX);
        let emptiest = compared.min_by_key(|c| (c.is_last_choice, c.page.used()));
        emptiest.map(|candidate| candidate.id)
    }

    fn pass(&self, pass: &mut Pass<'_>, budget_chunks: usize) -> PassStep {
        let mut left = budget_chunks.max(1);
        left -= evict_ahead(pass, left);
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

/// Evicts items of the class until it has a page's worth of free chunks, or the budget is used up. Then changes to the
/// emptiest of the pages that have lost items. Returns the number of evicted items.
fn evict_ahead(pass: &mut Pass<'_>, budget_chunks: usize) -> usize {
    let mut evicted = 0;
    while pass.job.evict_ahead_max > 0 && evicted < budget_chunks {
        let count_max = (pass.job.evict_ahead_max as usize).min(budget_chunks - evicted);
        let count = evict_and_free(pass, missing_chunks(pass).min(count_max).min(BATCH_CHUNKS_MAX));
        pass.job.evict_ahead_max -= count as u32;
        evicted += count;
        if count == 0 || pass.job.evict_ahead_max == 0 {
            pass.job.evict_ahead_max = 0;
            change_to_emptiest_page(pass);
        }
    }
    evicted
}

/// Returns the number of chunks that the class lacks to have a page's worth of free chunks. If it lacks some, recalls
/// its spare chunks first. Returns 0 if the mover evicts only chunk by chunk: the class is retired, or its chunks hold
/// parts of chained items, or the page pool has a page.
fn missing_chunks(pass: &Pass<'_>) -> usize {
    let (space, id) = (pass.space, pass.job.request.victim);
    let mut class = space.class(id).lock();
    let evicts_by_chunk = id == space.largest
        || class.status() == ClassStatus::Retired
        || space.unqueued_count(&class) > 0;
    if evicts_by_chunk || !space.config.eviction_enabled || space.lock_pool().has_page() {
        return 0;
    }
    let wanted = class.pages.token.chunks_per_page() as usize;
    let missing = |class: &ClassState| {
        wanted.saturating_sub(class.pages.free_count() as usize + pass.job.reserved.len())
    };
    if missing(&class) > 0 {
        space.recall_into(&mut class, |_| true);
    }
    missing(&class)
}

/// Evicts up to `count` items of the class and frees their chunks. Returns the number of evicted items.
fn evict_and_free(pass: &mut Pass<'_>, count: usize) -> usize {
    let (evicted, chunks) = evict(pass, count);
    let space = pass.space;
    let mut class = space.class(pass.job.request.victim).lock();
    for chunk in chunks {
        let page = space.memory.page_of(chunk.address());
        if pass.job.evicted_from.last() != Some(&page) {
            pass.job.evicted_from.push(page);
        }
        class.pages.give(chunk);
    }
    drop(class);
    if evicted > 0 {
        pass.counters.evicted += evicted as u64;
        pass.record_progress();
    }
    evicted
}

/// Evicts up to `count` items of the class. Returns the number of evicted items, and those of their chunks that the
/// caller owns now.
fn evict(pass: &Pass<'_>, count: usize) -> (usize, Vec<OwnedChunk>) {
    let (space, class) = (pass.space, pass.job.request.victim);
    let victims = space.detach_victims(class, count, pass.now);
    let evicted = victims.len();
    let hashes = prefetch_entries(pass, victims.iter().map(|victim| &victim.pin));
    let both = victims.into_iter().zip(hashes);
    let chunks = both.filter_map(|(victim, hash)| space.finish_eviction(victim, hash, class));
    (evicted, chunks.collect())
}

/// Moves another page of the class instead, if a page that has lost items is emptier than the present one.
fn change_to_emptiest_page(pass: &mut Pass<'_>) {
    let memory = &pass.space.memory;
    let evicted_from = std::mem::take(&mut pass.job.evicted_from);
    let Some(emptiest) = evicted_from.into_iter().min_by_key(|&id| memory.page(id).used()) else {
        return;
    };
    let mut class = pass.space.class(pass.job.request.victim).lock();
    let page = memory.page(emptiest);
    let is_owned = page.owner() == Some(class.id()) && page.state() == PageState::Owned;
    if is_owned && page.used() < memory.page(pass.job.page).used() {
        class.pages.abort_drain(pass.job.page);
        class.pages.begin_drain(emptiest);
        (pass.job.page, pass.job.slot, pass.job.slot_end) = (emptiest, 0, page.fresh());
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
        let (evicted, chunks) = evict(pass, count);
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

/// Prefetches the index entries of pinned items. Returns the hashes of their keys, in the same order.
fn prefetch_entries<'p>(pass: &Pass<'_>, pins: impl Iterator<Item = &'p Pin>) -> Vec<u64> {
    let space = pass.space;
    let hash = |pin: &Pin| space.hash_of(pin.item(&space.memory));
    let hashes: Vec<u64> = pins.map(hash).collect();
    hashes.iter().for_each(|&hash| space.index.prefetch(hash));
    hashes.iter().for_each(|&hash| space.index.prefetch_bucket(hash));
    hashes
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
