//! The memory of a cache: the arena and one entry for each page. The entry records the class that owns the page, the
//! state of the page, and the page's free chunks.
//!
//! ```text
//!         a class takes the page         the mover drains it         it is empty and released
//!   FREE -----------------------> OWNED --------------------> DRAINING --------------------> FREE
//!                                   ^                            |
//!                                   '-------- abort -------------'
//! ```
//!
//! `page_mover=base` and `page_mover=fast` keep the state `OWNED` while they empty a page, and release it from that
//! state.
//!
//! The chunks of a page are numbered from 0; the number of a chunk is its *slot*. A chunk is *fresh* if it was not
//! allocated since the page was given to its class. The slots from [`Page::fresh`] on are fresh.
//!
//! Invariants: every page that was handed out is free, owned or draining. Each chunk of an owned or draining page is
//! either in use or free; the free chunks are those on the page's free list and the fresh ones. An owned page is on the
//! list of partial pages of its class exactly if it has a free chunk. A draining page is never on this list.
//!
//! The entry of a page is protected by the lock of the class that owns the page, or by the lock of the page pool if no
//! class owns it. A thread may read `owner` without a lock while it keeps a chunk of the page in use, because a page
//! with a chunk in use does not change its owner.

use super::arena::Arena;
use crate::layout::{CHAINED, CLASS_NUMBERS, ChunkAddress, ItemFields, SizeModel};
use slabwise_base::{ClassId, PageId, Ticks};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

const _: () = assert!(ClassId::NUMBERS < u8::MAX as usize, "a byte holds a class number plus one");

/// The state of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageState {
    /// No class owns the page; it is in the page pool.
    Free,
    /// A class owns the page and allocates chunks from it.
    Owned,
    /// A class owns the page, but allocates no chunks from it, because the mover empties the page.
    Draining,
}

/// The entry of a page: the data that [`Memory`] keeps for it. In the fields `free_head`, `prev` and `next`, the value
/// 0 means none, and other values are the number of the slot or page plus one.
#[derive(Debug, Default)]
pub struct Page {
    /// The number of the class that owns the page plus one, or 0 if no class owns it.
    owner: AtomicU8,
    /// The [`PageState`]: 0 for free, 1 for owned, 2 for draining.
    state: AtomicU8,
    /// The number of chunks in use.
    used: AtomicU32,
    /// The first slot of the page's free list, plus one.
    free_head: AtomicU32,
    /// The first slot that was not allocated since the page was given to its class.
    fresh: AtomicU32,
    /// The chunk size of the class that owns the page. Meaningless while no class owns it.
    chunk_size_bytes: AtomicU32,
    /// The number of pages that the class had taken before this one.
    taken_as: AtomicU64,
    /// The index of the page among the pages of its class. Meaningless while no class owns the page.
    index_in_class: AtomicU32,
    /// The time of the last access to an item of the page, in ticks plus one; 0 if there was no access since the page
    /// was given to its class. Only recorded while [`Engine::note_page_accesses`](crate::Engine) is on.
    accessed_at: AtomicU32,
    /// The previous page in the class's list of partial pages, plus one.
    prev: AtomicU32,
    /// The next page in the class's list of partial pages, plus one.
    next: AtomicU32,
}

impl Page {
    fn new_group() -> Box<[Page]> {
        (0..PAGES_PER_GROUP).map(|_| Page::default()).collect()
    }

    /// Returns the class that owns the page, or `None` if the page is in the page pool. A draining page still has its
    /// owner.
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

    /// Sets the owner of an empty page: a class, or `None` for the page pool.
    pub(super) fn assign(&self, owner: Option<ClassId>) {
        assert_eq!(self.used(), 0, "a page that changes its owner has no chunk in use");
        self.owner.store(owner.map_or(0, |class| class.0 + 1), Relaxed);
        self.state.store(u8::from(owner.is_some()), Relaxed);
        self.free_head.store(0, Relaxed);
        self.fresh.store(0, Relaxed);
        self.accessed_at.store(0, Relaxed);
    }

    /// Records an access to an item of the page.
    #[inline]
    pub fn note_access(&self, now: Ticks) {
        let stamp = now.0.wrapping_add(1);
        // Most accesses find the stamp of the present tick, and need not write.
        if self.accessed_at.load(Relaxed) != stamp {
            self.accessed_at.store(stamp, Relaxed);
        }
    }

    /// Returns the time of the last access; `None` if there was none since the page was given to its class.
    pub fn accessed_at(&self) -> Option<Ticks> {
        self.accessed_at.load(Relaxed).checked_sub(1).map(Ticks)
    }

    /// Returns the index of the page among the pages of its class.
    pub(super) fn index_in_class(&self) -> usize {
        self.index_in_class.load(Relaxed) as usize
    }

