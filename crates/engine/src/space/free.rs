//! Where chunks come from without an eviction, and where they go: free lists, the pool, and the end of an item.

use super::shared::Space;
use crate::class::{ClassState, Standing};
use crate::layout::ChunkAddress;
use crate::mem::{OwnedChunk, Pin, ReadProof};
use slabwise_base::sync::lock;

/// The chunks of an item that has ended, if nobody pins it: its head, and what that leads to.
#[must_use = "the chunks of an ended item are lost unless they are freed"]
pub struct Remains(Option<OwnedChunk>);

impl Space {
    /// A free chunk of a locked class, from a new page if need be, which only a class of the table gets.
    pub fn take_free(&self, state: &mut ClassState) -> Option<OwnedChunk> {
        if let Some(chunk) = state.take_free(&self.memory) {
            return Some(chunk);
        }
        if state.standing() != Standing::Present {
            return None;
        }
        let beyond_limit = self.config.first_page_beyond_limit && state.page_count() == 0;
        let page = lock(&self.pool).take(self.memory.pages.count(), beyond_limit)?;
        state.adopt(&self.memory, page);
        state.take_free(&self.memory)
    }

    /// Bytes of a chunk, which stay as they are while somebody owns it.
    #[inline]
    pub fn chunk_size_of(&self, chunk: &OwnedChunk) -> usize {
        self.size_map.chunk_size_bytes(self.memory.class_of(chunk.address()))
    }

    /// Drops a pin; if it was the last on an unlinked item, the bodies are freed and the caller owns
    /// the first chunk.
    pub fn unpin_to_owned(&self, pin: Pin) -> Option<OwnedChunk> {
        let chunk = self.memory.arena.unpin(pin)?;
        self.free_bodies(&chunk);
        Some(chunk)
    }

    /// Drops a pin; if it was the last on an unlinked item, all its chunks are freed. The first chunk of
    /// an item that was carried to another page leads to no body any more, so only it is given back.
    pub fn unpin(&self, pin: Pin) {
        if let Some(chunk) = self.unpin_to_owned(pin) {
            self.give_free(chunk);
        }
    }

    /// Frees the bodies of an item whose LAST-HOLDER the caller is, if it has any: before the head, so that
    /// a body's owner is always an item.
    #[inline(always)]
    fn free_bodies(&self, head: &OwnedChunk) {
        let mut body = self.memory.first_body(head.address(), ReadProof::owned(head));
        while let Some(address) = body {
            body = self.memory.header(address).next();
            self.give_free(self.memory.arena.claim_body(address, head));
        }
    }

    /// Gives a chunk back to its class.
    pub fn give_free(&self, chunk: OwnedChunk) {
        let class = self.memory.class_of(chunk.address());
        self.class(class).lock().give_free(&self.memory, chunk);
    }

    /// Ends a linked item: the caller holds its stripe and has removed or replaced its entry. The chunks of
    /// a large item take long to free, so the caller lets go of the stripe before it does that.
    pub fn unlink_unfreed(&self, address: ChunkAddress) -> Remains {
        Remains(self.class(self.queue_class(address)).lock().unlink(&self.memory, address))
    }

    /// Frees what an ended item left.
    #[inline(always)]
    pub fn free_remains(&self, Remains(head): Remains) {
        if let Some(head) = head {
            self.free_bodies(&head);
            self.give_free(head);
        }
    }

    /// The same in one, where the stripe is held on.
    pub fn unlink(&self, address: ChunkAddress) {
        self.free_remains(self.unlink_unfreed(address));
    }
}
