//! `page_mover=warm`: a move evicts the next victims of the class's eviction order, wherever they are, and carries
//! the other items of the page to the freed chunks.
//!
//! ```text
//!   a batch of chunks of the page
//!     reserve  counts the items that can be carried now, and takes the class's free chunks outside the page
//!     evict    for each missing chunk the class evicts its coldest item, several in one hold of its lock
//!     reserve  again: a victim may have been in the batch
//!     carry    copies each item to a reserved chunk; it keeps its place in its queue
//! ```
//!
//! EXACT-LOSS: let `u` be the number of used chunks on the page, and `f` that of free chunks of the class outside
//! the page. Every eviction reduces `u - f` by one, whether its victim is on the page or not. There is an eviction
//! only if a chunk that can be carried has no reserved chunk, so only while `u > f`. So exactly `u - f` items are
//! evicted, in the order of the class's eviction kind, as if they had been evicted at that moment.
//!
//! Batches are for speed: a move spends nearly all its time waiting for memory, so the cache lines of a batch are
//! prefetched together.

use super::retired;
use crate::class::ClassStatus;
use crate::layout::ChunkAddress;
use crate::mem::{Entry, OwnedChunk, Pin, Queued};
use crate::mover::job::{Candidate, Kind, Pass, PassStep};
use crate::space::Evicted;
use slabwise_base::sync::lock;
use slabwise_base::{ClassId, PageId};

/// Pages compared to find the one that costs least to empty.
const PAGES_COMPARED_MAX: usize = 64;

/// The most chunks in a batch.
const BATCH_CHUNKS_MAX: usize = 32;

/// The most bytes of a chunk that are prefetched; the hardware prefetches the rest in sequence.
const PREFETCH_SIZE_BYTES_MAX: usize = 512;

/// The result of reserving chunks for a batch.
enum Reserved {
    /// This number of chunks is missing.
    Missing(usize),
    /// The class is retired, so the batch is carried to its successors.
    Retired,
}

pub struct Warm;

impl Kind for Warm {
    /// Chooses the page with the fewest used chunks among those compared.
    fn choose(&self, candidates: &mut dyn Iterator<Item = Candidate<'_>>) -> Option<PageId> {
        let compared = candidates.take(PAGES_COMPARED_MAX);
        let emptiest = compared.min_by_key(|c| (c.is_last_choice, c.page.used()));
        emptiest.map(|candidate| candidate.id)
    }

