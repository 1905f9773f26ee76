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
//! A chunk that is cut is in the mover's hand, as if it had been allocated. When all are, the page is empty.

use super::carry::Dropped;
use super::counters::{Busy, MoverCounters};
use super::{Job, MoverKind};
use crate::engine::Engine;
use crate::mem::{ChunkAddress, Kind, Pin, ReadProof};
use slabwise_base::Now;

/// What became of the chunk that was visited.
enum Visit {
    /// It is out of use, and in the mover's hand.
    Cut,
    /// It is to be met again after a rest.
    Busy,
}

/// Where a pass stands.
pub(super) enum Pass {
    /// Chunks are left, and may be visited at once.
    GoesOn,
    /// The next visit is due after a rest.
    Rests,
    /// Every chunk of the page is cut.
    Ended,
}

impl Engine {
    /// Visits up to `budget_chunks` chunks, up to the first that is busy.
    pub(super) fn published_pass(
        &self,
        job: &mut Job,
        counters: &mut MoverCounters,
        budget_chunks: usize,
        now: Now,
    ) -> Pass {
        for _ in 0..budget_chunks.max(1) {
            let Some(address) = job.next_chunk(&self.memory) else { return Pass::Ended };
            counters.visits += 1;
            match self.visit_published(job, counters, address, now) {
                Visit::Cut => job.progress(now),
                Visit::Busy => {
                    job.meet_again();
                    return Pass::Rests;
                }
            }
        }
        Pass::GoesOn
    }

    fn visit_published(
        &self,
        job: &mut Job,
        counters: &mut MoverCounters,
        address: ChunkAddress,
        now: Now,
    ) -> Visit {
        if self.cut_if_free(job, address) {
            return Visit::Cut;
        }
        if job.freed.take_if(|&mut freed| freed == address).is_some() {
            counters.reallocated += 1;
        }
        let Some(pin) = self.pin_holder(job, address) else {
            counters.pinned += 1;
            counters.note_busy(Busy::Held);
            return Visit::Busy;
        };
        if self.stripe_is_locked(&pin) {
            self.unpin(pin);
            counters.locked += 1;
            counters.note_busy(Busy::Held);
            return Visit::Busy;
        }
        let mut class = self.class(job.order.victim).lock();
        let room = class.take_free_beside(&self.memory, job.page);
        drop(class);
        if let Some(chunk) = room {
            job.spares.push(chunk);
            self.unpin(pin);
            return self.save(job, counters, address, now);
        }
        self.unlink_for_move(job, counters, address, pin, now)
    }

    /// Takes a chunk out of use if nobody uses it.
    fn cut_if_free(&self, job: &mut Job, address: ChunkAddress) -> bool {
        let mut class = self.class(job.order.victim).lock();
        let free = self.memory.header(address).state().load().kind() == Kind::Free;
        if free {
            job.cut.push(class.take_free_at(&self.memory, address));
        }
        free
    }

    /// Pins the item that a chunk holds or belongs to; `None`: somebody holds it.
    fn pin_holder(&self, job: &Job, address: ChunkAddress) -> Option<Pin> {
        match self.memory.header(address).state().load().kind() {
            Kind::Item => self.pin_queued(address, |_| false),
            Kind::Body => self.pin_head_alone(job, address),
            Kind::Free => None,
        }
    }

    /// Case 1. The item may be used by then: the stripe is only tried.
    fn stripe_is_locked(&self, pin: &Pin) -> bool {
        let hash = self.hash_of(pin.address(), ReadProof::under_pin(pin));
        self.index.try_lock(hash).is_none()
    }

    /// Carries what is in the chunk to the spare one, and cuts the chunk.
    fn save(
        &self,
        job: &mut Job,
        counters: &mut MoverCounters,
        address: ChunkAddress,
        now: Now,
    ) -> Visit {
        // Whether it was carried shows in the chunk; it may be in use again by then.
        let _ = self.carry_one(job, counters, address, now);
        self.return_spares(job);
        if self.cut_if_free(job, address) { Visit::Cut } else { Visit::Busy }
    }

    /// Case 3.
    fn unlink_for_move(
        &self,
        job: &mut Job,
        counters: &mut MoverCounters,
        address: ChunkAddress,
        pin: Pin,
        now: Now,
    ) -> Visit {
        if !self.config.eviction_enabled {
            self.unpin(pin);
            counters.note_busy(Busy::NoRoom);
            return Visit::Busy;
        }
        let dropped = self.drop_pinned(&pin, now);
        self.unpin(pin);
        if matches!(dropped, Dropped::Item) {
            counters.evicted += 1;
            job.progress(now);
        }
        if job.order.kind == MoverKind::Fast && self.cut_if_free(job, address) {
            return Visit::Cut;
        }
        counters.unlinked += 1;
        counters.note_busy(Busy::NoRoom);
        job.freed = Some(address);
        Visit::Busy
    }
}
