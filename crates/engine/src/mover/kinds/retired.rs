//! The draining of a retired class (`space/change.rs`): its items are carried to the successor classes, which are the
//! classes of the current table for items of these sizes.
//!
//! ```text
//!   idle --a retired class owns pages--> the mover empties the page with the fewest used chunks; the page pool gets it
//!     for each item, head or body on the page:
//!       1. the mover reserves a free chunk of the successor class; this class gets a page if the page pool has one
//!       2. if there is no such chunk, the mover compares the next victim of the retired class with the next victim of
//!          the successor class, evicts the colder one, and reserves its chunk, even if that is of the retired class
//!       3. the mover carries the item to the reserved chunk; if nothing could be evicted, it drops the item
//! ```
//!
//! So memory stays within the limit, and no item is evicted while the page pool has pages. Without such pages, the
//! coldest items of the retired class and its successor classes are evicted. To empty the first page of a retired
//! class, the mover usually evicts items. The page pool gets this page when it is empty, so the successor classes can
//! use it while the second page is emptied.
//!
//! These rules apply to every value of the option `page_mover`, because no paper describes how to empty a retired
//! class. If eviction is disabled, an item for which there is no free chunk stays on its page, and the mover visits it
//! again later.
//!
//! A carried item enters the queue of the same kind in the successor class, or, if the eviction kind ranks items, a
//! queue that the eviction kind chooses, at its head. Without ranks, the class compares its age with those of the items
//! near both ends of this queue. The oldest items stay the oldest, and items from the middle of a queue enter near the
//! head.

use crate::class::ClassState;
use crate::heap::ClassChoice;
use crate::layout::{ChunkAddress, HEADER_SIZE_BYTES, chain_head_size_bytes};
use crate::mem::{Kind, OwnedChunk};
use crate::mover::job::Pass;
use crate::space::{Evicted, Space};
use crate::stats::Busy;
use slabwise_base::ClassId;

/// The largest number of rounds of evictions for one batch. One round may not be enough, because other threads may take
/// the freed chunks.
const ROUNDS_MAX: usize = 8;

/// Empties a batch of chunks of a retired class's page.
pub fn empty_batch(pass: &mut Pass<'_>, mut batch: Vec<ChunkAddress>) {
    let mut nothing_can_be_evicted = false;
    for _ in 0..ROUNDS_MAX {
        let missing = reserve_chunks(pass, &mut batch);
        if missing.is_empty() {
            break;
        }
        let evictions = missing.into_iter().filter(|&successor| evict_colder(pass, successor));
        let evicted = evictions.count();
        pass.counters.evicted += evicted as u64;
        nothing_can_be_evicted = evicted == 0;
        if nothing_can_be_evicted {
            break;
        }
        pass.record_progress();
    }
    for address in batch {
        let carried = match carry_to_successor(pass, address) {
            Err(Busy::NoRoom) if nothing_can_be_evicted => pass.drop_item_of(address),
            outcome => outcome,
        };
        pass.record_visit(carried, address);
    }
}

/// Removes from the batch all chunks whose contents cannot be carried now. Reserves free chunks for the others. Returns
/// one entry for each missing chunk: its class. If this class was retired meanwhile, the chunk does not count as
/// missing, because the mover visits the item again later.
fn reserve_chunks(pass: &mut Pass<'_>, batch: &mut Vec<ChunkAddress>) -> Vec<ClassChoice> {
    let (space, victim) = (pass.space, pass.job.request.victim);
    let mut wanted: Vec<ClassChoice> = {
        let class = space.class(victim).lock();
        pass.keep_carriable(batch, &class);
        batch.iter().filter_map(|&address| successor_of(space, &class, address)).collect()
    };
    // Chunks that were reserved earlier are used first: chunks of the right class, then chunks of the retired class.
    let mut reserved: Vec<ClassId> = pass.job.reserved.iter().map(OwnedChunk::class).collect();
    for from in [None, Some(victim)] {
        wanted.retain(|successor: &ClassChoice| {
            let wanted = from.unwrap_or(successor.id);
            let found = reserved.iter().position(|&class| class == wanted);
            found.map(|at| reserved.swap_remove(at)).is_none()
        });
    }
    wanted.retain(|&successor| {
        let mut state = space.class(successor.id).lock();
        if !state.accepts(successor) {
            return false;
        }
        let free = space.take_free(&mut state).or_else(|| space.take_free_or_spare(&mut state));
        free.map(|chunk| pass.job.reserved.push(chunk)).is_none()
    });
    wanted
}

/// Returns the class of the current table for the contents of a chunk: a whole item, a body, or the head of a chained
/// item without its bodies. `None`: the chunk is free.
fn successor_of(space: &Space, class: &ClassState, address: ChunkAddress) -> Option<ClassChoice> {
    let (state, len) = class.pages.token.contents_of(address)?;
    let (key_len, fields) = (state.key_len(), state.fields());
    let size_bytes = match state.kind() {
        Kind::Free => return None,
        Kind::Body => HEADER_SIZE_BYTES + len,
        Kind::Item if state.chained() => chain_head_size_bytes(key_len, fields),
        Kind::Item => space.memory.counted_size_bytes(key_len, len, fields),
    };
    space.size_map.class_for(size_bytes)
}

/// Evicts one item to free a chunk: the next victim of the retired class or the next victim of the successor class,
/// depending on which is colder. Returns false if no item can be evicted.
fn evict_colder(pass: &mut Pass<'_>, successor: ClassChoice) -> bool {
    let (space, now) = (pass.space, pass.now);
    if !space.config.eviction_enabled {
        return false;
    }
    let mut classes = [pass.job.request.victim, successor.id];
    if space.coldness(successor.id) > space.coldness(pass.job.request.victim) {
        classes.reverse();
    }
    classes.into_iter().any(|class| match space.evict_for_carried(class, now) {
        Evicted::Chunk(chunk) => {
            pass.reserve_or_free(chunk);
            true
        }
        Evicted::Freed => true,
        Evicted::Nothing => false,
    })
}

/// Carries the contents of a chunk to a reserved chunk of the successor class, or else to one of the retired class.
fn carry_to_successor(pass: &mut Pass<'_>, address: ChunkAddress) -> Result<(), Busy> {
    let victim = pass.job.request.victim;
    let successor = successor_of(pass.space, &pass.space.class(victim).lock(), address);
    let Some(successor) = successor else { return Ok(()) };
    let reserved = &mut pass.job.reserved;
    let at = [successor.id, victim]
        .into_iter()
        .find_map(|class| reserved.iter().position(|chunk| chunk.class() == class));
    let at = at.ok_or(Busy::NoRoom)?;
    // `carry_chunk` uses the last reserved chunk.
    let last = reserved.len() - 1;
    reserved.swap(at, last);
    pass.carry_chunk(address)
}
