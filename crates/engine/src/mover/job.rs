//! One page's move while it is under way: the job, a pass over its chunks, and what a kind of mover decides.
//!
//! The three know each other: a job names its kind, a kind is given a pass, and a pass is a step of the job.
//!
//! # Carrying one chunk's contents to another page
//!
//! The item is pinned under its class's lock, then its stripe is locked; while that is held nobody writes
//! its bytes, so they are copied, and every link to the old chunk is turned to the new one. With one pin,
//! the mover's, nobody reads its chain either, which can be changed. An item that is dropped is detached as
//! an eviction does it.

use crate::class::{CHAINED, Class, ClassState};
use crate::layout::ChunkAddress;
use crate::mem::{
    Copied, Entry, HeadPin, Kind as ChunkKind, MoverToken, OwnedChunk, Page, PageState, Pin, State,
    UnusedPage,
};
use crate::space::Space;
use crate::stats::{Busy, MoverCounters};
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
        class.pages.token.state_of(address).unwrap_or(State::FREE)
    }

    pub fn meet(&self, address: ChunkAddress, class: &ClassState) -> Met {
        let token = &class.pages.token;
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

    /// Carries what is in a chunk to the spare one.
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
            // A reader that pins the item keeps the old chunk.
            _ => {
                self.progress();
                Err(Busy::Unlinked)
            }
        }
    }

    /// Drops the item that the chunk belongs to, and comes again to see the chunk free. Where eviction is off
    /// nothing is lost.
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

    /// Carries an item to a spare chunk. `None`: somebody holds it. `Some`: what was carried.
    fn move_item(&mut self, old: ChunkAddress) -> Option<ChunkKind> {
        let pin = self.pin_queued(old, |state| self.carries_pinned(state))?;
        let carried = self.carry_pinned_item(&pin);
        self.space.unpin(pin);
        carried
    }

    /// Pins a queued item that nobody else holds, or that may be `shared`.
    fn pin_queued(&self, item: ChunkAddress, shared: impl Fn(State) -> bool) -> Option<Pin> {
        let class = self.space.class(self.job.order.victim).lock();
        let state = class.pages.token.state_of(item)?;
        let is_free_for_it = state.pins() == 0 || shared(state);
        // Under this lock a linked item cannot be freed, so the pin finds it alive.
        if !state.queued() || !is_free_for_it { None } else { class.pages.token.pin_at(item) }
    }

    /// Carries an item that the mover pins to a spare chunk; `None`: somebody else holds it, or it has ended.
    fn carry_pinned_item(&mut self, pin: &Pin) -> Option<ChunkKind> {
        let item = pin.item(&self.space.memory);
        let (hash, queue_class) = (self.space.hash_of(item), item.queue_class());
        let stripe = self.space.index.lock(hash);
        let mut entry = Entry::find_address(stripe, hash, pin.address()).ok()?;
        let class = self.space.class(queue_class);
        let to = self.job.spares.last().expect("room was made before").class();
        if queue_class == CHAINED || to == queue_class {
            self.carry_within(pin, &mut entry, class)
        } else {
            self.carry_across(pin, &mut entry, class)
        }
    }

    /// Whether an item may be carried now: no one but the mover pins it, or that does not matter.
    fn may_carry(&self, pin: &Pin, entry: &mut Entry<'_>) -> bool {
        entry.value_right(Some(pin)).is_some() || self.carries_pinned(entry.item().state())
    }

    /// Carries an item to the last spare, which is of another class.
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
        let left = class.detach_pinned(pin);
        drop(class);
        let successor = self.space.class(copy.chunk().class());
        let removed = match entry.carry_to(copy, pin, self.token) {
            Ok(removed) => removed,
            Err(copy) => {
                self.job.spares.push(copy.into_chunk());
                self.space.unpin(left);
                return None;
            }
        };
        successor.lock().enqueue_carried(entry.entered(), state.queue());
        let remains = removed.unlink(&self.space.memory);
        debug_assert!(remains.is_none(), "the mover's pins are still there");
        self.space.unpin(left);
        Some(ChunkKind::Item)
    }

    /// Carries an item to the last spare, which is of its class, where it takes its old place. `None`: somebody
    /// holds it, or takes it away.
    pub fn carry_within(
        &mut self,
        pin: &Pin,
        entry: &mut Entry<'_>,
        class: &Class,
    ) -> Option<ChunkKind> {
        if !self.may_carry(pin, entry) {
            return None;
        }
        // The stripe is enough to copy it: nobody writes the item meanwhile.
        let copy = self.copy_out(entry)?;
        let mut class = class.lock();
        let may_carry = entry.item().state().queued() && self.may_carry(pin, entry);
        let carried = if may_carry { entry.carry_to(copy, pin, self.token) } else { Err(copy) };
        match carried {
            Ok(removed) => {
                let remains = class.replace(removed, entry.entered());
                debug_assert!(remains.is_none(), "the mover's pin is still there");
                Some(ChunkKind::Item)
            }
            Err(copy) => {
                self.job.spares.push(copy.into_chunk());
                None
            }
        }
    }

    /// Copies an item to the last spare. `None`: it does not fit it, and is not what room was made for.
    fn copy_out(&mut self, entry: &Entry<'_>) -> Option<Copied> {
        let spare = self.job.spares.pop().expect("room was made before");
        entry.copy_to(spare).map_err(|spare| self.job.spares.push(spare)).ok()
    }

    /// Carries a body of a chained item to the spare chunk.
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

    /// Pins the item that a body belongs to, if nobody else holds it.
    fn pin_head_of(&self, body: ChunkAddress) -> HeadPin {
        let class = self.space.class(self.job.order.victim).lock();
        class.pages.token.pin_head_of(body, self.token)
    }

    /// Pins the item that a chunk holds, or holds a part of, if nobody else holds it.
    pub fn pin_holder(&self, chunk: ChunkAddress) -> HeadPin {
        match self.state_of(chunk).kind() {
            ChunkKind::Free => HeadPin::NoBody,
            ChunkKind::Item => {
                self.pin_queued(chunk, |_| false).map_or(HeadPin::Held, HeadPin::Pinned)
            }
            ChunkKind::Body => self.pin_head_of(chunk),
        }
    }

    /// Drops an item that the mover pins. False: somebody else holds it.
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
            let leaving = space.leaving(item, now);
            leaving.count(&mut class);
            leaving.out(class.detach_pinned(pin), now)
        };
        let chunk = space.finish_eviction(victim, hash, queue_class);
        debug_assert!(chunk.is_none(), "the mover's pin is still there");
        true
    }

    fn carry_body_of_pinned(&mut self, pin: &Pin, old: ChunkAddress) -> Option<ChunkKind> {
        let hash = self.space.hash_of(pin.item(&self.space.memory));
        let stripe = self.space.index.lock(hash);
        let mut entry = Entry::find_address(stripe, hash, pin.address()).ok()?;
        let spare = self.job.spares.pop().expect("room was made before");
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
