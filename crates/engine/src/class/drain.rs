//! How a class parts with a page: what the mover does to its free lists.
//!
//! Two ways. A page that *drains* hands out nothing, whatever is freed on it, and is handed on when nothing
//! on it is in use. A page of the published movers stays in service, and they take its free chunks out of
//! use one by one (they *cut* them), until all are in their hand.

use super::{ClassState, Standing};
use crate::layout::ChunkAddress;
use crate::mem::{Kind, OwnedChunk};
use crate::memory::Memory;
use slabwise_base::PageId;

impl ClassState {
    /// A free chunk on any page but one.
    pub fn take_free_beside(&mut self, memory: &Memory, page: PageId) -> Option<OwnedChunk> {
        let mut candidate = self.partial?;
        if candidate == page {
            candidate = memory.pages.page(page).next()?;
        }
        Some(self.take_free_on(memory, candidate))
    }

    /// Takes this free chunk, wherever it is on its page's list; quick where it is near the head.
    pub fn take_free_at(&mut self, memory: &Memory, address: ChunkAddress) -> OwnedChunk {
        let id = memory.page_of(address);
        let page = memory.pages.page(id);
        let slot = memory.slot_of(address, self.chunk_size_bytes);
        let header = |slot| memory.header(memory.chunk_at(id, slot, self.chunk_size_bytes));
        let after = memory.header(address).free_next();
        if page.free_head() == Some(slot) {
            page.set_free_head(after);
        } else {
            let mut listed = std::iter::successors(page.free_head(), |&at| header(at).free_next());
            let before = listed.find(|&at| header(at).free_next() == Some(slot));
            header(before.expect("a free chunk is listed on its page")).set_free_next(after);
        }
        self.count_taken(memory, id);
        self.hand_out(memory, address)
    }

    /// Lists all free chunks of a page in the order of their slots, those never handed out included, so
    /// that who takes them one by one in that order finds each at the head.
    pub fn list_in_order(&mut self, memory: &Memory, id: PageId) {
        self.blank_fresh(memory, id);
        let page = memory.pages.page(id);
        page.set_fresh(self.chunks_per_page);
        page.set_free_head(None);
        for slot in (0..self.chunks_per_page).rev() {
            let address = memory.chunk_at(id, slot, self.chunk_size_bytes);
            if memory.header(address).state().load().kind() == Kind::Free {
                self.list_free(memory, address);
            }
        }
    }

    /// Takes a page out of service: from here on it hands out nothing.
    pub fn begin_drain(&mut self, memory: &Memory, id: PageId) {
        let page = memory.pages.page(id);
        if page.used() < self.chunks_per_page {
            memory.pages.remove_partial(&mut self.partial, id);
        }
        page.set_draining(true);
    }

    /// Puts a draining page back into service.
    pub fn abort_drain(&mut self, memory: &Memory, id: PageId) {
        let page = memory.pages.page(id);
        page.set_draining(false);
        if page.used() < self.chunks_per_page {
            memory.pages.push_partial(&mut self.partial, id);
        }
    }

    /// Parts with a page of which every chunk is in the caller's hand.
    pub fn part_with(&mut self, memory: &Memory, id: PageId, chunks: Vec<OwnedChunk>) {
        assert_eq!(chunks.len(), self.chunks_per_page as usize, "every chunk of the page is cut");
        let last =
            chunks.into_iter().map(OwnedChunk::surrender).find(|&at| memory.page_of(at) != id);
        assert_eq!(last, None, "what was cut lies on the page");
        memory.pages.page(id).set_used(0);
        self.used_count -= u64::from(self.chunks_per_page);
        self.finish_drain(memory, id);
    }

    /// Parts with a draining page that is empty.
    pub fn finish_drain(&mut self, memory: &Memory, id: PageId) {
        memory.pages.page(id).assign(None);
        self.page_count -= 1;
        if self.page_count == 0 && self.standing == Standing::Retired {
            self.standing = Standing::Vacant;
        }
    }
}
