//! The access token of a class. It is stored inside the lock of the class, so a caller that has `&mut ClassToken` holds
//! this lock.
//!
//! Invariants of a page that a class owns: the chunks follow each other from the start of the page. Each chunk is
//! either in use, or on the page's free list, or *fresh*: not allocated since the class got the page. The slots from
//! [`Page::fresh`](super::Page::fresh) on are fresh. `used` is the number of chunks in use, spare chunks included. The
//! state word of a chunk on the free list is [`State::FREE`].

use super::arena::Header;
use super::chunk::{OwnedChunk, UnlinkedChunks, UnusedPage};
use super::item::{Item, Pin, Queued, body_bytes};
use super::memory::{Memory, Page};
use super::state::{Kind, State};
use crate::layout::{
    CHAINED, CHUNK_ALIGN_BYTES, CHUNK_SIZE_BYTES_MIN, ChunkAddress, HEADER_SIZE_BYTES,
};
use slabwise_base::{ClassId, PageId};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A slot of a page. The page may have another owner than when the slot was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    page: PageId,
    number: u32,
}

/// Neighbouring slots of a page; the first slot of the page follows the last. The page may have another owner than when
/// the slots were chosen.
#[derive(Clone, Copy, Debug)]
pub struct SlotRun {
    page: PageId,
    start: u32,
    len: u32,
}

impl SlotRun {
    /// Returns the slots, in a page with this number of chunks.
    #[inline]
    fn numbers(self, chunks_per_page: u32) -> impl Iterator<Item = u32> {
        let wrapped = move |number| {
            if number < chunks_per_page { number } else { number - chunks_per_page }
        };
        (self.start..self.start + self.len).map(wrapped)
    }
}

/// The access token of a class. A caller that borrows it holds the lock of the class, in which the token is stored.
#[derive(Debug)]
pub struct ClassToken {
    memory: Arc<Memory>,
    class: ClassId,
    /// The chunk size, or 0 if the class never had one.
    chunk_size_bytes: usize,
    /// The number of whole chunks in a page.
    chunks_per_page: u32,
    /// The pages that the class owns, draining pages included, in no order.
    owned: Vec<PageId>,
}

impl Memory {
    /// Returns the token of a class. The caller must store it inside the lock of the class. Panics if the token was
    /// already handed out.
    pub fn class_token(self: &Arc<Memory>, class: ClassId) -> ClassToken {
        let is_handed_out = self.class_tokens[class.index()].swap(true, Relaxed);
        assert!(!is_handed_out, "the token of class {} was already handed out", class.0);
        let memory = Arc::clone(self);
        ClassToken { memory, class, chunk_size_bytes: 0, chunks_per_page: 0, owned: Vec::new() }
    }

    /// Returns the mover's token. The caller must store it inside the lock of the mover. Panics if the token was
    /// already handed out.
    pub fn mover_token(&self) -> MoverToken {
        let is_handed_out = self.mover_token.swap(true, Relaxed);
        assert!(!is_handed_out, "the mover's token was already handed out");
        MoverToken { memory: self.number }
    }
}

impl ClassToken {
    pub fn class(&self) -> ClassId {
        self.class
    }

    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Returns a number that identifies this class of this memory in the process. It is not 0.
    #[inline]
    pub(super) fn number(&self) -> u64 {
        (u64::from(self.memory.number) + 1) << u8::BITS | u64::from(self.class.0)
    }

    pub fn chunk_size_bytes(&self) -> usize {
        self.chunk_size_bytes
    }

    pub fn chunks_per_page(&self) -> u32 {
        self.chunks_per_page
    }

    /// Returns the number of pages that the class owns, draining pages included.
    pub fn page_count(&self) -> u32 {
        self.owned.len() as u32
    }

