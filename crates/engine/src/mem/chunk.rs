//! Access tokens for chunks, items and pages that only one holder can access: chunks after their allocation, items
//! before their publication and after their removal, and pages that no class owns.

use super::arena::Header;
use super::item::{Exclusive, Item, Linked, Pin, UNKNOWN_COST, body_bytes};
use super::memory::Memory;
use super::state::State;
use crate::layout::{
    CHAIN_SIZE_BYTES, CHAINED, ChunkAddress, HEADER_SIZE_BYTES, ItemFields, ItemMeta,
};
use slabwise_base::{ClassId, Cost, KEY_SIZE_BYTES_MAX, PageId, Uses};
use std::sync::atomic::Ordering::Relaxed;

/// Exclusive access to the bytes of a chunk, from its allocation until it is published or freed.
#[must_use = "the memory of an owned chunk leaks unless the chunk is published or freed"]
#[derive(Debug, PartialEq, Eq)]
pub struct OwnedChunk {
    address: ChunkAddress,
    /// The lower 8 bits hold the number of the class that owns the page. The upper 24 bits hold the chunk size in units
    /// of 8 bytes.
    size_and_class: u32,
    /// The number of the memory.
    memory: u32,
}

/// The number of bits for the class in [`OwnedChunk::size_and_class`].
const CLASS_BITS: u32 = 8;

impl OwnedChunk {
    /// Returns the access token of the chunk at `address`.
    ///
    /// # Safety
    ///
    /// A chunk of this size starts at `address` of this memory, in a page that `class` owns. The chunk is neither free
    /// nor fresh any more, and nothing else has access to it.
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

    /// Returns the access token of a chunk that held an item or a body until now.
    ///
    /// # Safety
    ///
    /// A chunk that is in use starts at `address` of this memory, and nothing else has access to the chunk any more.
    #[inline]
    pub(super) unsafe fn reclaim(memory: &Memory, address: ChunkAddress) -> OwnedChunk {
        // The mover may read the state of any chunk of a page. Until this chunk is freed, the mover must find neither
        // the state of a free chunk nor that of an item without pins.
        // SAFETY: the caller guarantees that a chunk starts at the address.
        unsafe { memory.arena.header_of(address) }.state().store(State::UNPUBLISHED);
        let page = memory.page_entry(address);
        let class = page.owner().expect("a class owns the page of a chunk in use");
        // SAFETY: the caller guarantees that the chunk is in use and that nothing else has access to it. The owner of a
        // page with a chunk in use does not change.
        unsafe { OwnedChunk::new(memory, address, page.chunk_size_bytes(), class) }
    }

    pub fn address(&self) -> ChunkAddress {
        self.address
    }

    /// Returns the size of the chunk, its header included.
    #[inline]
    pub fn size_bytes(&self) -> usize {
        (self.size_and_class >> CLASS_BITS) as usize * 8
    }

    /// Returns the class that owns the page of the chunk.
    #[inline]
    pub fn class(&self) -> ClassId {
        ClassId(self.size_and_class as u8)
    }

    /// Panics if the chunk belongs to another memory.
    #[inline]
    pub(super) fn check(&self, memory: &Memory) {
        assert_eq!(self.memory, memory.number, "a chunk is used with its own memory");
    }

    #[inline]
    pub(super) fn header<'c>(&'c self, memory: &'c Memory) -> Header<'c> {
        self.check(memory);
        // SAFETY: a chunk of this memory starts at the address of an `OwnedChunk`.
        unsafe { memory.arena.header_of(self.address) }
    }

    /// Returns true if `len` bytes from the offset `start` on are within the chunk and after its header.
    #[inline]
    fn contains(&self, start: usize, len: usize) -> bool {
        let size_bytes = self.size_bytes();
        (HEADER_SIZE_BYTES..=size_bytes).contains(&start) && len <= size_bytes - start
    }

