//! `page_mover=base|fast`: the movers of the paper on fast page moves (Byrne, Onder and Wang, MEMSYS 2019,
//! algorithms 1 and 2), faithful in what they wait for and in what others may take meanwhile.
//!
//! ```text
//!   for each chunk of the page, in order:
//!     free                    -> cut: taken out of use
//!     case 1  stripe locked   -> busy
//!     case 2  pinned          -> busy
//!     room in a free chunk    -> the item is saved there, the chunk is cut
//!     case 3  no room         -> unlinked;  base: its chunk goes to the free list; busy
//!                                           fast: its chunk is cut at once
//!   busy: rest, then meet the same chunk again
//! ```
//!
//! The page stays in service: what is free on it and not cut yet is handed out like any other free chunk,
//! the one freed last first. So under `base` a chunk that was unlinked may be in use again after the rest.
//!
//! The mover owns a chunk that is cut, as if it had been allocated. When all are, the page is empty.

use crate::class::ClassState;
use crate::layout::ChunkAddress;
use crate::mem::{HeadPin, Kind as ChunkKind, Pin, UnusedPage};
use crate::mover::job::{Candidate, Job, Kind, Pass, PassStep};
use crate::stats::Busy;
use slabwise_base::PageId;

/// Algorithms 1 and 2 differ in what becomes of a chunk whose item was unlinked.
pub struct Published {
    cuts_unlinked_at_once: bool,
}

pub const BASE: Published = Published { cuts_unlinked_at_once: false };
pub const FAST: Published = Published { cuts_unlinked_at_once: true };

/// What became of the chunk that was visited.
enum Visit {
    /// It is out of use, and the mover owns it.
    Cut,
    /// It is to be met again after a rest.
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
                Visit::Cut => pass.progress(),
                Visit::Busy => {
                    // The same chunk is the next, too.
                    pass.job.slot -= 1;
                    return PassStep::Rests;
                }
            }
        }
        PassStep::GoesOn
    }

    fn begin(&self, class: &mut ClassState, page: PageId) {
        class.pages.token.list_in_order(page);
    }

    fn finish(&self, class: &mut ClassState, job: &mut Job) -> UnusedPage {
        class.part_with_cut(job.page, std::mem::take(&mut job.cut))
    }

    fn give_up(&self, class: &mut ClassState, job: &mut Job) {
        job.cut.drain(..).for_each(|chunk| class.pages.give(chunk));
    }
}

impl Published {
    fn visit(&self, pass: &mut Pass<'_>, address: ChunkAddress) -> Visit {
        if cut_if_free(pass, address) {
            return Visit::Cut;
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
        let room = class.pages.take_beside(pass.job.page);
        drop(class);
        if let Some(chunk) = room {
            pass.job.spares.push(chunk);
            pass.space.unpin(pin);
            return save(pass, address);
        }
        self.unlink(pass, address, pin)
    }

    /// Case 3.
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
        if self.cuts_unlinked_at_once && cut_if_free(pass, address) {
            return Visit::Cut;
        }
        pass.counters.unlinked += 1;
        pass.counters.note_busy(Busy::NoRoom);
        pass.job.freed = Some(address);
        Visit::Busy
    }
}

/// Takes a chunk out of use if nobody uses it.
fn cut_if_free(pass: &mut Pass<'_>, address: ChunkAddress) -> bool {
    let mut class = pass.space.class(pass.job.order.victim).lock();
    let state = class.pages.token.state_of(address);
    let free = state.is_some_and(|state| state.kind() == ChunkKind::Free);
    if free {
        pass.job.cut.push(class.pages.take_at(address));
    }
    free
}

/// Case 1. The item may be used by then: the stripe is only tried.
fn stripe_is_locked(pass: &Pass<'_>, pin: &Pin) -> bool {
    let hash = pass.space.hash_of(pin.item(&pass.space.memory));
    pass.space.index.try_lock(hash).is_none()
}

/// Carries what is in the chunk to the spare one, and cuts the chunk.
fn save(pass: &mut Pass<'_>, address: ChunkAddress) -> Visit {
    // Whether it was carried shows in the chunk; it may be in use again by then.
    let _ = pass.carry_one(address);
    pass.job.return_spares(pass.space);
    if cut_if_free(pass, address) { Visit::Cut } else { Visit::Busy }
}
