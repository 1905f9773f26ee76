//! Chunks, items and pages to which one holder has exclusive access: from the free list to publication, and back.

use super::arena::Header;
use super::item::{Exclusive, Item, Linked, Pin, UNKNOWN_COST, body_bytes};
use super::memory::Memory;
use super::state::State;
use crate::layout::{
    CHAIN_SIZE_BYTES, CHAINED, ChunkAddress, HEADER_SIZE_BYTES, ItemFields, ItemMeta,
};
use slabwise_base::{ClassId, Cost, KEY_SIZE_BYTES_MAX, PageId};
use std::sync::atomic::Ordering::Relaxed;

/// Exclusive access to a chunk's bytes, from its allocation until it is published or freed.
#[must_use = "an owned chunk must be published or given back, or it leaks"]
#[derive(Debug, PartialEq, Eq)]
pub struct OwnedChunk {
    address: ChunkAddress,
    /// The chunk's size in units of 8 bytes; in the low byte, the class that owns its page.
    size_and_class: u32,
    memory: u32,
}

const CLASS_BITS: u32 = 8;

impl OwnedChunk {
    /// The chunk at `address`.
    ///
    /// # Safety
    ///
    /// A chunk of this size starts at `address` of this memory, in a page of `class`. Nobody else has access to it:
    /// it has left the free chunks of its page, or its last holder has given it up.
    #[inline]
    pub(super) unsafe fn new(
        memory: &Memory,
        address: ChunkAddress,
        size_bytes: usize,
        class: ClassId,
    ) -> OwnedChunk {
        // A chunk has at most 16 MiB, and its size is a multiple of 8.
        let size_and_class = (size_bytes as u32 / 8) << CLASS_BITS | u32::from(class.0);
        OwnedChunk { address, size_and_class, memory: memory.number }
    }

    /// The chunk at `address`, which its last holder gives up.
    ///
    /// # Safety
    ///
    /// A chunk of this memory in use starts at `address`, and nobody has access to it any more.
    #[inline]
    pub(super) unsafe fn reclaim(memory: &Memory, address: ChunkAddress) -> OwnedChunk {
        // A mover must see neither a free chunk nor an item without pins here.
        // SAFETY: a chunk starts here.
        unsafe { memory.arena.header_of(address) }.state().store(State::UNPUBLISHED);
        let page = memory.page_entry(address);
        let class = page.owner().expect("a chunk in use is in a page that a class owns");
        // SAFETY: as the caller says; the page stays its class's while the chunk is in use.
        unsafe { OwnedChunk::new(memory, address, page.chunk_size_bytes(), class) }
    }

    pub fn address(&self) -> ChunkAddress {
        self.address
    }

    /// The size of the chunk, its header included.
    #[inline]
    pub fn size_bytes(&self) -> usize {
        (self.size_and_class >> CLASS_BITS) as usize * 8
    }

    /// The class that owns its page.
    #[inline]
    pub fn class(&self) -> ClassId {
        ClassId(self.size_and_class as u8)
    }

    #[inline]
    pub(super) fn check(&self, memory: &Memory) {
        assert_eq!(self.memory, memory.number, "a chunk is used with its own memory");
    }

    #[inline]
    pub(super) fn header<'c>(&'c self, memory: &'c Memory) -> Header<'c> {
        self.check(memory);
        // SAFETY: a chunk of this memory starts here.
        unsafe { memory.arena.header_of(self.address) }
    }

    /// True if these bytes are within the chunk, after its header.
    #[inline]
    fn holds(&self, start: usize, len: usize) -> bool {
        let size_bytes = self.size_bytes();
        (HEADER_SIZE_BYTES..=size_bytes).contains(&start) && len <= size_bytes - start
    }

    /// The `len` bytes from `start` on, to write.
    #[inline]
    pub(super) fn write<'c>(
        &'c mut self,
        memory: &'c Memory,
        start: usize,
        len: usize,
    ) -> &'c mut [u8] {
        self.check(memory);
        assert!(self.holds(start, len), "a write stays within its chunk");
        // SAFETY: 1. within the chunk, after its header. 2. The owner has exclusive access, which this borrows.
        unsafe { memory.arena.write(self.address, start, len) }
    }

    /// The `len` bytes from `start` on, to read.
    #[inline]
    pub(super) fn read<'c>(&'c self, memory: &'c Memory, start: usize, len: usize) -> &'c [u8] {
        self.check(memory);
        assert!(self.holds(start, len), "a read stays within its chunk");
        // SAFETY: 1. within the chunk, after its header. 2. Nobody writes: the owner's exclusive access is borrowed.
        unsafe { memory.arena.read(self.address, start, len) }
    }
}

