//! Where chunks come from without an eviction, and where they go: free lists, the pool, and the end of an item.

use super::shared::Space;
use crate::class::{ClassState, Standing};
use crate::mem::{OwnedChunk, Pin, Remains, Removed};
use slabwise_base::sync::lock;

impl Space {
    /// A free chunk of a locked class, from a new page if need be, which only a class of the table gets.
    pub fn take_free(&self, state: &mut ClassState) -> Option<OwnedChunk> {
        if let Some(chunk) = state.pages.take() {
            return Some(chunk);
        }
        if state.standing() != Standing::Present {
            return None;
        }
        let beyond_limit = self.config.first_page_beyond_limit && state.page_count() == 0;
        let page = lock(&self.pool).take(&self.memory, beyond_limit)?;
        state.adopt(page);
        state.pages.take()
    }

    /// Drops a pin; if it was the last on an unlinked item, the bodies are freed and the caller owns
    /// the first chunk.
    pub fn unpin_to_owned(&self, pin: impl Into<Pin>) -> Option<OwnedChunk> {
        Some(self.free_bodies(self.memory.unpin(pin)?))
    }

    /// Drops a pin; if it was the last on an unlinked item, all its chunks are freed. The first chunk of
    /// an item that was carried to another page leads to no body any more, so only it is given back.
    pub fn unpin(&self, pin: impl Into<Pin>) {
        if let Some(chunk) = self.unpin_to_owned(pin) {
            self.give_free(chunk);
        }
    }

    /// Frees the bodies of an ended item, if it has any, before its head, so that a body's owner is always an
    /// item. Returns the head.
    #[inline(always)]
    fn free_bodies(&self, mut remains: Remains) -> OwnedChunk {
        loop {
            let class = match remains.into_chunk(&self.memory) {
                Ok(head) => return head,
                Err((rest, class)) => {
                    remains = rest;
                    class
                }
            };
            let mut class = self.class(class).lock();
            let body = remains.take_body(class.pages.token_mut());
            class.pages.give(body);
        }
    }

    /// Gives a chunk back to its class.
    pub fn give_free(&self, chunk: OwnedChunk) {
        self.class(chunk.class()).lock().pages.give(chunk);
    }

    /// Ends an item that has left its table, whose stripe is still locked. The chunks of a large item take long to
    /// free, so the caller lets go of the stripe before it does that.
    pub fn unlink_unfreed(&self, item: Removed) -> Option<Remains> {
        self.class(item.queue_class(&self.memory)).lock().unlink(item)
    }

    /// Frees what an ended item left.
    #[inline(always)]
    pub fn free_remains(&self, remains: Option<Remains>) {
        if let Some(remains) = remains {
            let head = self.free_bodies(remains);
            self.give_free(head);
        }
    }

    /// Ends an item that has left its table, and frees it under the stripe.
    pub fn unlink(&self, item: Removed) {
        self.free_remains(self.unlink_unfreed(item));
    }
}
