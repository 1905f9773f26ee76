//! Draining a retired class (`space/change.rs`) into its successor classes, which now hold items of these sizes.
//!
//! ```text
//!   idle --a retired class owns pages--> its emptiest page drains, for the pool
//!     each item, head or body --> a free chunk of its successor class, from a new page if the pool has one
//!                             --> if there is none: the colder of the next victims of the retired class and
//!                                 its successor is evicted; free chunks of the retired class are used, too
//! ```
//!
//! So memory stays within the limit, the retired class and its successors together lose their coldest items, and
//! they lose none while the pool has pages. The first page usually costs evictions; it goes to the pool, and the
//! successors use it while the second page is emptied.
//!
//! This applies under every `page_mover`, since no paper describes how to empty a retired class. If eviction is
//! off, an item for which there is no free chunk stays, and is tried again later.
//!
//! An item keeps its queue. Its position is found by its age near either end of the queue: the oldest items stay
//! the oldest, and items from the middle enter near the head.

use crate::class::ClassState;
use crate::heap::Choice;
use crate::layout::{ChunkAddress, HEADER_SIZE_BYTES, chain_head_size_bytes};
use crate::mem::{Kind, OwnedChunk};
use crate::mover::job::Pass;
use crate::space::{Evicted, Space};
use crate::stats::Busy;
use slabwise_base::ClassId;

/// Rounds of evictions for one batch: other threads may take the chunks that they free.
const ROUNDS_MAX: usize = 8;

/// Empties a batch of chunks of a retired class's page.
pub fn empty_batch(pass: &mut Pass<'_>, mut batch: Vec<ChunkAddress>) {
    let mut is_stuck = false;
    for _ in 0..ROUNDS_MAX {
        let missing = reserve_chunks(pass, &mut batch);
        if missing.is_empty() {
            break;
        }
        let evictions = missing.into_iter().filter(|&successor| evict_colder(pass, successor));
        let evicted = evictions.count();
        pass.counters.evicted += evicted as u64;
        is_stuck = evicted == 0;
        if is_stuck {
            break;
        }
        pass.progress();
    }
    for address in batch {
        let carried = match carry_to_successor(pass, address) {
            Err(Busy::NoRoom) if is_stuck => pass.drop_for_move(address),
            outcome => outcome,
        };
        pass.note(carried, address);
    }
}

/// Keeps in the batch the chunks that can be carried now, and reserves free chunks for them; returns the class of
/// each chunk that is missing. If the table has changed since a class was chosen, its chunks do not count as
/// missing: their items are visited again.
fn reserve_chunks(pass: &mut Pass<'_>, batch: &mut Vec<ChunkAddress>) -> Vec<Choice> {
    let (space, victim) = (pass.space, pass.job.order.victim);
    let mut wanted: Vec<Choice> = {
        let class = space.class(victim).lock();
        pass.keep_carriable(batch, &class);
        batch.iter().filter_map(|&address| successor_of(space, &class, address)).collect()
    };
    // Reserved already: first chunks of the right class, then of the retired class.
    let mut spares: Vec<ClassId> = pass.job.spares.iter().map(OwnedChunk::class).collect();
    for from in [None, Some(victim)] {
        wanted.retain(|successor: &Choice| {
            let wanted = from.unwrap_or(successor.id);
            let found = spares.iter().position(|&class| class == wanted);
            found.map(|at| spares.swap_remove(at)).is_none()
        });
    }
    wanted.retain(|&successor| {
        let mut state = space.class(successor.id).lock();
        if !state.accepts(successor) {
            return false;
        }
        let free = space.take_free(&mut state);
        free.map(|chunk| pass.job.spares.push(chunk)).is_none()
    });
    wanted
}

/// The class of the current table for the contents of a chunk; the head of a chained item counts without its
/// bodies. `None`: the chunk is free.
fn successor_of(space: &Space, class: &ClassState, address: ChunkAddress) -> Option<Choice> {
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

/// Evicts one item to free a chunk for the successor: the colder of the next victims of the retired class and the
/// successor. Returns false if no item can be evicted.
fn evict_colder(pass: &mut Pass<'_>, successor: Choice) -> bool {
    let (space, now) = (pass.space, pass.now);
    if !space.config.eviction_enabled {
        return false;
    }
    let mut order = [pass.job.order.victim, successor.id];
    if space.coldness(successor.id, now) > space.coldness(pass.job.order.victim, now) {
        order.reverse();
    }
    order.into_iter().any(|class| match space.evict_for_carried(class, now) {
        Evicted::Chunk(chunk) => {
            pass.keep_as_spare(chunk);
            true
        }
        Evicted::Freed => true,
        Evicted::Nothing => false,
    })
}

/// Carries the contents of a chunk to a reserved one of the successor, or else of its own class.
fn carry_to_successor(pass: &mut Pass<'_>, address: ChunkAddress) -> Result<(), Busy> {
    let victim = pass.job.order.victim;
    let successor = successor_of(pass.space, &pass.space.class(victim).lock(), address);
    let Some(successor) = successor else { return Ok(()) };
    let spares = &mut pass.job.spares;
    let spare = [successor.id, victim]
        .into_iter()
        .find_map(|class| spares.iter().position(|chunk| chunk.class() == class));
    let at = spare.ok_or(Busy::NoRoom)?;
    // `carry_one` uses the last one.
    let last = spares.len() - 1;
    spares.swap(at, last);
    pass.carry_one(address)
}
