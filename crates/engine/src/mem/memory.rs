//! The arena and the page entries: each entry records the class that owns the page, and the page's free chunks.
//!
//! ```text
//!           take                     drain                    last chunk is freed
//!   FREE ----------> OWNED(class) ---------> DRAINING(class) ------------------> FREE
//!    ^                     ^                     |
//!    '--- (pool) ---       '------- abort -------'
//! ```
//!
//! Invariants: `free + owned + draining == allocated` over pages; `used + free == chunks` in each page, where the
//! free chunks are those on the free list and the fresh ones (never handed out, at or above `fresh`); an owned page
//! is on its class's list of partial pages exactly if it has a free chunk; a draining page never is.
//!
//! The lock of the class that owns a page protects its entry; if no class owns it, the pool's lock does.
//! `owner` may be read without a lock while a chunk of the page is kept in use, because the owner of such a page
//! cannot change.

use super::arena::Arena;
use crate::layout::{CHAINED, CLASS_NUMBERS, ChunkAddress, ItemFields, SizeModel};
use slabwise_base::{ClassId, PageId};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

const _: () = assert!(ClassId::NUMBERS < u8::MAX as usize);

/// The state of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageState {
    /// The page is in the pool.
    Free,
    /// The page's class allocates chunks from it.
    Owned,
    /// The mover empties the page; no chunks are allocated from it.
    Draining,
}

/// The entry of a page.
#[derive(Debug, Default)]
pub struct Page {
    /// The number of the class, plus one; 0 for none.
    owner: AtomicU8,
    state: AtomicU8,
    used: AtomicU32,
    free_head: AtomicU32,
    fresh: AtomicU32,
    /// Valid while a class owns the page.
    chunk_size_bytes: AtomicU32,
    taken_as: AtomicU64,
    prev: AtomicU32,
    next: AtomicU32,
}

impl Page {
    fn new_group() -> Box<[Page]> {
        (0..GROUP_PAGES).map(|_| Page::default()).collect()
    }

    /// The class that owns the page, draining or not.
    pub fn owner(&self) -> Option<ClassId> {
        self.owner.load(Relaxed).checked_sub(1).map(ClassId)
    }

    pub fn state(&self) -> PageState {
        match self.state.load(Relaxed) {
            0 => PageState::Free,
            1 => PageState::Owned,
            _ => PageState::Draining,
        }
    }

    /// Gives the empty page to a class, or back to the pool.
    pub(super) fn assign(&self, owner: Option<ClassId>) {
        assert_eq!(self.used(), 0, "a page changes its class only when it is empty");
        self.owner.store(owner.map_or(0, |class| class.0 + 1), Relaxed);
        self.state.store(u8::from(owner.is_some()), Relaxed);
        self.free_head.store(0, Relaxed);
        self.fresh.store(0, Relaxed);
    }

    pub(super) fn chunk_size_bytes(&self) -> usize {
        self.chunk_size_bytes.load(Relaxed) as usize
    }

    pub(super) fn set_chunk_size_bytes(&self, size_bytes: usize) {
        self.chunk_size_bytes.store(size_bytes as u32, Relaxed);
    }

    /// Marks an owned page as draining, or a draining page as owned.
    pub(super) fn set_draining(&self, draining: bool) {
        assert!(self.state() != PageState::Free, "only an owned page drains");
        self.state.store(1 + u8::from(draining), Relaxed);
    }

    pub fn used(&self) -> u32 {
        self.used.load(Relaxed)
    }

    pub(super) fn set_used(&self, used: u32) {
        self.used.store(used, Relaxed);
    }

    /// The first slot of the free list.
    pub(super) fn free_head(&self) -> Option<u32> {
        self.free_head.load(Relaxed).checked_sub(1)
    }

    pub(super) fn set_free_head(&self, slot: Option<u32>) {
        self.free_head.store(slot.map_or(0, |slot| slot + 1), Relaxed);
    }

    /// The first slot that was not handed out since the page was assigned.
    pub fn fresh(&self) -> u32 {
        self.fresh.load(Relaxed)
    }

    pub(super) fn set_fresh(&self, slot: u32) {
        self.fresh.store(slot, Relaxed);
    }

    /// The number of pages that the class had taken before this one. The class's oldest page has the smallest.
    pub fn taken_as(&self) -> u64 {
        self.taken_as.load(Relaxed)
    }

    pub fn set_taken_as(&self, number: u64) {
        self.taken_as.store(number, Relaxed);
    }

    fn link(cell: &AtomicU32) -> Option<PageId> {
        cell.load(Relaxed).checked_sub(1).map(PageId)
    }

    fn set_link(cell: &AtomicU32, page: Option<PageId>) {
        cell.store(page.map_or(0, |page| page.0 + 1), Relaxed);
    }

    /// The next page in the list of partial pages.
    pub fn next(&self) -> Option<PageId> {
        Page::link(&self.next)
    }
}

/// The number of entries that are allocated together. An arena may reserve far more pages than it ever uses.
const GROUP_PAGES: usize = 4096;

