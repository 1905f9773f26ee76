//! The page pool: the pages that no class owns, and the limits on the number of pages. [`Pool`] is under its own lock.
//!
//! If the arena is the memory file of `-e`, a class may get only a page for which the file system has allocated *blocks*: a
//! write to a page without blocks raises SIGBUS if the file system is full. A page without blocks is a *hole*.
//!
//! ```text
//!   page 0                                frontier                 end                          the last page of the arena
//!     | owned, free, released, or a hole     | never handed out      | beyond the end of the file |
//!                                              (has blocks)
//!
//!   a higher limit:  holes get blocks, then the file becomes longer, then the limit rises
//!   a lower limit:   the limit falls, then pages lose their blocks one by one, while more have blocks than may be needed
//! ```
//!
//! Invariants:
//!
//! - BLOCKS: every page below `end` has blocks, except the holes, and [`Pool::take`] returns no hole and no page from `end`
//!   on.
//! - ENOUGH-BLOCKS: at least as many pages have blocks as the memory limit allows, plus one for each class that may get its
//!   first page beyond the limit. So a page that the limit allows exists, and a full file system is noticed when the limit is
//!   raised, not by a store.
//! - ONE-RESIZE: only the holder of [`Space::resize`](crate::space::Space) changes the limit, `end` or the holes. Its system
//!   calls run without the lock of the pool.

use crate::mem::{Memory, UnusedPage};
use slabwise_base::PageId;
use std::cmp::Reverse;

/// The page pool: the pages that no class owns, and the limits on the number of pages.
#[derive(Debug)]
pub struct Pool {
    /// Pages that a class has released, and whose memory was not returned to the system.
    free: Vec<UnusedPage>,
    /// Pages that do not count as held. Their memory was returned to the system, except that pages of a memory file keep
    /// their blocks: see `blocks`.
    released: Vec<UnusedPage>,
    /// The blocks of the memory file; `None` if the arena is no memory file.
    blocks: Option<Blocks>,
    /// The number of pages that were handed out at least once. It is also the id of the next page that was never handed
    /// out.
    pub frontier: u32,
    /// The number of pages that hold memory: those in `free`, and the pages that a class owns.
    pub allocated: u32,
    /// The memory limit in pages.
    pub limit: u32,
    /// The memory outside of the arena that counts against the limit, in pages.
    pub charged: u32,
}

/// The blocks of a memory file.
#[derive(Debug)]
pub struct Blocks {
    /// The number of pages of the file.
    pub end: u32,
    /// The number of pages that classes may get beyond the memory limit.
    pub beyond_limit: u32,
    /// The pages below the frontier that have no blocks.
    pub holes: Vec<UnusedPage>,
    /// False if the file system cannot free the blocks of a part of a file.
    pub can_free: bool,
}

/// A page that was taken out of the pool because too many pages hold memory.
#[derive(Debug)]
pub struct Release {
    pub page: UnusedPage,
    /// True if the page counts as held.
    was_held: bool,
    /// True if the memory of the page is to be returned to the system.
    pub frees_memory: bool,
}

/// The pages that need blocks before the memory limit can be raised.
#[derive(Debug)]
pub struct Growth {
    /// The holes that need blocks, in ascending order.
    pub holes: Vec<PageId>,
    /// The number of pages of the file, before and afterwards.
    pub ends: [u32; 2],
}

impl Pool {
    /// Returns an empty pool with a limit of `limit` pages.
    pub fn new(limit: u32) -> Pool {
        Pool::resumed(limit, 0, None, Vec::new(), Vec::new())
    }

    /// Returns the pool of a restored cache. The earlier process had handed out `frontier` pages. Of these pages, no
    /// class owns the pages `free`, which hold memory, the pages `released`, and the holes of `blocks`.
    pub fn resumed(
        limit: u32,
        frontier: u32,
        blocks: Option<Blocks>,
        free: Vec<UnusedPage>,
        released: Vec<UnusedPage>,
    ) -> Pool {
        let holes = blocks.as_ref().map_or(0, |blocks| blocks.holes.len());
        let allocated = frontier - (released.len() + holes) as u32;
        Pool { free, released, blocks, frontier, allocated, limit, charged: 0 }
    }

