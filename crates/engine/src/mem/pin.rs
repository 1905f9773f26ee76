//! Holds on an item beyond a lock.

use super::memory::Memory;
use crate::layout::ChunkAddress;

/// A hold on an item, counted in its state word: the chunk is not freed, and what never changes of it stays
/// readable.
#[must_use = "a pin must be dropped by Memory::unpin, or its item is never freed"]
#[derive(Debug, PartialEq, Eq)]
pub struct Pin {
    address: ChunkAddress,
    memory: u32,
}

/// A pin that was taken under the item's stripe: it keeps the value still, too.
#[must_use = "a pin must be dropped by Memory::unpin, or its item is never freed"]
#[derive(Debug, PartialEq, Eq)]
pub struct ValuePin {
    pin: Pin,
}

impl Pin {
    /// A pin on the item at `address`.
    ///
    /// # Safety
    ///
    /// A pin was counted in the state word of the item at `address`, for this value alone.
    pub(super) unsafe fn new(memory: &Memory, address: ChunkAddress) -> Pin {
        Pin { address, memory: memory.number() }
    }

    /// The item's first chunk.
    pub fn address(&self) -> ChunkAddress {
        self.address
    }

    /// Refuses another memory than its own.
    #[inline]
    pub(super) fn check(&self, memory: &Memory) {
        assert_eq!(self.memory, memory.number(), "a pin is used with the memory that it is of");
    }
}

impl ValuePin {
    /// The pin, of which more is known.
    ///
    /// # Safety
    ///
    /// It was taken while nobody could write the item's value.
    pub(super) unsafe fn new(pin: Pin) -> ValuePin {
        ValuePin { pin }
    }

    /// The pin, of which no more is to be known.
    pub(super) fn pin(&self) -> &Pin {
        &self.pin
    }
}

impl From<ValuePin> for Pin {
    fn from(pin: ValuePin) -> Pin {
        pin.pin
    }
}