/// The bytes of the cache and the page entries.
#[derive(Debug)]
pub struct Memory {
    pub(super) arena: Arena,
    /// A group is allocated when its first page is used.
    page_groups: Vec<OnceLock<Box<[Page]>>>,
    page_shift: u32,
    size_model: SizeModel,
    /// Unique in this process. The access tokens of one memory are rejected by the others.
    pub(super) number: u32,
    pub(super) stripe_count: AtomicU32,
    /// The number of pages that were handed out at least once.
    pub(super) pages_begun: AtomicU32,
    /// True if the mover's token was handed out.
    pub(super) mover_token: AtomicBool,
    /// True for each class whose token was handed out.
    pub(super) class_tokens: [AtomicBool; CLASS_NUMBERS],
}

const PAGE_SIZE_BYTES_MIN: usize = 4096;

/// The bytes of an item that are prefetched: header, key, and the start of most values.
const ITEM_HEAD_BYTES: usize = 192;

static MEMORY_COUNT: AtomicU32 = AtomicU32::new(0);

impl Memory {
    pub fn new(arena: Arena, page_size_bytes: usize, size_model: SizeModel) -> Memory {
        assert!(
            page_size_bytes.is_power_of_two(),
            "page size {page_size_bytes} is not a power of two"
        );
        // An address has 40 bits, and a page number 32.
        assert!(page_size_bytes >= PAGE_SIZE_BYTES_MIN, "page size {page_size_bytes} is too small");
        let groups = (arena.size_bytes() / page_size_bytes).div_ceil(GROUP_PAGES);
        let number = MEMORY_COUNT.fetch_add(1, Relaxed);
        assert!(number < u32::MAX, "too many memories in one process");
        Memory {
            arena,
            page_groups: (0..groups).map(|_| OnceLock::new()).collect(),
            page_shift: page_size_bytes.ilog2(),
            size_model,
            number,
            stripe_count: AtomicU32::new(0),
            pages_begun: AtomicU32::new(0),
            mover_token: AtomicBool::new(false),
            class_tokens: std::array::from_fn(|_| AtomicBool::new(false)),
        }
    }

    /// The class whose queues may hold the item at `address`: its chunk's, or [`CHAINED`].
    #[inline]
    pub(super) fn queue_class(&self, address: ChunkAddress, chained: bool) -> ClassId {
        if chained { CHAINED } else { self.class_of(address) }
    }

    pub fn page_size_bytes(&self) -> usize {
        1 << self.page_shift
    }

    pub fn size_bytes(&self) -> usize {
        self.arena.size_bytes()
    }

    pub(super) fn page_count(&self) -> usize {
        self.arena.size_bytes() >> self.page_shift
    }

    #[inline]
    pub fn page(&self, id: PageId) -> &Page {
        let group = self.page_groups[id.index() / GROUP_PAGES].get_or_init(Page::new_group);
        &group[id.index() % GROUP_PAGES]
    }

    /// Prefetches header, key, and the start of most values.
    #[inline]
    pub fn prefetch_item(&self, address: ChunkAddress) {
        self.arena.prefetch_chunk(address, ITEM_HEAD_BYTES);
    }

    /// Prefetches the first `size_bytes` of a chunk.
    #[inline]
    pub fn prefetch_chunk(&self, address: ChunkAddress, size_bytes: usize) {
        self.arena.prefetch_chunk(address, size_bytes);
    }

    /// Commits a page's memory now, because it will soon be written. The contents do not change.
    pub fn populate(&self, page: PageId) {
        self.arena.populate(page, self.page_size_bytes());
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

    /// Removes a page from a class's list of partial pages.
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

    #[inline]
    pub fn page_of(&self, address: ChunkAddress) -> PageId {
        PageId((address.offset() >> self.page_shift) as u32)
    }

    #[inline(always)]
    pub(super) fn page_entry(&self, address: ChunkAddress) -> &Page {
        self.page(self.page_of(address))
    }

    /// The class of a chunk in use.
    #[inline]
    pub(super) fn class_of(&self, address: ChunkAddress) -> ClassId {
        self.page_entry(address).owner().expect("a chunk in use is in a page that a class owns")
    }

    pub fn chunk_at(&self, page: PageId, slot: u32, chunk_size_bytes: usize) -> ChunkAddress {
        ChunkAddress::from_offset(
            (page.index() << self.page_shift) + slot as usize * chunk_size_bytes,
        )
    }

    pub(super) fn slot_of(&self, address: ChunkAddress, chunk_size_bytes: usize) -> u32 {
        (self.within_page(address) / chunk_size_bytes) as u32
    }

    /// The slot of a chunk of this size that starts at `address`, if one does.
    pub(super) fn slot_at(&self, address: ChunkAddress, chunk_size_bytes: usize) -> Option<u32> {
        let starts = self.within_page(address).is_multiple_of(chunk_size_bytes);
        starts.then(|| self.slot_of(address, chunk_size_bytes))
    }

    fn within_page(&self, address: ChunkAddress) -> usize {
        address.offset() & (self.page_size_bytes() - 1)
    }

    /// The size of an item for the choice of its class, the size limit and the statistics.
    pub fn counted_size_bytes(
        &self,
        key_len: usize,
        value_len: usize,
        fields: ItemFields,
    ) -> usize {
        self.size_model.counted_size_bytes(key_len, value_len, fields)
    }
}
