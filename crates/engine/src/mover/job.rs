//! One page's move while it is under way.

use super::counters::{Busy, MoverCounters};
use crate::class::ClassState;
use crate::config::MoverKind;
use crate::mem::{ChunkAddress, OwnedChunk, State};
use crate::memory::Memory;
use slabwise_base::{ClassId, Now, PageId, Ticks};

/// Who asked for a page to move, and where to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    pub victim: ClassId,
    /// `None` is the pool.
    pub receiver: Option<ClassId>,
    pub reason: &'static str,
    /// How the page is emptied.
    pub kind: MoverKind,
}

/// The page that is moving, and how far it has come.
#[derive(Debug)]
pub(super) struct Job {
    pub order: Order,
    pub page: PageId,
    chunk_size_bytes: usize,
    /// The next slot of the first pass.
    slot: u32,
    /// Slots that were ever handed out; those above hold stale bytes of the page's last owner.
    slot_end: u32,
    /// Chunks to meet again in this pass. An emptied one is never used again, so after the first pass
    /// those that were held are all that is left.
    todo: Vec<ChunkAddress>,
    /// Chunks that were held when they were met in this pass.
    pub held: Vec<ChunkAddress>,
    /// Room outside the page that no item has taken yet.
    pub spares: Vec<OwnedChunk>,
    /// Under the published kinds, the chunks of the page that are out of use.
    pub cut: Vec<OwnedChunk>,
    /// Under `base`, the chunk that this move has freed and not cut yet.
    pub freed: Option<ChunkAddress>,
    /// When something was emptied last.
    pub progress_at: Ticks,
    /// What was so when it began.
    pub start: Start,
}

/// What a move's record is reckoned from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    /// Of the first step.
    pub nanos: Option<u64>,
    pub gets: u64,
    /// Chunks in use on the page.
    pub chunks: u32,
    /// What the mover had counted.
    pub rescued: u64,
    pub evicted: u64,
}

impl Job {
    pub fn new(
        order: Order,
        page: PageId,
        state: &ClassState,
        slot_end: u32,
        start: Start,
        now: Now,
    ) -> Job {
        Job {
            order,
            page,
            chunk_size_bytes: state.chunk_size_bytes(),
            slot: 0,
            slot_end,
            todo: Vec::new(),
            held: Vec::new(),
            spares: Vec::new(),
            cut: Vec::new(),
            freed: None,
            progress_at: now.ticks,
            start,
        }
    }

    /// The chunk to visit next; `None` at the end of a pass.
    pub fn next_chunk(&mut self, memory: &Memory) -> Option<ChunkAddress> {
        if self.slot < self.slot_end {
            self.slot += 1;
            return Some(memory.chunk_at(self.page, self.slot - 1, self.chunk_size_bytes));
        }
        self.todo.pop()
    }

    /// Lets the chunk visited last be the next, too.
    pub fn meet_again(&mut self) {
        self.slot -= 1;
    }

    /// Bytes a chunk of the page.
    pub fn chunk_size_bytes(&self) -> usize {
        self.chunk_size_bytes
    }

    /// The chunks that the page is divided in.
    pub fn chunks_per_page(&self, memory: &Memory) -> usize {
        memory.page_size_bytes() / self.chunk_size_bytes
    }

    /// Begins another pass, over what was held in the last.
    pub fn begin_pass(&mut self) {
        self.todo = std::mem::take(&mut self.held);
    }

    /// Whether an item in this state is carried although somebody pins it, as memcached does: those who do
    /// keep the old chunk. The bodies of a chained one cannot be in two chains.
    pub fn carries_pinned(&self, state: State) -> bool {
        self.order.kind == MoverKind::Stock && state.queued() && !state.chained()
    }

    /// Notes what became of a chunk: one that is busy is met again in the next pass.
    pub fn note(
        &mut self,
        outcome: Result<(), Busy>,
        address: ChunkAddress,
        counters: &mut MoverCounters,
        now: Now,
    ) {
        match outcome {
            Ok(()) => self.progress(now),
            Err(why) => {
                counters.note_busy(why);
                self.held.push(address);
            }
        }
    }

    /// Notes that the move goes on.
    pub fn progress(&mut self, now: Now) {
        self.progress_at = now.ticks;
    }
}