/// A page that belongs to no class. None of its chunks is in use.
#[must_use = "a page taken from the pool must be given back"]
#[derive(Debug, PartialEq, Eq)]
pub struct UnusedPage {
    page: PageId,
    memory: u32,
}

impl UnusedPage {
    /// # Safety
    ///
    /// No class owns the page, and there is no other `UnusedPage` for it.
    pub(super) unsafe fn new(memory: &Memory, page: PageId) -> UnusedPage {
        UnusedPage { page, memory: memory.number }
    }

    pub fn id(&self) -> PageId {
        self.page
    }

    pub(super) fn check(&self, memory: &Memory) {
        assert_eq!(self.memory, memory.number, "a page is used with its own memory");
    }
}

/// The length of an item's value, and whether it is in one chunk with the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueShape {
    /// The value is in the first chunk, after the key.
    Whole(usize),
    /// The value is in bodies.
    Chained(usize),
}

/// An item that is being written: its first chunk, and its bodies so far.
#[must_use = "a new item holds memory until it is published or given back"]
#[derive(Debug)]
pub struct NewItem {
    pub(super) head: OwnedChunk,
    pub(super) bodies: Vec<OwnedChunk>,
    shape: ValueShape,
    /// The bytes of the value that the bodies so far hold.
    bodies_len: usize,
}

/// A copy of a published item that has not replaced it yet.
#[must_use = "a copy holds memory until it is published or given back"]
#[derive(Debug)]
pub struct Copied {
    pub(super) head: OwnedChunk,
    pub(super) from: ChunkAddress,
    pub(super) stripe: u32,
}

impl NewItem {
    /// Writes an item to an owned chunk, all but the value.
    #[inline]
    pub fn begin(
        memory: &Memory,
        mut head: OwnedChunk,
        key: &[u8],
        (meta, fields): (ItemMeta, ItemFields),
        shape: ValueShape,
    ) -> NewItem {
        assert!((1..=KEY_SIZE_BYTES_MAX).contains(&key.len()), "a key has 1 to 250 bytes");
        let (chained, len) = match shape {
            ValueShape::Whole(len) => (false, len),
            ValueShape::Chained(_) => (true, 0),
        };
        let state = State::new_item(key.len() as u8, fields, chained);
        let layout = state.layout();
        assert!(layout.value() + len <= head.size_bytes(), "an item fits its chunk");
        head.write(memory, layout.key(), key.len()).copy_from_slice(key);
        if chained {
            head.write(memory, layout.chain(), CHAIN_SIZE_BYTES).fill(0);
        }
        if fields.rank {
            head.write(memory, layout.rank(), 4).fill(0);
        }
        let header = head.header(memory);
        header.set_len(len);
        header.state().store(state);
        write_meta(&mut head, memory, meta);
        NewItem { head, bodies: Vec::new(), shape, bodies_len: 0 }
    }

    /// Writes the fields of `meta` that the item stores.
    #[inline]
    pub fn set_meta(&mut self, memory: &Memory, meta: ItemMeta) {
        write_meta(&mut self.head, memory, meta);
    }

    #[inline]
    pub fn item<'n>(&'n self, memory: &'n Memory) -> Item<'n, Exclusive> {
        self.head.check(memory);
        // SAFETY: an item was begun in this chunk, to which only this value has access, and it is borrowed.
        unsafe { Item::new(memory, self.head.address()) }
    }

    /// The class whose queue the item enters: its chunk's, or [`CHAINED`].
    #[inline]
    pub fn queue_class(&self) -> ClassId {
        if self.is_chained() { CHAINED } else { self.head.class() }
    }

    pub fn value_len(&self) -> usize {
        match self.shape {
            ValueShape::Whole(len) | ValueShape::Chained(len) => len,
        }
    }

    /// True if the value is in bodies.
    pub fn is_chained(&self) -> bool {
        matches!(self.shape, ValueShape::Chained(_))
    }

