//! Draining a retired class (`space/change.rs`): what is on its pages goes to the classes that now hold
//! such sizes.
//!
//! ```text
//!   idle --a retired class owns pages--> its emptiest page drains, for the pool
//!     each item, head or body --> a free chunk of its new class, from a new page if the pool has one
//!                             --> no room: the colder leaves, of what the retired class and of what the
//!                                 new one would give up next; room in the retired class itself serves, too
//! ```
//!
//! So memory stays within the limit, the retired class and its successors together lose what is coldest in
//! them, and while the pool has pages nothing is lost. The first page is emptied by evictions, as a rule;
//! it goes to the pool, where the successors find it when the second is emptied.
//!
//! It does so under every `page_mover`: no paper says how to empty a retired class. Where eviction
//! is off, what finds no room stays where it is, and is tried again later.
//!
//! An item keeps its queue. Its place in it is found by its age, near either end: the oldest stay the
//! oldest, and what belongs in the middle counts as rather newer than older.

use crate::class::ClassState;
use crate::heap::Choice;
use crate::layout::{ChunkAddress, HEADER_SIZE_BYTES, chain_head_size_bytes};
use crate::mem::{Kind, OwnedChunk};
use crate::mover::job::Pass;
use crate::space::{Evicted, Space};
use crate::stats::Busy;
use slabwise_base::ClassId;

/// Rounds of evictions for one batch: others may take what they free.
const ROUNDS_MAX: usize = 8;

/// Empties a batch of chunks of a retired class's page.
pub fn empty_batch(pass: &mut Pass<'_>, mut batch: Vec<ChunkAddress>) {
    let mut nothing_leaves = false;
    for _ in 0..ROUNDS_MAX {
        let missing = look_beyond(pass, &mut batch);
        if missing.is_empty() {
            break;
        }
        let made = missing.into_iter().filter(|&successor| make_room_in_either(pass, successor));
        let evicted = made.count();
        pass.counters.evicted += evicted as u64;
        nothing_leaves = evicted == 0;
        if nothing_leaves {
            break;
        }
        pass.progress();
    }
    for address in batch {
        let carried = match carry_to_successor(pass, address) {
            Err(Busy::NoRoom) if nothing_leaves => pass.drop_for_move(address),
            outcome => outcome,
        };
        pass.note(carried, address);
    }
}

/// Leaves in the batch what can be carried now, and takes free chunks for it; returns the class of each
/// chunk that is missing. Where the table has changed since a class was chosen nothing is missing: what
/// has no room then is met again.
fn look_beyond(pass: &mut Pass<'_>, batch: &mut Vec<ChunkAddress>) -> Vec<Choice> {
    let (space, victim) = (pass.space, pass.job.order.victim);
    let mut wanted: Vec<Choice> = {
        let class = space.class(victim).lock();
        pass.keep_carriable(batch, &class);
        batch.iter().filter_map(|&address| successor_of(space, &class, address)).collect()
    };
    // What is there already: room of the right class, then room in the retired class.
    let mut spares: Vec<ClassId> = pass.job.spares.iter().map(OwnedChunk::class).collect();
    for from in [None, Some(victim)] {
        wanted.retain(|successor: &Choice| {
            let room = from.unwrap_or(successor.id);
            let found = spares.iter().position(|&class| class == room);
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

/// The class of the present table that has chunks for what lies in a chunk: what a head takes of a chained
/// item counts alone. `None`: nothing lies there.
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

/// Evicts one item for the sake of the successor: what the retired class or the successor would give up
/// next, whichever is colder. False: there is nothing that could leave.
fn make_room_in_either(pass: &mut Pass<'_>, successor: Choice) -> bool {
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
            pass.keep_as_room(chunk);
            true
        }
        Evicted::Freed => true,
        Evicted::Nothing => false,
    })
}

/// Carries what is in a chunk to a spare one, of its successor, or else of its own class.
fn carry_to_successor(pass: &mut Pass<'_>, address: ChunkAddress) -> Result<(), Busy> {
    let victim = pass.job.order.victim;
    let successor = successor_of(pass.space, &pass.space.class(victim).lock(), address);
    let Some(successor) = successor else { return Ok(()) };
    let spares = &mut pass.job.spares;
    let spare = [successor.id, victim]
        .into_iter()
        .find_map(|class| spares.iter().position(|chunk| chunk.class() == class));
    let at = spare.ok_or(Busy::NoRoom)?;
    // The spare that is taken is the last one.
    let last = spares.len() - 1;
    spares.swap(at, last);
    pass.carry_one(address)
}