    /// Returns `len` bytes, beginning `start` bytes after the chunk's start, for writing. Panics if these bytes are not
    /// within the chunk or overlap its header.
    #[inline]
    pub(super) fn write<'c>(
        &'c mut self,
        memory: &'c Memory,
        start: usize,
        len: usize,
    ) -> &'c mut [u8] {
        self.check(memory);
        assert!(
            self.contains(start, len),
            "the written bytes are within the chunk, after its header"
        );
        // SAFETY: 1. The bytes are within the chunk and after its header. 2. Only the owner of the chunk accesses them,
        // and the slice borrows the `OwnedChunk` exclusively.
        unsafe { memory.arena.write(self.address, start, len) }
    }

    /// Returns `len` bytes, beginning `start` bytes after the chunk's start, for reading. Panics if these bytes are not
    /// within the chunk or overlap its header.
    #[inline]
    pub(super) fn read<'c>(&'c self, memory: &'c Memory, start: usize, len: usize) -> &'c [u8] {
        self.check(memory);
        assert!(self.contains(start, len), "the read bytes are within the chunk, after its header");
        // SAFETY: 1. The bytes are within the chunk and after its header. 2. Only the owner of the chunk writes them,
        // and the slice borrows the `OwnedChunk`.
        unsafe { memory.arena.read(self.address, start, len) }
    }
}

/// The access token of a page that no class owns. None of the page's chunks is in use.
#[must_use = "the memory of an unused page leaks unless a class or the page pool takes it"]
#[derive(Debug, PartialEq, Eq)]
pub struct UnusedPage {
    page: PageId,
    /// The number of the memory.
    memory: u32,
}

impl UnusedPage {
    /// Returns the access token of a page.
    ///
    /// # Safety
    ///
    /// No class owns the page, and no other `UnusedPage` exists for the page.
    pub(super) unsafe fn new(memory: &Memory, page: PageId) -> UnusedPage {
        UnusedPage { page, memory: memory.number }
    }

    pub fn id(&self) -> PageId {
        self.page
    }

    /// Panics if the page belongs to another memory.
    pub(super) fn check(&self, memory: &Memory) {
        assert_eq!(self.memory, memory.number, "a page is used with its own memory");
    }
}

/// The length of an item's value in bytes, and the kind of chunks that hold the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueShape {
    /// The item is not chained. A value of this length is in the same chunk as the key.
    Whole(usize),
    /// The item is chained. A value of this length is in bodies.
    Chained(usize),
}

/// An item that is being written. It is not published yet.
#[must_use = "the memory of a new item leaks unless the item is published or its chunks are freed"]
#[derive(Debug)]
pub struct NewItem {
    /// The first chunk of the item.
    pub(super) head: OwnedChunk,
    /// The bodies that were added until now; always empty if the item is not chained.
    pub(super) bodies: Vec<OwnedChunk>,
    shape: ValueShape,
    /// The number of bytes of the value that these bodies hold.
    bodies_len: usize,
}

/// A copy of the first chunk of a published item. The copy is not published yet.
#[must_use = "the memory of a copy leaks unless the copy is published or its chunk is freed"]
#[derive(Debug)]
pub struct Copied {
    /// The chunk that holds the copy.
    pub(super) head: OwnedChunk,
    /// The address of the original.
    pub(super) from: ChunkAddress,
    /// The number of the original's stripe.
    pub(super) stripe: u32,
}