    pub(super) fn set_index_in_class(&self, index: usize) {
        self.index_in_class.store(index as u32, Relaxed);
    }

    pub(super) fn chunk_size_bytes(&self) -> usize {
        self.chunk_size_bytes.load(Relaxed) as usize
    }

    pub(super) fn set_chunk_size_bytes(&self, size_bytes: usize) {
        self.chunk_size_bytes.store(size_bytes as u32, Relaxed);
    }

    /// Marks an owned page as draining, or a draining page as owned.
    pub(super) fn set_draining(&self, draining: bool) {
        assert!(
            self.state() != PageState::Free,
            "a class owns the page that begins or stops draining"
        );
        self.state.store(1 + u8::from(draining), Relaxed);
    }

    /// Returns the number of chunks in use.
    pub fn used(&self) -> u32 {
        self.used.load(Relaxed)
    }

    pub(super) fn set_used(&self, used: u32) {
        self.used.store(used, Relaxed);
    }

    /// Returns the first slot of the page's free list, or `None` if the list is empty.
    pub(super) fn free_head(&self) -> Option<u32> {
        self.free_head.load(Relaxed).checked_sub(1)
    }

    pub(super) fn set_free_head(&self, slot: Option<u32>) {
        self.free_head.store(slot.map_or(0, |slot| slot + 1), Relaxed);
    }

    /// Returns the first slot that was not allocated since the page was given to its class. All further slots were not
    /// allocated, either.
    pub fn fresh(&self) -> u32 {
        self.fresh.load(Relaxed)
    }

    pub(super) fn set_fresh(&self, slot: u32) {
        self.fresh.store(slot, Relaxed);
    }

    /// Returns the number of pages that the class had taken before this page. So the page that the class has owned for
    /// the longest time has the smallest number.
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

    /// Returns the next page in the class's list of partial pages.
    pub fn next(&self) -> Option<PageId> {
        Page::link(&self.next)
    }
}

/// The number of page entries in a group, the unit of their allocation. An arena usually reserves many more pages than
/// it uses, so the entries of unused pages are not allocated.
const PAGES_PER_GROUP: usize = 4096;

/// Returns the memory of the entries of this number of pages, in bytes.
pub fn page_entries_size_bytes(page_count: u64) -> u64 {
    page_count.next_multiple_of(PAGES_PER_GROUP as u64) * size_of::<Page>() as u64
}

/// The arena and the page entries of one cache.
#[derive(Debug)]
pub struct Memory {
    pub(super) arena: Arena,
    /// The page entries, in groups of [`PAGES_PER_GROUP`]. A group is allocated on the first access to one of its
    /// pages.
    page_groups: Vec<OnceLock<Box<[Page]>>>,
    /// The binary logarithm of the page size in bytes.
    page_shift: u32,
    size_model: SizeModel,
    /// The number of this memory, which is unique in this process. Access tokens record it, so that another memory
    /// rejects them.
    pub(super) number: u32,
    /// The number of stripes that were created for this memory.
    pub(super) stripe_count: AtomicU32,
    /// The number of pages that were handed out at least once.
    pub(super) pages_handed_out: AtomicU32,
    /// True if the mover's token was handed out.
    pub(super) mover_token: AtomicBool,
    /// One entry per class number: true if the token of this class was handed out.
    pub(super) class_tokens: [AtomicBool; CLASS_NUMBERS],
}

const PAGE_SIZE_BYTES_MIN: usize = 4096;

/// The number of bytes that a prefetch of an item covers: the header, the key, and the start of most values.
const ITEM_PREFETCH_BYTES: usize = 192;

static NEXT_MEMORY_NUMBER: AtomicU32 = AtomicU32::new(0);

impl Memory {
    pub fn new(arena: Arena, page_size_bytes: usize, size_model: SizeModel) -> Memory {
        assert!(
            page_size_bytes.is_power_of_two(),
            "page size {page_size_bytes} is not a power of two"
        );
        // With this minimum, page numbers have less than 32 bits: chunk addresses cover 8 TiB, which are 2^31 pages of
        // 4 KiB.
        assert!(
            page_size_bytes >= PAGE_SIZE_BYTES_MIN,
            "page size {page_size_bytes} is too small: use at least {PAGE_SIZE_BYTES_MIN}"
        );
        let groups = (arena.size_bytes() / page_size_bytes).div_ceil(PAGES_PER_GROUP);
        let number = NEXT_MEMORY_NUMBER.fetch_add(1, Relaxed);
        assert!(number < u32::MAX, "a process has at most {} memories", u32::MAX);
        Memory {
            arena,
            page_groups: (0..groups).map(|_| OnceLock::new()).collect(),
            page_shift: page_size_bytes.ilog2(),
            size_model,
            number,
            stripe_count: AtomicU32::new(0),
            pages_handed_out: AtomicU32::new(0),
            mover_token: AtomicBool::new(false),
            class_tokens: std::array::from_fn(|_| AtomicBool::new(false)),
        }
    }

