//! The mover: chooses the class and the page of a move, runs the move, and records the last moves.

use super::job::{
    Choice, GIVE_UP_AFTER_TICKS, Job, MoveRequest, MoveStart, MoverRules, Pass, PassStep,
};
use super::kinds;
use super::plan::{BegunMove, Help, PlannedMove, ReassignError};
use crate::class::{CHAINED, Class, ClassState, ClassStatus};
use crate::config::MoverKind;
use crate::layout::CHUNK_SIZE_BYTES_MIN;
use crate::mem::{Memory, MoverToken, PageState, UnusedPage};
use crate::space::Space;
use crate::stats::MoverCounters;
use slabwise_base::{ClassId, Moment, Now, PageId, Ticks};
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::time::Duration;

/// The largest number of moves that have a record. A new record replaces the oldest.
pub const MOVE_RECORDS_MAX: usize = 100;

/// The number of attempts to begin a move. An attempt fails if the chosen page gets another owner before the class's
/// lock is taken.
const BEGIN_TRIES: usize = 3;

/// The time between two passes over busy chunks: one tick.
const PAUSE_WHILE_BUSY: Duration = Duration::from_nanos(1_000_000_000 / Ticks::PER_SECOND as u64);

/// The result of one step of the mover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoverStep {
    /// No page is moving.
    Idle,
    /// A page is moving, or a free page was released to the operating system. The next step may run at once.
    Working,
    /// A page is moving, but chunks were busy. The next step is due after this time.
    Pause(Duration),
    /// A page has moved to its receiver or to the page pool.
    Done,
    /// A move was given up. The page stays in its class and is used normally.
    GivenUp,
}

/// The outcome of a move that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveOutcome {
    /// The page has moved to its receiver or to the page pool.
    Moved,
    /// The move was given up. The page stays in its class and is used normally.
    GivenUp,
}

/// The record of one move that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveRecord {
    /// The class that the page was taken from.
    pub victim: ClassId,
    /// The class that the page was meant for; `None`: the page pool.
    pub receiver: Option<ClassId>,
    /// The reason of the move, as the caller or the mover has specified it.
    pub reason: &'static str,
    /// The way in which the move ended.
    pub outcome: MoveOutcome,
    /// The number of used chunks on the page that was chosen at the start of the move.
    pub chunks: u32,
    /// The number of items and bodies that the move carried to another page.
    pub rescued: u64,
    /// The number of items that the move evicted or dropped.
    pub evicted: u64,
    /// The number of gets that the cache served during the move.
    pub gets: u64,
    /// The time from the first step to the end of the move.
    pub duration: Duration,
    /// The time of the end of the move.
    pub ended_at: Ticks,
}

/// The mover of a cache, which moves one page at a time.
pub struct Mover {
    /// The permission to move items and bodies.
    token: MoverToken,
    /// The page that is moving; `None`: no page is moving.
    pub job: Option<Job>,
    /// The moves that follow the current one, the next one first.
    pub planned: VecDeque<PlannedMove>,
    /// The planned moves that have begun, or could not begin, since a caller last asked for them.
    pub begun: Vec<BegunMove>,
    /// The help of stores with the current move.
    pub help: Help,
    /// The time at which a move was last given up because it made no progress; `None`: never.
    stalled_at: Option<Ticks>,
    /// The victim of the move that was given up at `stalled_at`; `None`: there was none.
    stalled_victim: Option<ClassId>,
    /// The id of the page that was chosen last, plus one. The next search for a page begins here. It chooses the last
    /// page again only if there is no other, because that page may be difficult to empty.
    page_cursor: u32,
    /// Counters since the start.
    pub counters: MoverCounters,
    /// The records of the last moves, oldest first.
    pub log: VecDeque<MoveRecord>,
}

impl Mover {
    /// Returns the mover of a cache with this memory.
    pub fn new(memory: &Memory) -> Mover {
        Mover {
            token: memory.mover_token(),
            job: None,
            planned: VecDeque::new(),
            begun: Vec::new(),
            help: Help::default(),
            stalled_at: None,
            stalled_victim: None,
            page_cursor: 0,
            counters: MoverCounters::default(),
            log: VecDeque::new(),
        }
    }

