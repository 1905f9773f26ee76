//! The entry of each page: the class that owns it, and its free chunks.
//!
//! ```text
//!           take                     drain                    last chunk leaves
//!   FREE ----------> OWNED(class) ---------> DRAINING(class) ------------------> FREE
//!    ^                     ^                     |
//!    '--- (pool) ---       '------- abort -------'
//! ```
//!
//! Invariants: `free + owned + draining == allocated` over pages; `used + free == chunks` in each page, where
//! free chunks are those on its list and those never handed out (at or above `fresh`); an owned page
//! is on its class's list of partial pages exactly if it has a free chunk; a draining page never is.
//!
//! A page's entry belongs to the lock of the class that owns it, or to the pool's lock if none does.
//! `owner` may be read without a lock while a chunk of the page is kept in use: such a page cannot
//! change hands.

use slabwise_base::{ClassId, PageId};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

const NO_CLASS: u8 = u8::MAX;
const _: () = assert!(ClassId::NUMBERS < NO_CLASS as usize);

/// What a page is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageState {
    /// In the pool.
    Free,
    /// Serving its class.
    Owned,
    /// Being emptied by the mover: it hands out nothing.
    Draining,
}

/// One page's entry.
#[derive(Debug)]
pub struct Page {
    owner: AtomicU8,
    state: AtomicU8,
    used: AtomicU32,
    free_head: AtomicU32,
    fresh: AtomicU32,
    /// Bytes a chunk, as long as a class owns it.
    chunk_size_bytes: AtomicU32,
    taken_as: AtomicU64,
    prev: AtomicU32,
    next: AtomicU32,
}

impl Page {
    fn new() -> Page {
        Page {
            owner: AtomicU8::new(NO_CLASS),
            state: AtomicU8::new(0),
            used: AtomicU32::new(0),
            free_head: AtomicU32::new(0),
            fresh: AtomicU32::new(0),
            chunk_size_bytes: AtomicU32::new(0),
            taken_as: AtomicU64::new(0),
            prev: AtomicU32::new(0),
            next: AtomicU32::new(0),
        }
    }

    fn new_group() -> Box<[Page]> {
        (0..GROUP_PAGES).map(|_| Page::new()).collect()
    }

    /// The class that owns it, draining or not.
    pub fn owner(&self) -> Option<ClassId> {
        let owner = self.owner.load(Relaxed);
        (owner != NO_CLASS).then_some(ClassId(owner))
    }

    /// What it is.
    pub fn state(&self) -> PageState {
        match self.state.load(Relaxed) {
            0 => PageState::Free,
            1 => PageState::Owned,
            _ => PageState::Draining,
        }
    }

    /// Gives it to a class, empty, or back to the pool.
    pub(super) fn assign(&self, owner: Option<ClassId>) {
        assert_eq!(self.used(), 0, "a page changes hands only when it is empty");
        self.owner.store(owner.map_or(NO_CLASS, |class| class.0), Relaxed);
        self.state.store(u8::from(owner.is_some()), Relaxed);
        self.free_head.store(0, Relaxed);
        self.fresh.store(0, Relaxed);
    }

    /// Bytes a chunk, as long as a class owns it.
    pub(super) fn chunk_size_bytes(&self) -> usize {
        self.chunk_size_bytes.load(Relaxed) as usize
    }

    /// Sets [`Page::chunk_size_bytes`].
    pub(super) fn set_chunk_size_bytes(&self, size_bytes: usize) {
        self.chunk_size_bytes.store(size_bytes as u32, Relaxed);
    }

    /// Marks an owned page as draining, or a draining one as owned again.
    pub(super) fn set_draining(&self, draining: bool) {
        assert!(self.state() != PageState::Free, "only an owned page drains");
        self.state.store(1 + u8::from(draining), Relaxed);
    }

    /// Chunks in use.
    pub fn used(&self) -> u32 {
        self.used.load(Relaxed)
    }

    /// Sets [`Page::used`].
    pub(super) fn set_used(&self, used: u32) {
        self.used.store(used, Relaxed);
    }

    /// The first slot of the free list.
    pub(super) fn free_head(&self) -> Option<u32> {
        self.free_head.load(Relaxed).checked_sub(1)
    }

    /// Sets [`Page::free_head`].
    pub(super) fn set_free_head(&self, slot: Option<u32>) {
        self.free_head.store(slot.map_or(0, |slot| slot + 1), Relaxed);
    }

    /// The first slot that was never handed out since the page was assigned.
    pub fn fresh(&self) -> u32 {
        self.fresh.load(Relaxed)
    }

    /// Sets [`Page::fresh`].
    pub(super) fn set_fresh(&self, slot: u32) {
        self.fresh.store(slot, Relaxed);
    }

    /// How many pages its class had taken before it: the least has been there longest.
    pub fn taken_as(&self) -> u64 {
        self.taken_as.load(Relaxed)
    }

    /// Sets [`Page::taken_as`].
    pub fn set_taken_as(&self, number: u64) {
        self.taken_as.store(number, Relaxed);
    }

    fn link(cell: &AtomicU32) -> Option<PageId> {
        cell.load(Relaxed).checked_sub(1).map(PageId)
    }

    fn set_link(cell: &AtomicU32, page: Option<PageId>) {
        cell.store(page.map_or(0, |page| page.0 + 1), Relaxed);
    }

    /// The neighbours in the list of partial pages.
    pub fn next(&self) -> Option<PageId> {
        Page::link(&self.next)
    }
}

/// Entries are made in groups of this many, when the first page of a group is used: an arena may
/// reserve far more pages than it ever takes.
const GROUP_PAGES: usize = 4096;

/// Every page of the arena, used or not.
#[derive(Debug)]
pub(super) struct PageTable {
    groups: Vec<OnceLock<Box<[Page]>>>,
    count: usize,
}

impl PageTable {
    /// A table of `count` free pages.
    pub fn new(count: usize) -> PageTable {
        let groups = (0..count.div_ceil(GROUP_PAGES)).map(|_| OnceLock::new()).collect();
        PageTable { groups, count }
    }

    /// How many pages the arena has room for.
    pub fn count(&self) -> usize {
        self.count
    }

    /// One page's entry.
    #[inline]
    pub fn page(&self, id: PageId) -> &Page {
        let group = self.groups[id.index() / GROUP_PAGES].get_or_init(Page::new_group);
        &group[id.index() % GROUP_PAGES]
    }

    /// Puts a page at the head of a class's list of partial pages.
    pub fn push_partial(&self, head: &mut Option<PageId>, id: PageId) {
        let page = self.page(id);
        Page::set_link(&page.prev, None);
        Page::set_link(&page.next, *head);
        if let Some(old) = *head {
            Page::set_link(&self.page(old).prev, Some(id));
        }
        *head = Some(id);
    }

    /// Takes a page out of that list.
    pub fn remove_partial(&self, head: &mut Option<PageId>, id: PageId) {
        let page = self.page(id);
        let (prev, next) = (Page::link(&page.prev), Page::link(&page.next));
        match prev {
            Some(prev) => Page::set_link(&self.page(prev).next, next),
            None => *head = next,
        }
        if let Some(next) = next {
            Page::set_link(&self.page(next).prev, prev);
        }
    }
}
