//! The mover: chooses the class that gives a page and the page, runs the move, and records the last moves.

use super::job::{Candidate, GIVE_UP_AFTER_TICKS, Job, Kind, Order, Pass, PassStep, Start};
use super::kinds;
use crate::class::{CHAINED, Class, ClassStatus};
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

/// The number of moves of which records are kept.
pub const MOVE_RECORDS_MAX: usize = 100;

/// Attempts to begin a move: the chosen page may get another owner in the meantime.
const BEGIN_TRIES: usize = 3;

/// The rest between two passes over busy chunks: one tick.
const REST_WHILE_HELD: Duration = Duration::from_nanos(1_000_000_000 / Ticks::PER_SECOND as u64);

/// Why a page cannot be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReassignError {
    /// Another page is being moved; the mover moves one at a time.
    #[error("a page is being moved: try again when the move has finished")]
    Running,
    /// The victim owns no page.
    #[error("the victim owns no page: choose another")]
    NoSpare,
    /// Victim and receiver are the same class.
    #[error("victim and receiver are the same class")]
    SameClass,
    /// There is no such class.
    #[error("there is no such class: see stats slabs")]
    BadClass,
}

/// The result of a step of the mover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoverStep {
    /// No page is moving.
    Idle,
    /// A page is moving.
    Working,
    /// A page is moving; the next step is due after this time, because a chunk is busy or a published kind rests.
    Rest(Duration),
    /// A page has moved to its receiver.
    Done,
    /// A move was given up, and the page is in normal use again.
    GivenUp,
}

/// The outcome of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveOutcome {
    /// The page has moved to its receiver.
    Moved,
    /// The move was given up, and the page is in normal use again.
    GivenUp,
}

/// The record of one finished move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveRecord {
    /// The class that gave the page.
    pub victim: ClassId,
    /// The class that got it; `None` is the pool.
    pub receiver: Option<ClassId>,
    /// The reason that the caller gave.
    pub reason: &'static str,
    /// The outcome.
    pub outcome: MoveOutcome,
    /// The number of used chunks on the page at the start of the move.
    pub chunks: u32,
    /// The number of items and bodies carried to another page.
    pub rescued: u64,
    /// The number of items evicted or dropped.
    pub evicted: u64,
    /// The number of gets that the cache served during the move.
    pub gets: u64,
    /// The time from the first step to the end.
    pub duration: Duration,
}

/// Moves pages, one at a time.
pub struct Mover {
    token: MoverToken,
    pub job: Option<Job>,
    /// The time at which a move was last given up.
    gave_up_at: Option<Ticks>,
    /// The class of that page.
    gave_up_on: Option<ClassId>,
    /// The page after the one chosen last. The next search begins here, and chooses the last page again only if
    /// there is no other, because it may not have emptied.
    page_cursor: u32,
    pub counters: MoverCounters,
    /// The records of the last moves, the newest last.
    pub log: VecDeque<MoveRecord>,
}

impl Mover {
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

    /// Begins to move a page of `victim` (`None`: the class with the oldest tail) to `receiver` (`None`: the pool).
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

