//! A reader's access to an item: a view during a lookup, or a pin that outlives it.

use crate::mem::{HeldValue, Linked, ValuePin};
use crate::space::Space;
use slabwise_base::{ClassId, Cost, Expiry, Ticks};

/// An item whose stripe is locked, for the duration of a get's closure.
#[derive(Clone, Copy)]
pub struct ItemView<'v, 'e> {
    pub(super) space: &'e Space,
    pub(super) item: Linked<'v>,
    pub(super) last_access: Ticks,
    pub(super) fetched: bool,
}

impl<'v, 'e: 'v> ItemView<'v, 'e> {
    /// The key.
    pub fn key(&self) -> &'v [u8] {
        self.item.key()
    }

    /// The length of the value in bytes.
    pub fn value_len(&self) -> usize {
        self.item.value_len()
    }

    /// The opaque number that the client stored with the item.
    pub fn client_flags(&self) -> u32 {
        self.item.client_flags()
    }

    /// The cost of recomputing the item, if it is known.
    pub fn cost(&self) -> Option<Cost> {
        self.item.cost()
    }

    /// The CAS value.
    pub fn cas(&self) -> u64 {
        self.item.cas()
    }

    /// The expiry.
    pub fn expiry(&self) -> Expiry {
        self.item.expiry()
    }

    /// The time of the last access before this lookup.
    pub fn last_access(&self) -> Ticks {
        self.last_access
    }

    /// True if it was hit before this lookup.
    pub fn fetched(&self) -> bool {
        self.fetched
    }

    /// True if it is marked stale.
    pub fn is_stale(&self) -> bool {
        self.item.state().stale()
    }

    /// True if a client has claimed the right to recompute it.
    pub fn is_claimed(&self) -> bool {
        self.item.state().claimed()
    }

    /// Claims the right to recompute the item. Returns false if another client has it. The claim lasts until the
    /// item is stored or marked stale.
    pub fn claim(&self) -> bool {
        self.item.marks().claim()
    }

    /// The size of the item in bytes, as the statistics count it.
    pub fn size_bytes(&self) -> u64 {
        self.item.counted_size_bytes()
    }

    /// The class in which statistics show it; for a chained item, the largest.
    pub fn class(&self) -> ClassId {
        self.space.stats_class(self.item.queue_class())
    }

    /// The parts of the value in order: one slice, or several if the item is chained.
    pub fn value(&self) -> impl Iterator<Item = &'v [u8]> + use<'v, 'e> {
        self.item.value()
    }

    /// Appends the value to `out`.
    #[inline(always)]
    pub fn copy_value(&self, out: &mut Vec<u8>) {
        if self.item.state().chained() {
            self.value().for_each(|part| out.extend_from_slice(part));
        } else {
            out.extend_from_slice(self.item.value_in_first_chunk());
        }
    }

    /// Pins the item, so that its bytes stay valid and unchanged after this lookup. `None`: it has too many pins.
    pub fn pin(&self) -> Option<Pinned<'e>> {
        Pinned::new(self.space, self.item)
    }
}

/// A pinned item, which does not change until this is dropped, even if its key is stored or deleted.
#[must_use = "a pin keeps its item's memory until it is dropped"]
pub struct Pinned<'e> {
    space: &'e Space,
    /// `None` only during `drop`.
    pin: Option<ValuePin>,
}

impl<'e> Pinned<'e> {
    /// Pins a linked item. `None`: it has too many pins.
    pub(super) fn new(space: &'e Space, item: Linked<'_>) -> Option<Pinned<'e>> {
        Some(Pinned { space, pin: Some(item.pin()?) })
    }
}

impl Pinned<'_> {
    /// The item's key.
    pub fn key(&self) -> &[u8] {
        self.item().key()
    }

    /// The parts of the value in order: one slice, or several if the item is chained.
    pub fn value(&self) -> impl Iterator<Item = &[u8]> {
        self.item().value()
    }

    /// The length of the value in bytes.
    pub fn value_len(&self) -> usize {
        self.item().value_len()
    }

    fn item(&self) -> HeldValue<'_> {
        self.pin.as_ref().expect("held until dropped").item(&self.space.memory)
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        if let Some(pin) = self.pin.take() {
            self.space.unpin(pin);
        }
    }
}