    /// The bytes of the value for which the item has chunks.
    pub fn room(&self) -> usize {
        if self.is_chained() { self.bodies_len } else { self.value_len() }
    }

    /// Adds an owned chunk as the next body. It holds as much of the rest of the value as fits.
    pub fn add_body(&mut self, memory: &Memory, body: OwnedChunk) {
        assert!(self.is_chained(), "only a chained item has bodies");
        let missing = self.value_len() - self.bodies_len;
        let len = missing.min(body.size_bytes() - HEADER_SIZE_BYTES);
        assert!(len > 0, "a body holds a part of the value");
        body.header(memory).set_len(len);
        self.bodies_len += len;
        self.bodies.push(body);
    }

    /// The value of an unchained item from `from` on, to write.
    #[inline]
    pub fn value_mut<'n>(&'n mut self, memory: &'n Memory, from: usize) -> &'n mut [u8] {
        assert!(!self.is_chained(), "a chained item's value is in its bodies");
        let (start, len) =
            (self.head.header(memory).state().load().layout().value(), self.value_len());
        self.head.write(memory, start + from, len.checked_sub(from).expect("within the value"))
    }

    /// The part of the value in a body from `from` on, to write.
    pub fn body_mut<'n>(
        &'n mut self,
        memory: &'n Memory,
        index: usize,
        from: usize,
    ) -> &'n mut [u8] {
        let body = &mut self.bodies[index];
        let len = body.header(memory).len().checked_sub(from).expect("within the body");
        body.write(memory, HEADER_SIZE_BYTES + from, len)
    }

    /// Visits the parts of the value in order.
    pub fn for_each_part(&self, memory: &Memory, mut visit: impl FnMut(&[u8])) {
        if !self.is_chained() {
            let start = self.head.header(memory).state().load().layout().value();
            visit(self.head.read(memory, start, self.value_len()));
        }
        for body in &self.bodies {
            visit(body.read(memory, HEADER_SIZE_BYTES, body.header(memory).len()));
        }
    }

    /// The item's chunks, for the caller to give back.
    pub fn into_chunks(self) -> impl Iterator<Item = OwnedChunk> {
        self.bodies.into_iter().chain([self.head])
    }

    /// Links the bodies to the first chunk, which then owns them.
    #[inline]
    pub(super) fn assemble(mut self, memory: &Memory) -> OwnedChunk {
        self.head.check(memory);
        if self.is_chained() {
            self.link_bodies(memory);
        }
        self.head
    }

    fn link_bodies(&mut self, memory: &Memory) {
        assert_eq!(self.bodies_len, self.value_len(), "an item has chunks for its whole value");
        let head = self.head.address();
        let first = self.bodies.first().map(OwnedChunk::address);
        let next = self.bodies.iter().skip(1).map(|body| Some(body.address())).chain([None]);
        for (body, next) in self.bodies.iter().zip(next) {
            let header = body.header(memory);
            header.set_prev(Some(head));
            header.set_next(next);
            // Last, because a mover that sees a body follows the link to its head.
            header.state().store(State::new_body());
        }
        let at = self.head.header(memory).state().load().layout().chain();
        let field = self.head.write(memory, at, CHAIN_SIZE_BYTES);
        field[..4].copy_from_slice(&(self.bodies_len as u32).to_le_bytes());
        field[4..].copy_from_slice(&body_bytes(first));
    }
}

impl Copied {
    /// Copies an item without its queue links and its chain to an owned chunk. Returns the chunk if the item does not
    /// fit.
    pub(super) fn of(
        item: Linked<'_>,
        stripe: u32,
        mut head: OwnedChunk,
    ) -> Result<Copied, OwnedChunk> {
        let (memory, old) = (item.memory(), item.header());
        let state = old.state().load();
        let size_bytes = state.layout().value() + old.len();
        if size_bytes > head.size_bytes() {
            return Err(head);
        }
        let len = size_bytes - HEADER_SIZE_BYTES;
        // SAFETY: within the item, all of which a linked item's handle may read.
        let contents = unsafe { item.bytes(HEADER_SIZE_BYTES, len) };
        head.write(memory, HEADER_SIZE_BYTES, len).copy_from_slice(contents);
        if state.chained() {
            head.write(memory, state.layout().chain() + 4, CHAIN_SIZE_BYTES - 4).fill(0);
        }
        let new = head.header(memory);
        new.set_cas(old.cas());
        new.set_time(old.time());
        new.set_len(old.len());
        new.state().store(state.moved());
        Ok(Copied { head, from: item.address(), stripe })
    }

