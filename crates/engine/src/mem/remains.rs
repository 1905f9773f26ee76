//! What is left of an item when nobody holds it any more.

use super::chunk::OwnedChunk;
use super::class_token::ClassToken;
use super::item::{FIRST_BODY_SIZE_BYTES, body_address};
use super::memory::Memory;
use super::pin::Pin;
use super::state::{Kind, State};
use crate::layout::ChunkAddress;
use slabwise_base::ClassId;

/// The first chunk of an item that has ended and that nobody pins, which still leads to the item's bodies.
#[must_use = "the chunks of an ended item are lost unless they are freed"]
#[derive(Debug, PartialEq, Eq)]
pub struct Remains {
    address: ChunkAddress,
    memory: u32,
}

impl Memory {
    /// Drops a pin. `Some`: it was the last on an unlinked item (LAST-HOLDER).
    #[inline]
    pub fn unpin(&self, pin: impl Into<Pin>) -> Option<Remains> {
        let pin: Pin = pin.into();
        let last = pin.item(self).header().state().unpin();
        last.then_some(Remains { address: pin.address(), memory: self.number() })
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
