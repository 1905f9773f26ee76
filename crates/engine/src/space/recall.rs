//! The recall of spare chunks (`spares.rs`).

use super::shared::Space;
use crate::class::{ClassState, TABLE_NUMBERS};
use crate::layout::ChunkAddress;
use crate::mem::OwnedChunk;
use slabwise_base::{ClassId, PageId};

impl Space {
    /// Returns all spare chunks of a class to the class. The caller holds no lock of a class.
    pub fn recall(&self, class: ClassId) {
        self.recall_if(class, |_| true);
    }

    /// Returns the spare chunks on a page of `class` to the class. The caller holds no lock of a class.
    pub fn recall_page(&self, class: ClassId, page: PageId) {
        self.recall_if(class, |address| self.memory.page_of(address) == page);
    }

    /// Returns all spare chunks to their classes. The caller holds no lock of a class.
    pub fn recall_all(&self) {
        (0..TABLE_NUMBERS as u8).for_each(|number| self.recall(ClassId(number)));
    }

    fn recall_if(&self, class: ClassId, is_wanted: impl Fn(ChunkAddress) -> bool) {
        if self.spares.addresses(class).any(&is_wanted) {
            self.recall_into(&mut self.class(class).lock(), is_wanted);
        }
    }

    /// Returns the spare chunks of a locked class whose addresses `is_wanted` accepts.
    pub fn recall_into(&self, state: &mut ClassState, is_wanted: impl Fn(ChunkAddress) -> bool) {
        self.spares.take_all(state.id(), is_wanted, |chunk| state.pages.give(chunk));
    }

    /// Takes a free chunk of a locked class. If there is none, recalls the spare chunks of the class first. Returns
    /// `None` if all chunks are in use or on a draining page.
    pub fn take_free_or_spare(&self, state: &mut ClassState) -> Option<OwnedChunk> {
        state.pages.take().or_else(|| {
            self.recall_into(state, |_| true);
            state.pages.take()
        })
    }

    /// Returns the number of chunks in use that hold no item of the class's queues, without spare chunks.
    pub fn unqueued_count(&self, state: &ClassState) -> u64 {
        state.unqueued_count().saturating_sub(self.spares.count(state.id()))
    }
}