    /// Begins to move a page of `victim` (`None`: the mover chooses the class) to `receiver` (`None`: the page pool).
    pub fn reassign(
        &mut self,
        space: &Space,
        victim: Option<ClassId>,
        receiver: Option<ClassId>,
        reason: &'static str,
        now: Now,
    ) -> Result<(), ReassignError> {
        let rules = kinds::rules_of(space.config.mover);
        let begun = self.begin(space, victim, receiver, &[], (reason, rules), now);
        self.publish_receiver(space);
        begun
    }

    /// Begins to evict all items of a page, and then gives the page to `receiver`, which may be its present owner.
    pub fn evict_page(
        &mut self,
        space: &Space,
        page: PageId,
        receiver: ClassId,
        reason: &'static str,
        now: Now,
    ) -> Result<(), ReassignError> {
        if space.class(receiver).lock().status() != ClassStatus::Present {
            return Err(ReassignError::BadClass);
        }
        if self.job.is_some() {
            return Err(ReassignError::Running);
        }
        let owner = space.memory.page(page).owner();
        let victim = owner.ok_or(ReassignError::NoMovablePage)?;
        let (receiver, rules) = (Some(receiver), kinds::WHOLE_PAGE);
        let request = MoveRequest { victim, receiver, page: Some(page), reason, rules };
        self.begin_job(space, request, now);
        self.publish_receiver(space);
        if self.job.is_some() { Ok(()) } else { Err(ReassignError::NoMovablePage) }
    }

    /// Moves a page at once to a class that can get no chunk in another way. If a page is moving already, completes
    /// that move instead. If the move is blocked by a busy chunk, gives it up. Returns true if the caller may try
    /// again, after a move or after giving one up, and false if no page can be moved. Adds the class whose page was given
    /// up to `blocked`, and takes a page of such a class only if no other class has one.
    pub fn seize_page(
        &mut self,
        space: &Space,
        receiver: ClassId,
        blocked: &mut Vec<ClassId>,
        now: Now,
    ) -> bool {
        let why = ("the receiver could get no chunk", kinds::rules_of(MoverKind::WARM));
        let begun = self.begin(space, None, Some(receiver), blocked, why, now);
        if !matches!(begun, Ok(()) | Err(ReassignError::Running)) {
            return false;
        }
        let chunks_max = space.memory.page_size_bytes() / CHUNK_SIZE_BYTES_MIN;
        match self.step(space, 2 * chunks_max, now.into()) {
            MoverStep::Done | MoverStep::GivenUp => true,
            // A chunk of this page is busy. The store that needs the page may itself pin the item, so waiting could
            // take forever. So the move is given up, and the caller tries another page. This applies also to a move
            // that the owner of the engine has requested, because otherwise the store would fail.
            MoverStep::Pause(_) => {
                if let Some(job) = self.job.take() {
                    blocked.push(job.request.victim);
                    self.give_up(space, job, now.into());
                    self.publish_receiver(space);
                }
                true
            }
            _ => false,
        }
    }

    /// Checks a request for a move, and begins the move. Without a victim, chooses one, if possible none of `blocked`.
    fn begin(
        &mut self,
        space: &Space,
        victim: Option<ClassId>,
        receiver: Option<ClassId>,
        blocked: &[ClassId],
        (reason, rules): (&'static str, &'static dyn MoverRules),
        now: Now,
    ) -> Result<(), ReassignError> {
        let status = |id: ClassId| match space.classes.get(id.index()) {
            Some(class) => class.lock().status(),
            None => ClassStatus::Vacant,
        };
        // A retired class may be the victim, but not the receiver.
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
        let victim = victim.or_else(|| choose_victim_class(space, receiver, blocked));
        let victim = victim.ok_or(ReassignError::NoMovablePage)?;
        self.begin_job(space, MoveRequest { victim, receiver, page: None, reason, rules }, now);
        if self.job.is_some() { Ok(()) } else { Err(ReassignError::NoMovablePage) }
    }

