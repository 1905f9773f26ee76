//! `page_mover=stock`: memcached 1.6's mover. It empties the page that its class has had longest. Items are
//! carried into chunks that are free already, and dropped, hot or not, where there is none. One that is pinned
//! is carried all the same, so that the next reader pins the copy.

use crate::layout::ChunkAddress;
use crate::mem::State;
use crate::mover::job::{Candidate, Kind, Met, Pass, PassStep};
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
        PassStep::GoesOn
    }

    /// memcached's mover waits without limit.
    fn give_up_after_ticks(&self) -> u32 {
        60 * Ticks::PER_SECOND
    }

    /// As memcached does it: readers keep the old chunk. The bodies of a chained item cannot be in two chains.
    fn carries_pinned(&self, state: State) -> bool {
        state.queued() && !state.chained()
    }
}

fn visit(pass: &mut Pass<'_>, address: ChunkAddress) -> Result<(), Busy> {
    {
        let mut class = pass.space.class(pass.job.order.victim).lock();
        match pass.meet(address, &class) {
            Met::Free => return Ok(()),
            Met::Busy(why) => return Err(why),
            Met::Carriable => {}
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