    /// Returns the class whose queues may hold the item at `address`: [`CHAINED`] for a chained item, and otherwise the
    /// class that owns the item's page.
    #[inline]
    pub(super) fn queue_class(&self, address: ChunkAddress, chained: bool) -> ClassId {
        if chained { CHAINED } else { self.class_of(address) }
    }

    pub fn page_size_bytes(&self) -> usize {
        1 << self.page_shift
    }

    /// Returns the size of the arena.
    pub fn size_bytes(&self) -> usize {
        self.arena.size_bytes()
    }

    pub(super) fn page_count(&self) -> usize {
        self.arena.size_bytes() >> self.page_shift
    }

    #[inline]
    pub fn page(&self, id: PageId) -> &Page {
        let group = self.page_groups[id.index() / PAGES_PER_GROUP].get_or_init(Page::new_group);
        &group[id.index() % PAGES_PER_GROUP]
    }

    /// Prefetches the header, the key, and the start of the value of the item at `address`.
    #[inline]
    pub fn prefetch_item(&self, address: ChunkAddress) {
        self.arena.prefetch_chunk(address, ITEM_PREFETCH_BYTES);
    }

    /// Prefetches the first `size_bytes` bytes of the chunk at `address`.
    #[inline]
    pub fn prefetch_chunk(&self, address: ChunkAddress, size_bytes: usize) {
        self.arena.prefetch_chunk(address, size_bytes);
    }

    /// Commits the memory of a page now, so that later writes to the page do not wait for the system. The bytes of the
    /// page do not change.
    pub fn populate(&self, page: PageId) {
        self.arena.populate(page, self.page_size_bytes());
    }

    /// Puts a page at the head of a class's list of partial pages. `head` is the first page of this list.
    pub fn push_partial(&self, head: &mut Option<PageId>, id: PageId) {
        let page = self.page(id);
        Page::set_link(&page.prev, None);
        Page::set_link(&page.next, *head);
        if let Some(old) = *head {
            Page::set_link(&self.page(old).prev, Some(id));
        }
        *head = Some(id);
    }

    /// Removes a page from a class's list of partial pages. `head` is the first page of this list.
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

    /// Returns the page that contains `address`.
    #[inline]
    pub fn page_of(&self, address: ChunkAddress) -> PageId {
        PageId((address.offset() >> self.page_shift) as u32)
    }

    #[inline(always)]
    pub(super) fn page_entry(&self, address: ChunkAddress) -> &Page {
        self.page(self.page_of(address))
    }

    /// Returns the class of a chunk in use. Panics if no class owns the page.
    #[inline]
    pub(super) fn class_of(&self, address: ChunkAddress) -> ClassId {
        self.page_entry(address).owner().expect("a chunk in use is in a page that a class owns")
    }

    /// Returns the address of the chunk in a slot of a page whose chunks have this size.
    pub fn chunk_at(&self, page: PageId, slot: u32, chunk_size_bytes: usize) -> ChunkAddress {
        ChunkAddress::from_offset(
            (page.index() << self.page_shift) + slot as usize * chunk_size_bytes,
        )
    }

    /// Returns the slot that contains `address`, in a page whose chunks have this size.
    pub(super) fn slot_of(&self, address: ChunkAddress, chunk_size_bytes: usize) -> u32 {
        (self.within_page(address) / chunk_size_bytes) as u32
    }

    /// Returns the slot of the chunk that starts at `address`, in a page whose chunks have this size. Returns `None` if
    /// `address` is within a chunk. The slot may be beyond the last chunk of the page.
    pub(super) fn slot_at(&self, address: ChunkAddress, chunk_size_bytes: usize) -> Option<u32> {
        let starts = self.within_page(address).is_multiple_of(chunk_size_bytes);
        starts.then(|| self.slot_of(address, chunk_size_bytes))
    }

    /// Returns the offset of `address` from the start of its page, in bytes.
    fn within_page(&self, address: ChunkAddress) -> usize {
        address.offset() & (self.page_size_bytes() - 1)
    }

    /// Returns the size of an item in bytes, as the choice of its class, the size limit and the statistics count it.
    pub fn counted_size_bytes(
        &self,
        key_len: usize,
        value_len: usize,
        fields: ItemFields,
    ) -> usize {
        self.size_model.counted_size_bytes(key_len, value_len, fields)
    }
}
