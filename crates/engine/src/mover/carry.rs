//! Carrying one chunk's contents to another page.
//!
//! The item is pinned under its class's lock, then its stripe is locked; while that is held nobody writes
//! its bytes, so they are copied, and every link to the old chunk is turned to the new one. With one pin,
//! the mover's, nobody reads its chain either, which can be changed. An item that is dropped is detached as
//! an eviction does it.

use super::job::Pass;
use crate::class::{CHAINED, Class};
use crate::counters::Busy;
use crate::layout::ChunkAddress;
use crate::mem::{Copied, Entry, HeadPin, Kind, Pin, State};

impl Pass<'_> {
    /// Carries what is in a chunk to the spare one.
    pub fn carry_one(&mut self, address: ChunkAddress) -> Result<(), Busy> {
        let carried = match self.state_of(address).kind() {
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
        match self.state_of(address).kind() {
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
    fn move_item(&mut self, old: ChunkAddress) -> Option<Kind> {
        let pin = self.pin_queued(old, |state| self.carries_pinned(state))?;
        let carried = self.carry_pinned_item(&pin);
        self.space.unpin(pin);
        carried
    }

    /// Pins a queued item that nobody else holds, or that may be `shared`.
    fn pin_queued(&self, item: ChunkAddress, shared: impl Fn(State) -> bool) -> Option<Pin> {
        let class = self.space.class(self.job.order.victim).lock();
        let state = class.pages.token().state_of(item)?;
        let is_free_for_it = state.pins() == 0 || shared(state);
        // Under this lock a linked item cannot be freed, so the pin finds it alive.
        if !state.queued() || !is_free_for_it { None } else { class.pages.token().pin_at(item) }
    }

    /// Carries an item that the mover pins to a spare chunk; `None`: somebody else holds it, or it has ended.
    fn carry_pinned_item(&mut self, pin: &Pin) -> Option<Kind> {
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
    fn carry_across(&mut self, pin: &Pin, entry: &mut Entry<'_>, class: &Class) -> Option<Kind> {
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
        Some(Kind::Item)
    }

    /// Carries an item to the last spare, which is of its class, where it takes its old place. `None`: somebody
    /// holds it, or takes it away.
    pub fn carry_within(
        &mut self,
        pin: &Pin,
        entry: &mut Entry<'_>,
        class: &Class,
    ) -> Option<Kind> {
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
                Some(Kind::Item)
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
    fn move_body(&mut self, old: ChunkAddress) -> Option<Kind> {
        let pin = match self.pin_head_of(old) {
            HeadPin::Pinned(pin) => pin,
            HeadPin::Held => return None,
            HeadPin::NoBody => return Some(Kind::Free),
        };
        let carried = self.carry_body_of_pinned(&pin, old);
        self.space.unpin(pin);
        carried
    }

    /// Pins the item that a body belongs to, if nobody else holds it.
    fn pin_head_of(&self, body: ChunkAddress) -> HeadPin {
        let class = self.space.class(self.job.order.victim).lock();
        class.pages.token().pin_head_of(body, self.token)
    }

    /// Pins the item that a chunk holds, or holds a part of, if nobody else holds it.
    pub fn pin_holder(&self, chunk: ChunkAddress) -> HeadPin {
        match self.state_of(chunk).kind() {
            Kind::Free => HeadPin::NoBody,
            Kind::Item => self.pin_queued(chunk, |_| false).map_or(HeadPin::Held, HeadPin::Pinned),
            Kind::Body => self.pin_head_of(chunk),
        }
    }

    /// Drops an item that the mover pins. False: somebody else holds it.
    pub fn drop_pinned(&self, pin: &Pin) -> bool {
        let (space, now) = (self.space, self.now);
        let item = pin.item(&space.memory);
        let (hash, queue_class) = (space.hash_of(item), item.queue_class());
        let victim = {
            let mut class = space.class(queue_class).lock();
            let queued = class.pages.token().queued_pinned(pin);
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

    fn carry_body_of_pinned(&mut self, pin: &Pin, old: ChunkAddress) -> Option<Kind> {
        let hash = self.space.hash_of(pin.item(&self.space.memory));
        let stripe = self.space.index.lock(hash);
        let mut entry = Entry::find_address(stripe, hash, pin.address()).ok()?;
        let spare = self.job.spares.pop().expect("room was made before");
        match entry.carry_body(old, spare, pin, self.token) {
            Ok(emptied) => {
                self.space.give_free(emptied);
                Some(Kind::Body)
            }
            Err(spare) => {
                self.job.spares.push(spare);
                None
            }
        }
    }
}
