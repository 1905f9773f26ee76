//! Arena, page entries and size model together.

use super::arena::Arena;
use super::pages::{Page, PageTable};
use crate::layout::{CHAINED, CLASS_NUMBERS, ChunkAddress, ItemFields, SizeModel};
use slabwise_base::{ClassId, PageId};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// The bytes of the cache and who owns which page.
#[derive(Debug)]
pub struct Memory {
    pub(super) arena: Arena,
    pub(super) pages: PageTable,
    page_shift: u32,
    size_model: SizeModel,
    /// Of no other memory of this process: what was made for one is refused by the others.
    number: u32,
    stripe_count: AtomicU32,
    /// Pages that were handed out for the first time.
    pages_begun: AtomicU32,
    mover_token: AtomicBool,
    /// Which classes' tokens were handed out.
    class_tokens: [AtomicBool; CLASS_NUMBERS],
}

/// The memories made so far.
static MEMORY_COUNT: AtomicU32 = AtomicU32::new(0);

impl Memory {
    /// Memory over an arena of whole pages.
    pub fn new(arena: Arena, page_size_bytes: usize, size_model: SizeModel) -> Memory {
        assert!(
            page_size_bytes.is_power_of_two(),
            "page size {page_size_bytes} is no power of two"
        );
        let pages = PageTable::new(arena.size_bytes() / page_size_bytes);
        let number = MEMORY_COUNT.fetch_add(1, Relaxed);
        assert!(number < u32::MAX, "memories are numbered");
        Memory {
            arena,
            pages,
            page_shift: page_size_bytes.ilog2(),
            size_model,
            number,
            stripe_count: AtomicU32::new(0),
            pages_begun: AtomicU32::new(0),
            mover_token: AtomicBool::new(false),
            class_tokens: std::array::from_fn(|_| AtomicBool::new(false)),
        }
    }

    /// The number of this memory, which no other has.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// How an item's bytes are counted.
    pub(super) fn size_model(&self) -> SizeModel {
        self.size_model
    }

    /// A number for a stripe of this memory, which no other has.
    pub(super) fn next_stripe(&self) -> u32 {
        let stripe = self.stripe_count.fetch_add(1, Relaxed);
        assert!(stripe < u32::MAX, "stripes are numbered");
        stripe
    }

    /// Whether the token of a class was not handed out before.
    pub(super) fn begin_class(&self, class: ClassId) -> bool {
        !self.class_tokens[class.index()].swap(true, Relaxed)
    }

    /// Whether the mover's token was not handed out before.
    pub(super) fn begin_mover(&self) -> bool {
        !self.mover_token.swap(true, Relaxed)
    }

    /// The next page that was never handed out; `None`: the arena ends here.
    pub(super) fn take_new_page(&self) -> Option<PageId> {
        let next = |begun: u32| ((begun as usize) < self.pages.count()).then_some(begun + 1);
        self.pages_begun.fetch_update(Relaxed, Relaxed, next).ok().map(PageId)
    }

    /// The class in whose queue the item at `address` may be: its chunk's, or [`CHAINED`].
    #[inline]
    pub(super) fn queue_class(&self, address: ChunkAddress, chained: bool) -> ClassId {
        if chained { CHAINED } else { self.class_of(address) }
    }

    /// Bytes a page.
    pub fn page_size_bytes(&self) -> usize {
        1 << self.page_shift
    }

    /// Bytes of the arena.
    pub fn size_bytes(&self) -> usize {
        self.arena.size_bytes()
    }

    /// The entry of a page.
    #[inline]
    pub fn page(&self, id: PageId) -> &Page {
        self.pages.page(id)
    }

    /// Asks for a chunk's first cache lines: header, key, and where most values begin.
    #[inline]
    pub fn prefetch_item(&self, address: ChunkAddress) {
        self.arena.prefetch_item(address);
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
        self.pages.push_partial(head, id);
    }

    /// Takes a page out of that list.
    pub fn remove_partial(&self, head: &mut Option<PageId>, id: PageId) {
        self.pages.remove_partial(head, id);
    }

    /// The page that a chunk lies in.
    #[inline]
    pub fn page_of(&self, address: ChunkAddress) -> PageId {
        PageId((address.offset() >> self.page_shift) as u32)
    }

    /// The entry of that page.
    #[inline(always)]
    pub(super) fn page_entry(&self, address: ChunkAddress) -> &Page {
        self.pages.page(self.page_of(address))
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
        ((address.offset() & (self.page_size_bytes() - 1)) / chunk_size_bytes) as u32
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
