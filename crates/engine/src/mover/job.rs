//! The move of one page. A [`Job`] is the page that moves and the state of its move. The move makes passes over the
//! page: the first pass visits all chunks, and each later pass visits the chunks that were busy in the pass before. A
//! [`Pass`] is one step of a pass. [`MoverRules`] are the rules of one kind of mover: how it chooses a page and how it
//! empties the page.
//!
//! # Carrying the contents of a chunk to another page
//!
//! The mover pins the item while it holds the lock of the item's class. Then it locks the item's stripe. While the
//! stripe is locked, the bytes of the item cannot change. So the mover copies them to a reserved chunk, and replaces
//! every link to the old chunk by a link to the new one. The mover changes the chain of a chained item only if it holds
//! the only pin, because then no other thread reads the chain. To drop an item, the mover removes it from its queue and
//! then from the index, as an eviction does.

use crate::class::{CHAINED, Class, ClassState};
use crate::layout::ChunkAddress;
use crate::mem::{
    Copied, Entry, Kind as ChunkKind, MoverToken, OwnedChunk, Page, PageState, Pin, PinOutcome,
    State, UnusedPage,
};
use crate::space::{Evictor, Space};
use crate::stats::{Busy, MoverCounters};
use slabwise_base::{ClassId, Now, PageId, Ticks};
use std::collections::{BTreeSet, HashSet};

/// The time without progress ([`Job::progress_at`]) after which a move is given up, unless the rules of the kind
/// specify another time.
pub const GIVE_UP_AFTER_TICKS: u32 = 2 * Ticks::PER_SECOND;

/// A page of the victim that the mover may choose.
#[derive(Clone, Copy)]
pub struct Candidate<'p> {
    pub id: PageId,
    pub page: &'p Page,
    /// True if this page was chosen for the last move. The page may be difficult to empty, so it is chosen again only
    /// if there is no other.
    pub is_last_choice: bool,
}

/// The choice of a page of a class. No lock is held, so the data of the pages may change meanwhile.
pub struct Choice<'p> {
    pub space: &'p Space,
    /// The class that gives the page.
    pub victim: ClassId,
    /// The page id after that of the last choice. The candidates begin there.
    pub cursor: u32,
    pub now: Now,
}

/// The largest number of items at the tail of the class whose pages are candidates.
const TAIL_ITEMS_MAX: usize = 8;

impl Choice<'_> {
    /// Returns all pages of the class, in the order of their ids from the cursor on.
    pub fn candidates(&self) -> impl Iterator<Item = Candidate<'_>> {
        let frontier = self.space.lock_pool().frontier;
        let first = self.cursor.min(frontier);
        (first..frontier).chain(0..first).filter_map(|id| self.candidate(PageId(id)))
    }

    /// Returns the pages of the items at the tail of the class.
    pub fn coldest(&self) -> impl Iterator<Item = Candidate<'_>> {
        let class = self.space.class(self.victim).lock();
        let place = class.coldest_place(self.space.work.now());
        let tail = |place| {
            let items = class.lanes.queue(place).iter_from_tail(&class.pages.token);
            let pages = items.map(|item| self.space.memory.page_of(item.address()));
            pages.take(TAIL_ITEMS_MAX).collect::<BTreeSet<PageId>>()
        };
        place.map(tail).into_iter().flatten().filter_map(|id| self.candidate(id))
    }

    fn candidate(&self, id: PageId) -> Option<Candidate<'_>> {
        let page = self.space.memory.page(id);
        let is_owned = page.owner() == Some(self.victim) && page.state() == PageState::Owned;
        is_owned.then_some(Candidate { id, page, is_last_choice: id.0 + 1 == self.cursor })
    }
}

/// The result of one step over the chunks of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassStep {
    /// Some chunks are not visited yet. The next step may run at once.
    Continue,
    /// A chunk is busy. The next step is due after the pause that the configuration specifies.
    Pause,
    /// Every chunk of the pass was visited.
    Ended,
}