    /// Begins to count the blocks of a memory file. No page was handed out yet.
    pub fn count_blocks(&mut self, blocks: Blocks) {
        assert_eq!(self.frontier, 0, "no page was handed out before the blocks are counted");
        self.blocks = Some(blocks);
    }

    /// Lowers the limit to the pages that have blocks.
    pub fn lower_limit_to_blocks(&mut self) {
        if let Some(blocks) = &self.blocks {
            self.limit = self.limit.min(blocks.with_blocks().saturating_sub(blocks.beyond_limit));
        }
    }

    /// Takes the blocks, in order to make a new pool.
    pub fn take_blocks(&mut self) -> Option<Blocks> {
        self.blocks.take()
    }

    /// Returns the pages that hold memory and that no class owns.
    pub fn free_pages(&self) -> impl Iterator<Item = PageId> {
        self.free.iter().map(UnusedPage::id)
    }

    /// Returns the number of pages that hold memory and that no class owns.
    pub fn free_count(&self) -> u32 {
        self.free.len() as u32
    }

    /// Returns the blocks of the memory file, or `None` if the arena is no memory file.
    pub fn blocks(&self) -> Option<&Blocks> {
        self.blocks.as_ref()
    }

    /// True if [`Pool::take`] returns a page within the limit. If more pages hold memory than the limit allows, the free
    /// pages stay here until [`Pool::take_for_release`] takes them.
    pub fn has_page(&self) -> bool {
        self.headroom() > 0 || (self.headroom() == 0 && !self.free.is_empty())
    }

    /// Returns the number of additional pages that may hold memory. It is negative if more pages hold memory than the
    /// limit allows, for example after the limit was lowered.
    pub fn headroom(&self) -> i64 {
        i64::from(self.limit_for_items()) - i64::from(self.allocated)
    }

    /// Returns the largest number of pages for items: `limit` minus `charged`, but at least half of `limit`.
    pub fn limit_for_items(&self) -> u32 {
        self.limit - self.charged.min(self.limit / 2)
    }

    /// Returns the number of pages with blocks that no class may need (ENOUGH-BLOCKS).
    fn surplus(&self) -> u32 {
        self.blocks.as_ref().map_or(0, |blocks| {
            blocks.with_blocks().saturating_sub(self.limit.saturating_add(blocks.beyond_limit))
        })
    }

    /// True if pages can lose their blocks, and more have blocks than may be needed.
    fn has_surplus(&self) -> bool {
        self.surplus() > 0 && self.blocks.as_ref().is_some_and(|blocks| blocks.can_free)
    }

    /// Takes a page out of the pool: a page in `free` or, if there is none, a page that holds no memory. Returns `None`
    /// if one more page would exceed the limit, or if all pages of the arena are in use. With `beyond_limit`, ignores
    /// the limit: a class may get its first page beyond the limit.
    pub fn take(&mut self, memory: &Memory, beyond_limit: bool) -> Option<UnusedPage> {
        if !beyond_limit && !self.has_page() {
            return None;
        }
        if let Some(page) = self.free.pop() {
            return Some(page);
        }
        let page = self.take_reserve(memory)?;
        self.allocated += 1;
        Some(page)
    }

    /// Takes a page that does not count as held: one in `released` or, if there is none, one that was never handed out.
    fn take_reserve(&mut self, memory: &Memory) -> Option<UnusedPage> {
        if let Some(page) = self.released.pop() {
            return Some(page);
        }
        if self.blocks.as_ref().is_some_and(|blocks| self.frontier >= blocks.end) {
            return None;
        }
        let page = memory.next_new_page()?;
        self.frontier += 1;
        Some(page)
    }