    /// Visits up to `budget_chunks` chunks of the page that is moving. If no page is moving, begins the next planned
    /// move first. If no move is planned or possible, releases a free page beyond the memory limit, or begins to empty
    /// a page of a retired class or of any class while more memory is held than the limit allows.
    pub fn step(&mut self, space: &Space, budget_chunks: usize, at: Moment) -> MoverStep {
        self.begin_planned(space, at.now);
        let step = self.visit_chunks(space, budget_chunks, at);
        // Stores in the receiver of the next move can help at once.
        self.begin_planned(space, at.now);
        self.publish_receiver(space);
        step
    }

    /// Tells other threads if a page is moving. Tells stores which class receives it. They help only if the page
    /// drains: the kinds of mover that do not drain pages are published ones, in which one thread moves pages.
    fn publish_receiver(&self, space: &Space) {
        space.is_moving.store(self.job.is_some(), Relaxed);
        let helped = self.job.as_ref().filter(|job| job.request.rules.drains());
        space.set_receiver(helped.and_then(|job| job.request.receiver));
    }

    fn visit_chunks(&mut self, space: &Space, budget_chunks: usize, at: Moment) -> MoverStep {
        let Some(mut job) = self.job.take() else {
            return self.begin_unrequested(space, at.now);
        };
        job.start.nanos.get_or_insert(at.nanos);
        let rules = job.request.rules;
        let (token, counters) = (&mut self.token, &mut self.counters);
        let mut pass = Pass { space, token, job: &mut job, counters, now: at.now };
        match rules.pass(&mut pass, budget_chunks) {
            PassStep::Continue => {
                self.job = Some(job);
                MoverStep::Working
            }
            PassStep::Pause => self.pause(space, job, space.config.mover_pause, at),
            PassStep::Ended => self.end_of_pass(space, job, at),
        }
    }

    /// Begins to empty a page of the victim. A page of a retired class is emptied by the kind `warm`. Begins nothing if
    /// the victim has no page that can be moved.
    fn begin_job(&mut self, space: &Space, mut request: MoveRequest, now: Now) {
        let victim = request.victim;
        space.recall(victim);
        if space.class(victim).lock().status() == ClassStatus::Retired {
            request.rules = kinds::rules_of(MoverKind::WARM);
        }
        for _ in 0..BEGIN_TRIES {
            let choice = Choice { space, victim, cursor: self.page_cursor, now };
            let page = request.page.or_else(|| request.rules.choose(&choice));
            let Some(page) = page else { return };
            self.page_cursor = page.0 + 1;
            let gets = space.gets_ever();
            let mut state = space.class(victim).lock();
            // If every class gets its first page beyond the memory limit, a class keeps its last page. Otherwise it
            // would get another page beyond the limit at its next store. A retired class gives its last page to the page
            // pool, which can release it, because its number may be used again.
            let is_bound =
                space.config.first_page_beyond_limit && state.pages.token.page_count() < 2;
            if is_bound && state.status() == ClassStatus::Present {
                return;
            }
            let receiver = request.receiver.filter(|_| !is_bound);
            let entry = space.memory.page(page);
            if entry.owner() == Some(victim) && entry.state() == PageState::Owned {
                request.rules.begin(&mut state, page);
                let (rescued, evicted) = (self.counters.carried(), self.counters.evicted);
                let start = MoveStart { nanos: None, gets, chunks: entry.used(), rescued, evicted };
                self.job = Some(Job {
                    request: MoveRequest { receiver, ..request },
                    page,
                    chunk_size_bytes: state.chunk_size_bytes(),
                    slot: 0,
                    slot_end: entry.fresh(),
                    to_revisit: Vec::new(),
                    busy: Vec::new(),
                    cold_slot: 0,
                    evict_ahead_max: entry.used(),
                    evicted_from: Vec::new(),
                    reserved: Vec::new(),
                    withdrawn: Vec::new(),
                    freed: HashSet::new(),
                    progress_at: now.ticks,
                    start,
                });
                return;
            }
        }
    }

