//! The mover: which class gives a page and which of its pages, the move under way, and the record of the last.

use super::job::{Candidate, GIVE_UP_AFTER_TICKS, Job, Kind, Order, Pass, PassStep, Start};
use super::kinds;
use crate::class::{CHAINED, Class, Standing};
use crate::config::MoverKind;
use crate::layout::CHUNK_SIZE_BYTES_MIN;
use crate::mem::{Memory, MoverToken, PageState, UnusedPage};
use crate::space::Space;
use crate::stats::MoverCounters;
use slabwise_base::sync::lock;
use slabwise_base::{ClassId, Moment, Now, PageId, Ticks};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::{AcqRel, Release};
use std::time::Duration;

/// Moves that the record keeps.
pub const MOVE_RECORDS_MAX: usize = 100;

/// Attempts to take the page that was found: it may have changed hands meanwhile.
const BEGIN_TRIES: usize = 3;

/// Between two passes over chunks that are held: a tick.
const REST_WHILE_HELD: Duration = Duration::from_nanos(1_000_000_000 / Ticks::PER_SECOND as u64);

/// Why a page cannot be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReassignError {
    /// A move is under way; there is one at a time.
    #[error("a page is being moved: try again when it is done")]
    Running,
    /// The victim owns no page.
    #[error("the victim owns no page: choose another")]
    NoSpare,
    /// Victim and receiver are one.
    #[error("victim and receiver are the same class")]
    SameClass,
    /// There is no such class.
    #[error("there is no such class: see stats slabs")]
    BadClass,
}

/// What a step of the mover came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoverStep {
    /// There is nothing to do.
    Idle,
    /// A move is under way.
    Working,
    /// Come back after so long: a chunk that was met is held, or a published kind sleeps.
    Rest(Duration),
    /// A page arrived.
    Done,
    /// A move was given up, and the page is back in service.
    GivenUp,
}

/// What became of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveOutcome {
    /// The page arrived.
    Moved,
    /// It was given up, and the page is back in service.
    GivenUp,
}

/// One move that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveRecord {
    /// The class that gave the page.
    pub victim: ClassId,
    /// The class that got it; `None` is the pool.
    pub receiver: Option<ClassId>,
    /// Why.
    pub reason: &'static str,
    /// What became of it.
    pub outcome: MoveOutcome,
    /// Chunks in use on the page when it began.
    pub chunks: u32,
    /// Items carried to another page.
    pub rescued: u64,
    /// Items evicted or dropped.
    pub evicted: u64,
    /// Gets that the cache served meanwhile.
    pub gets: u64,
    /// From its first step to its end.
    pub duration: Duration,
}

/// Moves pages, one at a time.
pub struct Mover {
    token: MoverToken,
    /// The move under way.
    pub job: Option<Job>,
    /// When a move was given up last.
    gave_up_at: Option<Ticks>,
    /// The class whose page that was.
    gave_up_on: Option<ClassId>,
    /// The number behind the page that was chosen last: the search begins there, and takes that page
    /// again only if there is no other, for it may be one that could not be emptied.
    page_cursor: u32,
    pub counters: MoverCounters,
    /// The last moves, the newest last.
    pub log: VecDeque<MoveRecord>,
}

impl Mover {
    /// A mover of a memory's items.
    pub fn new(memory: &Memory) -> Mover {
        Mover {
            token: memory.mover_token(),
            job: None,
            gave_up_at: None,
            gave_up_on: None,
            page_cursor: 0,
            counters: MoverCounters::default(),
            log: VecDeque::new(),
        }
    }

    /// Begins to move a page of `victim` (`None`: of the class with the oldest tail) to `receiver`
    /// (`None`: the pool).
    pub fn reassign(
        &mut self,
        space: &Space,
        victim: Option<ClassId>,
        receiver: Option<ClassId>,
        reason: &'static str,
        now: Now,
    ) -> Result<(), ReassignError> {
        let kind = kinds::of(space.config.mover);
        self.begin(space, victim, receiver, (reason, kind), now)
    }

    /// Moves a page, to a class that can get no chunk otherwise, now; a move that is under way is finished
    /// first. False: there is no page that could move.
    pub fn seize_page(&mut self, space: &Space, receiver: ClassId, now: Now) -> bool {
        let why = ("the receiver could get no chunk", kinds::of(MoverKind::WARM));
        let begun = self.begin(space, None, Some(receiver), why, now);
        if !matches!(begun, Ok(()) | Err(ReassignError::Running)) {
            return false;
        }
        let slots = space.memory.page_size_bytes() / CHUNK_SIZE_BYTES_MIN;
        match self.step(space, 2 * slots, now.into()) {
            MoverStep::Done | MoverStep::GivenUp => true,
            // A chunk of this page is held, perhaps by a store that waits for this very page: try another. A
            // requested move gives way to a store that would fail.
            MoverStep::Rest(_) => {
                if let Some(job) = self.job.take() {
                    self.give_up(space, job, now.into());
                }
                true
            }
            _ => false,
        }
    }

