//! The page mover: empties a page of one class and hands it to another, or to the pool.
//!
//! ```text
//!   idle --reassign--> a page of the victim is chosen
//!          --step--> some of its chunks are visited; how they are emptied is the kind's business:
//!                      warm       carried into room that the class's coldest make     warm.rs
//!                      base, fast as published                                        published.rs
//!                      stock      as memcached does it today                          stock.rs
//!                    a page of a retired class, whatever the kind                      retired.rs
//!          --step--> the page is empty: it goes to the receiver, or to the pool
//! ```
//!
//! Laws: the mover holds no lock between steps but the right to be the only one; it never waits, but says
//! how long to rest before its next step; chunks that are held are met again, and when nothing has moved for
//! as long as its patience lasts the page is given back. But for the published kinds, a page that drains hands out
//! nothing from its lists (`class.rs`).

use crate::class::Standing;
use crate::class_table::CHUNK_SIZE_BYTES_MIN;
use crate::config::MoverKind;
use crate::engine::Engine;
use job::{Job, Order, Start};
use published::Pass;
use slabwise_base::sync::lock;
use slabwise_base::{ClassId, Moment, Now, PageId, Ticks};
use std::fmt;
use std::time::Duration;

mod carry;
mod choose;
mod counters;
mod job;
mod published;
mod retired;
mod stock;
#[cfg(all(test, not(loom)))]
mod tests;
mod warm;

pub use counters::{Busy, MOVE_RECORDS_MAX, MoveLog, MoveOutcome, MoveRecord, MoverCounters};

/// How long chunks may stay pinned before the move is given up, and how long a lowered limit waits after
/// that before it asks for another page.
const PATIENCE_TICKS: u32 = 2 * Ticks::PER_SECOND;

/// The same under [`MoverKind::Stock`]. memcached's mover waits for ever.
const PATIENCE_TICKS_STOCK: u32 = 60 * Ticks::PER_SECOND;

/// Between two passes over chunks that are held: a tick.
const REST_WHILE_HELD: Duration = Duration::from_nanos(1_000_000_000 / Ticks::PER_SECOND as u64);

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
    /// Come back after so long: what was met is held by somebody, or a published kind sleeps.
    Rest(Duration),
    /// A page arrived.
    Done,
    /// A move was given up, and the page is back in service.
    GivenUp,
}

/// The move under way, if any, and the counters.
#[derive(Debug, Default)]
pub(crate) struct Mover {
    job: Option<Job>,
    /// When a move was given up last.
    gave_up_at: Option<Ticks>,
    /// The class whose page that was.
    gave_up_on: Option<ClassId>,
    /// The number behind the page that was chosen last: the search begins there, and takes that page
    /// again only if there is no other, for it may be one that could not be emptied.
    page_cursor: u32,
    pub counters: MoverCounters,
    pub log: MoveLog,
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

impl Engine {
    /// Asks for a page of `victim` (`None`: of the class with the oldest tail) to go to `receiver`
    /// (`None`: the pool), for a `reason` that the record shows. [`Engine::mover_step`] carries it out.
    pub fn reassign(
        &self,
        victim: Option<ClassId>,
        receiver: Option<ClassId>,
        reason: &'static str,
        now: Now,
    ) -> Result<(), ReassignError> {
        let kind = self.config.mover;
        self.begin_move(&mut lock(&self.mover), victim, receiver, (reason, kind), now)
    }