    /// Moves a page at once to a class that can get no chunk otherwise. If a page is moving already, finishes that
    /// move instead. Returns false if no page can move.
    pub fn seize_page(&mut self, space: &Space, receiver: ClassId, now: Now) -> bool {
        let why = ("the receiver could get no chunk", kinds::of(MoverKind::WARM));
        let begun = self.begin(space, None, Some(receiver), why, now);
        if !matches!(begun, Ok(()) | Err(ReassignError::Running)) {
            return false;
        }
        let slots = space.memory.page_size_bytes() / CHUNK_SIZE_BYTES_MIN;
        match self.step(space, 2 * slots, now.into()) {
            MoverStep::Done | MoverStep::GivenUp => true,
            // A chunk of this page is busy, perhaps because of the very store that needs the page, so the move is
            // given up and the caller tries another page. That applies to a requested move, too, because the store
            // would fail otherwise.
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
        let status = |id: ClassId| match space.classes.get(id.index()) {
            Some(class) => class.lock().status(),
            None => ClassStatus::Vacant,
        };
        // A retired class may give a page but gets none.
        let victim_is_bad = victim.is_some_and(|id| status(id) == ClassStatus::Vacant);
        let receiver_is_bad = receiver.is_some_and(|id| status(id) != ClassStatus::Present);
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

    /// Visits up to `budget_chunks` chunks of the page that is moving. If none is, begins to empty a retired class
    /// or to shrink the cache to a lowered memory limit, one page at a time.
    pub fn step(&mut self, space: &Space, budget_chunks: usize, at: Moment) -> MoverStep {
        let Some(mut job) = self.job.take() else {
            return self.begin_by_itself(space, at.now);
        };
        job.start.nanos.get_or_insert(at.nanos);
        let kind = job.order.kind;
        let (token, counters) = (&mut self.token, &mut self.counters);
        let mut pass = Pass { space, token, job: &mut job, counters, now: at.now };
        match kind.pass(&mut pass, budget_chunks) {
            PassStep::Continue => {
                self.job = Some(job);
                MoverStep::Working
            }
            PassStep::Rest => self.rest(space, job, space.config.mover_rest, at),
            PassStep::Ended => self.end_of_pass(space, job, at),
        }
    }

    /// Begins to empty a page of the victim; if that is retired, by `warm`.
    fn begin_job(&mut self, space: &Space, mut order: Order, now: Now) {
        let victim = order.victim;
        if space.class(victim).lock().status() == ClassStatus::Retired {
            order.kind = kinds::of(MoverKind::WARM);
        }
        for _ in 0..BEGIN_TRIES {
            let Some(page) = page_to_empty(space, &order, self.page_cursor) else { return };
            self.page_cursor = page.0 + 1;
            let gets = space.gets_ever();
            let mut state = space.class(victim).lock();
            // If the first page is granted beyond the limit it stays, or the class would get another one.
            let keeps_one =
                space.config.first_page_beyond_limit && state.status() == ClassStatus::Present;
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
                    withdrawn: Vec::new(),
                    freed: None,
                    progress_at: now.ticks,
                    start,
                });
                return;
            }
        }
    }

    /// Begins a move that nothing requested: first of pages of retired classes; then, while more memory is held than
    /// the limit allows, of any page. Free pages beyond the limit are released to the system.
    fn begin_by_itself(&mut self, space: &Space, now: Now) -> MoverStep {
        let released = lock(&space.pool).take_for_release();
        if let Some(page) = released {
            space.memory.release(&page);
            lock(&space.pool).put_released(page);
            return MoverStep::Working;
        }
        // Shortly after a move was given up, only requested moves begin.
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

    /// Completes the move if the page is empty, or begins another pass over its busy chunks.
    fn end_of_pass(&mut self, space: &Space, mut job: Job, at: Moment) -> MoverStep {
        let in_use = space.memory.page(job.page).used() as usize;
        if in_use == job.withdrawn.len() {
            self.complete(space, job, at);
            return MoverStep::Done;
        }
        job.todo = std::mem::take(&mut job.held);
        self.rest(space, job, REST_WHILE_HELD, at)
    }

    /// Rests, or gives the move up if it has made no progress for too long.
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

    /// Hands the empty page to its receiver.
    fn complete(&mut self, space: &Space, mut job: Job, at: Moment) {
        job.return_spares(space);
        let order = job.order;
        let page = order.kind.finish(&mut space.class(order.victim).lock(), &mut job);
        hand_on(space, page, order.receiver);
        self.counters.moved += 1;
        self.record(space, &job, MoveOutcome::Moved, at);
    }

    /// Ends the move; the page stays in its class.
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

/// Adds an empty page to the receiver, or to the pool if there is none or it was retired in the meantime.
fn hand_on(space: &Space, page: UnusedPage, receiver: Option<ClassId>) {
    if let Some(receiver) = receiver {
        let mut state = space.class(receiver).lock();
        if state.status() == ClassStatus::Present {
            state.adopt(page);
            return;
        }
    }
    lock(&space.pool).put(page);
}

/// The class with the oldest tail among those that can give a page to `receiver`. A class with a page's worth of
/// free chunks is preferred; without eviction, only such a class is chosen.
fn oldest_class(space: &Space, receiver: Option<ClassId>, now: Now) -> Option<ClassId> {
    // Most memory of chained items is in the largest chunks, so their tail age counts there.
    let largest = space.largest;
    let chained_age = space.class(CHAINED).lock().oldest_tail_age(now.ticks);
    let ranked = space.classes.iter().filter_map(|class| {
        let state = class.lock();
        let id = state.id();
        let has_spare = state.pages.free_count() >= u64::from(state.pages.token.chunks_per_page());
        let own_age = state.oldest_tail_age(now.ticks);
        let age = own_age.max(chained_age.filter(|_| id == largest));
        // A retired class must give all its pages anyway.
        let retired = state.status() == ClassStatus::Retired;
        let rank = (has_spare, retired, age.unwrap_or(0), state.pages.token.page_count());
        let can_give = Some(id) != receiver
            && state.pages.token.page_count() > 0
            && (has_spare || space.config.eviction_enabled);
        can_give.then_some((rank, id))
    });
    ranked.max().map(|(_, id)| id)
}

/// The retired class with the oldest tail among those that own pages. The class whose page could not be emptied
/// last time is chosen only if there is no other.
fn retired_class(space: &Space, gave_up_on: Option<ClassId>, now: Now) -> Option<ClassId> {
    if !space.retiring.swap(false, AcqRel) {
        return None;
    }
    let ranked = |class: &Class| {
        let state = class.lock();
        let (id, age) = (state.id(), state.oldest_tail_age(now.ticks));
        let retired = state.status() == ClassStatus::Retired;
        retired.then_some((gave_up_on != Some(id), age, id))
    };
    let (.., victim) = space.classes.iter().filter_map(ranked).max()?;
    space.retiring.store(true, Release);
    Some(victim)
}

/// The page of the victim that the kind chooses. The scan holds no lock, so the data that it reads are hints.
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
