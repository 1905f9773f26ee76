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
//! of the class's eviction kind, as if that many had been evicted at that moment.
//!
//! Batches are for speed: nearly all of a move's time goes into waiting for memory, and the lines of a batch
//! are asked for together before they are needed.

use super::retired;
use crate::class::Standing;
use crate::layout::ChunkAddress;
use crate::mem::{Entry, OwnedChunk, Pin, Queued};
use crate::mover::job::{Candidate, Kind, Pass, PassStep};
use crate::space::Evicted;
use slabwise_base::sync::lock;
use slabwise_base::{ClassId, PageId};

/// Pages compared to find the one that costs least to empty.
const PAGES_COMPARED_MAX: usize = 64;

/// Chunks looked at together, and the most victims that are taken in one hold of a class's lock.
const BATCH_CHUNKS_MAX: usize = 32;

/// Of larger chunks only the beginning is asked for early: the rest comes in a row.
const PREFETCH_SIZE_BYTES_MAX: usize = 512;

/// What a look at a batch came to.
enum Looked {
    /// That many chunks are missing.
    Missing(usize),
    /// The class gets none: what is in the batch goes to the classes that succeed it.
    Retired,
}

pub struct Warm;

impl Kind for Warm {
    /// The page with the fewest chunks in use, of those compared.
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
        PassStep::GoesOn
    }
}

fn empty_batch(pass: &mut Pass<'_>, mut batch: Vec<ChunkAddress>) {
    loop {
        let missing = match look(pass, &mut batch) {
            Looked::Missing(0) => break,
            Looked::Missing(missing) => missing,
            Looked::Retired => return retired::empty_batch(pass, batch),
        };
        // Nothing is evicted while the pool has a page.
        if take_ready_page(pass, pass.job.order.victim) {
            continue;
        }
        let evicted = make_room(pass, missing);
        pass.counters.evicted += evicted as u64;
        if evicted == 0 {
            // As in a class of bodies only, none of which may leave for another.
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

/// Sees to it that a class has a free chunk while the pool has a page; `false`: there is none, else look
/// again. The page's memory is taken from the system at once, with no class locked: else the first write
/// to each part of it would wait for that.
fn take_ready_page(pass: &Pass<'_>, class: ClassId) -> bool {
    let space = pass.space;
    let page = {
        let mut state = space.class(class).lock();
        if state.pages.partial().is_some() || state.standing() != Standing::Present {
            return true;
        }
        // It is never without an owner: a store that finds neither chunk nor page evicts.
        let taken = lock(&space.pool).take(&space.memory, false);
        let Some(page) = taken else { return false };
        state.adopt(page)
    };
    space.memory.populate(page);
    true
}

/// Leaves in the batch what can be carried now, and takes free chunks outside the page for it.
fn look(pass: &mut Pass<'_>, batch: &mut Vec<ChunkAddress>) -> Looked {
    return_foreign_spares(pass);
    let mut class = pass.space.class(pass.job.order.victim).lock();
    if class.standing() == Standing::Retired {
        return Looked::Retired;
    }
    pass.keep_carriable(batch, &class);
    while pass.job.spares.len() < batch.len() {
        let Some(chunk) = class.pages.take() else { break };
        pass.job.spares.push(chunk);
    }
    Looked::Missing(batch.len().saturating_sub(pass.job.spares.len()))
}

/// Gives back what was taken from the successors of a class that is in the table again: its items stay in it.
fn return_foreign_spares(pass: &mut Pass<'_>) {
    let (space, victim) = (pass.space, pass.job.order.victim);
    let foreign = |chunk: &mut OwnedChunk| chunk.class() != victim;
    pass.job.spares.extract_if(.., foreign).for_each(|chunk| space.give_free(chunk));
}

/// Evicts up to `wanted` items for room outside the page; returns how many.
fn make_room(pass: &mut Pass<'_>, wanted: usize) -> usize {
    let (space, now) = (pass.space, pass.now);
    if !space.config.eviction_enabled {
        return 0;
    }
    let class = pass.job.order.victim;
    // Where whole items and bodies of chained ones lie side by side, each eviction compares them.
    if class != space.largest {
        let victims = space.detach_victims(class, wanted, now);
        let evicted = victims.len();
        let hashes = prefetch_entries(pass, victims.iter().map(|victim| &victim.pin));
        for (victim, hash) in victims.into_iter().zip(hashes) {
            if let Some(chunk) = space.finish_eviction(victim, hash, class) {
                pass.keep_as_room(chunk);
            }
        }
        if evicted > 0 {
            return evicted;
        }
    }
    match space.evict_for_carried(class, now) {
        Evicted::Chunk(chunk) => {
            pass.keep_as_room(chunk);
            1
        }
        Evicted::Freed => 1,
        Evicted::Nothing => 0,
    }
}

/// The hashes of pinned items, whose index lines are asked for.
fn prefetch_entries<'p>(pass: &Pass<'_>, pins: impl Iterator<Item = &'p Pin>) -> Vec<u64> {
    let space = pass.space;
    let hash = |pin: &Pin| space.hash_of(pin.item(&space.memory));
    let hashes: Vec<u64> = pins.map(hash).collect();
    hashes.iter().for_each(|&hash| space.index.prefetch(hash));
    space.index.prefetch_buckets(&hashes);
    hashes
}

/// Carries what is in the batch to the spares, of which there are enough.
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
    // Heads and bodies of chained items, and what has changed since it was looked at.
    for address in others {
        let carried = pass.carry_one(address);
        pass.note(carried, address);
    }
}

/// Carries pinned items within their class; returns how many were carried.
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

/// Pins the items of a batch that lie in one chunk each and that nobody holds; also returns the rest.
fn pin_plain_items(pass: &Pass<'_>, batch: &[ChunkAddress]) -> (Vec<Pin>, Vec<ChunkAddress>) {
    let (mut pins, mut others) = (Vec::with_capacity(batch.len()), Vec::new());
    // Under this lock a queued item cannot be freed, so the pin finds it alive.
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
