//! Pages and their free chunks: those of a class, under its lock, and those that no class owns, under the pool's.
//!
//! A class parts with a page in two ways. A page that *drains* hands out nothing, whatever is freed on it, and is
//! handed on when nothing on it is in use. A page of the published movers stays in service, and they take its free
//! chunks out of use one by one (they *cut* them), until they hold all.
//!
//! Invariants: `used + free == pages * chunks_per_page` over owned and draining pages; an owned page is on the list
//! of partial pages exactly if it has a free chunk, a draining one never.

use crate::layout::ChunkAddress;
use crate::mem::{ClassToken, Memory, OwnedChunk, Page, PageState, Restore, UnusedPage};
use slabwise_base::PageId;

#[derive(Debug)]
pub struct Pages {
    /// Also what the class's queues are changed with. Its pages and chunks are taken and given here.
    pub token: ClassToken,
    /// Pages that it ever took.
    taken_count: u64,
    /// Chunks in use, those on draining pages included.
    used_count: u64,
    /// The first page with a free chunk.
    partial: Option<PageId>,
}

impl Pages {
    pub fn new(token: ClassToken) -> Pages {
        Pages { token, taken_count: 0, used_count: 0, partial: None }
    }

    /// Chunks in use, those on draining pages included.
    pub fn used_count(&self) -> u64 {
        self.used_count
    }

    /// Chunks not in use, those on draining pages included.
    pub fn free_count(&self) -> u64 {
        u64::from(self.token.page_count()) * u64::from(self.token.chunks_per_page())
            - self.used_count
    }

    /// The head of the list of pages with a free chunk.
    pub fn partial(&self) -> Option<PageId> {
        self.partial
    }

    pub fn adopt(&mut self, page: UnusedPage) -> PageId {
        let id = self.token.adopt(page);
        self.number(id);
        self.push_partial(id);
        id
    }

    /// Numbers a page in the order in which they came.
    fn number(&mut self, id: PageId) {
        self.token.own(id).set_taken_as(self.taken_count);
        self.taken_count += 1;
    }

    /// Begins to take over a page that it owned in an earlier life.
    pub fn begin_restore(&mut self, restore: &mut Restore, page: UnusedPage) {
        let id = restore.adopt(&mut self.token, page);
        self.number(id);
    }

    /// Frees what was not taken over on such a page.
    pub fn finish_restore(&mut self, restore: &mut Restore, id: PageId) {
        let used = restore.finish_page(&mut self.token, id);
        self.used_count += u64::from(used);
        if used < self.token.chunks_per_page() {
            self.push_partial(id);
        }
    }

    /// Takes a free chunk: the one freed last on the page touched last, else one never used.
    #[inline]
    pub fn take(&mut self) -> Option<OwnedChunk> {
        let page = self.partial?;
        self.take_on(page)
    }

    pub fn take_beside(&mut self, page: PageId) -> Option<OwnedChunk> {
        let mut candidate = self.partial?;
        if candidate == page {
            candidate = self.token.own(page).next()?;
        }
        self.take_on(candidate)
    }

    #[inline]
    fn take_on(&mut self, id: PageId) -> Option<OwnedChunk> {
        let chunk = self.token.take(id)?;
        self.count_taken(id);
        Some(chunk)
    }

    /// Takes this free chunk, wherever it is on its page's list; quick where it is near the head.
    pub fn take_at(&mut self, address: ChunkAddress) -> OwnedChunk {
        let chunk = self.token.take_at(address);
        self.count_taken(self.token.memory().page_of(address));
        chunk
    }

    #[inline]
    fn count_taken(&mut self, id: PageId) {
        self.used_count += 1;
        let page = self.token.own(id);
        if page.used() == self.token.chunks_per_page() {
            self.remove_partial(id);
        }
    }

    /// Gives a chunk back to its page; a draining page keeps it out of use.
    #[inline]
    pub fn give(&mut self, chunk: OwnedChunk) {
        let id = self.token.memory().page_of(chunk.address());
        self.token.give(chunk);
        self.used_count -= 1;
        let page = self.token.own(id);
        if page.used() + 1 == self.token.chunks_per_page() && page.state() == PageState::Owned {
            self.push_partial(id);
        }
    }

    /// Takes a page out of service: from here on it hands out nothing.
    pub fn begin_drain(&mut self, id: PageId) {
        if self.has_free(self.token.own(id)) {
            self.remove_partial(id);
        }
        self.token.set_draining(id, true);
    }