/// The rules of one kind of mover. By default a moving page drains: no free chunk of the page is allocated while it
/// moves.
pub trait MoverRules: Sync {
    /// Chooses a page of the victim.
    fn choose(&self, choice: &Choice<'_>) -> Option<PageId>;

    /// Visits up to `budget_chunks` chunks of the page.
    fn pass(&self, pass: &mut Pass<'_>, budget_chunks: usize) -> PassStep;

    /// Prepares a page for its move, under the lock of its class.
    fn begin(&self, class: &mut ClassState, page: PageId) {
        class.pages.begin_drain(page);
    }

    /// Removes the empty page from its class.
    fn finish(&self, class: &mut ClassState, job: &mut Job) -> UnusedPage {
        class.release_page(job.page)
    }

    /// Returns the page to normal use after the move was given up.
    fn give_up(&self, class: &mut ClassState, job: &mut Job) {
        class.pages.abort_drain(job.page);
    }

    /// Returns the time without progress after which a move is given up, in ticks.
    fn give_up_after_ticks(&self) -> u32 {
        GIVE_UP_AFTER_TICKS
    }

    /// True if no free chunk of the moving page is allocated, so that the page is empty as soon as no chunk is in use.
    /// Otherwise each free chunk must be withdrawn first.
    fn drains(&self) -> bool {
        true
    }

    /// True if the mover carries an item in this state even if it is pinned.
    fn carries_pinned(&self, _state: State) -> bool {
        false
    }
}

/// A request to move a page.
#[derive(Clone, Copy)]
pub struct MoveRequest {
    /// The class that gives the page.
    pub victim: ClassId,
    /// The class that gets the page; `None`: the page pool.
    pub receiver: Option<ClassId>,
    /// The page that moves; `None`: the rules choose a page of the victim.
    pub page: Option<PageId>,
    /// The reason of the move, for its record.
    pub reason: &'static str,
    /// The rules by which the page is emptied.
    pub rules: &'static dyn MoverRules,
}

/// The page that is moving, and the state of its move.
pub struct Job {
    pub request: MoveRequest,
    /// The page that is moving.
    pub page: PageId,
    /// The chunk size of the victim, in bytes.
    pub chunk_size_bytes: usize,
    /// The next slot to visit in the first pass.
    pub slot: u32,
    /// The end of the first pass: the number of slots that the victim has used so far. Higher slots hold stale bytes of
    /// an earlier owner of the page.
    pub slot_end: u32,
    /// The chunks that this pass has yet to visit, if it is not the first pass, the first one last. They were busy in the
    /// previous pass.
    pub to_revisit: Vec<ChunkAddress>,
    /// The chunks that were busy in this pass. The next pass visits them.
    pub busy: Vec<ChunkAddress>,
    /// The next slot whose item is evicted if it is cold. Only for the kind `warm`.
    pub cold_slot: u32,
    /// The largest number of items that the mover may still evict before it carries any. Only for the kind `warm`.
    pub evict_ahead_max: u32,
    /// The pages that lost items in this way.
    pub evicted_from: Vec<PageId>,
    /// Free chunks outside the page that the mover has reserved for contents of the page.
    pub reserved: Vec<OwnedChunk>,
    /// The chunks of the page that the mover has withdrawn: it has allocated them itself, so that workers cannot. Only
    /// the kinds in `published.rs` withdraw chunks.
    pub withdrawn: Vec<OwnedChunk>,
    /// The chunks that this move has freed, and has not visited again. Only for the kinds in `published.rs`.
    pub freed: HashSet<ChunkAddress>,
    /// The time of the last progress: a chunk was emptied, or an item was evicted or carried.
    pub progress_at: Ticks,
    pub start: MoveStart,
}

/// The time and the counters at the start of a move. The record of the move contains the differences to its end.
#[derive(Clone, Copy, Debug)]
pub struct MoveStart {
    /// The time of the first step, in nanoseconds; `None`: no step has run yet.
    pub nanos: Option<u64>,
    /// The number of gets since the start of the engine.
    pub gets: u64,
    /// The number of used chunks on the page.
    pub chunks: u32,
    /// The mover's count of carried items and bodies since the start of the engine.
    pub rescued: u64,
    /// The mover's count of evicted items since the start of the engine.
    pub evicted: u64,
}

impl Job {
    /// Frees the reserved chunks that were not used.
    pub fn free_reserved(&mut self, space: &Space) {
        self.reserved.drain(..).for_each(|chunk| space.give_free(chunk));
    }
}

/// One step of the move of a page.
pub struct Pass<'p> {
    pub space: &'p Space,
    pub token: &'p mut MoverToken,
    pub job: &'p mut Job,
    /// The mover's counters.
    pub counters: &'p mut MoverCounters,
    /// The time of the step.
    pub now: Now,
}

/// The use of a chunk of the page.
pub enum ChunkUse {
    /// The chunk is free.
    Free,
    /// The contents of the chunk can be carried now.
    Carriable,
    /// The chunk cannot be emptied now, for this reason.
    Busy(Busy),
}

impl Pass<'_> {
    /// Returns the chunk to visit next. `None`: the pass has ended.
    pub fn next_chunk(&mut self) -> Option<ChunkAddress> {
        let job = &mut *self.job;
        if job.slot < job.slot_end {
            job.slot += 1;
            let memory = &self.space.memory;
            return Some(memory.chunk_at(job.page, job.slot - 1, job.chunk_size_bytes));
        }
        job.to_revisit.pop()
    }

