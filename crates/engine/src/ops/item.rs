//! What a reader sees of an item: a view inside a look-up, or a pin beyond it.

use crate::mem::{HeldValue, Linked, ValuePin};
use crate::space::Space;
use slabwise_base::{ClassId, Cost, Expiry, Ticks};

/// An item under its stripe's lock, for as long as the closure of a get runs.
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

    /// Bytes of the value.
    pub fn value_len(&self) -> usize {
        self.item.value_len()
    }

    /// The client's opaque number.
    pub fn client_flags(&self) -> u32 {
        self.item.client_flags()
    }

    /// What it costs to recompute, if that is known.
    pub fn cost(&self) -> Option<Cost> {
        self.item.cost()
    }

    /// The CAS value.
    pub fn cas(&self) -> u64 {
        self.item.cas()
    }

    /// When it ends.
    pub fn expiry(&self) -> Expiry {
        self.item.expiry()
    }

    /// When it was last accessed, this look-up aside.
    pub fn last_access(&self) -> Ticks {
        self.last_access
    }

    /// Whether it was hit before this look-up.
    pub fn fetched(&self) -> bool {
        self.fetched
    }

    /// Whether it was marked stale.
    pub fn is_stale(&self) -> bool {
        self.item.state().stale()
    }

    /// Whether a client has been given the right to store it anew.
    pub fn is_claimed(&self) -> bool {
        self.item.state().claimed()
    }

    /// Notes that this client may store it anew; false if another may already. The note lasts until
    /// the item is stored or marked stale.
    pub fn claim(&self) -> bool {
        self.item.marks().claim()
    }

    /// Bytes that the item takes, as the stats count them.
    pub fn size_bytes(&self) -> u64 {
        self.item.counted_size_bytes()
    }

    /// The class it is shown in; a chained item's is the last of the table.
    pub fn class(&self) -> ClassId {
        self.space.shown_class(self.item.queue_class())
    }

    /// The value, in order, in one slice, or in several if it is chained.
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

    /// Keeps the item's bytes alive and unchanged beyond this look-up. `None` when too many hold it.
    pub fn pin(&self) -> Option<Pinned<'e>> {
        Pinned::new(self.space, self.item)
    }
}

/// An item that stays as it is until this is dropped, whatever happens to its key.
#[must_use = "a pin keeps its item's memory until it is dropped"]
pub struct Pinned<'e> {
    space: &'e Space,
    /// `None` only while this is dropped.
    pin: Option<ValuePin>,
}

impl<'e> Pinned<'e> {
    /// Pins a linked item; `None` when too many hold it.
    pub(super) fn new(space: &'e Space, item: Linked<'_>) -> Option<Pinned<'e>> {
        Some(Pinned { space, pin: Some(item.pin()?) })
    }
}

impl Pinned<'_> {
    /// The item's key.
    pub fn key(&self) -> &[u8] {
        self.item().key()
    }

    /// The value, in order, in one slice, or in several if it is chained.
    pub fn value(&self) -> impl Iterator<Item = &[u8]> {
        self.item().value()
    }

    /// Bytes of the value.
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
