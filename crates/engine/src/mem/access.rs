//! The access tokens to write parts of a published item in place. Only an [`Entry`](super::Entry) creates them.

use super::chunk::OwnedChunk;
use super::item::{FIRST_BODY_SIZE_BYTES, Item, Linked, body_bytes};
use super::memory::Memory;
use super::state::State;
use crate::layout::{ChunkAddress, HEADER_SIZE_BYTES};
use slabwise_base::Expiry;

/// The access token to write the value of a published item. It borrows the locked stripe of the item exclusively. When
/// it was created, no other thread had a pin of the item. Another thread may pin the item afterwards, but cannot read
/// the value under that pin: only a pin that was taken under the lock of the stripe gives access to the value.
pub struct ValueAccess<'t> {
    pub(super) memory: &'t Memory,
    pub(super) address: ChunkAddress,
}

/// The access token to write the expiry or the rank of a published item. It borrows the locked stripe and the locked
/// class of the item exclusively.
pub struct MetaAccess<'t> {
    pub(super) memory: &'t Memory,
    pub(super) address: ChunkAddress,
}

impl ValueAccess<'_> {
    /// Returns an [`Item`] to read the item.
    fn item(&self) -> Linked<'_> {
        // SAFETY: the item is in the table of a locked stripe, which this token borrows exclusively. The `Item` borrows
        // this token.
        unsafe { Item::new(self.memory, self.address) }
    }

    /// Overwrites the bytes of the value from the offset `start` on. The length of the value does not change. Panics if
    /// the item is chained, or if the value has no room for the bytes.
    pub fn overwrite(&mut self, start: usize, bytes: &[u8]) {
        let (state, len) = (self.item().state(), self.item().value_len());
        assert!(!state.chained(), "an item whose value is overwritten is not chained");
        let fits = start <= len && bytes.len() <= len - start;
        assert!(fits, "the written bytes are within the value");
        // SAFETY: 1. The bytes are within the value, and so within the chunk. 2. Only the holder of this access token
        // reads or writes the value.
        let overwritten = unsafe {
            self.memory.arena.write(self.address, state.layout().value() + start, bytes.len())
        };
        overwritten.copy_from_slice(bytes);
    }

    /// Sets the address of the first body of a chained item.
    fn set_first_body(&mut self, body: Option<ChunkAddress>) {
        let at = self.item().layout().chain() + 4;
        // SAFETY: 1. The item is chained, so the field is within the item. 2. Only the holder of this access token
        // reads or writes the field.
        let field = unsafe { self.memory.arena.write(self.address, at, FIRST_BODY_SIZE_BYTES) };
        field.copy_from_slice(&body_bytes(body));
    }

    /// Links the bodies to `head`, the first chunk of the item's copy, and removes the bodies from the original.
    pub(super) fn move_chain_to(&mut self, head: &mut OwnedChunk) {
        let first = self.item().first_body();
        for body in self.item().bodies() {
            // SAFETY: the chunks of a chain are bodies of this memory.
            unsafe { self.memory.arena.header_of(body) }.set_prev(Some(head.address()));
        }
        let at = self.item().layout().chain() + 4;
        head.write(self.memory, at, FIRST_BODY_SIZE_BYTES).copy_from_slice(&body_bytes(first));
        self.set_first_body(None);
    }

    /// Copies the body at `old` to `chunk`, and replaces the old body by the new one in the chain. Returns the old
    /// body's chunk. Returns `chunk` as the error if the body does not fit into it or if the item has no body at `old`.
    pub(super) fn move_body(
        &mut self,
        old: ChunkAddress,
        mut chunk: OwnedChunk,
    ) -> Result<OwnedChunk, OwnedChunk> {
        let memory = self.memory;
        let before = self.item().bodies().take_while(|&body| body != old).last();
        let found = match before {
            // SAFETY: the chunks of a chain are bodies of this memory.
            Some(body) => unsafe { memory.arena.header_of(body) }.next(),
            None => self.item().first_body(),
        };
        if found != Some(old) {
            return Err(chunk);
        }
        // SAFETY: the chunks of a chain are bodies of this memory.
        let header = unsafe { memory.arena.header_of(old) };
        if HEADER_SIZE_BYTES + header.len() > chunk.size_bytes() {
            return Err(chunk);
        }
        // SAFETY: the bytes are within the body, and only the holder of this access token writes the value.
        let part = unsafe { memory.arena.read(old, HEADER_SIZE_BYTES, header.len()) };
        chunk.write(memory, HEADER_SIZE_BYTES, part.len()).copy_from_slice(part);
        let copy = chunk.header(memory);
        copy.set_len(header.len());
        copy.set_prev(Some(self.address));
        copy.set_next(header.next());
        copy.state().store(State::new_body());
        let new = Some(chunk.address());
        match before {
            // SAFETY: the chunks of a chain are bodies of this memory.
            Some(body) => unsafe { memory.arena.header_of(body) }.set_next(new),
            None => self.set_first_body(new),
        }
        // SAFETY: the old body is a chunk in use. Only the chain linked to it, and the chain now links to the new body.
        Ok(unsafe { OwnedChunk::reclaim(memory, old) })
    }
}

impl MetaAccess<'_> {
    /// Sets the expiry. Panics if the item stores no expiry.
    pub fn set_expiry(&mut self, expiry: Expiry) {
        let offset_in = |state: State| {
            let stores = state.fields().expiry;
            assert!(stores, "an item whose expiry is set stores an expiry");
            state.layout().expiry()
        };
        // SAFETY: the chunk at the address holds an item, and `offset_in` returns the offset of its expiry. To read or
        // write an expiry, a thread needs the lock of the stripe or of the class, and this token has both.
        unsafe { write_field(self.memory, self.address, offset_in, expiry.to_bits()) };
    }

    /// Sets the rank. Panics if the item stores no rank.
    pub fn set_rank(&mut self, rank: u32) {
        // SAFETY: the chunk at the address holds an item, and `rank_offset` returns the offset of its rank. To read or
        // write a rank, a thread needs the lock of the stripe or of the class, and this token has both.
        unsafe { write_field(self.memory, self.address, rank_offset, rank) };
    }
}

/// Returns the offset of an item's rank. Panics if the item stores no rank.
pub(super) fn rank_offset(state: State) -> usize {
    assert!(state.fields().rank, "an item whose rank is set stores a rank");
    state.layout().rank()
}

/// Writes a field of four bytes of the item at `address`. `offset_in` returns the offset of the field, given the state
/// of the item.
///
/// # Safety
///
/// The chunk at `address` of this memory holds an item. The item stores the field. No other thread reads or writes the
/// field during the call.
pub(super) unsafe fn write_field(
    memory: &Memory,
    address: ChunkAddress,
    offset_in: impl FnOnce(State) -> usize,
    word: u32,
) {
    // SAFETY: the caller guarantees that a chunk of this memory starts at the address.
    let state = unsafe { memory.arena.header_of(address) }.state().load();
    // SAFETY: the caller guarantees that the item stores the field and that no other thread accesses the field.
    let field = unsafe { memory.arena.write(address, offset_in(state), 4) };
    field.copy_from_slice(&word.to_le_bytes());
}