    /// True if the mover carries an item in this state even if it is pinned.
    fn carries_pinned(&self, state: State) -> bool {
        self.job.request.rules.carries_pinned(state)
    }

    /// Returns the state of a chunk of the page.
    pub fn state_of(&self, address: ChunkAddress) -> State {
        let class = self.space.class(self.job.request.victim).lock();
        class.pages.token.state_of(address).unwrap_or(State::FREE)
    }

    /// Returns the use of a chunk of the page. `class` is the victim, which the caller has locked.
    pub fn use_of(&self, address: ChunkAddress, class: &ClassState) -> ChunkUse {
        let token = &class.pages.token;
        let Some(state) = token.state_of(address) else { return ChunkUse::Free };
        let holder = match state.kind() {
            ChunkKind::Free => return ChunkUse::Free,
            ChunkKind::Item => state,
            ChunkKind::Body => match token.head_state_of(address, self.token) {
                Some(head) => head,
                None => return ChunkUse::Busy(Busy::Unlinked),
            },
        };
        if holder.pins() == 0 || self.carries_pinned(state) {
            ChunkUse::Carriable
        } else if holder.linked() {
            ChunkUse::Busy(Busy::Pinned)
        } else {
            ChunkUse::Busy(Busy::Unlinked)
        }
    }

    /// Removes from a batch all chunks whose contents cannot be carried now. Busy chunks are visited again in the next
    /// pass. `class` is the victim, which the caller has locked.
    pub fn keep_carriable(&mut self, batch: &mut Vec<ChunkAddress>, class: &ClassState) {
        batch.retain(|&address| match self.use_of(address, class) {
            ChunkUse::Free => false,
            ChunkUse::Carriable => true,
            ChunkUse::Busy(why) => {
                self.counters.note_busy(why);
                self.job.busy.push(address);
                false
            }
        });
    }

    /// Visits up to `budget_chunks` chunks, at least one, and records the outcome of each visit.
    pub fn visit_chunks(
        &mut self,
        budget_chunks: usize,
        visit: impl Fn(&mut Self, ChunkAddress) -> Result<(), Busy>,
    ) -> PassStep {
        for _ in 0..budget_chunks.max(1) {
            let Some(address) = self.next_chunk() else { return PassStep::Ended };
            self.counters.visits += 1;
            let visited = visit(self, address);
            self.record_visit(visited, address);
        }
        PassStep::Continue
    }

    /// Records the outcome of a visit. A busy chunk is visited again in the next pass.
    pub fn record_visit(&mut self, outcome: Result<(), Busy>, address: ChunkAddress) {
        match outcome {
            Ok(()) => self.record_progress(),
            Err(why) => {
                self.counters.note_busy(why);
                self.job.busy.push(address);
            }
        }
    }

    /// Records that the move has made progress, so that it is not given up.
    pub fn record_progress(&mut self) {
        self.job.progress_at = self.now.ticks;
    }

    /// Reserves the chunk of an evicted item for the items to carry. If the chunk is on a draining page, frees it
    /// instead.
    pub fn reserve_or_free(&mut self, chunk: OwnedChunk) {
        let page = self.space.memory.page_of(chunk.address());
        if self.space.memory.page(page).state() == PageState::Owned {
            self.job.reserved.push(chunk);
        } else {
            self.space.give_free(chunk);
        }
    }

    /// Carries the contents of a chunk to the last reserved chunk. Returns the reason if the chunk is still in use
    /// then.
    pub fn carry_chunk(&mut self, address: ChunkAddress) -> Result<(), Busy> {
        let carried = match self.state_of(address).kind() {
            ChunkKind::Free => Some(ChunkKind::Free),
            ChunkKind::Item => self.move_item(address),
            ChunkKind::Body => self.move_body(address),
        };
        match carried {
            Some(ChunkKind::Body) => self.counters.bodies_rescued += 1,
            Some(ChunkKind::Item) => self.counters.rescued += 1,
            Some(ChunkKind::Free) => {}
            None => return Err(Busy::Pinned),
        }
        match self.state_of(address).kind() {
            ChunkKind::Free => Ok(()),
            // A reader pins the item, so the old chunk is still in use.
            _ => {
                self.record_progress();
                Err(Busy::Unlinked)
            }
        }
    }

