//! The move of one page: the job, a pass over the page's chunks, and the decisions of a kind of mover.
//!
//! The three depend on each other: a job has a kind, a kind runs a pass, and a pass is a step of the job.
//!
//! # Carrying one chunk's contents to another page
//!
//! The item is pinned under its class's lock, then its stripe is locked. Under the stripe's lock its bytes cannot
//! change, so they are copied, and every link to the old chunk is redirected to the new one. If the mover has the
//! only pin, no thread reads the item's chain, so it can be changed. An item that is dropped is detached as in an
//! eviction.

use crate::class::{CHAINED, Class, ClassState};
use crate::layout::ChunkAddress;
use crate::mem::{
    Copied, Entry, HeadPin, Kind as ChunkKind, MoverToken, OwnedChunk, Page, PageState, Pin, State,
    UnusedPage,
};
use crate::space::Space;
use crate::stats::{Busy, MoverCounters};
use slabwise_base::{ClassId, Now, PageId, Ticks};

/// The default time without progress after which a move is given up.
pub const GIVE_UP_AFTER_TICKS: u32 = 2 * Ticks::PER_SECOND;

/// A page that may be emptied.
#[derive(Clone, Copy)]
pub struct Candidate<'p> {
    pub id: PageId,
    pub page: &'p Page,
    /// True if it was chosen last time. It may not have emptied, so it is chosen only if there is no other.
    pub is_last_choice: bool,
}

/// The state of a pass over a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassStep {
    /// Chunks are left and may be visited at once.
    Continue,
    /// The next visit is due after the configured rest.
    Rest,
    /// Every chunk of the page was visited.
    Ended,
}

/// A way to empty a page. By default the page drains: it hands out no chunk while it is emptied.
pub trait Kind: Sync {
    /// Chooses a page of the victim. No lock is held, so the data of a page are hints.
    fn choose(&self, candidates: &mut dyn Iterator<Item = Candidate<'_>>) -> Option<PageId>;

    /// Visits up to `budget_chunks` chunks.
    fn pass(&self, pass: &mut Pass<'_>, budget_chunks: usize) -> PassStep;

    /// Begins to empty a page.
    fn begin(&self, class: &mut ClassState, page: PageId) {
        class.pages.begin_drain(page);
    }

    /// Removes the empty page from its class.
    fn finish(&self, class: &mut ClassState, job: &mut Job) -> UnusedPage {
        class.release_page(job.page)
    }

    /// Returns the page to normal use.
    fn give_up(&self, class: &mut ClassState, job: &mut Job) {
        class.pages.abort_drain(job.page);
    }

    /// The time without progress after which the move is given up.
    fn give_up_after_ticks(&self) -> u32 {
        GIVE_UP_AFTER_TICKS
    }

    /// True if an item in this state is carried even if it is pinned.
    fn carries_pinned(&self, _state: State) -> bool {
        false
    }
}

/// A request to move a page.
#[derive(Clone, Copy)]
pub struct Order {
    pub victim: ClassId,
    /// `None` is the pool.
    pub receiver: Option<ClassId>,
    pub reason: &'static str,
    pub kind: &'static dyn Kind,
}

/// The page that is moving, and the progress of the move.
pub struct Job {
    pub order: Order,
    pub page: PageId,
    pub chunk_size_bytes: usize,
    /// The next slot of the first pass.
    pub slot: u32,
    /// The end of the slots that were ever handed out; slots above it hold stale bytes of the page's last owner.
    pub slot_end: u32,
    /// The chunks to visit in later passes. An emptied chunk is not used again, so only busy ones are left.
    pub todo: Vec<ChunkAddress>,
    /// Chunks that were busy in this pass.
    pub held: Vec<ChunkAddress>,
    /// Reserved free chunks outside the page.
    pub spares: Vec<OwnedChunk>,
    /// Under the published kinds, the chunks of the page that are withdrawn from use.
    pub withdrawn: Vec<OwnedChunk>,
    /// Under `base`, the chunk that this move has freed and not withdrawn yet.
    pub freed: Option<ChunkAddress>,
    /// The time at which a chunk was last emptied.
    pub progress_at: Ticks,
    pub start: Start,
}

/// The time and the counters at the start of a move, from which its record is computed.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// The time of the first step.
    pub nanos: Option<u64>,
    pub gets: u64,
    /// The number of used chunks on the page.
    pub chunks: u32,
    /// The mover's counter of carried items.
    pub rescued: u64,
    /// The mover's counter of evicted items.
    pub evicted: u64,
}

impl Job {
    /// Frees the reserved chunks that were not used.
    pub fn return_spares(&mut self, space: &Space) {
        self.spares.drain(..).for_each(|chunk| space.give_free(chunk));
    }
}

/// A step of a page's move.
pub struct Pass<'p> {
    pub space: &'p Space,
    pub token: &'p mut MoverToken,
    pub job: &'p mut Job,
    pub counters: &'p mut MoverCounters,
    pub now: Now,
}

