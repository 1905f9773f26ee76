//! Arena and page entries: the bytes of the cache, who owns each page, and which of its chunks are free.
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

use super::arena::Arena;
use crate::layout::{CHAINED, CLASS_NUMBERS, ChunkAddress, ItemFields, SizeModel};
use slabwise_base::{ClassId, PageId};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

const _: () = assert!(ClassId::NUMBERS < u8::MAX as usize);

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
#[derive(Debug, Default)]
pub struct Page {
    /// The number of the class, plus one; 0 for none.
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
    fn new_group() -> Box<[Page]> {
        (0..GROUP_PAGES).map(|_| Page::default()).collect()
    }

    /// The class that owns it, draining or not.
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

    /// Gives it to a class, empty, or back to the pool.
    pub(super) fn assign(&self, owner: Option<ClassId>) {
        assert_eq!(self.used(), 0, "a page changes hands only when it is empty");
        self.owner.store(owner.map_or(0, |class| class.0 + 1), Relaxed);
        self.state.store(u8::from(owner.is_some()), Relaxed);
        self.free_head.store(0, Relaxed);
        self.fresh.store(0, Relaxed);
    }

    /// Bytes a chunk, as long as a class owns it.
    pub(super) fn chunk_size_bytes(&self) -> usize {
        self.chunk_size_bytes.load(Relaxed) as usize
    }

    pub(super) fn set_chunk_size_bytes(&self, size_bytes: usize) {
        self.chunk_size_bytes.store(size_bytes as u32, Relaxed);
    }

    /// Marks an owned page as draining, or a draining one as owned again.
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

    /// The first slot that was never handed out since the page was assigned.
    pub fn fresh(&self) -> u32 {
        self.fresh.load(Relaxed)
    }

    pub(super) fn set_fresh(&self, slot: u32) {
        self.fresh.store(slot, Relaxed);
    }

    /// How many pages its class had taken before it: the least has been there longest.
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

    /// The neighbours in the list of partial pages.
    pub fn next(&self) -> Option<PageId> {
        Page::link(&self.next)
    }
}

/// Entries are made in groups of this many: an arena may reserve far more pages than it ever takes.
const GROUP_PAGES: usize = 4096;

/// The bytes of the cache and who owns which page.
#[derive(Debug)]
pub struct Memory {
    pub(super) arena: Arena,
    /// Entries in groups, made when the first page of a group is used.
    page_groups: Vec<OnceLock<Box<[Page]>>>,
    page_shift: u32,
    size_model: SizeModel,
    /// Of no other memory of this process: what was made for one is refused by the others.
    pub(super) number: u32,
    /// Stripes that were numbered.
    pub(super) stripe_count: AtomicU32,
    /// Pages that were handed out for the first time.
    pub(super) pages_begun: AtomicU32,
    /// Whether the mover's token was handed out.
    pub(super) mover_token: AtomicBool,
    /// Which classes' tokens were handed out.
    pub(super) class_tokens: [AtomicBool; CLASS_NUMBERS],
}

const PAGE_SIZE_BYTES_MIN: usize = 4096;

/// What is fetched of an item ahead: header, key, and where most values begin.
const ITEM_HEAD_BYTES: usize = 128;

/// The memories made so far.
static MEMORY_COUNT: AtomicU32 = AtomicU32::new(0);

impl Memory {
    /// Memory over an arena of whole pages.
    pub fn new(arena: Arena, page_size_bytes: usize, size_model: SizeModel) -> Memory {
        assert!(
            page_size_bytes.is_power_of_two(),
            "page size {page_size_bytes} is no power of two"
        );
        // An address has 40 bits, and the number of its page 32.
        assert!(page_size_bytes >= PAGE_SIZE_BYTES_MIN, "page size {page_size_bytes} is too small");
        let groups = (arena.size_bytes() / page_size_bytes).div_ceil(GROUP_PAGES);
        let number = MEMORY_COUNT.fetch_add(1, Relaxed);
        assert!(number < u32::MAX, "memories are numbered");
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

    /// The class in whose queue the item at `address` may be: its chunk's, or [`CHAINED`].
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

    /// How many pages there is room for.
    pub(super) fn page_count(&self) -> usize {
        self.arena.size_bytes() >> self.page_shift
    }

    #[inline]
    pub fn page(&self, id: PageId) -> &Page {
        let group = self.page_groups[id.index() / GROUP_PAGES].get_or_init(Page::new_group);
        &group[id.index() % GROUP_PAGES]
    }

    /// Asks for a chunk's first cache lines: header, key, and where most values begin.
    #[inline]
    pub fn prefetch_item(&self, address: ChunkAddress) {
        self.arena.prefetch_chunk(address, ITEM_HEAD_BYTES);
    }

    /// Asks for the cache lines of a chunk's first bytes.
    #[inline]
    pub fn prefetch_chunk(&self, address: ChunkAddress, size_bytes: usize) {
        self.arena.prefetch_chunk(address, size_bytes);
    }

    /// Takes a page's memory from the system at once, as it will soon be written. It changes nothing.
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

    /// The page that a chunk lies in.
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
        self.page_entry(address).owner().expect("a chunk in use lies in a page that a class owns")
    }

    /// The chunk in a slot of a page.
    pub fn chunk_at(&self, page: PageId, slot: u32, chunk_size_bytes: usize) -> ChunkAddress {
        ChunkAddress::from_offset(
            (page.index() << self.page_shift) + slot as usize * chunk_size_bytes,
        )
    }

    /// The slot that a chunk has in its page.
    pub(super) fn slot_of(&self, address: ChunkAddress, chunk_size_bytes: usize) -> u32 {
        (self.within_page(address) / chunk_size_bytes) as u32
    }

    /// The slot of this size that starts at an address, if one does.
    pub(super) fn slot_at(&self, address: ChunkAddress, chunk_size_bytes: usize) -> Option<u32> {
        let starts = self.within_page(address).is_multiple_of(chunk_size_bytes);
        starts.then(|| self.slot_of(address, chunk_size_bytes))
    }

    fn within_page(&self, address: ChunkAddress) -> usize {
        address.offset() & (self.page_size_bytes() - 1)
    }

    /// Bytes that count for the choice of a class, the size limit and the stats.
    pub fn counted_size_bytes(
        &self,
        key_len: usize,
        value_len: usize,
        fields: ItemFields,
    ) -> usize {
        self.size_model.counted_size_bytes(key_len, value_len, fields)
    }
}
