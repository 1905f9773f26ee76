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
//!
//! Laws: a draining page hands out nothing (`class.rs`); the mover holds no lock between steps; it never
//! waits for a pin, and after [`PASSES_MAX`] passes without progress it gives the page back.

use crate::alloc::Evicted;
use crate::class_table::CHUNK_SIZE_BYTES_MIN;
use crate::engine::Engine;
use crate::mem::{ChunkAddress, Kind, OwnedChunk, ReadProof};
use crate::page_table::PageState;
use slabwise_base::sync::lock;
use slabwise_base::{ClassId, Now, PageId};
use std::fmt;

/// Passes over a page without progress before the move is given up.
const PASSES_MAX: u32 = 1000;

/// Pages looked at to find the one that costs least to empty.
const PAGE_LOOKS_MAX: u32 = 4096;

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
    /// A page arrived, or a move was given up.
    Done,
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
    /// Items evicted to make room for those carried.
    pub evicted: u64,
    /// Chunks met pinned or being written.
    pub busy: u64,
}

/// The move under way, if any, and the counters.
#[derive(Debug, Default)]
pub(crate) struct Mover {
    job: Option<Job>,
    pub counters: MoverCounters,
}

#[derive(Debug)]
struct Job {
    page: PageId,
    victim: ClassId,
    receiver: Option<ClassId>,
    chunk_size_bytes: usize,
    slot: u32,
    /// Slots that were ever handed out; those above hold stale bytes of the page's last owner.
    slot_end: u32,
    /// Room outside the page that no item has taken yet.
    spare: Option<OwnedChunk>,
    progress: bool,
    passes_idle: u32,
}

impl Mover {
    /// Whether a move is under way.
    pub fn is_running(&self) -> bool {
        self.job.is_some()
    }
}

