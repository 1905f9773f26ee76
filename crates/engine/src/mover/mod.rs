//! The page mover: empties a page of one class and hands it to another, or to the pool.
//!
//! ```text
//!   idle --reassign--> choose a page of the victim; it hands out nothing from here on
//!          --step--> each chunk in use on it, in order:
//!             an item   -> room is made outside the page (a free chunk, else the class evicts what is
//!                          coldest), the item is copied there and takes its old place in its queue
//!             a body    -> the same, and the chain is mended
//!             pinned, or being written -> met again on the next pass
//!          --step--> the page is empty: it goes to the receiver, or to the pool
//! ```
//!
//! So a class loses what its eviction order would have given up, not whatever lay on that page: evicting
//! until as many chunks are free outside as the page has items left, wherever the coldest items lie.
//! Under [`MoverKind::Base`] nothing is evicted for room: an item that finds no free chunk is dropped.
//!
//! Laws: a draining page hands out nothing from its lists (`class.rs`); the mover holds no lock between
//! steps; it never waits for a pin: chunks that are held are met again, and when nothing has moved for
//! [`PATIENCE_TICKS`] the page is given back.

use crate::alloc::Evicted;
use crate::class::{ClassState, Standing};
use crate::class_table::CHUNK_SIZE_BYTES_MIN;
use crate::config::MoverKind;
use crate::engine::Engine;
use crate::mem::{ChunkAddress, Kind, OwnedChunk};
use crate::page_table::PageState;
use carry::Dropped;
use slabwise_base::sync::lock;
use slabwise_base::{ClassId, Now, PageId, Ticks};
use std::fmt;

mod carry;
mod choose;

/// How long chunks may stay pinned before the move is given up, and how long a lowered limit waits after
/// that before it asks for another page.
const PATIENCE_TICKS: u32 = 2 * Ticks::PER_SECOND;

/// Why a page cannot be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReassignError {
    /// A move is under way; there is one at a time.
    Running,
    /// The victim owns no page.
    NoSpare,
    /// Victim and receiver are one.
    SameClass,
    /// There is no such class.
    BadClass,
}

impl fmt::Display for ReassignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReassignError::Running => "a page is being moved: try again when it is done",
            ReassignError::NoSpare => "the victim owns no page: choose another",
            ReassignError::SameClass => "victim and receiver are the same class",
            ReassignError::BadClass => "there is no such class: see stats slabs",
        })
    }
}

/// What a step of the mover came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoverStep {
    /// There is nothing to do.
    Idle,
    /// A move is under way.
    Working,
    /// All that is left on the page is held by somebody: come back in a while.
    Waiting,
    /// A page arrived.
    Done,
    /// A move was given up, and the page is back in service.
    GivenUp,
}

/// Counters of the mover since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MoverCounters {
    /// Pages that arrived.
    pub moved: u64,
    /// Moves given up because a chunk stayed pinned.
    pub aborted: u64,
    /// Items carried to another page.
    pub rescued: u64,
    /// Bodies of chained items carried to another page.
    pub bodies_rescued: u64,
    /// Items evicted to make room for those carried, or dropped for want of it.
    pub evicted: u64,
    /// Chunks met that could not be emptied then.
    pub busy: u64,
    /// Of these, those for which there was no room outside the page.
    pub busy_without_room: u64,
    /// Why the last of them could not be emptied.
    pub last_busy: Option<Busy>,
}

/// Why a chunk cannot be emptied now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    /// It is pinned or being written.
    Held,
    /// There is no room outside the page.
    NoRoom,
}

/// The move under way, if any, and the counters.
#[derive(Debug, Default)]
pub(crate) struct Mover {
    job: Option<Job>,
    /// When a move was given up last.
    gave_up_at: Option<Ticks>,
    /// The number behind the page that was chosen last: the search begins there, and takes that page
    /// again only if there is no other, for it may be one that could not be emptied.
    page_cursor: u32,
    pub counters: MoverCounters,
}

#[derive(Debug)]
struct Job {
    page: PageId,
    victim: ClassId,
    receiver: Option<ClassId>,
    chunk_size_bytes: usize,
    /// The next slot of the first pass.
    slot: u32,
    /// Slots that were ever handed out; those above hold stale bytes of the page's last owner.
    slot_end: u32,
    /// Slots to meet again in this pass. An emptied slot is never used again, so after the first pass
    /// those that were held are all that is left.
    todo: Vec<u32>,
    /// Slots that were held when they were met in this pass.
    held: Vec<u32>,
    /// Room outside the page that no item has taken yet.
    spare: Option<OwnedChunk>,
    progress_at: Ticks,
}