    /// Drops the item that uses a chunk, if eviction is enabled. Returns an error even if the item was dropped, so that
    /// the chunk is visited again, and is then free.
    pub fn drop_item_of(&mut self, address: ChunkAddress) -> Result<(), Busy> {
        if !self.space.config.eviction_enabled {
            return Err(Busy::NoRoom);
        }
        let pin = match self.pin_item_of(address) {
            PinOutcome::Pinned(pin) => pin,
            PinOutcome::NotPinned => return Err(Busy::Pinned),
            PinOutcome::NoBody => return Ok(()),
        };
        let is_dropped = self.drop_pinned(&pin);
        self.space.unpin(pin);
        if !is_dropped {
            return Err(Busy::Pinned);
        }
        self.counters.evicted += 1;
        self.record_progress();
        Err(Busy::NoRoom)
    }

    /// Carries an item to the last reserved chunk. `None`: the item cannot be carried now, for example because it is
    /// pinned.
    fn move_item(&mut self, old: ChunkAddress) -> Option<ChunkKind> {
        let pin = self.pin_queued(old, |state| self.carries_pinned(state))?;
        let carried = self.carry_pinned_item(&pin);
        self.space.unpin(pin);
        carried
    }

    /// Pins a queued item. If the item is pinned already, pins it only if `may_share` returns true for its state.
    /// `None`: the item was not pinned.
    fn pin_queued(&self, item: ChunkAddress, may_share: impl Fn(State) -> bool) -> Option<Pin> {
        let class = self.space.class(self.job.request.victim).lock();
        let state = class.pages.token.state_of(item)?;
        let may_pin = state.pins() == 0 || may_share(state);
        // No thread can free a queued item while this lock is held, so the item stays valid until it is pinned.
        if !state.queued() || !may_pin { None } else { class.pages.token.pin_at(item) }
    }

    /// Carries an item to the last reserved chunk. The mover has pinned the item. `None`: another thread pins the item,
    /// too, or the item was unlinked.
    fn carry_pinned_item(&mut self, pin: &Pin) -> Option<ChunkKind> {
        let item = pin.item(&self.space.memory);
        let (hash, queue_class) = (self.space.hash_of(item), item.queue_class());
        let stripe = self.space.index.lock(hash);
        let mut entry = Entry::find_address(stripe, hash, pin.address()).ok()?;
        let class = self.space.class(queue_class);
        let to = self.job.reserved.last().expect("the caller has reserved a chunk").class();
        if queue_class == CHAINED || to == queue_class {
            self.carry_within(pin, &mut entry, class)
        } else {
            self.carry_across(pin, &mut entry, class)
        }
    }

    /// True if only the mover pins the item, or if the mover's rules permit carrying pinned items.
    fn may_carry(&self, pin: &Pin, entry: &mut Entry<'_>) -> bool {
        entry.value_access(Some(pin)).is_some() || self.carries_pinned(entry.item().state())
    }

    /// Carries an item to the last reserved chunk, which is of another class. `None`: the item cannot be carried now.
    fn carry_across(
        &mut self,
        pin: &Pin,
        entry: &mut Entry<'_>,
        class: &Class,
    ) -> Option<ChunkKind> {
        let mut class = class.lock();
        let state = entry.item().state();
        if !state.queued() || !self.may_carry(pin, entry) {
            return None;
        }
        let copy = self.copy_out(entry)?;
        let queue_pin = class.detach_pinned(pin);
        drop(class);
        let successor = self.space.class(copy.chunk().class());
        let removed = match entry.carry_to(copy, pin, self.token) {
            Ok(removed) => removed,
            Err(copy) => {
                self.job.reserved.push(copy.into_chunk());
                self.space.unpin(queue_pin);
                return None;
            }
        };
        successor.lock().enqueue_carried(entry.entered(), state.queue());
        let remains = removed.unlink(&self.space.memory);
        debug_assert!(remains.is_none(), "the item is not freed, because the mover pins it");
        self.space.unpin(queue_pin);
        Some(ChunkKind::Item)
    }

