//! How the mover carries out the plan of page moves, and the part of the moves that stores carry out.
//!
//! ```text
//!   Engine::plan_moves --> queue --> current move --- Engine::mover_step (a background thread) ---> next move
//!                                        '---------- stores in the receiver that find no free chunk
//! ```
//!
//! A class receives a page because its stores find no free chunk. So each of these stores also visits some chunks of the
//! page that moves to the class, before it evicts an item. Pages then arrive at the rate at which the class needs them,
//! at any rate of requests, and each store pays a bounded part of the move.
//!
//! Invariant: a store helps only if its class is the receiver of the current move, and never waits for the mover's lock.

use super::moves::{Mover, MoverStep};
use super::plan::PlannedMove;
use crate::space::{HELP_UNITS, Space};
use slabwise_base::{ClassId, Now};

/// The minimum number of chunks that a store visits at once. Fewer visits would take the locks of the mover and of the
/// class too often, and could not be prefetched together.
const CHUNKS_PER_HELP: u32 = 16;

impl Mover {
    /// Replaces the planned moves that have not begun.
    pub fn plan(&mut self, moves: Vec<PlannedMove>) {
        self.planned = moves.into();
    }

    /// Begins the next planned move that the cache permits.
    pub fn begin_planned(&mut self, space: &Space, now: Now) {
        while self.job.is_none()
            && let Some(next) = self.planned.pop_front()
        {
            let PlannedMove { victim, page, receiver, reason } = next;
            let outcome = match page.zip(receiver) {
                Some((page, receiver)) => self.evict_page(space, page, receiver, reason, now),
                None => self.reassign(space, Some(victim), receiver, reason, now),
            };
            self.begun.push((next, outcome));
        }
    }

    /// Carries out the part of the current move that a store in `receiver` pays for: `units` of 1/[`HELP_UNITS`] of a
    /// chunk. Returns true if a page has arrived, so that the store may find a free chunk.
    pub fn help(&mut self, space: &Space, receiver: ClassId, units: u32, now: Now) -> bool {
        let is_receiver =
            self.job.as_ref().is_some_and(|job| job.request.receiver == Some(receiver));
        if !is_receiver || self.help.busy_at == Some(now.ticks) {
            return false;
        }
        self.help.due_units += units;
        if self.help.due_units < CHUNKS_PER_HELP * HELP_UNITS {
            return false;
        }
        let chunks = std::mem::take(&mut self.help.due_units) / HELP_UNITS;
        let step = self.step(space, chunks as usize, now.into());
        self.help.busy_at = matches!(step, MoverStep::Pause(_)).then_some(now.ticks);
        step == MoverStep::Done
    }
}