/// The use of a chunk of the page.
pub enum ChunkUse {
    Free,
    /// Its item can be carried now.
    Carriable,
    /// It cannot be emptied now.
    Busy(Busy),
}

impl Pass<'_> {
    /// Returns the chunk to visit next; `None` at the end of a pass.
    pub fn next_chunk(&mut self) -> Option<ChunkAddress> {
        let job = &mut *self.job;
        if job.slot < job.slot_end {
            job.slot += 1;
            let memory = &self.space.memory;
            return Some(memory.chunk_at(job.page, job.slot - 1, job.chunk_size_bytes));
        }
        job.todo.pop()
    }

    fn carries_pinned(&self, state: State) -> bool {
        self.job.order.kind.carries_pinned(state)
    }

    pub fn state_of(&self, address: ChunkAddress) -> State {
        let class = self.space.class(self.job.order.victim).lock();
        class.pages.token.state_of(address).unwrap_or(State::FREE)
    }

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
            ChunkUse::Busy(Busy::Held)
        } else {
            ChunkUse::Busy(Busy::Unlinked)
        }
    }

    /// Keeps in a batch of chunks of a locked class those that can be carried now. Busy ones are visited again in
    /// the next pass.
    pub fn keep_carriable(&mut self, batch: &mut Vec<ChunkAddress>, class: &ClassState) {
        batch.retain(|&address| match self.use_of(address, class) {
            ChunkUse::Free => false,
            ChunkUse::Carriable => true,
            ChunkUse::Busy(why) => {
                self.counters.note_busy(why);
                self.job.held.push(address);
                false
            }
        });
    }

    /// Records the outcome of a visit. A busy chunk is visited again in the next pass.
    pub fn note(&mut self, outcome: Result<(), Busy>, address: ChunkAddress) {
        match outcome {
            Ok(()) => self.progress(),
            Err(why) => {
                self.counters.note_busy(why);
                self.job.held.push(address);
            }
        }
    }

    /// Records that the move makes progress.
    pub fn progress(&mut self) {
        self.job.progress_at = self.now.ticks;
    }

    /// Reserves a victim's chunk for the items to carry, unless it is on a page that drains.
    pub fn keep_as_spare(&mut self, chunk: OwnedChunk) {
        let page = self.space.memory.page_of(chunk.address());
        if self.space.memory.page(page).state() == PageState::Owned {
            self.job.spares.push(chunk);
        } else {
            self.space.give_free(chunk);
        }
    }

    /// Carries the contents of a chunk to the last reserved one.
    pub fn carry_one(&mut self, address: ChunkAddress) -> Result<(), Busy> {
        let carried = match self.state_of(address).kind() {
            ChunkKind::Free => Some(ChunkKind::Free),
            ChunkKind::Item => self.move_item(address),
            ChunkKind::Body => self.move_body(address),
        };
        match carried {
            Some(ChunkKind::Body) => self.counters.bodies_rescued += 1,
            Some(ChunkKind::Item) => self.counters.rescued += 1,
            Some(ChunkKind::Free) => {}
            None => return Err(Busy::Held),
        }
        match self.state_of(address).kind() {
            ChunkKind::Free => Ok(()),
            // A reader that pins the item still uses the old chunk.
            _ => {
                self.progress();
                Err(Busy::Unlinked)
            }
        }
    }

    /// Drops the item that the chunk belongs to, if eviction is enabled. Returns an error even then, so that the
    /// chunk is visited again and found free.
    pub fn drop_for_move(&mut self, address: ChunkAddress) -> Result<(), Busy> {
        if !self.space.config.eviction_enabled {
            return Err(Busy::NoRoom);
        }
        let pin = match self.pin_holder(address) {
            HeadPin::Pinned(pin) => pin,
            HeadPin::Held => return Err(Busy::Held),
            HeadPin::NoBody => return Ok(()),
        };
        let is_dropped = self.drop_pinned(&pin);
        self.space.unpin(pin);
        if !is_dropped {
            return Err(Busy::Held);
        }
        self.counters.evicted += 1;
        self.progress();
        Err(Busy::NoRoom)
    }

    /// Carries an item to the last reserved chunk. `None`: the item is pinned.
    fn move_item(&mut self, old: ChunkAddress) -> Option<ChunkKind> {
        let pin = self.pin_queued(old, |state| self.carries_pinned(state))?;
        let carried = self.carry_pinned_item(&pin);
        self.space.unpin(pin);
        carried
    }

    /// Pins a queued item that is unpinned, or whose pins `may_share` accepts.
    fn pin_queued(&self, item: ChunkAddress, may_share: impl Fn(State) -> bool) -> Option<Pin> {
        let class = self.space.class(self.job.order.victim).lock();
        let state = class.pages.token.state_of(item)?;
        let may_pin = state.pins() == 0 || may_share(state);
        // A linked item cannot be freed under this lock, so the pin is valid.
        if !state.queued() || !may_pin { None } else { class.pages.token.pin_at(item) }
    }

    /// Carries an item that the mover pins to the last reserved chunk. `None`: it is also pinned by another thread,
    /// or was unlinked.
    fn carry_pinned_item(&mut self, pin: &Pin) -> Option<ChunkKind> {
        let item = pin.item(&self.space.memory);
        let (hash, queue_class) = (self.space.hash_of(item), item.queue_class());
        let stripe = self.space.index.lock(hash);
        let mut entry = Entry::find_address(stripe, hash, pin.address()).ok()?;
        let class = self.space.class(queue_class);
        let to = self.job.spares.last().expect("a chunk is reserved").class();
        if queue_class == CHAINED || to == queue_class {
            self.carry_within(pin, &mut entry, class)
        } else {
            self.carry_across(pin, &mut entry, class)
        }
    }

    /// True if only the mover pins the item, or if its kind carries pinned items.
    fn may_carry(&self, pin: &Pin, entry: &mut Entry<'_>) -> bool {
        entry.value_access(Some(pin)).is_some() || self.carries_pinned(entry.item().state())
    }

    /// Carries an item to the last reserved chunk, which is of another class.
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
                self.job.spares.push(copy.into_chunk());
                self.space.unpin(queue_pin);
                return None;
            }
        };
        successor.lock().enqueue_carried(entry.entered(), state.queue());
        let remains = removed.unlink(&self.space.memory);
        debug_assert!(remains.is_none(), "the mover still pins the item");
        self.space.unpin(queue_pin);
        Some(ChunkKind::Item)
    }

    /// Carries an item to the last reserved chunk, which is of its class, and keeps its place in the queue. `None`:
    /// it is also pinned by another thread, or was unlinked.
    pub fn carry_within(
        &mut self,
        pin: &Pin,
        entry: &mut Entry<'_>,
        class: &Class,
    ) -> Option<ChunkKind> {
        if !self.may_carry(pin, entry) {
            return None;
        }
        // The item cannot change under its stripe's lock.
        let copy = self.copy_out(entry)?;
        let mut class = class.lock();
        let may_carry = entry.item().state().queued() && self.may_carry(pin, entry);
        let carried = if may_carry { entry.carry_to(copy, pin, self.token) } else { Err(copy) };
        match carried {
            Ok(removed) => {
                let remains = class.replace(removed, entry.entered());
                debug_assert!(remains.is_none(), "the mover still pins the item");
                Some(ChunkKind::Item)
            }
            Err(copy) => {
                self.job.spares.push(copy.into_chunk());
                None
            }
        }
    }

    /// Copies an item to the last reserved chunk. `None`: it does not fit, because the item was replaced since the
    /// chunk was reserved.
    fn copy_out(&mut self, entry: &Entry<'_>) -> Option<Copied> {
        let spare = self.job.spares.pop().expect("a chunk is reserved");
        entry.copy_to(spare).map_err(|spare| self.job.spares.push(spare)).ok()
    }

    /// Carries a body of a chained item to the last reserved chunk.
    fn move_body(&mut self, old: ChunkAddress) -> Option<ChunkKind> {
        let pin = match self.pin_head_of(old) {
            HeadPin::Pinned(pin) => pin,
            HeadPin::Held => return None,
            HeadPin::NoBody => return Some(ChunkKind::Free),
        };
        let carried = self.carry_body_of_pinned(&pin, old);
        self.space.unpin(pin);
        carried
    }

    /// Pins the item that a body belongs to, if it is unpinned.
    fn pin_head_of(&self, body: ChunkAddress) -> HeadPin {
        let class = self.space.class(self.job.order.victim).lock();
        class.pages.token.pin_head_of(body, self.token)
    }

    /// Pins the item that a chunk holds, or holds a part of, if it is unpinned.
    pub fn pin_holder(&self, chunk: ChunkAddress) -> HeadPin {
        match self.state_of(chunk).kind() {
            ChunkKind::Free => HeadPin::NoBody,
            ChunkKind::Item => {
                self.pin_queued(chunk, |_| false).map_or(HeadPin::Held, HeadPin::Pinned)
            }
            ChunkKind::Body => self.pin_head_of(chunk),
        }
    }

    /// Drops an item that the mover pins. Returns false if another thread pins it, too.
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
            info.count(&mut class);
            info.into_victim(class.detach_pinned(pin), now)
        };
        let chunk = space.finish_eviction(victim, hash, queue_class);
        debug_assert!(chunk.is_none(), "the mover still pins the item");
        true
    }

    fn carry_body_of_pinned(&mut self, pin: &Pin, old: ChunkAddress) -> Option<ChunkKind> {
        let hash = self.space.hash_of(pin.item(&self.space.memory));
        let stripe = self.space.index.lock(hash);
        let mut entry = Entry::find_address(stripe, hash, pin.address()).ok()?;
        let spare = self.job.spares.pop().expect("a chunk is reserved");
        match entry.carry_body(old, spare, pin, self.token) {
            Ok(emptied) => {
                self.space.give_free(emptied);
                Some(ChunkKind::Body)
            }
            Err(spare) => {
                self.job.spares.push(spare);
                None
            }
        }
    }
}