    /// Carries an item to the last reserved chunk, which is of the same class. The copy gets the item's position in its
    /// queue. `None`: another thread pins the item, too, or the item was unlinked.
    pub fn carry_within(
        &mut self,
        pin: &Pin,
        entry: &mut Entry<'_>,
        class: &Class,
    ) -> Option<ChunkKind> {
        if !self.may_carry(pin, entry) {
            return None;
        }
        // The item's bytes cannot change while its stripe is locked.
        let copy = self.copy_out(entry)?;
        let mut class = class.lock();
        let may_carry = entry.item().state().queued() && self.may_carry(pin, entry);
        let carried = if may_carry { entry.carry_to(copy, pin, self.token) } else { Err(copy) };
        match carried {
            Ok(removed) => {
                let remains = class.replace(removed, entry.entered());
                debug_assert!(
                    remains.is_none(),
                    "the item is not freed, because the mover pins it"
                );
                Some(ChunkKind::Item)
            }
            Err(copy) => {
                self.job.reserved.push(copy.into_chunk());
                None
            }
        }
    }

    /// Copies an item to the last reserved chunk. `None`: the item does not fit, because the old chunk holds another
    /// item than when the mover reserved the chunk.
    fn copy_out(&mut self, entry: &Entry<'_>) -> Option<Copied> {
        let reserved = self.job.reserved.pop().expect("the caller has reserved a chunk");
        entry.copy_to(reserved).map_err(|reserved| self.job.reserved.push(reserved)).ok()
    }

    /// Carries a body of a chained item to the last reserved chunk. `None`: the item is pinned.
    fn move_body(&mut self, old: ChunkAddress) -> Option<ChunkKind> {
        let pin = match self.pin_head_of(old) {
            PinOutcome::Pinned(pin) => pin,
            PinOutcome::NotPinned => return None,
            PinOutcome::NoBody => return Some(ChunkKind::Free),
        };
        let carried = self.carry_body_of_pinned(&pin, old);
        self.space.unpin(pin);
        carried
    }

    /// Pins the chained item that a body belongs to, unless the item is pinned already.
    fn pin_head_of(&self, body: ChunkAddress) -> PinOutcome {
        let class = self.space.class(self.job.request.victim).lock();
        class.pages.token.pin_head_of(body, self.token)
    }

    /// Pins the item that a chunk holds, or that a body in the chunk belongs to, unless the item is pinned already.
    pub fn pin_item_of(&self, chunk: ChunkAddress) -> PinOutcome {
        match self.state_of(chunk).kind() {
            ChunkKind::Free => PinOutcome::NoBody,
            ChunkKind::Item => {
                self.pin_queued(chunk, |_| false).map_or(PinOutcome::NotPinned, PinOutcome::Pinned)
            }
            ChunkKind::Body => self.pin_head_of(chunk),
        }
    }

    /// Drops an item that the mover pins. Returns false if another thread pins the item, too, or has unlinked it.
    pub fn drop_pinned(&self, pin: &Pin) -> bool {
        let (space, now) = (self.space, self.now);
        let item = pin.item(&space.memory);
        let (hash, queue_class) = (space.hash_of(item), item.queue_class());
        let victim = {
            let mut class = space.class(queue_class).lock();
            let queued = class.pages.token.queued_pinned(pin);
            let Some(item) = queued.filter(|item| item.state().pins() == 1) else {
                return false;
            };
            let info = space.victim_info(item, now);
            info.count(&mut class, Evictor::Mover, &space.work, now);
            info.into_victim(class.detach_pinned(pin), now)
        };
        let chunk = space.finish_eviction(victim, hash, queue_class);
        debug_assert!(chunk.is_none(), "the item is not freed, because the mover pins it");
        true
    }

    /// Carries a body of a chained item to the last reserved chunk. The mover has pinned the item.
    fn carry_body_of_pinned(&mut self, pin: &Pin, old: ChunkAddress) -> Option<ChunkKind> {
        let hash = self.space.hash_of(pin.item(&self.space.memory));
        let stripe = self.space.index.lock(hash);
        let mut entry = Entry::find_address(stripe, hash, pin.address()).ok()?;
        let reserved = self.job.reserved.pop().expect("the caller has reserved a chunk");
        match entry.move_body(old, reserved, pin, self.token) {
            Ok(emptied) => {
                self.space.give_free(emptied);
                Some(ChunkKind::Body)
            }
            Err(reserved) => {
                self.job.reserved.push(reserved);
                None
            }
        }
    }
}
