//! Carrying one chunk's contents to another page.
//!
//! The item is pinned under its class's lock, then its stripe is locked; while that is held nobody writes
//! its bytes, so they are copied, and every link to the old chunk is turned to the new one. With one pin,
//! the mover's, nobody reads its chain either, which can be changed. An item that is dropped is detached as
//! an eviction does it.

use super::Job;
use crate::class::{CHAINED, ClassState};
use crate::engine::Engine;
use crate::index::{Slot, StripeGuard};
use crate::mem::{ChunkAddress, Kind, OwnedChunk, Pin, ReadProof, State};
use slabwise_base::Now;
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
pub(super) struct Copied {
    /// The item's entry.
    slot: Slot,
    chunk: OwnedChunk,
}

/// What became of an item that was to be dropped.
pub(super) enum Dropped {
    Item,
    Nothing,
    Held,
}

impl Engine {
    /// Carries an item to a spare chunk. `None`: somebody holds it. `Some`: what was carried.
    pub(super) fn move_item(&self, job: &mut Job, old: ChunkAddress) -> Option<Kind> {
        let pin = self.pin_queued(old, |state| job.carries_pinned(state))?;
        let carried = self.carry_pinned_item(job, &pin);
        self.unpin(pin);
        carried
    }

    /// Pins a queued item that nobody else holds, or that may be `shared`; `None`: there is none here, or it
    /// is held.
    pub(super) fn pin_queued(
        &self,
        item: ChunkAddress,
        shared: impl Fn(State) -> bool,
    ) -> Option<Pin> {
        // Under the class's lock a queued item cannot be freed, so the pin finds it alive.
        let queue_class = self.queue_class(item);
        let _class = self.class(queue_class).lock();
        let state = self.memory.header(item).state().load();
        let locked_the_right_one = self.queue_class(item) == queue_class;
        let free_for_it = state.pins() == 0 || shared(state);
        if !locked_the_right_one || !state.queued() || !free_for_it {
            return None;
        }
        self.memory.arena.try_pin(item)
    }

    /// Carries an item that the mover pins to a spare chunk; `None`: somebody else holds it, or it has ended.
    pub(super) fn carry_pinned_item(&self, job: &mut Job, pin: &Pin) -> Option<Kind> {
        let hash = self.hash_of(pin.address(), ReadProof::under_pin(pin));
        let mut stripe = self.index.lock(hash);
        let queue_class = self.queue_class(pin.address());
        let to = self.memory.class_of(job.spares.last().expect("room was made before").address());
        if queue_class == CHAINED || to == queue_class {
            let copy = self.copy_out(job, pin, hash, &stripe)?;
            let mut class = self.class(queue_class).lock();
            return self.take_place(job, pin, copy, &mut stripe, &mut class);
        }
        let class = self.class(queue_class).lock();
        self.carry_across(job, pin, hash, &mut stripe, class)
    }

    /// The same to another class, of which the last spare is.
    fn carry_across(
        &self,
        job: &mut Job,
        pin: &Pin,
        hash: u64,
        stripe: &mut StripeGuard<'_>,
        mut class: MutexGuard<'_, ClassState>,
    ) -> Option<Kind> {
        let (memory, old) = (&self.memory, pin.address());
        let (slot, _) = stripe.find(hash, |candidate| candidate == old)?;
        let state = memory.header(old).state().load();
        let held = memory.arena.value_right(old, 1, stripe).is_none();
        if !state.queued() || (held && !job.carries_pinned(state)) {
            return None;
        }
        let mut chunk = self.pop_fitting(&mut job.spares, old)?;
        let new = chunk.address();
        let left = class.detach(memory, old);
        drop(class);
        memory.copy_contents(old, &mut chunk, ReadProof::under_stripe(stripe));
        memory.arena.set_state(&mut chunk, state.moved());
        let heir = self.class(memory.class_of(new));
        heir.lock().enqueue_carried(memory, chunk, state.queue());
        stripe.replace(slot, new);
        let owned = memory.arena.unlink(old);
        debug_assert!(owned.is_none(), "the mover's pins are still there");
        self.unpin(left);
        Some(Kind::Item)
    }

    /// Copies an item to the last spare. The stripe is enough for that: nobody writes the item meanwhile.
    pub(super) fn copy_out(
        &self,
        job: &mut Job,
        pin: &Pin,
        hash: u64,
        stripe: &StripeGuard<'_>,
    ) -> Option<Copied> {
        let (memory, old) = (&self.memory, pin.address());
        let (slot, _) = stripe.find(hash, |candidate| candidate == old)?;
        let held = memory.arena.value_right(old, 1, stripe).is_none();
        if held && !job.carries_pinned(memory.header(old).state().load()) {
            return None;
        }
        let mut chunk = self.pop_fitting(&mut job.spares, old)?;
        memory.copy_contents(old, &mut chunk, ReadProof::under_stripe(stripe));
        Some(Copied { slot, chunk })
    }