    /// Begins a move that no caller has requested. A page beyond the memory limit that no class owns is released to the
    /// operating system first. Then a page of a retired class is moved, or a page of any class while the cache holds more
    /// memory than its limit allows.
    fn begin_unrequested(&mut self, space: &Space, now: Now) -> MoverStep {
        if space.release_page() {
            return MoverStep::Working;
        }
        // For some time after a move was given up, the mover begins no move by itself.
        if self.stalled_at.is_some_and(|at| at.age_at(now.ticks) < GIVE_UP_AFTER_TICKS) {
            return MoverStep::Idle;
        }
        let (receiver, warm) = (None, kinds::rules_of(MoverKind::WARM));
        if let Some(victim) = retired_class(space, self.stalled_victim) {
            let reason = "the victim is a retired class";
            let request = MoveRequest { victim, receiver, page: None, reason, rules: warm };
            self.begin_job(space, request, now);
        }
        let is_over_limit =
            space.lock_pool().headroom() < 0 && !space.config.first_page_beyond_limit;
        if self.job.is_none()
            && is_over_limit
            && let Some(victim) = choose_victim_class(space, None, &[])
        {
            let reason = "more memory is held than the limit allows";
            let rules = kinds::rules_of(space.config.mover);
            self.begin_job(space, MoveRequest { victim, receiver, page: None, reason, rules }, now);
        }
        if self.job.is_some() { MoverStep::Working } else { MoverStep::Idle }
    }

    /// Gives up the move in progress, if any, so that every page is used normally.
    pub fn give_up_present(&mut self, space: &Space, at: Moment) {
        if let Some(job) = self.job.take() {
            self.give_up(space, job, at);
            self.publish_receiver(space);
        }
    }

    /// Completes the move if the page is empty. Otherwise begins another pass over the busy chunks.
    fn end_of_pass(&mut self, space: &Space, mut job: Job, at: Moment) -> MoverStep {
        space.recall_page(job.request.victim, job.page);
        let in_use = space.memory.page(job.page).used() as usize;
        let may_complete = job.busy.is_empty() || job.request.rules.drains();
        if in_use == job.withdrawn.len() && may_complete {
            self.complete(space, job, at);
            return MoverStep::Done;
        }
        job.to_revisit = std::mem::take(&mut job.busy);
        job.to_revisit.reverse();
        if !job.request.rules.drains() {
            // The mover has paused after each busy chunk.
            self.job = Some(job);
            return MoverStep::Working;
        }
        self.pause(space, job, PAUSE_WHILE_BUSY, at)
    }

    /// Requests a pause before the next step. Gives the move up if it has made no progress for too long.
    fn pause(&mut self, space: &Space, job: Job, pause: Duration, at: Moment) -> MoverStep {
        if job.progress_at.age_at(at.now.ticks) >= job.request.rules.give_up_after_ticks() {
            self.stalled_victim = Some(job.request.victim);
            self.stalled_at = Some(at.now.ticks);
            self.give_up(space, job, at);
            return MoverStep::GivenUp;
        }
        self.job = Some(job);
        MoverStep::Pause(pause)
    }

    /// Completes the move of an empty page: gives the page to the receiver.
    fn complete(&mut self, space: &Space, mut job: Job, at: Moment) {
        job.free_reserved(space);
        let request = job.request;
        let page = {
            let mut state = space.class(request.victim).lock();
            let page = request.rules.finish(&mut state, &mut job);
            // The class has fewer chunks now, so fewer of them may be spare.
            space.recall_into(&mut state, |_| true);
            page
        };
        give_page(space, page, request.receiver);
        self.counters.moved += 1;
        self.record(space, &job, MoveOutcome::Moved, at);
    }

    /// Ends the move without success: the page stays in its class.
    fn give_up(&mut self, space: &Space, mut job: Job, at: Moment) {
        job.free_reserved(space);
        let request = job.request;
        request.rules.give_up(&mut space.class(request.victim).lock(), &mut job);
        self.counters.aborted += 1;
        self.record(space, &job, MoveOutcome::GivenUp, at);
    }

