//! `page_mover=stock`: the mover of memcached 1.6. It chooses the page that the victim has owned longest. It carries an
//! item to a free chunk of the class. If there is no free chunk, it drops the item, even a hot one. It also carries a
//! pinned item that is not chained: readers that come later then pin the copy, while earlier readers still use the old
//! chunk.

use crate::layout::ChunkAddress;
use crate::mem::State;
use crate::mover::job::{Choice, ChunkUse, MoverRules, Pass, PassStep};
use crate::stats::Busy;
use slabwise_base::{PageId, Ticks};

/// The rules of the kind `stock`.
pub struct Stock;

impl MoverRules for Stock {
    fn choose(&self, choice: &Choice<'_>) -> Option<PageId> {
        let longest_owned =
            choice.candidates().min_by_key(|c| (c.is_last_choice, c.page.taken_as()));
        longest_owned.map(|candidate| candidate.id)
    }

    fn pass(&self, pass: &mut Pass<'_>, budget_chunks: usize) -> PassStep {
        pass.visit_chunks(budget_chunks, visit)
    }

    // This time is longer than that of other kinds, because memcached's mover waits without limit.
    fn give_up_after_ticks(&self) -> u32 {
        60 * Ticks::PER_SECOND
    }

    // As in memcached, readers that pin the item continue to use the old chunk. A pinned chained item is not carried,
    // because its bodies cannot belong to two items.
    fn carries_pinned(&self, state: State) -> bool {
        state.queued() && !state.chained()
    }
}

/// Tries to empty one chunk of the page.
fn visit(pass: &mut Pass<'_>, address: ChunkAddress) -> Result<(), Busy> {
    let victim = pass.job.request.victim;
    {
        let mut class = pass.space.class(victim).lock();
        match pass.use_of(address, &class) {
            ChunkUse::Free => return Ok(()),
            ChunkUse::Busy(why) => return Err(why),
            ChunkUse::Carriable => {}
        }
        if pass.job.reserved.is_empty() {
            pass.job.reserved.extend(pass.space.take_free_or_spare(&mut class));
        }
    }
    if pass.job.reserved.is_empty() {
        return pass.drop_item_of(address);
    }
    pass.carry_chunk(address)
}