    /// Lets a copy take the item's place in index and queue, whose class is locked; `None`: somebody holds the
    /// item by now, or takes it away, and the chunk is spare again.
    pub(super) fn take_place(
        &self,
        job: &mut Job,
        pin: &Pin,
        Copied { slot, mut chunk }: Copied,
        stripe: &mut StripeGuard<'_>,
        class: &mut ClassState,
    ) -> Option<Kind> {
        let (memory, old, new) = (&self.memory, pin.address(), chunk.address());
        let state = memory.header(old).state().load();
        let right = memory.arena.value_right(old, 1, stripe);
        if !state.queued() || (right.is_none() && !job.carries_pinned(state)) {
            job.spares.push(chunk);
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
    fn pop_fitting(&self, spares: &mut Vec<OwnedChunk>, old: ChunkAddress) -> Option<OwnedChunk> {
        let spare = spares.last().expect("room was made before");
        let fits = self.memory.size_in_use_bytes(old) <= self.chunk_size_of(spare);
        fits.then(|| spares.pop()).flatten()
    }

    /// Carries a body of a chained item to the spare chunk.
    pub(super) fn move_body(&self, job: &mut Job, old: ChunkAddress) -> Option<Kind> {
        let pin = match self.pin_head_of(job, old) {
            Head::Pinned(pin) => pin,
            Head::Held => return None,
            Head::NoBody => return Some(Kind::Free),
        };
        let carried = self.carry_body_of_pinned(job, &pin, old);
        self.unpin(pin);
        carried
    }

    /// Pins the item that a body belongs to, if nobody else holds it.
    fn pin_head_of(&self, job: &Job, body: ChunkAddress) -> Head {
        // While the body is in use its head is too: a head is freed after its bodies.
        let _class = self.class(job.order.victim).lock();
        if self.memory.header(body).state().load().kind() != Kind::Body {
            return Head::NoBody;
        }
        let Some(head) = self.memory.header(body).prev() else { return Head::Held };
        if self.memory.header(head).state().load().pins() > 0 {
            return Head::Held;
        }
        self.memory.arena.try_pin(head).map_or(Head::Held, Head::Pinned)
    }

    /// The same where it does not matter why there is no pin.
    pub(super) fn pin_head_alone(&self, job: &Job, body: ChunkAddress) -> Option<Pin> {
        match self.pin_head_of(job, body) {
            Head::Pinned(pin) => Some(pin),
            Head::Held | Head::NoBody => None,
        }
    }

    /// Drops the item that a chunk holds, or holds a part of.
    pub(super) fn drop_holder(&self, job: &Job, chunk: ChunkAddress, now: Now) -> Dropped {
        let pin = match self.memory.header(chunk).state().load().kind() {
            Kind::Free => return Dropped::Nothing,
            Kind::Item => match self.pin_queued(chunk, |_| false) {
                Some(pin) => pin,
                None => return Dropped::Held,
            },
            Kind::Body => match self.pin_head_of(job, chunk) {
                Head::Pinned(pin) => pin,
                Head::Held => return Dropped::Held,
                Head::NoBody => return Dropped::Nothing,
            },
        };
        let dropped = self.drop_pinned(&pin, now);
        self.unpin(pin);
        dropped
    }

    /// Drops an item that the mover pins, if nobody else does.
    pub(super) fn drop_pinned(&self, pin: &Pin, now: Now) -> Dropped {
        let head = pin.address();
        let (detached, wanted, ended) = {
            let mut class = self.class(self.queue_class(head)).lock();
            let state = self.memory.header(head).state().load();
            if !state.queued() || state.pins() != 1 {
                return Dropped::Held;
            }
            let ended = self.count_eviction(&mut class, head, now);
            let wanted = self.wanted_eviction(&class, head, now);
            (class.detach(&self.memory, head), wanted, ended)
        };
        if let Some(expiry) = wanted {
            self.show_eviction(&detached, expiry, now);
        }
        self.remove_detached(&detached, ended);
        self.unpin(detached);
        Dropped::Item
    }

    fn carry_body_of_pinned(&self, job: &mut Job, pin: &Pin, old: ChunkAddress) -> Option<Kind> {
        let (memory, head) = (&self.memory, pin.address());
        let hash = self.hash_of(head, ReadProof::under_pin(pin));
        let stripe = self.index.lock(hash);
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
        let mut chunk = self.pop_fitting(&mut job.spares, old)?;
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
        self.give_free(memory.arena.claim_bypassed(old, &right));
        Some(Kind::Body)
    }
}