    fn pass(&self, pass: &mut Pass<'_>, budget_chunks: usize) -> PassStep {
        let mut left = budget_chunks.max(1);
        while left > 0 {
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

fn empty_batch(pass: &mut Pass<'_>, mut batch: Vec<ChunkAddress>) {
    loop {
        let missing = match reserve_chunks(pass, &mut batch) {
            Reserved::Missing(0) => break,
            Reserved::Missing(missing) => missing,
            Reserved::Retired => return retired::empty_batch(pass, batch),
        };
        // Evict only when the pool has no page.
        if take_pool_page(pass, pass.job.order.victim) {
            continue;
        }
        let evicted = make_room(pass, missing);
        pass.counters.evicted += evicted as u64;
        if evicted == 0 {
            // For example in a class that holds only bodies, which are not evicted for one another.
            for address in batch.split_off(batch.len() - missing) {
                let dropped = pass.drop_for_move(address);
                pass.note(dropped, address);
            }
            break;
        }
        pass.progress();
    }
    carry_batch(pass, &batch);
}

/// Adds a page of the pool to a class without free chunks. Returns false if the pool has none, else the caller
/// tries to reserve chunks again. The page's memory is populated at once, with no class locked, so that later
/// writes do not wait for page faults.
fn take_pool_page(pass: &Pass<'_>, class: ClassId) -> bool {
    let space = pass.space;
    let page = {
        let mut state = space.class(class).lock();
        if state.pages.partial().is_some() || state.status() != ClassStatus::Present {
            return true;
        }
        // Taken and adopted under the class's lock: a store that found neither chunk nor page would evict.
        let taken = lock(&space.pool).take(&space.memory, false);
        let Some(page) = taken else { return false };
        state.adopt(page)
    };
    space.memory.populate(page);
    true
}

/// Keeps in the batch the chunks that can be carried now, and reserves free chunks outside the page for them.
fn reserve_chunks(pass: &mut Pass<'_>, batch: &mut Vec<ChunkAddress>) -> Reserved {
    return_foreign_spares(pass);
    let mut class = pass.space.class(pass.job.order.victim).lock();
    if class.status() == ClassStatus::Retired {
        return Reserved::Retired;
    }
    pass.keep_carriable(batch, &class);
    while pass.job.spares.len() < batch.len() {
        let Some(chunk) = class.pages.take() else { break };
        pass.job.spares.push(chunk);
    }
    Reserved::Missing(batch.len().saturating_sub(pass.job.spares.len()))
}

/// Frees the reserved chunks of successor classes after the victim was revived.
fn return_foreign_spares(pass: &mut Pass<'_>) {
    let (space, victim) = (pass.space, pass.job.order.victim);
    let foreign = |chunk: &mut OwnedChunk| chunk.class() != victim;
    pass.job.spares.extract_if(.., foreign).for_each(|chunk| space.give_free(chunk));
}

/// Evicts up to `wanted` items and reserves their chunks outside the page; returns the number of evictions.
fn make_room(pass: &mut Pass<'_>, wanted: usize) -> usize {
    let (space, now) = (pass.space, pass.now);
    if !space.config.eviction_enabled {
        return 0;
    }
    let class = pass.job.order.victim;
    // In the largest class each eviction compares whole items with chained ones, so they cannot be detached together.
    if class != space.largest {
        let victims = space.detach_victims(class, wanted, now);
        let evicted = victims.len();
        let hashes = prefetch_entries(pass, victims.iter().map(|victim| &victim.pin));
        for (victim, hash) in victims.into_iter().zip(hashes) {
            if let Some(chunk) = space.finish_eviction(victim, hash, class) {
                pass.keep_as_spare(chunk);
            }
        }
        if evicted > 0 {
            return evicted;
        }
    }
    match space.evict_for_carried(class, now) {
        Evicted::Chunk(chunk) => {
            pass.keep_as_spare(chunk);
            1
        }
        Evicted::Freed => 1,
        Evicted::Nothing => 0,
    }
}

/// Returns the hashes of pinned items after prefetching their index entries.
fn prefetch_entries<'p>(pass: &Pass<'_>, pins: impl Iterator<Item = &'p Pin>) -> Vec<u64> {
    let space = pass.space;
    let hash = |pin: &Pin| space.hash_of(pin.item(&space.memory));
    let hashes: Vec<u64> = pins.map(hash).collect();
    hashes.iter().for_each(|&hash| space.index.prefetch(hash));
    space.index.prefetch_buckets(&hashes);
    hashes
}

/// Carries the items of the batch to the reserved chunks, of which there are enough.
fn carry_batch(pass: &mut Pass<'_>, batch: &[ChunkAddress]) {
    let memory = &pass.space.memory;
    let (pins, others) = pin_plain_items(pass, batch);
    let size_bytes = pass.job.chunk_size_bytes.min(PREFETCH_SIZE_BYTES_MAX);
    for (pin, spare) in pins.iter().zip(pass.job.spares.iter().rev()) {
        pin.item(memory).prefetch_neighbours();
        memory.prefetch_chunk(pin.address(), size_bytes);
        memory.prefetch_chunk(spare.address(), size_bytes);
    }
    let hashes = prefetch_entries(pass, pins.iter());
    let rescued = carry_plain_items(pass, pins, &hashes);
    if rescued > 0 {
        pass.counters.rescued += rescued;
        pass.progress();
    }
    // Heads and bodies of chained items, and chunks that have changed since they were checked.
    for address in others {
        let carried = pass.carry_one(address);
        pass.note(carried, address);
    }
}

/// Carries pinned items within their class; returns the number carried.
fn carry_plain_items(pass: &mut Pass<'_>, pins: Vec<Pin>, hashes: &[u64]) -> u64 {
    let space = pass.space;
    let class = space.class(pass.job.order.victim);
    let mut rescued = 0;
    let mut emptied = Vec::with_capacity(pins.len());
    for (pin, &hash) in pins.into_iter().zip(hashes) {
        let carried = match Entry::find_address(space.index.lock(hash), hash, pin.address()) {
            Ok(mut entry) => pass.carry_within(&pin, &mut entry, class),
            Err(_) => None,
        };
        match carried {
            Some(_) => rescued += 1,
            None => pass.job.held.push(pin.address()),
        }
        emptied.extend(space.unpin_to_owned(pin));
    }
    let mut class = class.lock();
    emptied.into_iter().for_each(|chunk| class.pages.give(chunk));
    rescued
}

/// Pins the items of a batch that are unpinned and not chained; also returns the other chunks.
fn pin_plain_items(pass: &Pass<'_>, batch: &[ChunkAddress]) -> (Vec<Pin>, Vec<ChunkAddress>) {
    let (mut pins, mut others) = (Vec::with_capacity(batch.len()), Vec::new());
    // A queued item cannot be freed under this lock, so the pin is valid.
    let class = pass.space.class(pass.job.order.victim).lock();
    for &address in batch {
        let item = class.pages.token.queued(address).filter(|item| item.is_unpinned());
        match item.and_then(Queued::pin_key) {
            Some(pin) => pins.push(pin),
            None => others.push(address),
        }
    }
    (pins, others)
}
