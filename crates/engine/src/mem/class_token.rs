//! The token of a class. It is inside the class's lock, so a caller that has `&mut ClassToken` holds the lock.
//!
//! Invariants of a page that a class owns: its chunks are adjacent from its start; a chunk is in use, on the
//! page's free list, or *fresh* (never handed out since the class got the page, at or above
//! [`Page::fresh`](super::Page::fresh)); `used` counts the chunks in use; the state of a listed chunk is free.

use super::arena::Header;
use super::chunk::{OwnedChunk, Remains, UnusedPage};
use super::item::{Item, Pin, Queued, body_bytes};
use super::memory::{Memory, Page};
use super::state::{Kind, State};
use crate::layout::{CHAINED, CHUNK_ALIGN_BYTES, CHUNK_SIZE_BYTES_MIN, ChunkAddress};
use slabwise_base::{ClassId, PageId};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Proof that the caller holds the class's lock; see the module.
#[derive(Debug)]
pub struct ClassToken {
    memory: Arc<Memory>,
    class: ClassId,
    /// 0 if the class's number was never used.
    chunk_size_bytes: usize,
    chunks_per_page: u32,
    page_count: u32,
}

impl Memory {
    /// Returns the token of a class, which the caller puts inside the class's lock. Each token is handed out once.
    pub fn class_token(self: &Arc<Memory>, class: ClassId) -> ClassToken {
        let is_out = self.class_tokens[class.index()].swap(true, Relaxed);
        assert!(!is_out, "the token of class {} was already handed out", class.0);
        let memory = Arc::clone(self);
        ClassToken { memory, class, chunk_size_bytes: 0, chunks_per_page: 0, page_count: 0 }
    }