impl Job {
    fn new(
        page: PageId,
        victim: ClassId,
        receiver: Option<ClassId>,
        state: &ClassState,
        slot_end: u32,
        now: Now,
    ) -> Job {
        Job {
            page,
            victim,
            receiver,
            chunk_size_bytes: state.chunk_size_bytes(),
            slot: 0,
            slot_end,
            todo: Vec::new(),
            held: Vec::new(),
            spare: None,
            progress_at: now.ticks,
        }
    }

    /// The slot to visit next; `None` at the end of a pass.
    fn next_slot(&mut self) -> Option<u32> {
        if self.slot < self.slot_end {
            self.slot += 1;
            return Some(self.slot - 1);
        }
        self.todo.pop()
    }
}

impl Mover {
    /// Whether a move is under way.
    pub fn is_running(&self) -> bool {
        self.job.is_some()
    }

    /// Whether a move was given up so lately that none should be begun without being asked for.
    fn rests(&self, now: Now) -> bool {
        self.gave_up_at.is_some_and(|at| at.age_at(now.ticks) < PATIENCE_TICKS)
    }
}

/// What became of one chunk.
#[derive(PartialEq, Eq)]
enum Visit {
    /// It is not in use any more.
    Emptied,
    /// It cannot be emptied now.
    Busy(Busy),
}

impl Engine {
    /// Asks for a page of `victim` (`None`: of the class with the oldest tail) to go to `receiver`
    /// (`None`: the pool). [`Engine::mover_step`] carries it out.
    pub fn reassign(
        &self,
        victim: Option<ClassId>,
        receiver: Option<ClassId>,
        now: Now,
    ) -> Result<(), ReassignError> {
        let standing = |id: ClassId| match self.classes.get(id.index()) {
            Some(class) => class.lock().standing(),
            None => Standing::Vacant,
        };
        // A retired class gives, and gets nothing.
        let victim_is_bad = victim.is_some_and(|id| standing(id) == Standing::Vacant);
        let receiver_is_bad = receiver.is_some_and(|id| standing(id) != Standing::Present);
        if victim_is_bad || receiver_is_bad {
            return Err(ReassignError::BadClass);
        }
        if victim.is_some() && victim == receiver {
            return Err(ReassignError::SameClass);
        }
        let mut mover = lock(&self.mover);
        if mover.is_running() {
            return Err(ReassignError::Running);
        }
        let victim = victim.or_else(|| self.oldest_class(receiver, now));
        let victim = victim.ok_or(ReassignError::NoSpare)?;
        mover.job = Some(
            self.begin(victim, receiver, now, &mut mover.page_cursor)
                .ok_or(ReassignError::NoSpare)?,
        );
        Ok(())
    }

    /// Visits up to `budget_chunks` chunks of the page that is moving. Also shrinks the cache to a
    /// lowered memory limit, a page at a time.
    pub fn mover_step(&self, budget_chunks: usize, now: Now) -> MoverStep {
        let mut mover = lock(&self.mover);
        let Some(mut job) = mover.job.take() else {
            return self.shrink(&mut mover, now);
        };
        for _ in 0..budget_chunks.max(1) {
            let Some(slot) = job.next_slot() else {
                return self.end_of_pass(&mut mover, job, now);
            };
            let address = self.memory.chunk_at(job.page, slot, job.chunk_size_bytes);
            if let Visit::Busy(why) = self.visit(&mut job, address, &mut mover.counters, now) {
                mover.counters.busy += 1;
                mover.counters.busy_without_room += u64::from(why == Busy::NoRoom);
                mover.counters.last_busy = Some(why);
                job.held.push(slot);
            }
        }
        mover.job = Some(job);
        MoverStep::Working
    }

    /// Every slot was met once more: the page is empty, or what is left of it is held.
    fn end_of_pass(&self, mover: &mut Mover, mut job: Job, now: Now) -> MoverStep {
        if self.memory.pages.page(job.page).used() == 0 {
            self.complete(job);
            mover.counters.moved += 1;
            return MoverStep::Done;
        }
        if job.progress_at.age_at(now.ticks) >= PATIENCE_TICKS {
            self.give_up(job);
            mover.counters.aborted += 1;
            mover.gave_up_at = Some(now.ticks);
            return MoverStep::GivenUp;
        }
        job.todo = std::mem::take(&mut job.held);
        mover.job = Some(job);
        MoverStep::Waiting
    }

    /// Moves a page, to a class that can get no chunk otherwise, now; a move that is under way is finished
    /// first. False: there is no page that could move.
    pub(crate) fn seize_page(&self, receiver: ClassId, now: Now) -> bool {
        let asked = self.reassign(None, Some(receiver), now);
        if !matches!(asked, Ok(()) | Err(ReassignError::Running)) {
            return false;
        }
        let slots = self.memory.page_size_bytes() / CHUNK_SIZE_BYTES_MIN;
        match self.mover_step(2 * slots, now) {
            MoverStep::Done => true,
            // A chunk of this page is held, perhaps by who waits for this very page: try another.
            MoverStep::Waiting if asked.is_ok() => {
                if let Some(job) = lock(&self.mover).job.take() {
                    self.give_up(job);
                }
                true
            }
            _ => false,
        }
    }