    fn begin_move(
        &self,
        mover: &mut Mover,
        victim: Option<ClassId>,
        receiver: Option<ClassId>,
        (reason, kind): (&'static str, MoverKind),
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
        if mover.is_running() {
            return Err(ReassignError::Running);
        }
        let victim = victim.or_else(|| self.oldest_class(receiver, now));
        let victim = victim.ok_or(ReassignError::NoSpare)?;
        let order = Order { victim, receiver, reason, kind };
        let job = self.begin(order, mover, now).ok_or(ReassignError::NoSpare)?;
        mover.job = Some(job);
        Ok(())
    }

    /// Visits up to `budget_chunks` chunks of the page that is moving. Also empties retired classes and
    /// shrinks the cache to a lowered memory limit, a page at a time.
    pub fn mover_step(&self, budget_chunks: usize, at: impl Into<Moment>) -> MoverStep {
        self.step(&mut lock(&self.mover), budget_chunks, at.into())
    }

    fn step(&self, mover: &mut Mover, budget_chunks: usize, at: Moment) -> MoverStep {
        let Some(mut job) = mover.job.take() else {
            return self.begin_unasked(mover, at.now);
        };
        job.start.nanos.get_or_insert(at.nanos);
        let counters = &mut mover.counters;
        let pass_ended = match job.order.kind {
            MoverKind::Warm => self.warm_pass(&mut job, counters, budget_chunks, at.now),
            MoverKind::Stock => self.stock_pass(&mut job, counters, budget_chunks, at.now),
            MoverKind::Base | MoverKind::Fast => {
                match self.published_pass(&mut job, counters, budget_chunks, at.now) {
                    Pass::GoesOn => false,
                    Pass::Ended => true,
                    Pass::Rests => return self.rest(mover, job, self.config.mover_rest, at),
                }
            }
        };
        if pass_ended {
            return self.end_of_pass(mover, job, at);
        }
        mover.job = Some(job);
        MoverStep::Working
    }

    /// Every chunk was met once more: the page is empty, or what is left of it is held.
    fn end_of_pass(&self, mover: &mut Mover, mut job: Job, at: Moment) -> MoverStep {
        let in_use = self.memory.pages.page(job.page).used() as usize;
        if in_use == job.cut.len() {
            self.complete(mover, job, at);
            return MoverStep::Done;
        }
        job.begin_pass();
        self.rest(mover, job, REST_WHILE_HELD, at)
    }

    /// Asks for a rest, unless nothing has moved for too long.
    fn rest(&self, mover: &mut Mover, job: Job, rest: Duration, at: Moment) -> MoverStep {
        let patience_ticks = match job.order.kind {
            MoverKind::Stock => PATIENCE_TICKS_STOCK,
            _ => PATIENCE_TICKS,
        };
        if job.progress_at.age_at(at.now.ticks) >= patience_ticks {
            mover.gave_up_on = Some(job.order.victim);
            self.give_up(mover, job, at);
            mover.gave_up_at = Some(at.now.ticks);
            return MoverStep::GivenUp;
        }
        mover.job = Some(job);
        MoverStep::Rest(rest)
    }

    /// Moves a page, to a class that can get no chunk otherwise, now; a move that is under way is finished
    /// first. False: there is no page that could move.
    pub(crate) fn seize_page(&self, receiver: ClassId, now: Now) -> bool {
        // Locked throughout: the move that is given up is the one that was looked at.
        let mut mover = lock(&self.mover);
        let why = ("the receiver could get no chunk", MoverKind::Warm);
        let asked = self.begin_move(&mut mover, None, Some(receiver), why, now);
        if !matches!(asked, Ok(()) | Err(ReassignError::Running)) {
            return false;
        }
        let slots = self.memory.page_size_bytes() / CHUNK_SIZE_BYTES_MIN;
        match self.step(&mut mover, 2 * slots, now.into()) {
            MoverStep::Done | MoverStep::GivenUp => true,
            // A chunk of this page is held, perhaps by who waits for this very page: try another. A move
            // that was asked for by others gives way to a store that would fail.
            MoverStep::Rest(_) => {
                if let Some(job) = mover.job.take() {
                    self.give_up(&mut mover, job, now.into());
                }
                true
            }
            _ => false,
        }
    }

    /// The chunks of the page that is moving; `None`: none is.
    pub fn chunks_of_moving_page(&self) -> Option<usize> {
        lock(&self.mover).job.as_ref().map(|job| job.chunks_per_page(&self.memory))
    }

    /// What the mover has counted.
    pub fn mover_counters(&self) -> MoverCounters {
        lock(&self.mover).counters
    }

    /// The last moves, the oldest first.
    pub fn move_log(&self) -> Vec<MoveRecord> {
        lock(&self.mover).log.to_vec()
    }

    /// Hands the empty page on.
    fn complete(&self, mover: &mut Mover, mut job: Job, at: Moment) {
        self.return_spares(&mut job);
        let order = job.order;
        {
            let mut victim = self.class(order.victim).lock();
            match order.kind {
                MoverKind::Warm | MoverKind::Stock => victim.finish_drain(&self.memory, job.page),
                MoverKind::Base | MoverKind::Fast => {
                    victim.part_with(&self.memory, job.page, std::mem::take(&mut job.cut));
                }
            }
        }
        self.hand_on(job.page, order.receiver);
        mover.counters.moved += 1;
        self.record(mover, &job, MoveOutcome::Moved, at);
    }

    /// Gives an empty page to a class, or to the pool: where the class was retired meanwhile, too.
    fn hand_on(&self, page: PageId, receiver: Option<ClassId>) {
        if let Some(receiver) = receiver {
            let mut state = self.class(receiver).lock();
            if state.standing() == Standing::Present {
                return state.adopt(&self.memory, page);
            }
        }
        lock(&self.pool).put(page);
    }

    /// Puts the page back into service.
    fn give_up(&self, mover: &mut Mover, mut job: Job, at: Moment) {
        self.return_spares(&mut job);
        {
            let mut victim = self.class(job.order.victim).lock();
            match job.order.kind {
                MoverKind::Warm | MoverKind::Stock => victim.abort_drain(&self.memory, job.page),
                MoverKind::Base | MoverKind::Fast => {
                    let cut = std::mem::take(&mut job.cut);
                    cut.into_iter().for_each(|chunk| victim.give_free(&self.memory, chunk));
                }
            }
        }
        mover.counters.aborted += 1;
        self.record(mover, &job, MoveOutcome::GivenUp, at);
    }

    fn return_spares(&self, job: &mut Job) {
        job.spares.drain(..).for_each(|chunk| self.give_free(chunk));
    }

    fn record(&self, mover: &mut Mover, job: &Job, outcome: MoveOutcome, at: Moment) {
        let (start, counters) = (&job.start, &mover.counters);
        let record = MoveRecord {
            victim: job.order.victim,
            receiver: job.order.receiver,
            reason: job.order.reason,
            outcome,
            chunks: start.chunks,
            rescued: counters.carried() - start.rescued,
            evicted: counters.evicted - start.evicted,
            gets: self.gets_ever() - start.gets,
            duration: Duration::from_nanos(
                at.nanos.saturating_sub(start.nanos.unwrap_or(at.nanos)),
            ),
        };
        mover.log.push(record);
    }
}