/// What became of one chunk.
enum Visit {
    /// It is not in use any more.
    Emptied,
    /// Somebody holds it.
    Busy,
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
        let known = |id: ClassId| id.index() < self.classes.len();
        if !victim.into_iter().chain(receiver).all(known) {
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
        mover.job = Some(self.begin(victim, receiver).ok_or(ReassignError::NoSpare)?);
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
            if job.slot == job.slot_end {
                if self.memory.pages.page(job.page).used() == 0 {
                    self.complete(job);
                    mover.counters.moved += 1;
                    return MoverStep::Done;
                }
                job.passes_idle = if job.progress { 0 } else { job.passes_idle + 1 };
                if job.passes_idle == PASSES_MAX {
                    self.give_up(job);
                    mover.counters.aborted += 1;
                    return MoverStep::Done;
                }
                (job.slot, job.progress) = (0, false);
            }
            let address = self.memory.chunk_at(job.page, job.slot, job.chunk_size_bytes);
            match self.visit(&mut job, address, &mut mover.counters, now) {
                Visit::Emptied => {}
                Visit::Busy => mover.counters.busy += 1,
            }
            job.slot += 1;
        }
        mover.job = Some(job);
        MoverStep::Working
    }

    /// Moves a page to a class that can get no chunk otherwise, now; a move that is under way is finished
    /// first. False: no page could be had.
    pub(crate) fn seize_page(&self, receiver: ClassId, now: Now) -> bool {
        let visits = self.memory.page_size_bytes() / CHUNK_SIZE_BYTES_MIN;
        match self.reassign(None, Some(receiver), now) {
            Err(ReassignError::Running) => {
                self.mover_step(2 * visits, now);
                let _ = self.reassign(None, Some(receiver), now);
            }
            Err(_) => return false,
            Ok(()) => {}
        }
        self.mover_step(2 * visits, now) == MoverStep::Done
    }

    /// While more memory is held than the limit allows: releases a free page, or starts to free one.
    fn shrink(&self, mover: &mut Mover, now: Now) -> MoverStep {
        let over = {
            let mut pool = lock(&self.pool);
            if let Some(page) = pool.take_for_release() {
                let size = self.memory.page_size_bytes();
                self.memory.arena.release(page.index() * size, size);
                return MoverStep::Working;
            }
            pool.headroom() < 0 && !self.config.first_page_beyond_limit
        };
        let job = over.then(|| self.oldest_class(None, now)).flatten();
        mover.job = job.and_then(|victim| self.begin(victim, None));
        if mover.is_running() { MoverStep::Working } else { MoverStep::Idle }
    }

    /// The class whose coldest item was used longest ago, of those that can give a page to `receiver`.
    fn oldest_class(&self, receiver: Option<ClassId>, now: Now) -> Option<ClassId> {
        let candidates = self.config.classes.ids().filter(|&id| Some(id) != receiver);
        let aged = candidates.filter_map(|id| {
            let state = self.class(id).lock();
            let spare_pages = u64::from(state.page_count())
                - state.used_count().div_ceil(u64::from(state.chunks_per_page()));
            let age = crate::mem::QueueKind::ALL
                .iter()
                .filter_map(|&queue| state.tail_age(&self.memory, queue, now.ticks))
                .max();
            let rank = (spare_pages > 0, age.unwrap_or(0), state.page_count());
            (state.page_count() > 0).then_some((rank, id))
        });
        aged.max().map(|(_, id)| id)
    }

    /// Takes the victim's emptiest page out of service.
    fn begin(&self, victim: ClassId, receiver: Option<ClassId>) -> Option<Job> {
        let frontier = lock(&self.pool).frontier();
        let mut state = self.class(victim).lock();
        // A first page granted beyond the limit stays, or the class would be granted another.
        if self.config.first_page_beyond_limit && state.page_count() < 2 {
            return None;
        }
        let page = self.emptiest_page(victim, frontier)?;
        state.begin_drain(&self.memory, page);
        Some(Job {
            page,
            victim,
            receiver,
            chunk_size_bytes: state.chunk_size_bytes(),
            slot: 0,
            slot_end: self.memory.pages.page(page).fresh(),
            spare: None,
            progress: false,
            passes_idle: 0,
        })
    }

    /// The page with the fewest chunks in use, of those looked at. Class lock held.
    fn emptiest_page(&self, class: ClassId, frontier: u32) -> Option<PageId> {
        let pages = &self.memory.pages;
        let owned = (0..frontier).map(PageId).filter(|&id| {
            pages.page(id).owner() == Some(class) && pages.page(id).state() == PageState::Owned
        });
        owned.take(PAGE_LOOKS_MAX as usize).min_by_key(|&id| pages.page(id).used())
    }

    /// Empties one chunk, or finds that it cannot be emptied now.
    fn visit(
        &self,
        job: &mut Job,
        address: ChunkAddress,
        counters: &mut MoverCounters,
        now: Now,
    ) -> Visit {
        if !self.in_use(job, address) {
            return Visit::Emptied;
        }
        // Room first: an eviction may well take the very item this was for.
        while job.spare.is_none() {
            match self.make_room(job.victim, now) {
                Room::Chunk(chunk) => job.spare = Some(chunk),
                Room::Evicted => {
                    counters.evicted += 1;
                    job.progress = true;
                }
                Room::None => return Visit::Busy,
            }
            if !self.in_use(job, address) {
                return Visit::Emptied;
            }
        }
        let moved = match self.memory.header(address).state().load().kind() {
            Kind::Free => return Visit::Emptied,
            Kind::Item => self.move_item(job, address),
            Kind::Body => self.move_body(job, address),
        };
        match moved {
            Some(Kind::Body) => counters.bodies_rescued += 1,
            Some(_) => counters.rescued += 1,
            None => return Visit::Busy,
        }
        job.progress = true;
        Visit::Emptied
    }

    fn in_use(&self, job: &Job, address: ChunkAddress) -> bool {
        let _class = self.class(job.victim).lock();
        self.memory.header(address).state().load().kind() != Kind::Free
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
        match self.evict(class, now) {
            Evicted::Chunk(chunk) => Room::Chunk(chunk),
            Evicted::Freed => Room::Evicted,
            Evicted::Nothing => Room::None,
        }
    }

    /// Carries an item to the spare chunk. `None`: somebody holds it. `Some`: what was carried.
    fn move_item(&self, job: &mut Job, old: ChunkAddress) -> Option<Kind> {
        let word = self.memory.header(old).state();
        {
            // Under the class's lock a queued item cannot be freed, so the pin finds it alive.
            let queue_class = self.queue_class(old);
            let _class = self.class(queue_class).lock();
            let state = word.load();
            let locked_the_right_one = self.queue_class(old) == queue_class;
            let held = !state.queued() || state.pins() > 0;
            if !locked_the_right_one || held || !word.try_pin() {
                return None;
            }
        }
        let carried = self.carry_pinned_item(job, old);
        if let Some(chunk) = self.unpin_to_owned(old) {
            // The new chunk shares the bodies: only the first chunk is given back.
            self.give_free(chunk);
        }
        carried
    }

    fn carry_pinned_item(&self, job: &mut Job, old: ChunkAddress) -> Option<Kind> {
        let memory = &self.memory;
        let hash = self.hash_of(old, ReadProof::under_pin(&old));
        let mut stripe = self.index.lock(hash);
        let (slot, _) = stripe.find(hash, |candidate| candidate == old)?;
        let mut class = self.class(self.queue_class(old)).lock();
        let state = memory.header(old).state().load();
        if state.pins() != 1 || !state.queued() {
            return None;
        }
        let mut chunk = job.spare.take().expect("room was made before");
        let new = chunk.address();
        let proof = ReadProof::under_stripe(&stripe);
        memory.copy_contents(old, &mut chunk, proof);
        memory.header(new).state().store(state.moved());
        let mut body = memory.first_body(old, proof);
        while let Some(address) = body {
            memory.header(address).set_prev(Some(new));
            body = memory.header(address).next();
        }
        let queue = class.queue_mut(state.queue());
        queue.replace(memory, old, chunk.surrender());
        memory.header(new).state().publish(state.queue());
        memory.header(old).state().clear_queued();
        if state.chained() {
            memory.clear_first_body(old);
        }
        stripe.replace(slot, new);
        let last = memory.header(old).state().unlink();
        debug_assert!(!last, "the mover's pin is still there");
        Some(Kind::Item)
    }

    /// Carries a body of a chained item to the spare chunk.
    fn move_body(&self, job: &mut Job, old: ChunkAddress) -> Option<Kind> {
        let head = {
            // While the body is in use its head is too: a head is freed after its bodies.
            let _class = self.class(job.victim).lock();
            if self.memory.header(old).state().load().kind() != Kind::Body {
                return Some(Kind::Body);
            }
            let head = self.memory.header(old).prev()?;
            let word = self.memory.header(head).state();
            if word.load().pins() > 0 || !word.try_pin() {
                return None;
            }
            head
        };
        let carried = self.carry_body_of_pinned(job, head, old);
        if let Some(chunk) = self.unpin_to_owned(head) {
            self.give_free(chunk);
        }
        carried
    }

    fn carry_body_of_pinned(
        &self,
        job: &mut Job,
        head: ChunkAddress,
        old: ChunkAddress,
    ) -> Option<Kind> {
        let memory = &self.memory;
        let hash = self.hash_of(head, ReadProof::under_pin(&head));
        let stripe = self.index.lock(hash);
        stripe.find(hash, |candidate| candidate == head)?;
        if memory.header(head).state().load().pins() != 1 {
            return None;
        }
        let proof = ReadProof::under_stripe(&stripe);
        let first = memory.first_body(head, proof);
        let mut chain = std::iter::successors(first, |&body| memory.header(body).next());
        let before = if first == Some(old) {
            None
        } else {
            Some(chain.find(|&body| memory.header(body).next() == Some(old))?)
        };
        let mut chunk = job.spare.take().expect("room was made before");
        memory.copy_contents(old, &mut chunk, proof);
        let new = chunk.surrender();
        let header = memory.header(new);
        header.set_prev(Some(head));
        header.set_next(memory.header(old).next());
        header.state().store(memory.header(old).state().load());
        match before {
            Some(body) => memory.header(body).set_next(Some(new)),
            None => memory.set_first_body(head, new),
        }
        self.give_free(OwnedChunk::claim(old));
        Some(Kind::Body)
    }

    /// Hands the empty page on.
    fn complete(&self, job: Job) {
        self.return_spare(job.spare);
        self.class(job.victim).lock().finish_drain(&self.memory, job.page);
        match job.receiver {
            Some(receiver) => self.class(receiver).lock().adopt(&self.memory, job.page),
            None => lock(&self.pool).put(job.page),
        }
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
