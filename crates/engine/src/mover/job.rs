//! One page's move while it is under way: the job, a pass over its chunks, and what a kind of mover decides.
//!
//! The three know each other: a job names its kind, a kind is given a pass, and a pass is a step of the job.

use crate::class::ClassState;
use crate::counters::{Busy, MoverCounters};
use crate::layout::ChunkAddress;
use crate::mem::{Kind as ChunkKind, MoverToken, OwnedChunk, Page, PageState, State, UnusedPage};
use crate::space::Space;
use slabwise_base::{ClassId, Now, PageId, Ticks};

/// For how long nothing may move before a kind gives a page up, unless it says otherwise.
pub const GIVE_UP_AFTER_TICKS: u32 = 2 * Ticks::PER_SECOND;

/// A page that may be emptied.
#[derive(Clone, Copy)]
pub struct Candidate<'p> {
    pub id: PageId,
    pub page: &'p Page,
    /// It was chosen last, and perhaps could not be emptied: taken only if there is no other.
    pub is_last_choice: bool,
}

/// Where a pass over a page stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassStep {
    /// Chunks are left, and may be visited at once.
    GoesOn,
    /// The next visit is due after the configured rest.
    Rests,
    /// Every chunk of the page was visited.
    Ended,
}

/// A way to empty a page. The default is a page that drains: it hands out nothing while it is emptied.
pub trait Kind: Sync {
    /// Chooses a page of the victim, without a lock: what is read of a page is a hint.
    fn choose(&self, candidates: &mut dyn Iterator<Item = Candidate<'_>>) -> Option<PageId>;

    /// Visits up to `budget_chunks` chunks.
    fn pass(&self, pass: &mut Pass<'_>, budget_chunks: usize) -> PassStep;

    /// Takes a page out of service.
    fn begin(&self, class: &mut ClassState, page: PageId) {
        class.pages.begin_drain(page);
    }

    /// Takes the empty page away from its class.
    fn finish(&self, class: &mut ClassState, job: &mut Job) -> UnusedPage {
        class.part_with(job.page)
    }

    /// Puts the page back into service.
    fn give_up(&self, class: &mut ClassState, job: &mut Job) {
        class.pages.abort_drain(job.page);
    }

    /// For how long nothing may move before the page is given up.
    fn give_up_after_ticks(&self) -> u32 {
        GIVE_UP_AFTER_TICKS
    }

    /// Whether an item in this state is carried although somebody pins it.
    fn carries_pinned(&self, _state: State) -> bool {
        false
    }
}

/// A page that is to move, and where to.
#[derive(Clone, Copy)]
pub struct Order {
    pub victim: ClassId,
    /// `None` is the pool.
    pub receiver: Option<ClassId>,
    pub reason: &'static str,
    /// How the page is emptied.
    pub kind: &'static dyn Kind,
}

/// The page that is moving, and how far it has come.
pub struct Job {
    pub order: Order,
    pub page: PageId,
    pub chunk_size_bytes: usize,
    /// The next slot of the first pass.
    pub slot: u32,
    /// Slots that were ever handed out; those above hold stale bytes of the page's last owner.
    pub slot_end: u32,
    /// Chunks to meet again in this pass. An emptied one is never used again, so after the first pass
    /// those that were held are all that is left.
    pub todo: Vec<ChunkAddress>,
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
    /// The counts when it began.
    pub start: Start,
}

/// The counts from which a move's record is computed.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Of the first step.
    pub nanos: Option<u64>,
    pub gets: u64,
    /// Chunks in use on the page.
    pub chunks: u32,
    /// Of the mover's counters.
    pub rescued: u64,
    pub evicted: u64,
}

impl Job {
    /// Gives back the room that no item has taken.
    pub fn return_spares(&mut self, space: &Space) {
        self.spares.drain(..).for_each(|chunk| space.give_free(chunk));
    }
}

/// A step of a page's move.
pub struct Pass<'p> {
    pub space: &'p Space,
    /// The mover's right to carry items.
    pub token: &'p mut MoverToken,
    pub job: &'p mut Job,
    pub counters: &'p mut MoverCounters,
    pub now: Now,
}

/// What a chunk of the page is, as the mover meets it.
pub enum Met {
    /// Nobody uses it.
    Free,
    /// Its item can be carried now.
    Carriable,
    /// It cannot be emptied now.
    Busy(Busy),
}

impl Pass<'_> {
    /// The chunk to visit next; `None` at the end of a pass.
    pub fn next_chunk(&mut self) -> Option<ChunkAddress> {
        let job = &mut *self.job;
        if job.slot < job.slot_end {
            job.slot += 1;
            let memory = &self.space.memory;
            return Some(memory.chunk_at(job.page, job.slot - 1, job.chunk_size_bytes));
        }
        job.todo.pop()
    }

    /// Whether an item in this state is carried although somebody pins it.
    pub fn carries_pinned(&self, state: State) -> bool {
        self.job.order.kind.carries_pinned(state)
    }

    pub fn state_of(&self, address: ChunkAddress) -> State {
        let class = self.space.class(self.job.order.victim).lock();
        class.pages.token().state_of(address).unwrap_or(State::FREE)
    }

    pub fn meet(&self, address: ChunkAddress, class: &ClassState) -> Met {
        let token = class.pages.token();
        let Some(state) = token.state_of(address) else { return Met::Free };
        let holder = match state.kind() {
            ChunkKind::Free => return Met::Free,
            ChunkKind::Item => state,
            ChunkKind::Body => match token.head_state_of(address, self.token) {
                Some(head) => head,
                None => return Met::Busy(Busy::Unlinked),
            },
        };
        if holder.pins() == 0 || self.carries_pinned(state) {
            Met::Carriable
        } else if holder.linked() {
            Met::Busy(Busy::Held)
        } else {
            Met::Busy(Busy::Unlinked)
        }
    }

    /// Leaves in a batch of chunks of a locked class what can be carried now; what is busy is met again.
    pub fn keep_carriable(&mut self, batch: &mut Vec<ChunkAddress>, class: &ClassState) {
        batch.retain(|&address| match self.meet(address, class) {
            Met::Free => false,
            Met::Carriable => true,
            Met::Busy(why) => {
                self.counters.note_busy(why);
                self.job.held.push(address);
                false
            }
        });
    }

    /// Notes what became of a chunk: one that is busy is met again in the next pass.
    pub fn note(&mut self, outcome: Result<(), Busy>, address: ChunkAddress) {
        match outcome {
            Ok(()) => self.progress(),
            Err(why) => {
                self.counters.note_busy(why);
                self.job.held.push(address);
            }
        }
    }

    /// Notes that the move goes on.
    pub fn progress(&mut self) {
        self.job.progress_at = self.now.ticks;
    }

    /// Keeps a victim's chunk for what is to be carried, unless it lies on the draining page itself.
    pub fn keep_as_room(&mut self, chunk: OwnedChunk) {
        let page = self.space.memory.page_of(chunk.address());
        if self.space.memory.page(page).state() == PageState::Owned {
            self.job.spares.push(chunk);
        } else {
            self.space.give_free(chunk);
        }
    }
}
