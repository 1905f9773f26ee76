//! `page_mover=base`, `base_next` and `fast`: the movers of the paper on fast page moves (Byrne, Onder and Wang, MEMSYS
//! 2019, algorithms 1 and 2). As in the paper, they visit the chunks of the page in order, and workers may allocate
//! free chunks of the page while it moves.
//!
//! ```text
//!   for each chunk of the page, in order:
//!     the chunk is free                        -> the mover withdraws the chunk
//!     case 1: the item's stripe is locked      -> the chunk is busy
//!     case 2: the item is pinned               -> the chunk is busy
//!     another page has a free chunk            -> the mover carries the item there and withdraws the old chunk
//!     case 3: no other page has a free chunk   -> the mover unlinks the item, which drops it
//!                                                   base: the chunk is added to the free list, and is busy
//!                                                   fast: the mover withdraws the chunk at once
//!   after a busy chunk, the mover pauses. Then it visits
//!     base, fast: the same chunk again (the text of the paper, section 2.2)
//!     base_next:  the next chunk; after the last chunk, the busy chunks again in order (slide 13 of the authors' talk,
//!                 and the code of memcached 1.5.12)
//! ```
//!
//! A withdrawn chunk belongs to the mover, in the same way as an allocated chunk belongs to its caller. When the mover
//! has withdrawn all chunks, the page is empty. Until a free chunk is withdrawn, workers may allocate it, and they
//! first allocate the chunk that was freed last. So under `base`, the chunk of an unlinked item may be in use again
//! after the pause.

use crate::class::ClassState;
use crate::layout::ChunkAddress;
use crate::mem::{Kind as ChunkKind, Pin, PinOutcome, UnusedPage};
use crate::mover::job::{Choice, Job, MoverRules, Pass, PassStep};
use crate::stats::Busy;
use slabwise_base::PageId;

/// The rules of the kinds `base`, `base_next` and `fast`.
pub struct Published {
    /// True if the mover withdraws the chunk of an unlinked item at once (`fast`).
    withdraws_unlinked_at_once: bool,
    /// The chunk that follows a busy one.
    order: Order,
}

/// The chunk that the mover visits after the pause for a busy chunk.
enum Order {
    SameChunk,
    NextChunk,
}

/// The rules of the kind `base` (algorithm 1).
pub const BASE: Published =
    Published { withdraws_unlinked_at_once: false, order: Order::SameChunk };
/// The rules of the kind `base_next`.
pub const BASE_NEXT: Published =
    Published { withdraws_unlinked_at_once: false, order: Order::NextChunk };
/// The rules of the kind `fast` (algorithm 2).
pub const FAST: Published = Published { withdraws_unlinked_at_once: true, order: Order::SameChunk };

/// The result of one visit of a chunk.
enum Visit {
    /// The mover has withdrawn the chunk.
    Withdrawn,
    /// The chunk must be visited again after a pause.
    Busy,
}

impl MoverRules for Published {
    fn choose(&self, choice: &Choice<'_>) -> Option<PageId> {
        choice.candidates().next().map(|candidate| candidate.id)
    }

    /// Visits chunks until one is busy or the budget is used up.
    fn pass(&self, pass: &mut Pass<'_>, budget_chunks: usize) -> PassStep {
        for _ in 0..budget_chunks.max(1) {
            let Some(address) = pass.next_chunk() else { return PassStep::Ended };
            pass.counters.visits += 1;
            match self.visit(pass, address) {
                Visit::Withdrawn => pass.record_progress(),
                Visit::Busy => {
                    match self.order {
                        Order::SameChunk => pass.job.slot -= 1,
                        Order::NextChunk => pass.job.busy.push(address),
                    }
                    return PassStep::Pause;
                }
            }
        }
        PassStep::Continue
    }

    fn begin(&self, class: &mut ClassState, page: PageId) {
        class.pages.token.list_in_order(page);
    }

    fn drains(&self) -> bool {
        false
    }

    fn finish(&self, class: &mut ClassState, job: &mut Job) -> UnusedPage {
        class.release_page_with(job.page, std::mem::take(&mut job.withdrawn))
    }

    fn give_up(&self, class: &mut ClassState, job: &mut Job) {
        job.withdrawn.drain(..).for_each(|chunk| class.pages.give(chunk));
    }
}

impl Published {
    /// Tries to withdraw one chunk of the page.
    fn visit(&self, pass: &mut Pass<'_>, address: ChunkAddress) -> Visit {
        if withdraw_if_free(pass, address) {
            return Visit::Withdrawn;
        }
        if pass.job.freed.remove(&address) {
            pass.counters.reallocated += 1;
        }
        let PinOutcome::Pinned(pin) = pass.pin_item_of(address) else {
            pass.counters.pinned += 1;
            pass.counters.note_busy(Busy::Pinned);
            return Visit::Busy;
        };
        if stripe_is_locked(pass, &pin) {
            pass.space.unpin(pin);
            pass.counters.locked += 1;
            pass.counters.note_busy(Busy::Pinned);
            return Visit::Busy;
        }
        let mut class = pass.space.class(pass.job.request.victim).lock();
        let free = class.pages.take_beside(pass.job.page);
        drop(class);
        if let Some(chunk) = free {
            pass.job.reserved.push(chunk);
            pass.space.unpin(pin);
            return carry_and_withdraw(pass, address);
        }
        self.unlink(pass, address, pin)
    }

    /// Drops the item in a chunk, which the mover pins, because no other page has a free chunk (case 3).
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
            pass.record_progress();
        }
        if self.withdraws_unlinked_at_once && withdraw_if_free(pass, address) {
            return Visit::Withdrawn;
        }
        pass.counters.unlinked += 1;
        pass.counters.note_busy(Busy::NoRoom);
        pass.job.freed.insert(address);
        Visit::Busy
    }
}

/// Withdraws a chunk if it is free. Returns true if the mover owns the chunk now.
fn withdraw_if_free(pass: &mut Pass<'_>, address: ChunkAddress) -> bool {
    let mut class = pass.space.class(pass.job.request.victim).lock();
    let state = class.pages.token.state_of(address);
    let free = state.is_some_and(|state| state.kind() == ChunkKind::Free);
    if free {
        pass.job.withdrawn.push(class.pages.take_at(address));
    }
    free
}

/// True if another thread holds the lock of the item's stripe (case 1).
fn stripe_is_locked(pass: &Pass<'_>, pin: &Pin) -> bool {
    let hash = pass.space.hash_of(pin.item(&pass.space.memory));
    pass.space.index.try_lock(hash).is_none()
}

/// Carries the contents of a chunk to the reserved chunk, and withdraws the old chunk if it is free then.
fn carry_and_withdraw(pass: &mut Pass<'_>, address: ChunkAddress) -> Visit {
    // The result is ignored, because even after a success another thread may have allocated the old chunk again.
    let _ = pass.carry_chunk(address);
    pass.job.free_reserved(pass.space);
    if withdraw_if_free(pass, address) { Visit::Withdrawn } else { Visit::Busy }
}
