//! Carrying one chunk's contents to another page.
//!
//! The item is pinned under its class's lock, then its stripe is locked; while that is held nobody writes
//! its bytes, so they are copied, and every link to the old chunk is turned to the new one. With one pin,
//! the mover's, nobody reads its chain either, which can be changed. An item that is dropped is detached as
//! an eviction does it.

use super::job::Pass;
use crate::class::{CHAINED, ClassState};
use crate::counters::Busy;
use crate::layout::ChunkAddress;
use crate::mem::{Kind, OwnedChunk, Pin, ReadProof, State};
use crate::mem::{Slot, StripeGuard};
use slabwise_base::sync::MutexGuard;

/// The item that a body belongs to.
enum Head {
    /// Pinned by the mover alone.
    Pinned(Pin),
    /// Somebody holds it, or it is being written.
    Held,
    /// The chunk is no body any more.
    NoBody,
}

/// A copy of an item that does not stand for it yet.
pub struct Copied {
    /// The item's entry.
    slot: Slot,
    chunk: OwnedChunk,
}

/// What became of an item that was to be dropped.
pub enum Dropped {
    Item,
    Nothing,
    Held,
}

impl Pass<'_> {
    /// Carries what is in a chunk to the spare one.
    pub fn carry_one(&mut self, address: ChunkAddress) -> Result<(), Busy> {
        let carried = match self.space.memory.header(address).state().load().kind() {
            Kind::Free => Some(Kind::Free),
            Kind::Item => self.move_item(address),
            Kind::Body => self.move_body(address),
        };
        match carried {
            Some(Kind::Body) => self.counters.bodies_rescued += 1,
            Some(Kind::Item) => self.counters.rescued += 1,
            Some(Kind::Free) => {}
            None => return Err(Busy::Held),
        }
        match self.space.memory.header(address).state().load().kind() {
            Kind::Free => Ok(()),
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
        match self.drop_holder(address) {
            Dropped::Item => {
                self.counters.evicted += 1;
                self.progress();
                Err(Busy::NoRoom)
            }
            Dropped::Nothing => Ok(()),
            Dropped::Held => Err(Busy::Held),
        }
    }

    /// Carries an item to a spare chunk. `None`: somebody holds it. `Some`: what was carried.
    fn move_item(&mut self, old: ChunkAddress) -> Option<Kind> {
        let pin = self.pin_queued(old, |state| self.job.carries_pinned(state))?;
        let carried = self.carry_pinned_item(&pin);
        self.space.unpin(pin);
        carried
    }

    /// Pins a queued item that nobody else holds; `None`: there is none here, or it is held.
    pub fn pin_unheld(&self, item: ChunkAddress) -> Option<Pin> {
        self.pin_queued(item, |_| false)
    }

    /// Pins a queued item that nobody else holds, or that may be `shared`.
    fn pin_queued(&self, item: ChunkAddress, shared: impl Fn(State) -> bool) -> Option<Pin> {
        // Under the class's lock a queued item cannot be freed, so the pin finds it alive.
        let queue_class = self.space.queue_class(item);
        let _class = self.space.class(queue_class).lock();
        let state = self.space.memory.header(item).state().load();
        let locked_the_right_one = self.space.queue_class(item) == queue_class;
        let free_for_it = state.pins() == 0 || shared(state);
        if !locked_the_right_one || !state.queued() || !free_for_it {
            return None;
        }
        self.space.memory.arena.try_pin(item)
    }

    /// Carries an item that the mover pins to a spare chunk; `None`: somebody else holds it, or it has ended.
    fn carry_pinned_item(&mut self, pin: &Pin) -> Option<Kind> {
        let hash = self.space.hash_of(pin.address(), ReadProof::under_pin(pin));
        let mut stripe = self.space.index.lock(hash);
        let queue_class = self.space.queue_class(pin.address());
        let to = self
            .space
            .memory
            .class_of(self.job.spares.last().expect("room was made before").address());
        if queue_class == CHAINED || to == queue_class {
            let copy = self.copy_out(pin, hash, &stripe)?;
            let mut class = self.space.class(queue_class).lock();
            return self.take_place(pin, copy, &mut stripe, &mut class);
        }
        let class = self.space.class(queue_class).lock();
        self.carry_across(pin, hash, &mut stripe, class)
    }

    /// Carries an item to the last spare, which is of another class.
    fn carry_across(
        &mut self,
        pin: &Pin,
        hash: u64,
        stripe: &mut StripeGuard<'_>,
        mut class: MutexGuard<'_, ClassState>,
    ) -> Option<Kind> {
        let (memory, old) = (&self.space.memory, pin.address());
        let (slot, _) = stripe.find(hash, |candidate| candidate == old)?;
        let state = memory.header(old).state().load();
        let held = memory.arena.value_right(old, 1, stripe).is_none();
        if !state.queued() || (held && !self.job.carries_pinned(state)) {
            return None;
        }
        let mut chunk = self.pop_fitting(old)?;
        let new = chunk.address();
        let left = class.detach(memory, old);
        drop(class);
        memory.copy_contents(old, &mut chunk, ReadProof::under_stripe(stripe));
        memory.arena.set_state(&mut chunk, state.moved());
        let successor = self.space.class(memory.class_of(new));
        successor.lock().enqueue_carried(memory, chunk, state.queue());
        stripe.replace(slot, new);
        let owned = memory.arena.unlink(old);
        debug_assert!(owned.is_none(), "the mover's pins are still there");
        self.space.unpin(left);
        Some(Kind::Item)
    }

    /// Copies an item to the last spare. The stripe is enough for that: nobody writes the item meanwhile.
    pub fn copy_out(&mut self, pin: &Pin, hash: u64, stripe: &StripeGuard<'_>) -> Option<Copied> {
        let (memory, old) = (&self.space.memory, pin.address());
        let (slot, _) = stripe.find(hash, |candidate| candidate == old)?;
        let held = memory.arena.value_right(old, 1, stripe).is_none();
        if held && !self.job.carries_pinned(memory.header(old).state().load()) {
            return None;
        }
        let mut chunk = self.pop_fitting(old)?;
        memory.copy_contents(old, &mut chunk, ReadProof::under_stripe(stripe));
        Some(Copied { slot, chunk })
    }

    /// Lets a copy take the item's place in index and queue, whose class is locked; `None`: somebody holds the
    /// item by now, or takes it away, and the chunk is spare again.
    pub fn take_place(
        &mut self,
        pin: &Pin,
        Copied { slot, mut chunk }: Copied,
        stripe: &mut StripeGuard<'_>,
        class: &mut ClassState,
    ) -> Option<Kind> {
        let (memory, old, new) = (&self.space.memory, pin.address(), chunk.address());
        let state = memory.header(old).state().load();
        let right = memory.arena.value_right(old, 1, stripe);
        if !state.queued() || (right.is_none() && !self.job.carries_pinned(state)) {
            self.job.spares.push(chunk);
            return None;
        }
        debug_assert!(
            state.chained() || memory.class_of(new) == class.id(),
            "an item is queued in the class of its chunk"
        );
        memory.arena.set_state(&mut chunk, state.moved());
        let proof = ReadProof::under_stripe(stripe);
        let mut body = memory.first_body(old, proof);
        while let Some(address) = body {
            memory.header(address).set_prev(Some(new));
            body = memory.header(address).next();
        }
        class.replace(memory, old, chunk);
        if let Some(right) = right.filter(|_| state.chained()) {
            memory.set_first_body(&right, None);
        }
        stripe.replace(slot, new);
        let owned = memory.arena.unlink(old);
        debug_assert!(owned.is_none(), "the mover's pin is still there");
        Some(Kind::Item)
    }

    /// The last spare. `None`: what is to be carried does not fit it, and is not what room was made for.
    fn pop_fitting(&mut self, old: ChunkAddress) -> Option<OwnedChunk> {
        let spare = self.job.spares.last().expect("room was made before");
        let fits = self.space.memory.size_in_use_bytes(old) <= self.space.chunk_size_of(spare);
        fits.then(|| self.job.spares.pop()).flatten()
    }

    /// Carries a body of a chained item to the spare chunk.
    fn move_body(&mut self, old: ChunkAddress) -> Option<Kind> {
        let pin = match self.pin_head_of(old) {
            Head::Pinned(pin) => pin,
            Head::Held => return None,
            Head::NoBody => return Some(Kind::Free),
        };
        let carried = self.carry_body_of_pinned(&pin, old);
        self.space.unpin(pin);
        carried
    }

    /// Pins the item that a body belongs to, if nobody else holds it.
    fn pin_head_of(&self, body: ChunkAddress) -> Head {
        // While the body is in use its head is too: a head is freed after its bodies.
        let _class = self.space.class(self.job.order.victim).lock();
        if self.space.memory.header(body).state().load().kind() != Kind::Body {
            return Head::NoBody;
        }
        let Some(head) = self.space.memory.header(body).prev() else { return Head::Held };
        if self.space.memory.header(head).state().load().pins() > 0 {
            return Head::Held;
        }
        self.space.memory.arena.try_pin(head).map_or(Head::Held, Head::Pinned)
    }

    /// Pins the item that a body belongs to; `None`: somebody holds it, or the chunk is no body any more.
    pub fn pin_head_alone(&self, body: ChunkAddress) -> Option<Pin> {
        match self.pin_head_of(body) {
            Head::Pinned(pin) => Some(pin),
            Head::Held | Head::NoBody => None,
        }
    }

    /// Drops the item that a chunk holds, or holds a part of.
    pub fn drop_holder(&self, chunk: ChunkAddress) -> Dropped {
        let pin = match self.space.memory.header(chunk).state().load().kind() {
            Kind::Free => return Dropped::Nothing,
            Kind::Item => match self.pin_unheld(chunk) {
                Some(pin) => pin,
                None => return Dropped::Held,
            },
            Kind::Body => match self.pin_head_of(chunk) {
                Head::Pinned(pin) => pin,
                Head::Held => return Dropped::Held,
                Head::NoBody => return Dropped::Nothing,
            },
        };
        let dropped = self.drop_pinned(&pin);
        self.space.unpin(pin);
        dropped
    }

    /// Drops an item that the mover pins, if nobody else does.
    pub fn drop_pinned(&self, pin: &Pin) -> Dropped {
        let head = pin.address();
        let (detached, wanted, ended) = {
            let mut class = self.space.class(self.space.queue_class(head)).lock();
            let state = self.space.memory.header(head).state().load();
            if !state.queued() || state.pins() != 1 {
                return Dropped::Held;
            }
            let ended = self.space.count_eviction(&mut class, head, self.now);
            let wanted = self.space.wanted_eviction(&class, head, self.now);
            (class.detach(&self.space.memory, head), wanted, ended)
        };
        if let Some(expiry) = wanted {
            self.space.show_eviction(&detached, expiry, self.now);
        }
        self.space.remove_detached(&detached, ended);
        self.space.unpin(detached);
        Dropped::Item
    }

    fn carry_body_of_pinned(&mut self, pin: &Pin, old: ChunkAddress) -> Option<Kind> {
        let (memory, head) = (&self.space.memory, pin.address());
        let hash = self.space.hash_of(head, ReadProof::under_pin(pin));
        let stripe = self.space.index.lock(hash);
        stripe.find(hash, |candidate| candidate == head)?;
        let right = memory.arena.value_right(head, 1, &stripe)?;
        let proof = ReadProof::under_stripe(&stripe);
        let first = memory.first_body(head, proof);
        let mut chain = std::iter::successors(first, |&body| memory.header(body).next());
        let before = if first == Some(old) {
            None
        } else {
            Some(chain.find(|&body| memory.header(body).next() == Some(old))?)
        };
        let mut chunk = self.pop_fitting(old)?;
        memory.copy_contents(old, &mut chunk, proof);
        let header = memory.header(chunk.address());
        header.set_prev(Some(head));
        header.set_next(memory.header(old).next());
        memory.arena.set_state(&mut chunk, memory.header(old).state().load());
        let new = Some(chunk.surrender());
        match before {
            Some(body) => memory.header(body).set_next(new),
            None => memory.set_first_body(&right, new),
        }
        self.space.give_free(memory.arena.claim_bypassed(old, &right));
        Some(Kind::Body)
    }
}