    /// Returns the mover's token, which the caller puts inside the mover's lock. It is handed out once.
    pub fn mover_token(&self) -> MoverToken {
        let is_out = self.mover_token.swap(true, Relaxed);
        assert!(!is_out, "the mover's token was already handed out");
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

    /// A number that is unique in this process and not 0.
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

    /// Pages that the class owns, draining ones included.
    pub fn page_count(&self) -> u32 {
        self.page_count
    }

    /// Sets the chunk size of a class that owns no page.
    pub fn set_chunk_size(&mut self, size_bytes: usize) {
        assert_eq!(self.page_count, 0, "a class changes its chunk size while it owns no page");
        assert!(self.class != CHAINED, "the class of chained items has no chunks");
        let sizes = CHUNK_SIZE_BYTES_MIN..=self.memory.page_size_bytes();
        assert!(sizes.contains(&size_bytes) && size_bytes.is_multiple_of(CHUNK_ALIGN_BYTES));
        self.chunk_size_bytes = size_bytes;
        self.chunks_per_page = (self.memory.page_size_bytes() / size_bytes) as u32;
    }

    pub fn adopt(&mut self, page: UnusedPage) -> PageId {
        page.check(&self.memory);
        assert!(self.chunk_size_bytes > 0, "a class has a chunk size before it has a page");
        let entry = self.memory.page(page.id());
        assert_eq!(entry.owner(), None, "an unused page belongs to no class");
        entry.assign(Some(self.class));
        entry.set_chunk_size_bytes(self.chunk_size_bytes);
        self.page_count += 1;
        page.id()
    }

    /// Gives up a page without chunks in use.
    pub fn release_page(&mut self, id: PageId) -> UnusedPage {
        assert_eq!(self.own(id).used(), 0, "a class gives up only empty pages");
        self.own(id).assign(None);
        self.page_count -= 1;
        // SAFETY: the page was this class's, which has just given it up; no chunk of it is in use.
        unsafe { UnusedPage::new(&self.memory, id) }
    }

    /// The entry of a page of this class. Panics for a page of another class.
    #[inline]
    pub fn own(&self, id: PageId) -> &Page {
        let page = self.memory.page(id);
        assert_eq!(page.owner(), Some(self.class), "a class uses its own pages");
        page
    }

    #[inline]
    fn chunk_at(&self, page: PageId, slot: u32) -> ChunkAddress {
        self.memory.chunk_at(page, slot, self.chunk_size_bytes)
    }

    /// Takes a free chunk of a page: the one freed last, or else a fresh one.
    #[inline]
    pub fn take(&mut self, id: PageId) -> Option<OwnedChunk> {
        let page = self.own(id);
        let address = match page.free_head() {
            Some(slot) => {
                let address = self.chunk_at(id, slot);
                // SAFETY: a listed slot is a chunk of this page.
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
        // SAFETY: it is of this page, and was taken off the list or is the first fresh one.
        Some(unsafe { self.hand_out(page, address) })
    }

    /// Takes the free chunk at `address`, which is not fresh. The search starts at the head of the page's free list.
    pub fn take_at(&mut self, address: ChunkAddress) -> OwnedChunk {
        let slot = self.slot_of(address).expect("a chunk of this class starts here");
        let id = self.memory.page_of(address);
        let page = self.own(id);
        let of = |slot| self.header_at(id, slot);
        let mut before = None;
        let mut at = page.free_head();
        while at != Some(slot) {
            before = at;
            at = of(at.expect("a free chunk is listed on its page")).free_next();
        }
        let after = of(slot).free_next();
        match before {
            None => page.set_free_head(after),
            Some(before) => of(before).set_free_next(after),
        }
        // SAFETY: it is of this page, and was just taken off the list.
        unsafe { self.hand_out(page, address) }
    }

    /// # Safety
    ///
    /// The chunk of this page has just left the free ones.
    #[inline]
    unsafe fn hand_out(&self, page: &Page, address: ChunkAddress) -> OwnedChunk {
        page.set_used(page.used() + 1);
        // SAFETY: a chunk of this page starts here.
        let header = unsafe { self.memory.arena.header_of(address) };
        header.state().store(State::UNPUBLISHED);
        // SAFETY: of this class, whose lock is held; it has just left the free chunks of its page.
        unsafe { OwnedChunk::new(&self.memory, address, self.chunk_size_bytes, self.class) }
    }

    #[inline]
    pub fn give(&mut self, chunk: OwnedChunk) {
        chunk.check(&self.memory);
        assert_eq!(chunk.class(), self.class, "a chunk goes back to its class");
        let page = self.memory.page_entry(chunk.address());
        // SAFETY: only the owner had access to the chunk, and gives it up here.
        unsafe { self.list_free(page, chunk.address()) };
        page.set_used(page.used() - 1);
    }

    /// Marks a chunk as free and puts it on the free list.
    ///
    /// # Safety
    ///
    /// Nobody uses the chunk at `address` of this page of this class, and it is not listed.
    #[inline]
    unsafe fn list_free(&self, page: &Page, address: ChunkAddress) {
        // SAFETY: a chunk of this class starts here.
        let header = unsafe { self.memory.arena.header_of(address) };
        header.state().store(State::FREE);
        header.set_free_next(page.free_head());
        page.set_free_head(Some(self.memory.slot_of(address, self.chunk_size_bytes)));
    }

    /// Rebuilds the free list of a page in the order of slots, with the fresh chunks, so that a caller that takes them
    /// in this order finds each at the head.
    pub fn list_in_order(&mut self, id: PageId) {
        self.blank_fresh(id);
        let page = self.own(id);
        page.set_fresh(self.chunks_per_page);
        page.set_free_head(None);
        for slot in (0..self.chunks_per_page).rev() {
            if self.kind_at(id, slot) == Kind::Free {
                // SAFETY: nobody uses a chunk whose state is free, and the list was emptied.
                unsafe { self.list_free(page, self.chunk_at(id, slot)) };
            }
        }
    }

    /// Marks the fresh chunks of a page as free, so that the page's bytes alone show which chunks are in use.
    pub fn blank_fresh(&mut self, id: PageId) {
        let page = self.own(id);
        assert!(page.used() <= page.fresh(), "a page that is being restored is unchanged");
        for slot in page.fresh()..self.chunks_per_page {
            // SAFETY: it was never handed out.
            unsafe { self.blank(id, slot, false) };
        }
    }

    /// Marks a chunk as free. With `is_listed` it goes on the free list.
    ///
    /// # Safety
    ///
    /// Nobody uses the chunk in this slot of a page of this class, and it is not listed.
    pub(super) unsafe fn blank(&mut self, id: PageId, slot: u32, is_listed: bool) {
        if is_listed {
            // SAFETY: as the caller says.
            return unsafe { self.list_free(self.own(id), self.chunk_at(id, slot)) };
        }
        self.header_at(id, slot).state().store(State::FREE);
    }

    fn header_at(&self, id: PageId, slot: u32) -> Header<'_> {
        assert!(slot < self.chunks_per_page, "a page has no more chunks");
        // SAFETY: a chunk of this page starts here: the class owns the page, and its lock is held.
        unsafe { self.memory.arena.header_of(self.chunk_at(id, slot)) }
    }

    fn kind_at(&self, id: PageId, slot: u32) -> Kind {
        self.header_at(id, slot).state().load().kind()
    }

    /// Panics with the broken invariant if a page breaks one. Returns the numbers of chunks in use and of free ones.
    pub fn check_page(&self, id: PageId) -> (u32, u32) {
        let page = self.own(id);
        let is_used = |slot: &u32| self.kind_at(id, *slot) != Kind::Free;
        let used = (0..page.fresh()).filter(is_used).count() as u32;
        assert_eq!(used, page.used(), "a page counts its chunks in use");
        let mut seen = vec![false; page.fresh() as usize];
        let mut at = page.free_head();
        while let Some(slot) = at {
            assert_eq!(self.kind_at(id, slot), Kind::Free, "a free list holds free chunks");
            let was_seen = std::mem::replace(&mut seen[slot as usize], true);
            assert!(!was_seen, "a free list holds each once");
            at = self.header_at(id, slot).free_next();
        }
        let listed = seen.iter().filter(|&&seen| seen).count() as u32;
        (used, listed + self.chunks_per_page - page.fresh())
    }

    pub fn set_draining(&mut self, id: PageId, draining: bool) {
        self.own(id).set_draining(draining);
    }

    /// The slot of the chunk at `address` in its page; `None` if no chunk of this class starts there.
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

    /// The header of the chunk of this class at `address`; `None` if there is no such chunk or it is fresh.
    fn header(&self, address: ChunkAddress) -> Option<Header<'_>> {
        let slot = self.slot_of(address)?;
        let id = self.memory.page_of(address);
        (slot < self.own(id).fresh()).then(|| self.header_at(id, slot))
    }

    /// The state of the chunk of this class at `address`; `None` if there is no such chunk or it is fresh.
    pub fn state_of(&self, address: ChunkAddress) -> Option<State> {
        self.header(address).map(|header| header.state().load())
    }

    /// The state of the chunk of this class at `address` and the bytes of value in it; `None` if there is no such chunk
    /// or it is fresh.
    pub fn contents_of(&self, address: ChunkAddress) -> Option<(State, usize)> {
        self.header(address).map(|header| (header.state().load(), header.len()))
    }

    /// The item at `address`, if it is in a queue of this class. The class of chained items has no chunks, so its
    /// items are found only through its lists.
    pub fn queued(&self, address: ChunkAddress) -> Option<Queued<'_>> {
        let state = self.state_of(address)?;
        let is_queued = state.kind() == Kind::Item && state.queued() && !state.chained();
        // SAFETY: a chunk starts here, whose item is in a queue of this class. The item stays in it as long as
        // the token is borrowed.
        is_queued.then(|| unsafe { Item::new(&self.memory, address) })
    }

