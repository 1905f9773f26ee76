//! `page_mover=stock`: memcached 1.6's mover. It empties the page that its class has owned longest. Items are
//! carried to free chunks; if there is none they are dropped, even hot ones. A pinned item is carried too, so that
//! the next reader pins the copy.

use crate::layout::ChunkAddress;
use crate::mem::State;
use crate::mover::job::{Candidate, ChunkUse, Kind, Pass, PassStep};
use crate::stats::Busy;
use slabwise_base::{PageId, Ticks};

pub struct Stock;

impl Kind for Stock {
    fn choose(&self, candidates: &mut dyn Iterator<Item = Candidate<'_>>) -> Option<PageId> {
        let longest_owned = candidates.min_by_key(|c| (c.is_last_choice, c.page.taken_as()));
        longest_owned.map(|candidate| candidate.id)
    }

    fn pass(&self, pass: &mut Pass<'_>, budget_chunks: usize) -> PassStep {
        for _ in 0..budget_chunks.max(1) {
            let Some(address) = pass.next_chunk() else { return PassStep::Ended };
            pass.counters.visits += 1;
            let visited = visit(pass, address);
            pass.note(visited, address);
        }
        PassStep::Continue
    }

    // memcached's mover waits without limit.
    fn give_up_after_ticks(&self) -> u32 {
        60 * Ticks::PER_SECOND
    }

    // As in memcached, readers keep the old chunk. Not for chained items, whose bodies cannot be in two chains.
    fn carries_pinned(&self, state: State) -> bool {
        state.queued() && !state.chained()
    }
}

fn visit(pass: &mut Pass<'_>, address: ChunkAddress) -> Result<(), Busy> {
    {
        let mut class = pass.space.class(pass.job.order.victim).lock();
        match pass.use_of(address, &class) {
            ChunkUse::Free => return Ok(()),
            ChunkUse::Busy(why) => return Err(why),
            ChunkUse::Carriable => {}
        }
        if pass.job.spares.is_empty() {
            pass.job.spares.extend(class.pages.take());
        }
    }
    if pass.job.spares.is_empty() {
        return pass.drop_for_move(address);
    }
    pass.carry_one(address)
}