    fn begin(
        &mut self,
        space: &Space,
        victim: Option<ClassId>,
        receiver: Option<ClassId>,
        (reason, kind): (&'static str, &'static dyn Kind),
        now: Now,
    ) -> Result<(), ReassignError> {
        let standing = |id: ClassId| match space.classes.get(id.index()) {
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
        if self.job.is_some() {
            return Err(ReassignError::Running);
        }
        let victim = victim.or_else(|| oldest_class(space, receiver, now));
        let victim = victim.ok_or(ReassignError::NoSpare)?;
        self.begin_job(space, Order { victim, receiver, reason, kind }, now);
        if self.job.is_some() { Ok(()) } else { Err(ReassignError::NoSpare) }
    }

    /// Visits up to `budget_chunks` chunks of the page that is moving. Also empties retired classes and
    /// shrinks the cache to a lowered memory limit, a page at a time.
    pub fn step(&mut self, space: &Space, budget_chunks: usize, at: Moment) -> MoverStep {
        let Some(mut job) = self.job.take() else {
            return self.begin_by_itself(space, at.now);
        };
        job.start.nanos.get_or_insert(at.nanos);
        let kind = job.order.kind;
        let (token, counters) = (&mut self.token, &mut self.counters);
        let mut pass = Pass { space, token, job: &mut job, counters, now: at.now };
        match kind.pass(&mut pass, budget_chunks) {
            PassStep::GoesOn => {
                self.job = Some(job);
                MoverStep::Working
            }
            PassStep::Rests => self.rest(space, job, space.config.mover_rest, at),
            PassStep::Ended => self.end_of_pass(space, job, at),
        }
    }

    /// Begins to empty a page of the victim; of a retired one always by `warm`.
    fn begin_job(&mut self, space: &Space, mut order: Order, now: Now) {
        let victim = order.victim;
        if space.class(victim).lock().standing() == Standing::Retired {
            order.kind = kinds::of(MoverKind::WARM);
        }
        for _ in 0..BEGIN_TRIES {
            let Some(page) = page_to_empty(space, &order, self.page_cursor) else { return };
            self.page_cursor = page.0 + 1;
            let gets = space.gets_ever();
            let mut state = space.class(victim).lock();
            // A first page granted beyond the limit stays, or the class would be granted another.
            let keeps_one =
                space.config.first_page_beyond_limit && state.standing() == Standing::Present;
            if keeps_one && state.pages.token.page_count() < 2 {
                return;
            }
            let entry = space.memory.page(page);
            if entry.owner() == Some(victim) && entry.state() == PageState::Owned {
                order.kind.begin(&mut state, page);
                let (rescued, evicted) = (self.counters.carried(), self.counters.evicted);
                let start = Start { nanos: None, gets, chunks: entry.used(), rescued, evicted };
                self.job = Some(Job {
                    order,
                    page,
                    chunk_size_bytes: state.chunk_size_bytes(),
                    slot: 0,
                    slot_end: entry.fresh(),
                    todo: Vec::new(),
                    held: Vec::new(),
                    spares: Vec::new(),
                    cut: Vec::new(),
                    freed: None,
                    progress_at: now.ticks,
                    start,
                });
                return;
            }
        }
    }

    /// While more memory is held than the limit allows: releases a free page, or starts to free one. Before
    /// that, pages of retired classes are freed.
    fn begin_by_itself(&mut self, space: &Space, now: Now) -> MoverStep {
        let released = lock(&space.pool).take_for_release();
        if let Some(page) = released {
            space.memory.release(&page);
            lock(&space.pool).put_released(page);
            return MoverStep::Working;
        }
        // A move that was given up lately is not begun again unless it is requested.
        if self.gave_up_at.is_some_and(|at| at.age_at(now.ticks) < GIVE_UP_AFTER_TICKS) {
            return MoverStep::Idle;
        }
        let (receiver, warm) = (None, kinds::of(MoverKind::WARM));
        if let Some(victim) = retired_class(space, self.gave_up_on, now) {
            let reason = "its class is retired";
            self.begin_job(space, Order { victim, receiver, reason, kind: warm }, now);
        }
        let over = lock(&space.pool).headroom() < 0 && !space.config.first_page_beyond_limit;
        if self.job.is_none()
            && over
            && let Some(victim) = oldest_class(space, None, now)
        {
            let reason = "more memory is held than the limit allows";
            let kind = kinds::of(space.config.mover);
            self.begin_job(space, Order { victim, receiver, reason, kind }, now);
        }
        if self.job.is_some() { MoverStep::Working } else { MoverStep::Idle }
    }

    /// Every chunk was met once more: the page is empty, or what is left of it is held.
    fn end_of_pass(&mut self, space: &Space, mut job: Job, at: Moment) -> MoverStep {
        let in_use = space.memory.page(job.page).used() as usize;
        if in_use == job.cut.len() {
            self.complete(space, job, at);
            return MoverStep::Done;
        }
        job.todo = std::mem::take(&mut job.held);
        self.rest(space, job, REST_WHILE_HELD, at)
    }

    /// Asks for a rest, unless nothing has moved for too long.
    fn rest(&mut self, space: &Space, job: Job, rest: Duration, at: Moment) -> MoverStep {
        if job.progress_at.age_at(at.now.ticks) >= job.order.kind.give_up_after_ticks() {
            self.gave_up_on = Some(job.order.victim);
            self.gave_up_at = Some(at.now.ticks);
            self.give_up(space, job, at);
            return MoverStep::GivenUp;
        }
        self.job = Some(job);
        MoverStep::Rest(rest)
    }

    /// Hands the empty page on.
    fn complete(&mut self, space: &Space, mut job: Job, at: Moment) {
        job.return_spares(space);
        let order = job.order;
        let page = order.kind.finish(&mut space.class(order.victim).lock(), &mut job);
        hand_on(space, page, order.receiver);
        self.counters.moved += 1;
        self.record(space, &job, MoveOutcome::Moved, at);
    }

    /// Puts the page back into service.
    fn give_up(&mut self, space: &Space, mut job: Job, at: Moment) {
        job.return_spares(space);
        let order = job.order;
        order.kind.give_up(&mut space.class(order.victim).lock(), &mut job);
        self.counters.aborted += 1;
        self.record(space, &job, MoveOutcome::GivenUp, at);
    }

    fn record(&mut self, space: &Space, job: &Job, outcome: MoveOutcome, at: Moment) {
        let start = &job.start;
        let nanos = at.nanos.saturating_sub(start.nanos.unwrap_or(at.nanos));
        if self.log.len() == MOVE_RECORDS_MAX {
            self.log.pop_front();
        }
        self.log.push_back(MoveRecord {
            victim: job.order.victim,
            receiver: job.order.receiver,
            reason: job.order.reason,
            outcome,
            chunks: start.chunks,
            rescued: self.counters.carried() - start.rescued,
            evicted: self.counters.evicted - start.evicted,
            gets: space.gets_ever() - start.gets,
            duration: Duration::from_nanos(nanos),
        });
    }
}

/// Gives an empty page to a class; to the pool if there is no receiver, or it was retired meanwhile.
fn hand_on(space: &Space, page: UnusedPage, receiver: Option<ClassId>) {
    if let Some(receiver) = receiver {
        let mut state = space.class(receiver).lock();
        if state.standing() == Standing::Present {
            state.adopt(page);
            return;
        }
    }
    lock(&space.pool).put(page);
}

/// The class whose coldest item was used longest ago, of those that can give a page to `receiver`;
/// one with a page's worth of free chunks before all others. Without eviction, only such a one.
fn oldest_class(space: &Space, receiver: Option<ClassId>, now: Now) -> Option<ClassId> {
    // Most of what chained items take is in the largest chunks, so their age counts there.
    let largest = space.largest;
    let chained_age = space.class(CHAINED).lock().oldest_tail_age(now.ticks);
    let ranked = space.classes.iter().filter_map(|class| {
        let state = class.lock();
        let id = state.id();
        let has_spare = state.pages.free_count() >= u64::from(state.pages.token.chunks_per_page());
        let own_age = state.oldest_tail_age(now.ticks);
        let age = own_age.max(chained_age.filter(|_| id == largest));
        // A retired class gives all its pages in the end.
        let retired = state.standing() == Standing::Retired;
        let rank = (has_spare, retired, age.unwrap_or(0), state.pages.token.page_count());
        let can_give = Some(id) != receiver
            && state.pages.token.page_count() > 0
            && (has_spare || space.config.eviction_enabled);
        can_give.then_some((rank, id))
    });
    ranked.max().map(|(_, id)| id)
}

/// The retired class whose coldest item is the coldest, if one owns pages. A class whose page could not be
/// emptied comes after the others.
fn retired_class(space: &Space, gave_up_on: Option<ClassId>, now: Now) -> Option<ClassId> {
    if !space.retiring.swap(false, AcqRel) {
        return None;
    }
    let ranked = |class: &Class| {
        let state = class.lock();
        let (id, age) = (state.id(), state.oldest_tail_age(now.ticks));
        let retired = state.standing() == Standing::Retired;
        retired.then_some((gave_up_on != Some(id), age, id))
    };
    let (.., victim) = space.classes.iter().filter_map(ranked).max()?;
    space.retiring.store(true, Release);
    Some(victim)
}

/// The page of the victim that the kind chooses. No lock is held over the scan: what it reads are hints.
fn page_to_empty(space: &Space, order: &Order, cursor: u32) -> Option<PageId> {
    let frontier = lock(&space.pool).frontier;
    let first = cursor.min(frontier);
    let mut owned = (first..frontier).chain(0..first).map(PageId).filter_map(|id| {
        let page = space.memory.page(id);
        let is_owned = page.owner() == Some(order.victim) && page.state() == PageState::Owned;
        is_owned.then_some(Candidate { id, page, is_last_choice: id.0 + 1 == cursor })
    });
    order.kind.choose(&mut owned)
}