impl NewItem {
    /// Writes all parts of an item except the value to an owned chunk.
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
        assert!(layout.value() + len <= head.size_bytes(), "the item fits into its first chunk");
        head.write(memory, layout.key(), key.len()).copy_from_slice(key);
        if chained {
            head.write(memory, layout.chain(), CHAIN_SIZE_BYTES).fill(0);
        }
        if fields.rank {
            head.write(memory, layout.rank(), 4).fill(0);
        }
        let header = head.header(memory);
        header.set_len(len);
        header.set_uses(Uses::FIRST);
        header.state().store(state);
        write_meta(&mut head, memory, meta);
        NewItem { head, bodies: Vec::new(), shape, bodies_len: 0 }
    }

    /// Writes client flags, expiry and cost, each only if the item stores it.
    #[inline]
    pub fn set_meta(&mut self, memory: &Memory, meta: ItemMeta) {
        write_meta(&mut self.head, memory, meta);
    }

    /// Returns an [`Item`] to read the item.
    #[inline]
    pub fn item<'n>(&'n self, memory: &'n Memory) -> Item<'n, Exclusive> {
        self.head.check(memory);
        // SAFETY: `begin` wrote an item to this chunk. Only this `NewItem` has access to the chunk, and the `Item`
        // borrows the `NewItem`.
        unsafe { Item::new(memory, self.head.address()) }
    }

    /// Returns the class whose queue the item will enter: [`CHAINED`] if the item is chained, and otherwise the class
    /// of its chunk.
    #[inline]
    pub fn queue_class(&self) -> ClassId {
        if self.is_chained() { CHAINED } else { self.head.class() }
    }

    /// Returns the length of the whole value in bytes.
    pub fn value_len(&self) -> usize {
        match self.shape {
            ValueShape::Whole(len) | ValueShape::Chained(len) => len,
        }
    }

    /// Returns true if the item is chained, so that its value is in bodies.
    pub fn is_chained(&self) -> bool {
        matches!(self.shape, ValueShape::Chained(_))
    }

    /// Returns the number of bytes of the value for which the item has chunks until now. It is below the value's length
    /// as long as a chained item needs further bodies.
    pub fn room(&self) -> usize {
        if self.is_chained() { self.bodies_len } else { self.value_len() }
    }

    /// Adds an owned chunk as the next body. This body will hold the rest of the value, or the part of it that fits.
    pub fn add_body(&mut self, memory: &Memory, body: OwnedChunk) {
        assert!(self.is_chained(), "an item that gets a body is chained");
        let missing = self.value_len() - self.bodies_len;
        let len = missing.min(body.size_bytes() - HEADER_SIZE_BYTES);
        assert!(len > 0, "an added body holds at least one byte of the value");
        body.header(memory).set_len(len);
        self.bodies_len += len;
        self.bodies.push(body);
    }

    /// Returns the bytes of the value from the offset `from` to the end, for writing. Panics if the item is chained.
    #[inline]
    pub fn value_mut<'n>(&'n mut self, memory: &'n Memory, from: usize) -> &'n mut [u8] {
        assert!(!self.is_chained(), "the item is not chained, so its value is in its first chunk");
        let start = self.head.header(memory).state().load().layout().value();
        let len = self.value_len().checked_sub(from).expect("the offset is within the value");
        self.head.write(memory, start + from, len)
    }

    /// Returns the bytes of the value in the body with this index, for writing. They begin at the offset `from` of the
    /// body's part of the value.
    pub fn body_mut<'n>(
        &'n mut self,
        memory: &'n Memory,
        index: usize,
        from: usize,
    ) -> &'n mut [u8] {
        let body = &mut self.bodies[index];
        let part_len = body.header(memory).len();
        let len = part_len.checked_sub(from).expect("the offset is within the body's part");
        body.write(memory, HEADER_SIZE_BYTES + from, len)
    }

    /// Calls `visit` with each part of the value, in the order of the value.
    pub fn for_each_part(&self, memory: &Memory, mut visit: impl FnMut(&[u8])) {
        if !self.is_chained() {
            let start = self.head.header(memory).state().load().layout().value();
            visit(self.head.read(memory, start, self.value_len()));
        }
        for body in &self.bodies {
            visit(body.read(memory, HEADER_SIZE_BYTES, body.header(memory).len()));
        }
    }

    /// Returns the addresses of the item's chunks: the first chunk, then the bodies that were added until now.
    pub fn chunks(&self) -> impl Iterator<Item = ChunkAddress> {
        std::iter::once(&self.head).chain(&self.bodies).map(OwnedChunk::address)
    }

    /// Returns the chunks of the item. The caller must free them.
    pub fn into_chunks(self) -> impl Iterator<Item = OwnedChunk> {
        self.bodies.into_iter().chain([self.head])
    }

    /// Links the bodies of a chained item to its first chunk. Returns the first chunk.
    #[inline]
    pub(super) fn assemble(mut self, memory: &Memory) -> OwnedChunk {
        self.head.check(memory);
        if self.is_chained() {
            self.link_bodies(memory);
        }
        self.head
    }

    fn link_bodies(&mut self, memory: &Memory) {
        assert_eq!(self.bodies_len, self.value_len(), "the bodies hold the whole value");
        let head = self.head.address();
        let first = self.bodies.first().map(OwnedChunk::address);
        let next = self.bodies.iter().skip(1).map(|body| Some(body.address())).chain([None]);
        for (body, next) in self.bodies.iter().zip(next) {
            let header = body.header(memory);
            header.set_prev(Some(head));
            header.set_next(next);
            // The state is stored last, because a mover that reads the state of a body follows the body's link to
            // the head.
            header.state().store(State::new_body());
        }
        let at = self.head.header(memory).state().load().layout().chain();
        let field = self.head.write(memory, at, CHAIN_SIZE_BYTES);
        field[..4].copy_from_slice(&(self.bodies_len as u32).to_le_bytes());
        field[4..].copy_from_slice(&body_bytes(first));
    }
}