    /// Empties one chunk, or finds that it cannot be emptied now.
    fn visit(
        &self,
        job: &mut Job,
        address: ChunkAddress,
        counters: &mut MoverCounters,
        now: Now,
    ) -> Visit {
        // An item that is held is met again later: nothing is evicted for what cannot be carried now.
        if let Some(visit) = self.visit_without_room(job, address) {
            return visit;
        }
        // Room first: an eviction may well take the very item this was for.
        while job.spare.is_none() {
            if self.config.mover == MoverKind::Base {
                job.spare = self.class(job.victim).lock().take_free(&self.memory);
                if job.spare.is_none() {
                    return self.drop_item_of(job, address, counters, now);
                }
                continue;
            }
            match self.make_room(job.victim, now) {
                Room::Chunk(chunk) => job.spare = Some(chunk),
                Room::Evicted => {
                    counters.evicted += 1;
                    job.progress_at = now.ticks;
                }
                Room::None => return Visit::Busy(Busy::NoRoom),
            }
            if let Some(visit) = self.visit_without_room(job, address) {
                return visit;
            }
        }
        let moved = match self.memory.header(address).state().load().kind() {
            Kind::Free => Some(Kind::Free),
            Kind::Item => self.move_item(job, address),
            Kind::Body => self.move_body(job, address),
        };
        match moved {
            Some(Kind::Body) => counters.bodies_rescued += 1,
            Some(Kind::Item) => counters.rescued += 1,
            Some(Kind::Free) => {}
            None => return Visit::Busy(Busy::Held),
        }
        job.progress_at = now.ticks;
        Visit::Emptied
    }

    /// Drops the item that the chunk belongs to; where eviction is off nothing is lost.
    fn drop_item_of(
        &self,
        job: &mut Job,
        address: ChunkAddress,
        counters: &mut MoverCounters,
        now: Now,
    ) -> Visit {
        if !self.config.eviction_enabled {
            return Visit::Busy(Busy::NoRoom);
        }
        match self.drop_holder(job, address, now) {
            Dropped::Item => counters.evicted += 1,
            Dropped::Nothing => {}
            Dropped::Held => return Visit::Busy(Busy::Held),
        }
        job.progress_at = now.ticks;
        Visit::Emptied
    }

    /// Tells of a chunk that is free, or held by somebody. `None`: there is something to carry.
    fn visit_without_room(&self, job: &Job, address: ChunkAddress) -> Option<Visit> {
        // While a body is in use its head is too, and it is freed under this lock.
        let _class = self.class(job.victim).lock();
        let header = self.memory.header(address);
        let state = header.state().load();
        let holder = match state.kind() {
            Kind::Free => return Some(Visit::Emptied),
            Kind::Item => state,
            Kind::Body => self.memory.header(header.prev()?).state().load(),
        };
        (holder.pins() > 0).then_some(Visit::Busy(Busy::Held))
    }

    /// A free chunk of the class outside the draining page, or one eviction towards it. Nothing is
    /// evicted while the pool has a page, or where eviction is off.
    fn make_room(&self, class: ClassId, now: Now) -> Room {
        if let Some(chunk) = self.take_free(&mut self.class(class).lock()) {
            return Room::Chunk(chunk);
        }
        if !self.config.eviction_enabled {
            return Room::None;
        }
        match self.evict_for(class, now) {
            Evicted::Chunk(chunk)
                if self.memory.page_entry(chunk.address()).state() != PageState::Owned =>
            {
                self.give_free(chunk);
                Room::Evicted
            }
            Evicted::Chunk(chunk) => Room::Chunk(chunk),
            Evicted::Freed => Room::Evicted,
            Evicted::Nothing => Room::None,
        }
    }

    /// Hands the empty page on.
    fn complete(&self, job: Job) {
        self.return_spare(job.spare);
        self.class(job.victim).lock().finish_drain(&self.memory, job.page);
        if let Some(receiver) = job.receiver {
            let mut state = self.class(receiver).lock();
            // It may have been retired meanwhile.
            if state.standing() == Standing::Present {
                return state.adopt(&self.memory, job.page);
            }
        }
        lock(&self.pool).put(job.page);
    }

    /// Puts the page back into service.
    fn give_up(&self, job: Job) {
        self.return_spare(job.spare);
        self.class(job.victim).lock().abort_drain(&self.memory, job.page);
    }

    fn return_spare(&self, spare: Option<OwnedChunk>) {
        if let Some(chunk) = spare {
            self.give_free(chunk);
        }
    }
}

/// What an attempt to make room gave.
enum Room {
    Chunk(OwnedChunk),
    Evicted,
    None,
}