    /// The pinned item, if it is in a queue of this class.
    pub fn queued_pinned(&self, pin: &Pin) -> Option<Queued<'_>> {
        let item = pin.item(&self.memory);
        let here = item.state().queued() && item.queue_class() == self.class;
        // SAFETY: the item is in a queue of this class, and stays in it as long as the token is borrowed.
        here.then(|| unsafe { Item::new(&self.memory, item.address()) })
    }

    /// Pins the linked item whose first chunk is the one of this class at `address`, if there is one.
    pub fn pin_at(&self, address: ChunkAddress) -> Option<Pin> {
        let pinned = self.header(address)?.state().try_pin();
        // SAFETY: the pin was just counted.
        pinned.then(|| unsafe { Pin::new(&self.memory, address) })
    }

    /// Pins the item of a body, if it is linked and has no pins. The mover's token ensures that no item changes its
    /// first chunk meanwhile.
    pub fn pin_head_of(&self, body: ChunkAddress, mover: &MoverToken) -> HeadPin {
        let Some((head, header)) = self.head_of(body, mover) else { return HeadPin::NoBody };
        if header.state().load().pins() > 0 || !header.state().try_pin() {
            return HeadPin::Held;
        }
        // SAFETY: the pin was just counted.
        HeadPin::Pinned(unsafe { Pin::new(&self.memory, head) })
    }

    /// The state of the item of a body; `None` if the chunk holds no body.
    pub fn head_state_of(&self, body: ChunkAddress, mover: &MoverToken) -> Option<State> {
        self.head_of(body, mover).map(|(_, header)| header.state().load())
    }

    /// The first chunk of the item of a body; `None` if the chunk holds no body.
    fn head_of(
        &self,
        body: ChunkAddress,
        mover: &MoverToken,
    ) -> Option<(ChunkAddress, Header<'_>)> {
        mover.check(&self.memory);
        let header = self.header(body).filter(|body| body.state().load().kind() == Kind::Body)?;
        let head = header.prev().expect("a body links to its head");
        // SAFETY: while a body is in use, so is its head: bodies are taken from it under this lock, and the mover's
        // token is borrowed, so that no head moves to another chunk.
        Some((head, unsafe { self.memory.arena.header_of(head) }))
    }
}