impl Copied {
    /// Copies the first chunk of an item to an owned chunk, without the links of the queue and the address of the first
    /// body. Returns the owned chunk as the error if the item does not fit into it.
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
        // SAFETY: these are bytes of the item after its header, and a `Linked` item gives access to all of them.
        let contents = unsafe { item.bytes(HEADER_SIZE_BYTES, len) };
        head.write(memory, HEADER_SIZE_BYTES, len).copy_from_slice(contents);
        if state.chained() {
            head.write(memory, state.layout().chain() + 4, CHAIN_SIZE_BYTES - 4).fill(0);
        }
        let new = head.header(memory);
        new.set_cas(old.cas());
        new.set_time(old.time());
        new.set_uses(old.uses());
        new.set_len(old.len());
        new.state().store(state.moved());
        Ok(Copied { head, from: item.address(), stripe })
    }

    /// Returns true if the copy has the layout, the key and the CAS value of `item`.
    pub(super) fn is_copy_of(&self, item: Linked<'_>) -> bool {
        let (state, header) = (item.state(), self.head.header(item.memory()));
        let key = || self.head.read(item.memory(), state.layout().key(), state.key_len());
        state.has_layout_of(header.state().load())
            && header.cas() == item.cas()
            && key() == item.key()
    }

    /// Returns the chunk of the copy. The caller must free the chunk.
    pub fn into_chunk(self) -> OwnedChunk {
        self.head
    }

    pub fn chunk(&self) -> &OwnedChunk {
        &self.head
    }
}

/// The chunks of an unlinked item that has no pins, so that they must be freed: the first chunk and, if the item is
/// chained, its bodies.
#[must_use = "the chunks of an unlinked item leak unless they are freed"]
#[derive(Debug, PartialEq, Eq)]
pub struct UnlinkedChunks {
    /// The address of the first chunk, which links to the bodies.
    address: ChunkAddress,
    /// The number of the memory.
    memory: u32,
}

impl UnlinkedChunks {
    /// Returns the access token of an unlinked item.
    ///
    /// # Safety
    ///
    /// The item at `address` is unlinked and has no pins, and only the caller has access to its chunks.
    pub(super) unsafe fn new(memory: &Memory, address: ChunkAddress) -> UnlinkedChunks {
        UnlinkedChunks { address, memory: memory.number }
    }

    pub fn address(&self) -> ChunkAddress {
        self.address
    }

    #[inline]
    pub(super) fn item<'r>(&'r self, memory: &'r Memory) -> Item<'r, Exclusive> {
        let number = memory.number;
        assert_eq!(self.memory, number, "the chunks of an item are used with their own memory");
        // SAFETY: only this `UnlinkedChunks` has access to the item, and the `Item` borrows the `UnlinkedChunks`.
        unsafe { Item::new(memory, self.address) }
    }

    /// Returns the first chunk if the item has no bodies any more. Otherwise returns as the error the unchanged value
    /// and the class that owns the page of the first body. The caller then removes this body with
    /// [`UnlinkedChunks::take_body`].
    #[inline]
    pub fn try_into_chunk(self, memory: &Memory) -> Result<OwnedChunk, (UnlinkedChunks, ClassId)> {
        if let Some(body) = self.item(memory).first_body() {
            return Err((self, memory.class_of(body)));
        }
        // SAFETY: only this `UnlinkedChunks` has access to the chunk, and the `UnlinkedChunks` ends here.
        Ok(unsafe { OwnedChunk::reclaim(memory, self.address) })
    }
}

impl Memory {
    /// Returns the next page that was never handed out, or `None` if all pages of the arena were handed out.
    pub fn next_new_page(&self) -> Option<UnusedPage> {
        let next = |begun: u32| ((begun as usize) < self.page_count()).then_some(begun + 1);
        let page = PageId(self.pages_handed_out.fetch_update(Relaxed, Relaxed, next).ok()?);
        // SAFETY: each page number is handed out once, so no class owns the page and no other `UnusedPage` exists for
        // it.
        Some(unsafe { UnusedPage::new(self, page) })
    }

    /// Returns the memory of an unused page to the system. Returns false if this is not possible.
    pub fn release(&self, page: &UnusedPage) -> bool {
        page.check(self);
        // SAFETY: no class owns the page, so no chunk of it is in use.
        unsafe { self.arena.release_page(page.page, self.page_size_bytes()) }
    }

    /// Removes a pin. If it was the last pin of an unlinked item, returns the item's chunks, which the caller must free
    /// (LAST-HOLDER).
    #[inline]
    pub fn unpin(&self, pin: impl Into<Pin>) -> Option<UnlinkedChunks> {
        let pin: Pin = pin.into();
        let last = pin.item(self).header().state().unpin();
        last.then_some(UnlinkedChunks { address: pin.address(), memory: self.number })
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