    /// Puts a page that a class has released into the pool.
    pub fn put(&mut self, page: UnusedPage) {
        self.free.push(page);
    }

    /// True if [`Pool::take_for_release`] returns a page.
    pub fn has_release(&self) -> bool {
        let has_reserve = || {
            let end = self.blocks.as_ref().map_or(0, |blocks| blocks.end);
            !self.released.is_empty() || self.frontier < end
        };
        (self.headroom() < 0 && !self.free.is_empty()) || (self.has_surplus() && has_reserve())
    }

    /// Takes a page out of the pool if too many pages hold memory: a free page while more pages are held than the limit
    /// allows, or a page that is not held while more pages have blocks than may be needed. The caller returns the memory of
    /// the page to the system, and puts the page back with [`Pool::put_released`]. It holds the resize lock.
    pub fn take_for_release(&mut self, memory: &Memory) -> Option<Release> {
        let frees_memory = self.blocks.is_none() || self.has_surplus();
        if self.headroom() < 0
            && let Some(page) = self.free.pop()
        {
            return Some(Release { page, was_held: true, frees_memory });
        }
        if !self.has_surplus() {
            return None;
        }
        let page = self.take_reserve(memory)?;
        Some(Release { page, was_held: false, frees_memory })
    }

    /// Puts a page back. `is_freed` is true if its memory was returned to the system.
    pub fn put_released(&mut self, release: Release, is_freed: bool) {
        self.allocated -= u32::from(release.was_held);
        match &mut self.blocks {
            Some(blocks) if is_freed => blocks.holes.push(release.page),
            Some(blocks) => {
                blocks.can_free &= !release.frees_memory;
                self.released.push(release.page);
            }
            None => self.released.push(release.page),
        }
    }

    /// Returns the pages that need blocks before the limit can be raised to `limit` pages, or `None` if enough pages have
    /// blocks. The caller holds the resize lock until it has called [`Pool::end_growth`] or given up.
    pub fn begin_growth(&mut self, limit: u32) -> Option<Growth> {
        let blocks = self.blocks.as_mut()?;
        let needed = limit.saturating_add(blocks.beyond_limit);
        let missing = needed.checked_sub(blocks.with_blocks()).filter(|&missing| missing > 0)?;
        // The first pages of the file get blocks first, so that the end of the file can be cut off at the next start.
        blocks.holes.sort_unstable_by_key(|page| Reverse(page.id()));
        let filled = blocks.holes.len().min(missing as usize);
        let holes = blocks.holes.iter().rev().take(filled).map(UnusedPage::id).collect();
        let end = blocks.end + (missing - filled as u32);
        Some(Growth { holes, ends: [blocks.end, end] })
    }

    /// Ends a growth: its pages have blocks now.
    pub fn end_growth(&mut self, growth: Growth) {
        let blocks = self.blocks.as_mut().expect("only a memory file grows");
        let kept = blocks.holes.len() - growth.holes.len();
        self.released.extend(blocks.holes.drain(kept..));
        blocks.end = growth.ends[1];
    }

    /// Panics if an invariant is broken, for tests. No thread has taken a page for release.
    pub fn check(&self, page_count: u32) {
        let Some(blocks) = &self.blocks else { return };
        assert!(self.frontier <= blocks.end, "every page that was handed out is in the file");
        assert!(blocks.end <= page_count, "every page of the file is in the arena");
        let needed = self.limit.saturating_add(blocks.beyond_limit);
        assert!(blocks.with_blocks() >= needed, "enough pages have blocks: {blocks:?}, {needed}");
        let reserve = self.released.len() as u32 + (blocks.end - self.frontier);
        assert_eq!(
            self.allocated + reserve,
            blocks.with_blocks(),
            "a page with blocks is held, released or was never handed out"
        );
    }
}

impl Blocks {
    /// Returns the number of pages that have blocks.
    pub fn with_blocks(&self) -> u32 {
        self.end - self.holes.len() as u32
    }
}
