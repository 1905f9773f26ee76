//! A reader's access to an item: [`ItemView`] during a lookup, and [`Pinned`] beyond the end of the lookup.

use crate::mem::{HeldValue, Linked, ValuePin};
use crate::space::Space;
use slabwise_base::{ClassId, Cost, Expiry, Seconds, WorkTime};

/// An item as a lookup shows it to the caller's closure. The item's stripe is locked while the closure runs.
#[derive(Clone, Copy)]
pub struct ItemView<'v, 'e> {
    pub(super) space: &'e Space,
    pub(super) item: Linked<'v>,
    pub(super) last_access: WorkTime,
    pub(super) fetched: bool,
}

impl<'v, 'e: 'v> ItemView<'v, 'e> {
    /// Returns the item's key.
    pub fn key(&self) -> &'v [u8] {
        self.item.key()
    }

    /// Returns the length of the value, in bytes.
    pub fn value_len(&self) -> usize {
        self.item.value_len()
    }

    /// Returns the client flags: a number that a client stored with the item and that only clients interpret.
    pub fn client_flags(&self) -> u32 {
        self.item.client_flags()
    }

    /// Returns the cost of recomputing the item's value. `None`: no client has specified the cost.
    pub fn cost(&self) -> Option<Cost> {
        self.item.cost()
    }

    /// Returns the CAS value.
    pub fn cas(&self) -> u64 {
        self.item.cas()
    }

    /// Returns the expiry.
    pub fn expiry(&self) -> Expiry {
        self.item.expiry()
    }

    /// Returns the second of the last access before this lookup: exactly if that was less than four hours ago, and
    /// otherwise as an estimate.
    pub fn last_access(&self) -> Seconds {
        self.space.work.second_of(self.last_access)
    }

    /// True if the item was hit before this lookup.
    pub fn fetched(&self) -> bool {
        self.fetched
    }

    /// True if a client has marked the item as stale.
    pub fn is_stale(&self) -> bool {
        self.item.state().stale()
    }

    /// True if a client has claimed the right to recompute the item.
    pub fn is_claimed(&self) -> bool {
        self.item.state().claimed()
    }

    /// Claims the right to recompute the item. Returns false if a client holds this right already. The right ends when
    /// the item is stored or marked as stale. A store that marks the new item as stale
    /// ([`StoreConditions::stale_allowed`](crate::StoreConditions::stale_allowed)) keeps it.
    pub fn claim(&self) -> bool {
        self.item.marks().claim()
    }

    /// Returns the size of the item in bytes, as statistics count it.
    pub fn size_bytes(&self) -> u64 {
        self.item.counted_size_bytes()
    }

    /// Returns the class in which statistics show the item. A chained item is shown in the largest class.
    pub fn class(&self) -> ClassId {
        self.space.stats_class(self.item.queue_class())
    }

    /// Returns the parts of the value in order: one slice, or several if the item is chained.
    pub fn value(&self) -> impl Iterator<Item = &'v [u8]> + use<'v, 'e> {
        self.item.value()
    }

    /// Appends all parts of the value to `out`.
    #[inline(always)]
    pub fn copy_value(&self, out: &mut Vec<u8>) {
        if self.item.state().chained() {
            self.value().for_each(|part| out.extend_from_slice(part));
        } else {
            out.extend_from_slice(self.item.value_in_first_chunk());
        }
    }

    /// Pins the item, so that its bytes stay valid and unchanged after this lookup. `None`: the item has the largest
    /// possible number of pins.
    pub fn pin(&self) -> Option<Pinned<'e>> {
        Pinned::new(self.space, self.item)
    }
}

/// A pinned item. Its bytes stay valid and unchanged until this value is dropped, even if its key is stored or deleted.
#[must_use = "a pin keeps its item's memory until it is dropped"]
pub struct Pinned<'e> {
    space: &'e Space,
    /// The pin; `None` only while this value is dropped.
    pin: Option<ValuePin>,
}

impl<'e> Pinned<'e> {
    /// Pins an item whose stripe is locked. `None`: the item has the largest possible number of pins.
    pub(super) fn new(space: &'e Space, item: Linked<'_>) -> Option<Pinned<'e>> {
        let pin = item.pin()?;
        space.note_value_pin(item);
        Some(Pinned { space, pin: Some(pin) })
    }
}

impl Pinned<'_> {
    /// Returns the item's key.
    pub fn key(&self) -> &[u8] {
        self.item().key()
    }

    /// Returns the parts of the value in order: one slice, or several if the item is chained.
    pub fn value(&self) -> impl Iterator<Item = &[u8]> {
        self.item().value()
    }

    /// Returns the length of the value, in bytes.
    pub fn value_len(&self) -> usize {
        self.item().value_len()
    }

    /// Returns the number of pins that the item has now, including this one.
    pub fn pin_count(&self) -> usize {
        self.item().state().pins() as usize
    }

    fn item(&self) -> HeldValue<'_> {
        self.pin
            .as_ref()
            .expect("the pin exists until the value is dropped")
            .item(&self.space.memory)
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        if let Some(pin) = self.pin.take() {
            self.space.unpin(pin);
        }
    }
}