    /// Returns the pages that the class owns, draining pages included, in no order.
    pub fn pages(&self) -> impl Iterator<Item = PageId> + '_ {
        self.owned.iter().copied()
    }

    /// Returns true if the item to which the body at `body` belongs is linked. No thread moves items during the call.
    pub fn head_is_linked(&self, body: ChunkAddress) -> bool {
        let head = self.header(body).and_then(|header| header.prev());
        head.is_some_and(|head| {
            let is_inside = head.offset() < self.memory.size_bytes();
            // SAFETY: a body links to the first chunk of its item, which is in use as long as the body is.
            is_inside && unsafe { self.memory.arena.header_of(head) }.state().load().linked()
        })
    }

    /// Sets the chunk size. Panics if the class owns a page.
    pub fn set_chunk_size(&mut self, size_bytes: usize) {
        assert_eq!(self.page_count(), 0, "a class that changes its chunk size owns no page");
        assert!(self.class != CHAINED, "the class of chained items has no chunks");
        let sizes = CHUNK_SIZE_BYTES_MIN..=self.memory.page_size_bytes();
        assert!(
            sizes.contains(&size_bytes) && size_bytes.is_multiple_of(CHUNK_ALIGN_BYTES),
            "a chunk size is in {sizes:?} and a multiple of {CHUNK_ALIGN_BYTES}, unlike {size_bytes}"
        );
        self.chunk_size_bytes = size_bytes;
        self.chunks_per_page = (self.memory.page_size_bytes() / size_bytes) as u32;
    }

    /// Makes the class the owner of a page. Returns the page's id.
    pub fn adopt(&mut self, page: UnusedPage) -> PageId {
        page.check(&self.memory);
        assert!(self.chunk_size_bytes > 0, "a class that takes a page has a chunk size");
        let entry = self.memory.page(page.id());
        assert_eq!(entry.owner(), None, "no class owns an unused page");
        entry.assign(Some(self.class));
        entry.set_chunk_size_bytes(self.chunk_size_bytes);
        entry.set_index_in_class(self.owned.len());
        self.owned.push(page.id());
        page.id()
    }

    /// Ends the class's ownership of a page and returns the page. Panics if a chunk of the page is in use.
    pub fn release_page(&mut self, id: PageId) -> UnusedPage {
        assert_eq!(self.own(id).used(), 0, "a released page has no chunk in use");
        let index = self.own(id).index_in_class();
        self.own(id).assign(None);
        self.owned.swap_remove(index);
        if let Some(&moved) = self.owned.get(index) {
            self.memory.page(moved).set_index_in_class(index);
        }
        // SAFETY: this class was the only owner of the page, has just released it, and no chunk of the page is in use.
        unsafe { UnusedPage::new(&self.memory, id) }
    }

    /// Returns the entry of a page that this class owns. Panics for any other page.
    #[inline]
    pub fn own(&self, id: PageId) -> &Page {
        let page = self.memory.page(id);
        assert_eq!(page.owner(), Some(self.class), "the class owns the page");
        page
    }

    /// Returns the address of the chunk in a slot of a page of this class.
    #[inline]
    fn chunk_at(&self, page: PageId, slot: u32) -> ChunkAddress {
        self.memory.chunk_at(page, slot, self.chunk_size_bytes)
    }

    /// Returns up to `len` neighbouring slots at a random place of a random page, and prefetches the headers of their
    /// chunks. The chunks may be free. Returns `None` if the class owns no page.
    #[inline]
    pub fn random_run(&self, len: u32, random: u64) -> Option<SlotRun> {
        let scaled = |bits: u64, count: usize| ((bits * count as u64) >> u32::BITS) as usize;
        let page = *self.owned.get(scaled(random >> u32::BITS, self.owned.len()))?;
        let start = scaled(random & u64::from(u32::MAX), self.chunks_per_page as usize) as u32;
        Some(self.run(page, start, len))
    }

    /// Returns a slot of a page.
    pub fn slot(&self, page: PageId, number: u32) -> Slot {
        Slot { page, number }
    }

    /// Returns up to `len` neighbouring slots of a page, and prefetches the headers of their chunks. The chunks may be free.
    /// `start` must be the number of a slot.
    #[inline]
    pub fn run(&self, page: PageId, start: u32, len: u32) -> SlotRun {
        let run = SlotRun { page, start, len: len.min(self.chunks_per_page) };
        for number in run.numbers(self.chunks_per_page) {
            self.memory.prefetch_chunk(self.chunk_at(page, number), HEADER_SIZE_BYTES);
        }
        run
    }

    /// Returns the item in a slot if it is in a queue of this class, and otherwise `None`. Returns `None` also if the
    /// class does not own the page any more.
    #[inline]
    pub fn queued_in(&self, slot: Slot) -> Option<Queued<'_>> {
        let page = self.memory.page(slot.page);
        if page.owner() != Some(self.class) || slot.number >= page.fresh() {
            return None;
        }
        // SAFETY: the class owns the page, and the slot is below `fresh`, so a chunk of this class starts there.
        unsafe { self.queued_at(self.chunk_at(slot.page, slot.number)) }
    }

    /// Calls `visit` with each item of a run of slots that is in a queue of this class. Visits none if the class does not
    /// own the page any more.
    #[inline]
    pub fn for_each_queued<'c>(&'c self, run: SlotRun, mut visit: impl FnMut(Slot, Queued<'c>)) {
        let page = self.memory.page(run.page);
        if page.owner() != Some(self.class) {
            return;
        }
        for number in run.numbers(self.chunks_per_page).filter(|&number| number < page.fresh()) {
            // SAFETY: the class owns the page, and the slot is below `fresh`, so a chunk of this class starts there.
            if let Some(item) = unsafe { self.queued_at(self.chunk_at(run.page, number)) } {
                visit(Slot { page: run.page, number }, item);
            }
        }
    }

    /// Returns the item at `address` if it is in a queue of this class, and otherwise `None`.
    ///
    /// # Safety
    ///
    /// A chunk of this class that is not fresh starts at `address`.
    #[inline]
    unsafe fn queued_at(&self, address: ChunkAddress) -> Option<Queued<'_>> {
        // SAFETY: the caller guarantees that a chunk starts at the address.
        let state = unsafe { self.memory.arena.header_of(address) }.state().load();
        // SAFETY: the chunk at the address holds an item that is in a queue of this class. The item stays in this queue
        // as long as the token is borrowed.
        state.is_queued_whole_item().then(|| unsafe { Item::new(&self.memory, address) })
    }

    /// Returns the slot of an item's first chunk. Returns `None` if the chunk is not one of this class.
    pub fn slot_of_chunk(&self, item: Queued<'_>) -> Option<Slot> {
        let number = self.slot_of(item.address())?;
        Some(Slot { page: self.memory.page_of(item.address()), number })
    }

    /// Allocates a chunk of a page: the first chunk on the free list, which usually was freed last, or a fresh chunk if
    /// the list is empty. Returns `None` if all chunks of the page are in use.
    #[inline]
    pub fn take(&mut self, id: PageId) -> Option<OwnedChunk> {
        let page = self.own(id);
        let address = match page.free_head() {
            Some(slot) => {
                let address = self.chunk_at(id, slot);
                // SAFETY: the slots on the free list are chunks of this page.
                let header = unsafe { self.memory.arena.header_of(address) };
                page.set_free_head(header.free_next());
                address
            }
            None => {
                let slot = page.fresh();
                if page.used() == self.chunks_per_page {
                    return None;
                }
                page.set_fresh(slot + 1);
                self.chunk_at(id, slot)
            }
        };
        // SAFETY: the chunk is in this page. It was just removed from the free list or from the fresh chunks.
        Some(unsafe { self.hand_out(page, address) })
    }

    /// Allocates the chunk at `address`, which must be on the free list of its page. Searches the list from its head,
    /// so the call is fast if the chunk is near the head.
    pub fn take_at(&mut self, address: ChunkAddress) -> OwnedChunk {
        let slot = self.slot_of(address).expect("a chunk of this class starts at the address");
        let id = self.memory.page_of(address);
        let page = self.own(id);
        let header_in = |slot| self.header_at(id, slot);
        let mut before = None;
        let mut at = page.free_head();
        while at != Some(slot) {
            before = at;
            at = header_in(at.expect("the allocated chunk is on the free list of its page"))
                .free_next();
        }
        let after = header_in(slot).free_next();
        match before {
            None => page.set_free_head(after),
            Some(before) => header_in(before).set_free_next(after),
        }
        // SAFETY: the chunk is in this page, and was just removed from the free list.
        unsafe { self.hand_out(page, address) }
    }

    /// Counts the chunk at `address` of this page as in use and returns its [`OwnedChunk`].
    ///
    /// # Safety
    ///
    /// A chunk of this page starts at `address`. The caller has just removed the chunk from the page's free list or
    /// from the fresh chunks.
    #[inline]
    unsafe fn hand_out(&self, page: &Page, address: ChunkAddress) -> OwnedChunk {
        page.set_used(page.used() + 1);
        // SAFETY: the caller guarantees that a chunk of this page starts at the address.
        let header = unsafe { self.memory.arena.header_of(address) };
        header.state().store(State::UNPUBLISHED);
        // SAFETY: the class owns the page, and its lock is held. The caller has just removed the chunk from the free or
        // fresh chunks of the page, so no other thread has access to it.
        unsafe { OwnedChunk::new(&self.memory, address, self.chunk_size_bytes, self.class) }
    }

    /// Frees a chunk: puts it at the head of the free list of its page.
    #[inline]
    pub fn give(&mut self, chunk: OwnedChunk) {
        chunk.check(&self.memory);
        assert_eq!(chunk.class(), self.class, "a chunk is freed by the class that owns its page");
        let page = self.memory.page_entry(chunk.address());
        // SAFETY: only the owner of the chunk had access to the chunk, and the `OwnedChunk` ends here.
        unsafe { self.list_free(page, chunk.address()) };
        page.set_used(page.used() - 1);
    }

    /// Marks a chunk as free and puts it at the head of the page's free list.
    ///
    /// # Safety
    ///
    /// A chunk of this page starts at `address`, and this class owns the page. No thread uses the chunk, and the chunk
    /// is not on the free list.
    #[inline]
    unsafe fn list_free(&self, page: &Page, address: ChunkAddress) {
        // SAFETY: the caller guarantees that a chunk of this class starts at the address.
        let header = unsafe { self.memory.arena.header_of(address) };
        header.state().store(State::FREE);
        header.set_free_next(page.free_head());
        page.set_free_head(Some(self.memory.slot_of(address, self.chunk_size_bytes)));
    }

    /// Rebuilds the free list of a page: all free and fresh chunks, in the order of their slots. So a caller that
    /// allocates all of them in this order with [`ClassToken::take_at`] finds each chunk at the head of the list.
    pub fn list_in_order(&mut self, id: PageId) {
        self.blank_fresh(id);
        let page = self.own(id);
        page.set_fresh(self.chunks_per_page);
        page.set_free_head(None);
        for slot in (0..self.chunks_per_page).rev() {
            if self.kind_at(id, slot) == Kind::Free {
                // SAFETY: no thread uses a chunk whose state is free, and the free list was just emptied.
                unsafe { self.list_free(page, self.chunk_at(id, slot)) };
            }
        }
    }

    /// Writes the state `FREE` to the fresh chunks of a page. Afterwards the state words of the page alone show which
    /// chunks are in use. The chunks stay fresh. Panics if the page is being restored.
    pub fn blank_fresh(&mut self, id: PageId) {
        let page = self.own(id);
        assert!(page.used() <= page.fresh(), "the page is not being restored");
        for slot in page.fresh()..self.chunks_per_page {
            // SAFETY: a fresh chunk is neither in use nor on the free list.
            unsafe { self.mark_free(id, slot, false) };
        }
    }

    /// Marks a chunk as free. With `to_free_list`, also puts it at the head of the page's free list.
    ///
    /// # Safety
    ///
    /// This class owns the page. No thread uses the chunk in this slot, and the chunk is not on the free list.
    pub(super) unsafe fn mark_free(&mut self, id: PageId, slot: u32, to_free_list: bool) {
        if to_free_list {
            // SAFETY: the caller guarantees that no thread uses the chunk and that it is not on the free list.
            return unsafe { self.list_free(self.own(id), self.chunk_at(id, slot)) };
        }
        self.header_at(id, slot).state().store(State::FREE);
    }

    /// Returns the header of the chunk in a slot of a page of this class.
    fn header_at(&self, id: PageId, slot: u32) -> Header<'_> {
        assert!(slot < self.chunks_per_page, "the slot is below the number of chunks of a page");
        // SAFETY: the class owns the page, whose chunks have the chunk size of the class, so a chunk starts there.
        unsafe { self.memory.arena.header_of(self.chunk_at(id, slot)) }
    }

    fn kind_at(&self, id: PageId, slot: u32) -> Kind {
        self.header_at(id, slot).state().load().kind()
    }

    /// Panics with the name of the broken invariant if a page of this class breaks one. Returns the number of chunks in
    /// use and the number of free chunks, which include the fresh ones.
    pub fn check_page(&self, id: PageId) -> (u32, u32) {
        let page = self.own(id);
        let listed_id = self.owned.get(page.index_in_class());
        assert_eq!(listed_id, Some(&id), "a page records its index among the pages of its class");
        let is_used = |slot: &u32| self.kind_at(id, *slot) != Kind::Free;
        let used = (0..page.fresh()).filter(is_used).count() as u32;
        assert_eq!(used, page.used(), "`used` of a page is the number of chunks in use");
        let mut is_listed = vec![false; page.fresh() as usize];
        let mut at = page.free_head();
        while let Some(slot) = at {
            assert_eq!(self.kind_at(id, slot), Kind::Free, "a chunk on a free list is free");
            let was_listed = std::mem::replace(&mut is_listed[slot as usize], true);
            assert!(!was_listed, "a chunk is on a free list at most once");
            at = self.header_at(id, slot).free_next();
        }
        let listed = is_listed.iter().filter(|&&is_listed| is_listed).count() as u32;
        (used, listed + self.chunks_per_page - page.fresh())
    }

    /// Marks a page of this class as draining, or as no longer draining.
    pub fn set_draining(&mut self, id: PageId, draining: bool) {
        self.own(id).set_draining(draining);
    }

    /// Returns the slot of the chunk at `address` in its page, or `None` if no chunk of this class starts there.
    pub fn slot_of(&self, address: ChunkAddress) -> Option<u32> {
        let offset = address.offset();
        if offset >= self.memory.arena.size_bytes()
            || self.memory.page_entry(address).owner() != Some(self.class)
        {
            return None;
        }
        let slot = self.memory.slot_at(address, self.chunk_size_bytes)?;
        (slot < self.chunks_per_page).then_some(slot)
    }

    /// Returns the header of the chunk at `address`, or `None` if no chunk of this class starts there or the chunk is
    /// fresh.
    fn header(&self, address: ChunkAddress) -> Option<Header<'_>> {
        let slot = self.slot_of(address)?;
        let id = self.memory.page_of(address);
        (slot < self.own(id).fresh()).then(|| self.header_at(id, slot))
    }

    /// Returns the state of the chunk at `address`, or `None` if no chunk of this class starts there or the chunk is
    /// fresh.
    pub fn state_of(&self, address: ChunkAddress) -> Option<State> {
        self.header(address).map(|header| header.state().load())
    }

    /// Returns the state of the chunk at `address` and the number of bytes of the value in this chunk. Returns `None`
    /// if no chunk of this class starts there or the chunk is fresh.
    pub fn contents_of(&self, address: ChunkAddress) -> Option<(State, usize)> {
        self.header(address).map(|header| (header.state().load(), header.len()))
    }

    /// Returns the item at `address` if it is in a queue of this class, and otherwise `None`. Returns `None` for every
    /// address if this is the class of chained items, because that class has no chunks. Its items are found only
    /// through its lists.
    pub fn queued(&self, address: ChunkAddress) -> Option<Queued<'_>> {
        self.header(address)?;
        // SAFETY: the line above has found a chunk of this class at the address that is not fresh.
        unsafe { self.queued_at(address) }
    }

    /// Returns the pinned item if it is in a queue of this class, and otherwise `None`.
    pub fn queued_pinned(&self, pin: &Pin) -> Option<Queued<'_>> {
        let item = pin.item(&self.memory);
        let here = item.state().queued() && item.queue_class() == self.class;
        // SAFETY: the item is in a queue of this class, and stays in this queue as long as the token is borrowed.
        here.then(|| unsafe { Item::new(&self.memory, item.address()) })
    }

    /// Pins the item at `address`. Returns `None` if no chunk of this class starts there, or if the chunk holds no
    /// linked item, or if the item has [`PIN_COUNT_MAX`](super::state::PIN_COUNT_MAX) pins.
    pub fn pin_at(&self, address: ChunkAddress) -> Option<Pin> {
        let pinned = self.header(address)?.state().try_pin();
        // SAFETY: `try_pin` has just added a pin for this `Pin`.
        pinned.then(|| unsafe { Pin::new(&self.memory, address) })
    }

    /// Pins the item to which the body at `body` belongs, if the item is linked and has no pins. Another thread may pin
    /// the item at the same time. The mover's token ensures that the item keeps its first chunk during the call.
    pub fn pin_head_of(&self, body: ChunkAddress, mover: &MoverToken) -> PinOutcome {
        let Some((head, header)) = self.head_of(body, mover) else { return PinOutcome::NoBody };
        if header.state().load().pins() > 0 || !header.state().try_pin() {
            return PinOutcome::NotPinned;
        }
        // SAFETY: `try_pin` has just added a pin for this `Pin`.
        PinOutcome::Pinned(unsafe { Pin::new(&self.memory, head) })
    }

    /// Returns the state of the item to which the body at `body` belongs, or `None` if this chunk holds no body.
    pub fn head_state_of(&self, body: ChunkAddress, mover: &MoverToken) -> Option<State> {
        self.head_of(body, mover).map(|(_, header)| header.state().load())
    }

    /// Returns the first chunk of the item to which the body at `body` belongs, or `None` if this chunk holds no body.
    fn head_of(
        &self,
        body: ChunkAddress,
        mover: &MoverToken,
    ) -> Option<(ChunkAddress, Header<'_>)> {
        mover.check(&self.memory);
        let header = self.header(body).filter(|body| body.state().load().kind() == Kind::Body)?;
        let head = header.prev().expect("a body has a link to the first chunk of its item");
        // SAFETY: the first chunk of an item is in use as long as the item has a body in use. A thread that takes the
        // body out of its item needs the lock of this class, which is held. The mover's token is borrowed, so the item
        // does not move to another first chunk.
        Some((head, unsafe { self.memory.arena.header_of(head) }))
    }
}