    /// Puts a draining page back into service.
    pub fn abort_drain(&mut self, id: PageId) {
        self.token.set_draining(id, false);
        if self.has_free(self.token.own(id)) {
            self.push_partial(id);
        }
    }

    fn has_free(&self, page: &Page) -> bool {
        page.used() < self.token.chunks_per_page()
    }

    pub fn part_with_cut(&mut self, id: PageId, chunks: Vec<OwnedChunk>) -> UnusedPage {
        self.used_count -= chunks.len() as u64;
        // Of its list nothing is taken any more.
        chunks.into_iter().for_each(|chunk| self.token.give(chunk));
        self.part_with(id)
    }

    /// Parts with a draining page that is empty.
    pub fn part_with(&mut self, id: PageId) -> UnusedPage {
        self.token.part_with(id)
    }

    fn push_partial(&mut self, id: PageId) {
        self.token.memory().push_partial(&mut self.partial, id);
    }

    fn remove_partial(&mut self, id: PageId) {
        self.token.memory().remove_partial(&mut self.partial, id);
    }
}

/// The pages that no class owns, under one lock.
#[derive(Debug)]
pub struct Pool {
    /// Pages returned by classes, their memory still taken.
    free: Vec<UnusedPage>,
    /// Pages whose memory went back to the system.
    released: Vec<UnusedPage>,
    /// Pages ever handed out: the next new one has this number.
    frontier: u32,
    /// Pages that hold memory: free, owned or draining.
    allocated: u32,
    /// How many may hold memory.
    pub limit: u32,
    /// Of these, how many memory outside the arena takes the place of.
    pub charged: u32,
}

impl Pool {
    /// An empty pool under a limit of `limit` pages.
    pub fn new(limit: u32) -> Pool {
        let (free, released) = (Vec::new(), Vec::new());
        Pool { free, released, frontier: 0, allocated: 0, limit, charged: 0 }
    }

    /// A pool whose first `frontier` pages were handed out, and these `returned` since.
    pub fn resumed(limit: u32, frontier: u32, returned: Vec<UnusedPage>) -> Pool {
        let allocated = frontier - returned.len() as u32;
        Pool { free: Vec::new(), released: returned, frontier, allocated, limit, charged: 0 }
    }

    /// Pages that hold memory.
    pub fn allocated(&self) -> u32 {
        self.allocated
    }

    /// Pages that hold memory and belong to no class.
    pub fn free_count(&self) -> u32 {
        self.free.len() as u32
    }

    /// Pages that the limit allows beyond those that hold memory; below 0 after a lowered limit.
    pub fn headroom(&self) -> i64 {
        i64::from(self.limit_for_items()) - i64::from(self.allocated)
    }

    /// Pages that items may take: the limit less what is charged, but at least half of it.
    pub fn limit_for_items(&self) -> u32 {
        self.limit - self.charged.min(self.limit / 2)
    }

    /// A page for a class: a free one, or new memory while the limit allows it; the first page of a
    /// class may go `beyond_limit`. `None` at the limit, and where the arena ends.
    pub fn take(&mut self, memory: &Memory, beyond_limit: bool) -> Option<UnusedPage> {
        // Above a lowered limit, even a free page is not handed out: it is to be released.
        if self.headroom() < 0 && !beyond_limit {
            return None;
        }
        if let Some(page) = self.free.pop() {
            return Some(page);
        }
        if self.headroom() <= 0 && !beyond_limit {
            return None;
        }
        let page = match self.released.pop() {
            Some(page) => page,
            None => {
                let page = memory.next_new_page()?;
                self.frontier += 1;
                page
            }
        };
        self.allocated += 1;
        Some(page)
    }

    pub fn put(&mut self, page: UnusedPage) {
        self.free.push(page);
    }

    /// While more memory is held than the limit allows: a free page whose memory must be released,
    /// which [`Pool::put_released`] ends.
    pub fn take_for_release(&mut self) -> Option<UnusedPage> {
        if self.headroom() < 0 { self.free.pop() } else { None }
    }

    /// Takes a page back whose memory went to the system.
    pub fn put_released(&mut self, page: UnusedPage) {
        self.allocated -= 1;
        self.released.push(page);
    }

    /// Pages that were ever handed out.
    pub fn frontier(&self) -> u32 {
        self.frontier
    }
}