    /// True if this is a copy of `item`, by layout, key and CAS value.
    pub(super) fn is_of(&self, item: Linked<'_>) -> bool {
        let (state, header) = (item.state(), self.head.header(item.memory()));
        let key = || self.head.read(item.memory(), state.layout().key(), state.key_len());
        state.has_layout_of(header.state().load())
            && header.cas() == item.cas()
            && key() == item.key()
    }

    /// The copy's chunk, for the caller to give back.
    pub fn into_chunk(self) -> OwnedChunk {
        self.head
    }

    pub fn chunk(&self) -> &OwnedChunk {
        &self.head
    }
}

/// The first chunk of an unlinked item without pins. It still links to the item's bodies.
#[must_use = "the chunks of an unlinked item leak unless they are freed"]
#[derive(Debug, PartialEq, Eq)]
pub struct Remains {
    address: ChunkAddress,
    memory: u32,
}

impl Remains {
    /// # Safety
    ///
    /// The item at `address` is unlinked, nobody pins it, and only the caller has access to its chunk.
    pub(super) unsafe fn new(memory: &Memory, address: ChunkAddress) -> Remains {
        Remains { address, memory: memory.number }
    }

    pub fn address(&self) -> ChunkAddress {
        self.address
    }

    #[inline]
    pub(super) fn item<'r>(&'r self, memory: &'r Memory) -> Item<'r, Exclusive> {
        let number = memory.number;
        assert_eq!(self.memory, number, "the remains of an item are used with their own memory");
        // SAFETY: only this value has access to the item, and it is borrowed.
        unsafe { Item::new(memory, self.address) }
    }

    /// Returns the first chunk, or, if the item still has bodies, the class that owns the page of the next one.
    #[inline]
    pub fn into_chunk(self, memory: &Memory) -> Result<OwnedChunk, (Remains, ClassId)> {
        if let Some(body) = self.item(memory).first_body() {
            return Err((self, memory.class_of(body)));
        }
        // SAFETY: only this value has access to the chunk, and it ends here.
        Ok(unsafe { OwnedChunk::reclaim(memory, self.address) })
    }
}

impl Memory {
    /// Returns the next page that was never handed out, or `None` at the end of the arena.
    pub fn next_new_page(&self) -> Option<UnusedPage> {
        let next = |begun: u32| ((begun as usize) < self.page_count()).then_some(begun + 1);
        let page = PageId(self.pages_begun.fetch_update(Relaxed, Relaxed, next).ok()?);
        // SAFETY: each number is handed out once, and nobody had access to this page before.
        Some(unsafe { UnusedPage::new(self, page) })
    }

    /// Returns an unused page's memory to the system.
    pub fn release(&self, page: &UnusedPage) {
        page.check(self);
        // SAFETY: no class owns the page, so no chunk of it is in use.
        unsafe { self.arena.release_page(page.page, self.page_size_bytes()) }
    }

    /// Drops a pin. Returns the remains of an unlinked item if it was the last pin (LAST-HOLDER).
    #[inline]
    pub fn unpin(&self, pin: impl Into<Pin>) -> Option<Remains> {
        let pin: Pin = pin.into();
        let last = pin.item(self).header().state().unpin();
        last.then_some(Remains { address: pin.address(), memory: self.number })
    }
}

/// Writes the fields of `meta` that the item in this chunk stores.
#[inline]
fn write_meta(head: &mut OwnedChunk, memory: &Memory, meta: ItemMeta) {
    let state = head.header(memory).state().load();
    let (fields, layout) = (state.fields(), state.layout());
    let mut write = |at, bytes: &[u8]| {
        head.write(memory, at, bytes.len()).copy_from_slice(bytes);
    };
    if fields.flags {
        write(HEADER_SIZE_BYTES, &meta.client_flags.to_le_bytes());
    }
    if fields.expiry {
        write(layout.expiry(), &meta.expiry.to_bits().to_le_bytes());
    }
    if fields.cost {
        write(layout.cost(), &meta.cost.map_or(UNKNOWN_COST, Cost::to_bits).to_le_bytes());
    }
}
