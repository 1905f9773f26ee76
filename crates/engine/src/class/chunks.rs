//! The pages of a class and their free chunks: what it takes, hands out and gets back.

use super::{ClassState, Standing};
use crate::layout::ChunkAddress;
use crate::mem::{OwnedChunk, Page, PageState, State};
use crate::memory::Memory;
use slabwise_base::PageId;

impl ClassState {
    /// Takes an empty page from the pool's hands. The class is one of the present table.
    pub fn adopt(&mut self, memory: &Memory, page: PageId) {
        assert_eq!(self.standing, Standing::Present, "only a class of the table gets a page");
        self.count_in(memory.pages.page(page));
        memory.pages.push_partial(&mut self.partial, page);
    }

    fn count_in(&mut self, page: &Page) {
        page.assign(Some(self.id));
        page.set_taken_as(self.pages_taken);
        self.pages_taken += 1;
        self.page_count += 1;
    }

    /// Takes over a page that it owned in an earlier life; `in_use` says which of its slots are.
    pub fn readopt(&mut self, memory: &Memory, id: PageId, in_use: impl Fn(ChunkAddress) -> bool) {
        let page = memory.pages.page(id);
        self.count_in(page);
        let mut used = 0;
        // Backwards, so that the lowest slots are handed out first and those behind the last one in use
        // count as fresh.
        for slot in (0..self.chunks_per_page).rev() {
            let address = memory.chunk_at(id, slot, self.chunk_size_bytes);
            if in_use(address) {
                used += 1;
                page.set_fresh(page.fresh().max(slot + 1));
                continue;
            }
            self.blank(memory, address);
            if used > 0 {
                self.list_free(memory, address);
            }
        }
        page.set_used(used);
        self.used_count += u64::from(used);
        if used < self.chunks_per_page {
            memory.pages.push_partial(&mut self.partial, id);
        }
    }

    /// Marks the slots of a page that were never handed out as free, so that its bytes alone tell which
    /// of them hold something.
    pub fn blank_fresh(&mut self, memory: &Memory, id: PageId) {
        for slot in memory.pages.page(id).fresh()..self.chunks_per_page {
            let address = memory.chunk_at(id, slot, self.chunk_size_bytes);
            self.blank(memory, address);
        }
    }

    /// Lets a chunk that nobody uses read as free.
    fn blank(&mut self, memory: &Memory, address: ChunkAddress) {
        let mut chunk = OwnedChunk::claim(address, self);
        memory.arena.set_state(&mut chunk, State::FREE);
        chunk.surrender();
    }

    /// Takes a free chunk: the one freed last on the page touched last, else one never used.
    pub fn take_free(&mut self, memory: &Memory) -> Option<OwnedChunk> {
        let page = self.partial?;
        Some(self.take_free_on(memory, page))
    }

    /// Takes a free chunk of a page that has one.
    #[inline(always)]
    pub(super) fn take_free_on(&mut self, memory: &Memory, id: PageId) -> OwnedChunk {
        let page = memory.pages.page(id);
        let address = match page.free_head() {
            Some(slot) => {
                let address = memory.chunk_at(id, slot, self.chunk_size_bytes);
                page.set_free_head(memory.header(address).free_next());
                address
            }
            None => {
                let slot = page.fresh();
                page.set_fresh(slot + 1);
                memory.chunk_at(id, slot, self.chunk_size_bytes)
            }
        };
        self.count_taken(memory, id);
        self.hand_out(memory, address)
    }

    #[inline(always)]
    pub(super) fn count_taken(&mut self, memory: &Memory, id: PageId) {
        let page = memory.pages.page(id);
        page.set_used(page.used() + 1);
        self.used_count += 1;
        if page.free_head().is_none() && page.fresh() == self.chunks_per_page {
            memory.pages.remove_partial(&mut self.partial, id);
        }
    }

    #[inline(always)]
    pub(super) fn hand_out(&mut self, memory: &Memory, address: ChunkAddress) -> OwnedChunk {
        let mut chunk = OwnedChunk::claim(address, self);
        memory.arena.set_state(&mut chunk, State::IN_HAND);
        chunk
    }

    /// Gives a chunk back to its page; a draining page keeps it out of use.
    pub fn give_free(&mut self, memory: &Memory, mut chunk: OwnedChunk) {
        memory.arena.set_state(&mut chunk, State::FREE);
        let address = chunk.surrender();
        let id = memory.page_of(address);
        let page = memory.pages.page(id);
        let was_full = page.used() == self.chunks_per_page;
        page.set_used(page.used() - 1);
        self.used_count -= 1;
        self.list_free(memory, address);
        if was_full && page.state() == PageState::Owned {
            memory.pages.push_partial(&mut self.partial, id);
        }
    }

    #[inline(always)]
    pub(super) fn list_free(&self, memory: &Memory, address: ChunkAddress) {
        let page = memory.page_entry(address);
        memory.header(address).set_free_next(page.free_head());
        page.set_free_head(Some(memory.slot_of(address, self.chunk_size_bytes)));
    }
}
