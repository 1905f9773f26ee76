//! `page_mover=base|fast`: the movers of the paper on fast page moves (Byrne, Onder and Wang, MEMSYS 2019,
//! algorithms 1 and 2). They wait for the same events as in the paper, and workers may reuse the same chunks.
//!
//! ```text
//!   for each chunk of the page, in order:
//!     free                    -> withdrawn from use
//!     case 1  stripe locked   -> busy
//!     case 2  pinned          -> busy
//!     a free chunk elsewhere  -> the item is saved there, its chunk is withdrawn
//!     case 3  no free chunk   -> unlinked;  base: its chunk goes to the free list; busy
//!                                           fast: its chunk is withdrawn at once
//!   busy: rest, then visit the same chunk again
//! ```
//!
//! The page stays in use: until they are withdrawn, its free chunks are handed out like other free chunks, the one
//! freed last first. So under `base` the chunk of an unlinked item may be in use again after the rest.
//!
//! The mover owns the withdrawn chunks, as if it had allocated them. When all are withdrawn, the page is empty.

use crate::class::ClassState;
use crate::layout::ChunkAddress;
use crate::mem::{HeadPin, Kind as ChunkKind, Pin, UnusedPage};
use crate::mover::job::{Candidate, Job, Kind, Pass, PassStep};
use crate::stats::Busy;
use slabwise_base::PageId;

/// Algorithm 1 or 2, which differ in the treatment of a chunk whose item was unlinked.
pub struct Published {
    withdraws_unlinked_at_once: bool,
}

pub const BASE: Published = Published { withdraws_unlinked_at_once: false };
pub const FAST: Published = Published { withdraws_unlinked_at_once: true };

/// The result of a visit of a chunk.
enum Visit {
    /// The mover owns the chunk.
    Withdrawn,
    /// The chunk must be visited again after a rest.
    Busy,
}

impl Kind for Published {
    fn choose(&self, candidates: &mut dyn Iterator<Item = Candidate<'_>>) -> Option<PageId> {
        candidates.next().map(|candidate| candidate.id)
    }

    /// Visits chunks up to the first that is busy.
    fn pass(&self, pass: &mut Pass<'_>, budget_chunks: usize) -> PassStep {
        for _ in 0..budget_chunks.max(1) {
            let Some(address) = pass.next_chunk() else { return PassStep::Ended };
            pass.counters.visits += 1;
            match self.visit(pass, address) {
                Visit::Withdrawn => pass.progress(),
                Visit::Busy => {
                    pass.job.slot -= 1;
                    return PassStep::Rest;
                }
            }
        }
        PassStep::Continue
    }

    fn begin(&self, class: &mut ClassState, page: PageId) {
        class.pages.token.list_in_order(page);
    }

    fn finish(&self, class: &mut ClassState, job: &mut Job) -> UnusedPage {
        class.release_page_with(job.page, std::mem::take(&mut job.withdrawn))
    }

    fn give_up(&self, class: &mut ClassState, job: &mut Job) {
        job.withdrawn.drain(..).for_each(|chunk| class.pages.give(chunk));
    }
}

impl Published {
    fn visit(&self, pass: &mut Pass<'_>, address: ChunkAddress) -> Visit {
        if withdraw_if_free(pass, address) {
            return Visit::Withdrawn;
        }
        if pass.job.freed.take_if(|&mut freed| freed == address).is_some() {
            pass.counters.reallocated += 1;
        }
        let HeadPin::Pinned(pin) = pass.pin_holder(address) else {
            pass.counters.pinned += 1;
            pass.counters.note_busy(Busy::Held);
            return Visit::Busy;
        };
        if stripe_is_locked(pass, &pin) {
            pass.space.unpin(pin);
            pass.counters.locked += 1;
            pass.counters.note_busy(Busy::Held);
            return Visit::Busy;
        }
        let mut class = pass.space.class(pass.job.order.victim).lock();
        let free = class.pages.take_beside(pass.job.page);
        drop(class);
        if let Some(chunk) = free {
            pass.job.spares.push(chunk);
            pass.space.unpin(pin);
            return save(pass, address);
        }
        self.unlink(pass, address, pin)
    }

    /// Drops the item: case 3.
    fn unlink(&self, pass: &mut Pass<'_>, address: ChunkAddress, pin: Pin) -> Visit {
        if !pass.space.config.eviction_enabled {
            pass.space.unpin(pin);
            pass.counters.note_busy(Busy::NoRoom);
            return Visit::Busy;
        }
        let is_dropped = pass.drop_pinned(&pin);
        pass.space.unpin(pin);
        if is_dropped {
            pass.counters.evicted += 1;
            pass.progress();
        }
        if self.withdraws_unlinked_at_once && withdraw_if_free(pass, address) {
            return Visit::Withdrawn;
        }
        pass.counters.unlinked += 1;
        pass.counters.note_busy(Busy::NoRoom);
        pass.job.freed = Some(address);
        Visit::Busy
    }
}

fn withdraw_if_free(pass: &mut Pass<'_>, address: ChunkAddress) -> bool {
    let mut class = pass.space.class(pass.job.order.victim).lock();
    let state = class.pages.token.state_of(address);
    let free = state.is_some_and(|state| state.kind() == ChunkKind::Free);
    if free {
        pass.job.withdrawn.push(class.pages.take_at(address));
    }
    free
}

/// True if another thread locks the item's stripe: case 1.
fn stripe_is_locked(pass: &Pass<'_>, pin: &Pin) -> bool {
    let hash = pass.space.hash_of(pin.item(&pass.space.memory));
    pass.space.index.try_lock(hash).is_none()
}

/// Carries the contents of the chunk to the reserved one, and withdraws the chunk.
fn save(pass: &mut Pass<'_>, address: ChunkAddress) -> Visit {
    // The result is ignored: even after a success the chunk may be in use again.
    let _ = pass.carry_one(address);
    pass.job.return_spares(pass.space);
    if withdraw_if_free(pass, address) { Visit::Withdrawn } else { Visit::Busy }
}