    /// Adds a record of a move that has ended.
    fn record(&mut self, space: &Space, job: &Job, outcome: MoveOutcome, at: Moment) {
        let start = &job.start;
        let nanos = at.nanos.saturating_sub(start.nanos.unwrap_or(at.nanos));
        if self.log.len() == MOVE_RECORDS_MAX {
            self.log.pop_front();
        }
        self.log.push_back(MoveRecord {
            victim: job.request.victim,
            receiver: job.request.receiver,
            reason: job.request.reason,
            outcome,
            chunks: start.chunks,
            rescued: self.counters.carried() - start.rescued,
            evicted: self.counters.evicted - start.evicted,
            gets: space.gets_ever() - start.gets,
            duration: Duration::from_nanos(nanos),
            ended_at: at.now.ticks,
        });
    }
}

/// Gives an empty page to the receiver. If there is no receiver, or if it was retired meanwhile, the page pool gets the
/// page.
fn give_page(space: &Space, page: UnusedPage, receiver: Option<ClassId>) {
    if let Some(receiver) = receiver {
        let mut state = space.class(receiver).lock();
        if state.status() == ClassStatus::Present {
            state.adopt(page);
            return;
        }
    }
    space.lock_pool().put(page);
}

/// Returns the victim of a move to `receiver`: a class with a spare page, or else a retired class, or else the coldest
/// class: the one that should evict an item first, or the one with the oldest tail if the order of the items does not
/// compare classes. A class has a spare page if its free chunks would fill a page. But if a class receives the page, and
/// the victim has items, the free chunks must fill two pages: the victim may have received a page for its next items a
/// moment ago. If eviction is disabled, only a class whose free chunks would fill a page is chosen. So all spare chunks
/// are recalled first. A class in `blocked` is chosen only if there is no other. The caller holds no lock of a class.
fn choose_victim_class(
    space: &Space,
    receiver: Option<ClassId>,
    blocked: &[ClassId],
) -> Option<ClassId> {
    space.recall_all();
    let now = space.work.now();
    let coldness_of =
        |state: &ClassState| state.coldness(now).or_else(|| state.oldest_tail_age(now));
    // Most memory of chained items is in the largest chunks. So the coldness of chained items counts for the largest
    // class.
    let largest = space.largest;
    let chained_coldness = coldness_of(&space.class(CHAINED).lock());
    let ranked = space.classes.iter().filter_map(|class| {
        let state = class.lock();
        let id = state.id();
        let chunks_per_page = u64::from(state.pages.token.chunks_per_page());
        let free_pages = state.pages.free_count().checked_div(chunks_per_page).unwrap_or(0);
        let keeps_page = receiver.is_some() && state.pages.used_count() > 0;
        let has_spare_page = free_pages > u64::from(keeps_page);
        let coldness = coldness_of(&state).max(chained_coldness.filter(|_| id == largest));
        // A retired class is preferred, because it must give up all its pages anyway.
        let retired = state.status() == ClassStatus::Retired;
        let page_count = state.pages.token.page_count();
        let rank =
            (!blocked.contains(&id), has_spare_page, retired, coldness.unwrap_or(0), page_count);
        let can_give = Some(id) != receiver
            && page_count > 0
            && (free_pages > 0 || space.config.eviction_enabled);
        can_give.then_some((rank, id))
    });
    ranked.max().map(|(_, id)| id)
}

/// Returns the retired class with the oldest tail. The class `stalled_victim`, whose last move was given up, is
/// returned only if there is no other retired class. `None`: there is no retired class.
fn retired_class(space: &Space, stalled_victim: Option<ClassId>) -> Option<ClassId> {
    if !space.retiring.swap(false, AcqRel) {
        return None;
    }
    let ranked = |class: &Class| {
        let state = class.lock();
        let (id, age) = (state.id(), state.oldest_tail_age(space.work.now()));
        let retired = state.status() == ClassStatus::Retired;
        retired.then_some((stalled_victim != Some(id), age, id))
    };
    let (.., victim) = space.classes.iter().filter_map(ranked).max()?;
    space.retiring.store(true, Release);
    Some(victim)
}
