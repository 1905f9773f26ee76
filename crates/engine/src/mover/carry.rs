//! Carrying one chunk's contents to another page.
//!
//! The item is pinned under its class's lock, then its stripe is locked; with one pin, the mover's, and
//! the stripe held, nobody reads its bytes or its chain, so they are copied and every link to the old
//! chunk is turned to the new one.

use super::Job;
use crate::engine::Engine;
use crate::mem::{ChunkAddress, Kind, Pin, ReadProof};

impl Engine {
    /// Carries an item to the spare chunk. `None`: somebody holds it. `Some`: what was carried.
    pub(super) fn move_item(&self, job: &mut Job, old: ChunkAddress) -> Option<Kind> {
        let pin = {
            // Under the class's lock a queued item cannot be freed, so the pin finds it alive.
            let queue_class = self.queue_class(old);
            let _class = self.class(queue_class).lock();
            let state = self.memory.header(old).state().load();
            let locked_the_right_one = self.queue_class(old) == queue_class;
            let held = !state.queued() || state.pins() > 0;
            if !locked_the_right_one || held {
                return None;
            }
            self.memory.arena.try_pin(old)?
        };
        let carried = self.carry_pinned_item(job, &pin);
        self.unpin(pin);
        carried
    }

    fn carry_pinned_item(&self, job: &mut Job, pin: &Pin) -> Option<Kind> {
        let (memory, old) = (&self.memory, pin.address());
        let hash = self.hash_of(old, ReadProof::under_pin(pin));
        let mut stripe = self.index.lock(hash);
        let (slot, _) = stripe.find(hash, |candidate| candidate == old)?;
        let mut class = self.class(self.queue_class(old)).lock();
        let state = memory.header(old).state().load();
        if !state.queued() {
            return None;
        }
        let right = memory.arena.value_right(old, 1, &stripe)?;
        let mut chunk = job.spare.take().expect("room was made before");
        let new = chunk.address();
        let proof = ReadProof::under_stripe(&stripe);
        memory.copy_contents(old, &mut chunk, proof);
        memory.arena.set_state(&mut chunk, state.moved());
        let mut body = memory.first_body(old, proof);
        while let Some(address) = body {
            memory.header(address).set_prev(Some(new));
            body = memory.header(address).next();
        }
        let queue = class.queue_mut(state.queue());
        queue.replace(memory, old, new);
        memory.arena.publish(chunk, state.queue());
        memory.header(old).state().clear_queued();
        if state.chained() {
            memory.set_first_body(&right, None);
        }
        stripe.replace(slot, new);
        let owned = memory.arena.unlink(old);
        debug_assert!(owned.is_none(), "the mover's pin is still there");
        Some(Kind::Item)
    }

    /// Carries a body of a chained item to the spare chunk.
    pub(super) fn move_body(&self, job: &mut Job, old: ChunkAddress) -> Option<Kind> {
        let pin = {
            // While the body is in use its head is too: a head is freed after its bodies.
            let _class = self.class(job.victim).lock();
            if self.memory.header(old).state().load().kind() != Kind::Body {
                return Some(Kind::Free);
            }
            let head = self.memory.header(old).prev()?;
            if self.memory.header(head).state().load().pins() > 0 {
                return None;
            }
            self.memory.arena.try_pin(head)?
        };
        let carried = self.carry_body_of_pinned(job, &pin, old);
        self.unpin(pin);
        carried
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
        let mut chunk = job.spare.take().expect("room was made before");
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
