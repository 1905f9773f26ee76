//! Carrying one chunk's contents to another page.
//!
//! The item is pinned under its class's lock, then its stripe is locked; with one pin, the mover's, and
//! the stripe held, nobody reads its bytes or its chain, so they are copied and every link to the old
//! chunk is turned to the new one. An item that is dropped is detached as an eviction does it.

use super::Job;
use crate::engine::Engine;
use crate::mem::{ChunkAddress, Kind, OwnedChunk, ReadProof};

/// The item that a body belongs to.
enum Head {
    /// Pinned by the mover alone.
    Pinned(ChunkAddress),
    /// Somebody holds it, or it is being written.
    Held,
    /// The chunk is no body any more.
    NoBody,
}

/// What became of an item that was to be dropped.
pub(super) enum Dropped {
    Item,
    Nothing,
    Held,
}

impl Engine {
    /// Carries an item to the spare chunk. `None`: somebody holds it. `Some`: what was carried.
    pub(super) fn move_item(&self, job: &mut Job, old: ChunkAddress) -> Option<Kind> {
        if !self.pin_alone(old) {
            return None;
        }
        let carried = self.carry_pinned_item(job, old);
        self.unpin(old);
        carried
    }

    /// Pins a queued item that nobody else holds; false: there is none here, or it is held.
    fn pin_alone(&self, item: ChunkAddress) -> bool {
        // Under the class's lock a queued item cannot be freed, so the pin finds it alive.
        let queue_class = self.queue_class(item);
        let _class = self.class(queue_class).lock();
        let word = self.memory.header(item).state();
        let state = word.load();
        let locked_the_right_one = self.queue_class(item) == queue_class;
        locked_the_right_one && state.queued() && state.pins() == 0 && word.try_pin()
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
        if state.chained() {
            memory.clear_first_body(old);
        }
        stripe.replace(slot, new);
        let last = memory.header(old).state().unlink();
        debug_assert!(!last, "the mover's pin is still there");
        Some(Kind::Item)
    }

    /// Carries a body of a chained item to the spare chunk.
    pub(super) fn move_body(&self, job: &mut Job, old: ChunkAddress) -> Option<Kind> {
        let head = match self.pin_head_of(job, old) {
            Head::Pinned(head) => head,
            Head::Held => return None,
            Head::NoBody => return Some(Kind::Free),
        };
        let carried = self.carry_body_of_pinned(job, head, old);
        self.unpin(head);
        carried
    }

    /// Pins the item that a body belongs to, if nobody else holds it.
    fn pin_head_of(&self, job: &Job, body: ChunkAddress) -> Head {
        // While the body is in use its head is too: a head is freed after its bodies.
        let _class = self.class(job.victim).lock();
        if self.memory.header(body).state().load().kind() != Kind::Body {
            return Head::NoBody;
        }
        let Some(head) = self.memory.header(body).prev() else { return Head::Held };
        let word = self.memory.header(head).state();
        if word.load().pins() == 0 && word.try_pin() { Head::Pinned(head) } else { Head::Held }
    }

    /// Drops the item that a chunk holds, or holds a part of.
    pub(super) fn drop_holder(&self, job: &Job, chunk: ChunkAddress) -> Dropped {
        let head = match self.memory.header(chunk).state().load().kind() {
            Kind::Free => return Dropped::Nothing,
            Kind::Item if self.pin_alone(chunk) => chunk,
            Kind::Item => return Dropped::Held,
            Kind::Body => match self.pin_head_of(job, chunk) {
                Head::Pinned(head) => head,
                Head::Held => return Dropped::Held,
                Head::NoBody => return Dropped::Nothing,
            },
        };
        let detached = {
            let mut class = self.class(self.queue_class(head)).lock();
            let state = self.memory.header(head).state().load();
            let alone = state.queued() && state.pins() == 1;
            if alone {
                class.detach(&self.memory, head);
            }
            alone
        };
        if detached {
            self.remove_detached(head);
            self.unpin(head);
        }
        self.unpin(head);
        if detached { Dropped::Item } else { Dropped::Held }
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
}
