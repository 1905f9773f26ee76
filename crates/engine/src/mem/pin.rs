//! Holds on an item beyond a lock, and what is left of an item when the last one lets go.

use super::chunk::OwnedChunk;
use super::class_token::ClassToken;
use super::item::{FIRST_BODY_SIZE_BYTES, Held, HeldValue, Item, body_address};
use super::memory::Memory;
use super::state::{Kind, State};
use crate::layout::ChunkAddress;
use slabwise_base::ClassId;

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

/// The first chunk of an item that has ended and that nobody pins, which still leads to the item's bodies.
#[must_use = "the chunks of an ended item are lost unless they are freed"]
#[derive(Debug, PartialEq, Eq)]
pub struct Remains {
    address: ChunkAddress,
    memory: u32,
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

    /// The pinned item.
    #[inline]
    pub fn item<'p>(&'p self, memory: &'p Memory) -> Held<'p> {
        assert_eq!(self.memory, memory.number(), "a pin is used with the memory that it is of");
        // SAFETY: the pin keeps the chunk, and with it what never changes.
        unsafe { Item::new(memory, self.address) }
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

    /// The pinned item.
    #[inline]
    pub fn item<'p>(&'p self, memory: &'p Memory) -> HeldValue<'p> {
        assert_eq!(self.pin.memory, memory.number(), "a pin is used with the memory that it is of");
        // SAFETY: the pin keeps the chunk, and was taken when nobody could write the value; nobody begins to.
        unsafe { Item::new(memory, self.pin.address) }
    }
}

impl From<ValuePin> for Pin {
    fn from(pin: ValuePin) -> Pin {
        pin.pin
    }
}

impl Memory {
    /// Drops a pin. `Some`: it was the last on an unlinked item (LAST-HOLDER).
    #[inline]
    pub fn unpin(&self, pin: impl Into<Pin>) -> Option<Remains> {
        let pin: Pin = pin.into();
        let last = pin.item(self).header().state().unpin();
        last.then_some(Remains { address: pin.address, memory: pin.memory })
    }
}

impl Remains {
    /// What an ended item leaves.
    ///
    /// # Safety
    ///
    /// The item at `address` is unlinked, nobody pins it, and its chunk is the caller's alone.
    pub(super) unsafe fn new(memory: &Memory, address: ChunkAddress) -> Remains {
        Remains { address, memory: memory.number() }
    }

    /// Its first chunk.
    pub fn address(&self) -> ChunkAddress {
        self.address
    }

    #[inline]
    fn next_body(&self, memory: &Memory) -> Option<ChunkAddress> {
        let state = self.state(memory);
        if !state.chained() {
            return None;
        }
        // SAFETY: the head of a chained item is this value's alone.
        let bytes = unsafe {
            memory.arena.read(self.address, state.layout().chain() + 4, FIRST_BODY_SIZE_BYTES)
        };
        body_address(bytes)
    }

    #[inline]
    fn state(&self, memory: &Memory) -> State {
        assert_eq!(
            self.memory,
            memory.number(),
            "chunks are used with the memory that they are of"
        );
        // SAFETY: a chunk of this memory starts here.
        unsafe { memory.arena.header_of(self.address) }.state().load()
    }

    /// Takes the next body, whose class is locked, out of the chain.
    pub fn take_body(&mut self, class: &mut ClassToken) -> OwnedChunk {
        let memory = class.memory();
        let body = self.next_body(memory).expect("there is a body to take");
        assert_eq!(memory.class_of(body), class.class(), "a body is taken under its class");
        // SAFETY: a chain leads over bodies, which are chunks of this memory.
        let header = unsafe { memory.arena.header_of(body) };
        assert_eq!(header.state().load().kind(), Kind::Body, "what a chain leads to is a body");
        assert_eq!(header.prev(), Some(self.address), "a body belongs to its head");
        header.state().store(State::IN_HAND);
        let at = self.state(memory).layout().chain() + 4;
        let next = ChunkAddress::to_bits(header.next()).to_le_bytes();
        // SAFETY: the head is this value's alone, and the field lies within it.
        let field = unsafe { memory.arena.write(self.address, at, FIRST_BODY_SIZE_BYTES) };
        field.copy_from_slice(&next[..FIRST_BODY_SIZE_BYTES]);
        // SAFETY: a chunk of this class. It was its chain's alone, which has just lost it.
        unsafe { OwnedChunk::new(memory, body, class.chunk_size_bytes(), class.class()) }
    }

    /// The first chunk alone; while there are bodies, the class that owns the page of the next.
    #[inline]
    pub fn into_chunk(self, memory: &Memory) -> Result<OwnedChunk, (Remains, ClassId)> {
        if let Some(body) = self.next_body(memory) {
            return Err((self, memory.class_of(body)));
        }
        // Somebody's again: a mover must not take it for an item without pins.
        // SAFETY: a chunk of this memory starts here.
        unsafe { memory.arena.header_of(self.address) }.state().store(State::IN_HAND);
        let page = memory.page_entry(self.address);
        let class = page.owner().expect("a chunk in use lies in a page that a class owns");
        // SAFETY: the chunk is this value's alone, and its page stays its class's while it is in use.
        Ok(unsafe { OwnedChunk::new(memory, self.address, page.chunk_size_bytes(), class) })
    }
}