impl Remains {
    /// Takes the next body out of the chain. `class` is the class that owns the body's page.
    pub fn take_body(&mut self, class: &mut ClassToken) -> OwnedChunk {
        let memory = class.memory();
        let item = self.item(memory);
        let (at, body) = (item.layout().chain() + 4, item.first_body());
        let body = body.expect("there is a body to take");
        assert_eq!(memory.class_of(body), class.class, "a body is taken under its class");
        // SAFETY: a chain links bodies, which are chunks of this memory.
        let header = unsafe { memory.arena.header_of(body) };
        assert_eq!(header.state().load().kind(), Kind::Body, "a chain links bodies");
        assert_eq!(header.prev(), Some(self.address()), "a body belongs to its head");
        let next = body_bytes(header.next());
        // SAFETY: only this value has access to the head, and the field is within it.
        unsafe { memory.arena.write(self.address(), at, next.len()) }.copy_from_slice(&next);
        // SAFETY: a chunk of this class. Only its chain led to it, and no longer does.
        unsafe { OwnedChunk::reclaim(memory, body) }
    }
}

/// The token of the mover, inside the mover's lock. Only its holder may move items and bodies to other chunks.
#[derive(Debug)]
pub struct MoverToken {
    memory: u32,
}

impl MoverToken {
    pub(super) fn check(&self, memory: &Memory) {
        assert_eq!(self.memory, memory.number, "a mover moves items of its own memory");
    }
}

/// The result of pinning the item of a body.
#[derive(Debug)]
pub enum HeadPin {
    Pinned(Pin),
    /// The item has another pin, or it is not linked.
    Held,
    /// The chunk no longer holds a body.
    NoBody,
}
