//! Evicts all items of a page that a policy has chosen, as Twemcache does ([`Engine::evict_page`](crate::Engine)). No
//! item is carried to another page. The page of a pinned item waits for the reader.

use crate::layout::ChunkAddress;
use crate::mover::job::{Choice, ChunkUse, MoverRules, Pass, PassStep};
use crate::stats::Busy;
use slabwise_base::PageId;

/// The rules of a page whose items are all evicted.
pub struct Whole;

impl MoverRules for Whole {
    fn choose(&self, choice: &Choice<'_>) -> Option<PageId> {
        choice.candidates().next().map(|candidate| candidate.id)
    }

    fn pass(&self, pass: &mut Pass<'_>, budget_chunks: usize) -> PassStep {
        pass.visit_chunks(budget_chunks, visit)
    }
}

/// Evicts the item of a chunk of the page.
fn visit(pass: &mut Pass<'_>, address: ChunkAddress) -> Result<(), Busy> {
    let is_free = |pass: &mut Pass<'_>| {
        let class = pass.space.class(pass.job.request.victim).lock();
        match pass.use_of(address, &class) {
            ChunkUse::Free => Ok(true),
            ChunkUse::Busy(why) => Err(why),
            ChunkUse::Carriable => Ok(false),
        }
    };
    if is_free(pass)? {
        return Ok(());
    }
    let dropped = pass.drop_item_of(address);
    if is_free(pass)? { Ok(()) } else { dropped }
}