impl UnlinkedChunks {
    /// Removes the first body from the chain and returns its chunk. `class` must be the class that owns the page of
    /// this body.
    pub fn take_body(&mut self, class: &mut ClassToken) -> OwnedChunk {
        let memory = class.memory();
        let item = self.item(memory);
        let (at, body) = (item.layout().chain() + 4, item.first_body());
        let body = body.expect("the chain has a body");
        assert_eq!(memory.class_of(body), class.class, "the class owns the page of the body");
        // SAFETY: the chunks of a chain are bodies of this memory.
        let header = unsafe { memory.arena.header_of(body) };
        assert_eq!(header.state().load().kind(), Kind::Body, "a chunk of a chain is a body");
        assert_eq!(header.prev(), Some(self.address()), "a body links to its item's first chunk");
        let next = body_bytes(header.next());
        // SAFETY: only this `UnlinkedChunks` has access to the first chunk, and the chain field is within this chunk.
        unsafe { memory.arena.write(self.address(), at, next.len()) }.copy_from_slice(&next);
        // SAFETY: the body is a chunk of this memory in use. Only the chain linked to the body, and no longer does.
        unsafe { OwnedChunk::reclaim(memory, body) }
    }
}

/// The access token of the mover, which is stored inside the mover's lock. Only its holder can move items and bodies to
/// other chunks.
#[derive(Debug)]
pub struct MoverToken {
    memory: u32,
}

impl MoverToken {
    pub(super) fn check(&self, memory: &Memory) {
        assert_eq!(self.memory, memory.number, "a mover's token is used with its own memory");
    }
}

/// The result of an attempt to pin the item to which a body belongs.
#[derive(Debug)]
pub enum PinOutcome {
    /// The item was pinned for the caller. It had no pins immediately before.
    Pinned(Pin),
    /// The item was not pinned: it has another pin already, or it is not linked.
    NotPinned,
    /// The chunk holds no body.
    NoBody,
}
