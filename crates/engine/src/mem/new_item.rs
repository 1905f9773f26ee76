//! Items that are being written: nobody but their owner knows of them.

use super::chunk::OwnedChunk;
use super::item::{InHand, Item, UNKNOWN_COST};
use super::memory::Memory;
use super::state::{Kind, State};
use crate::layout::{
    CHAIN_SIZE_BYTES, CHAINED, ChunkAddress, HEADER_SIZE_BYTES, ItemFields, ItemMeta,
};
use slabwise_base::{ClassId, Cost, KEY_SIZE_BYTES_MAX};

/// How long an item's value is, and whether it lies in one chunk with the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueShape {
    /// So many bytes behind the key.
    Whole(usize),
    /// So many bytes in bodies.
    Chained(usize),
}

/// An item that is being written: its first chunk, and the bodies that it has so far.
#[must_use = "a new item holds memory until it is published or given back"]
#[derive(Debug)]
pub struct NewItem {
    pub(super) head: OwnedChunk,
    pub(super) bodies: Vec<OwnedChunk>,
    shape: ValueShape,
    /// Bytes of the value for which there are bodies.
    bodies_len: usize,
}

/// A copy of a published item that does not stand for it yet.
#[must_use = "a copy holds memory until it is published or given back"]
#[derive(Debug)]
pub struct Copied {
    pub(super) head: OwnedChunk,
    pub(super) from: ChunkAddress,
    pub(super) stripe: u32,
}

impl NewItem {
    /// Begins an item in an owned chunk: all but the value is written.
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
        let mut item = NewItem { head, bodies: Vec::new(), shape, bodies_len: 0 };
        item.set_meta(memory, meta);
        item
    }

    /// Writes those fields that the item stores.
    #[inline]
    pub fn set_meta(&mut self, memory: &Memory, meta: ItemMeta) {
        let state = self.head.header(memory).state().load();
        let (fields, layout) = (state.fields(), state.layout());
        let mut write = |at, bytes: &[u8]| {
            self.head.write(memory, at, bytes.len()).copy_from_slice(bytes);
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

    /// The item as far as it is written.
    #[inline]
    pub fn item<'n>(&'n self, memory: &'n Memory) -> Item<'n, InHand> {
        self.head.check(memory);
        // SAFETY: an item was begun in this chunk, which is this value's alone and is borrowed.
        unsafe { Item::new(memory, self.head.address()) }
    }

    /// The item's first chunk.
    pub fn head(&self) -> &OwnedChunk {
        &self.head
    }

    /// The class in whose queue it is to be: its chunk's, or [`CHAINED`].
    #[inline]
    pub fn queue_class(&self) -> ClassId {
        if self.is_chained() { CHAINED } else { self.head.class() }
    }

    /// Bytes of the value.
    pub fn value_len(&self) -> usize {
        match self.shape {
            ValueShape::Whole(len) | ValueShape::Chained(len) => len,
        }
    }

    /// Whether the value lies in bodies.
    pub fn is_chained(&self) -> bool {
        matches!(self.shape, ValueShape::Chained(_))
    }

    /// Bytes of the value for which there is memory.
    pub fn room(&self) -> usize {
        if self.is_chained() { self.bodies_len } else { self.value_len() }
    }

    /// Adds an owned chunk as the next body; it holds as much as fits of what is left of the value.
    pub fn add_body(&mut self, memory: &Memory, body: OwnedChunk) {
        assert!(self.is_chained(), "only a chained item has bodies");
        let wanted = self.value_len() - self.bodies_len;
        let len = wanted.min(body.size_bytes() - HEADER_SIZE_BYTES);
        assert!(len > 0, "a body holds a part of the value");
        body.header(memory).set_len(len);
        self.bodies_len += len;
        self.bodies.push(body);
    }

    /// How many bodies there are.
    pub fn body_count(&self) -> usize {
        self.bodies.len()
    }

    /// The value of an unchained item to write, from `from` on.
    #[inline]
    pub fn value_mut<'n>(&'n mut self, memory: &'n Memory, from: usize) -> &'n mut [u8] {
        assert!(!self.is_chained(), "a chained item's value lies in its bodies");
        let (start, len) =
            (self.head.header(memory).state().load().layout().value(), self.value_len());
        self.head.write(memory, start + from, len.checked_sub(from).expect("within the value"))
    }

    /// The part of the value in a body to write, from `from` on.
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

    /// The value in order, part by part.
    pub fn for_each_part(&self, memory: &Memory, mut visit: impl FnMut(&[u8])) {
        if !self.is_chained() {
            let start = self.head.header(memory).state().load().layout().value();
            visit(self.head.read(memory, start, self.value_len()));
        }
        for body in &self.bodies {
            visit(body.read(memory, HEADER_SIZE_BYTES, body.header(memory).len()));
        }
    }

    /// Its chunks, to be given back.
    pub fn into_chunks(self) -> impl Iterator<Item = OwnedChunk> {
        self.bodies.into_iter().chain([self.head])
    }

    /// Lets the first chunk lead to the bodies, which are the item's from here on.
    #[inline]
    pub(super) fn assemble(mut self, memory: &Memory) -> OwnedChunk {
        self.head.check(memory);
        if self.is_chained() {
            self.link_bodies(memory);
        }
        self.head
    }

    fn link_bodies(&mut self, memory: &Memory) {
        assert_eq!(self.bodies_len, self.value_len(), "there is memory for the whole value");
        let head = self.head.address();
        let first = self.bodies.first().map(OwnedChunk::address);
        let next = self.bodies.iter().skip(1).map(|body| Some(body.address())).chain([None]);
        for (body, next) in self.bodies.iter().zip(next) {
            let header = body.header(memory);
            header.set_prev(Some(head));
            header.set_next(next);
            // Last: a mover that sees a body goes to its head.
            header.state().store(State::new_body());
        }
        let at = self.head.header(memory).state().load().layout().chain();
        let field = self.head.write(memory, at, CHAIN_SIZE_BYTES);
        field[..4].copy_from_slice(&(self.bodies_len as u32).to_le_bytes());
        field[4..].copy_from_slice(&ChunkAddress::to_bits(first).to_le_bytes()[..5]);
    }
}

impl Copied {
    /// Copies an item, all but its place and its chain, to an owned chunk, which is given back if the item does
    /// not fit.
    pub(super) fn of(
        item: super::item::Linked<'_>,
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
        // SAFETY: within the item, all of which a linked item's handle reads.
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

    /// Its chunk, to be given back.
    pub fn into_chunk(self) -> OwnedChunk {
        self.head
    }

    /// Its chunk.
    pub fn chunk(&self) -> &OwnedChunk {
        &self.head
    }
}

/// Bytes of a chunk in use: what a move copies, and the header.
pub(super) fn body_size_bytes(memory: &Memory, body: ChunkAddress) -> usize {
    // SAFETY: the callers' body is a chunk of this memory.
    let header = unsafe { memory.arena.header_of(body) };
    debug_assert_eq!(header.state().load().kind(), Kind::Body);
    HEADER_SIZE_BYTES + header.len()
}
