//! Memory that is taken but not yet published: an upload in progress.
//!
//! A value that fits one chunk beside its key lies behind it. A larger one is chained: the first chunk
//! holds all but the value, the bodies hold the value, each but the last of the largest class.
//!
//! An upload takes its bodies one by one as it is filled, so that a client which announces a large value
//! and sends nothing costs nothing. If there is no memory for the next one the upload is *starved*: it
//! takes no more, and can only be dropped.

use crate::engine::Engine;
use crate::handle::Found;
use crate::item::Pinned;
use crate::mem::{ChunkAddress, HEADER_SIZE_BYTES, ItemFields, OwnedChunk, ReadProof, State};
use crate::memory::Memory;
use slabwise_base::{ClassId, Cost, Expiry, HashedKey, KEY_SIZE_BYTES_MAX, Now};

/// What a client says of an item beside key and value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemMeta {
    /// An opaque number that is handed back with the value.
    pub client_flags: u32,
    /// When the item ends.
    pub expiry: Expiry,
    /// What it costs to recompute; `None` where nobody said.
    pub cost: Option<Cost>,
}

/// Why no memory was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveError {
    /// The item is larger than `item_size_bytes_max`.
    TooLarge,
    /// Nothing could be evicted, or eviction is off.
    OutOfMemory,
}

/// An item that is being written. Dropping it gives its memory back.
#[must_use = "a reservation holds memory until it is stored or dropped"]
pub struct Reservation<'e> {
    engine: &'e Engine,
    /// The first chunk; `None` once published.
    head: Option<OwnedChunk>,
    /// Bodies of a chained item, in order.
    bodies: Vec<OwnedChunk>,
    value_len: usize,
    filled: usize,
    chained: bool,
    /// Bytes of the value for which there are bodies.
    bodies_len: usize,
    /// The body that is being filled, and how much of it is.
    filling: usize,
    within: usize,
    starved: bool,
    now: Now,
    key_len: usize,
    key_hash: u64,
    short_lived: bool,
}

impl Engine {
    /// The fields that an item stores of which this is said.
    fn fields_of(&self, meta: ItemMeta) -> ItemFields {
        let rank = self.config.eviction.stores_rank();
        ItemFields {
            flags: meta.client_flags != 0,
            expiry: meta.expiry != Expiry::NEVER,
            // Where items are ranked, all lie in memory alike, so that none is favoured for its size.
            cost: rank || meta.cost.is_some(),
            rank,
        }
    }

    /// Takes memory for an item and writes its key; see [`Handle::reserve`](crate::Handle::reserve).
    pub(crate) fn reserve(
        &self,
        key: HashedKey<'_>,
        value_len: usize,
        meta: ItemMeta,
        now: Now,
    ) -> Result<Reservation<'_>, ReserveError> {
        let (key, key_hash) = (key.bytes(), key.hash());
        assert!(
            (1..=KEY_SIZE_BYTES_MAX).contains(&key.len()),
            "a key of {} bytes got past the protocol",
            key.len()
        );
        let shape = Shape::of(self, key.len(), value_len, meta)?;
        let mut head = self.allocate(shape.size_bytes, now).ok_or(ReserveError::OutOfMemory)?;
        let short_lived = self.is_short_lived(meta.expiry, now);
        let state = shape.state(key.len());
        self.memory.arena.set_state(&mut head, state);
        self.memory.write_key(&mut head, key);
        self.memory.write_meta(&mut head, meta);
        self.memory.arena.set_len(&mut head, if shape.chained { 0 } else { value_len });
        let reservation = Reservation {
            engine: self,
            head: Some(head),
            bodies: Vec::new(),
            value_len,
            filled: 0,
            chained: shape.chained,
            bodies_len: 0,
            filling: 0,
            within: 0,
            starved: false,
            now,
            key_len: key.len(),
            key_hash,
            short_lived,
        };
        Ok(reservation)
    }
}

impl Engine {
    /// The class that an item goes to by its size; a chained one counts to the largest. `None`: it is too large,
    /// or no class is large enough just now. Takes no lock.
    pub fn class_of_size(
        &self,
        key_len: usize,
        value_len: usize,
        meta: ItemMeta,
    ) -> Option<ClassId> {
        let shape = Shape::of(self, key_len, value_len, meta).ok()?;
        if shape.chained {
            return Some(self.largest);
        }
        self.size_map.class_for(shape.size_bytes).map(|choice| choice.id)
    }
}

impl<'e> Engine {
    /// Takes memory to rewrite an item that was found, and lets go of its stripe meanwhile. The item is
    /// pinned: an operation never evicts its own subject.
    pub(crate) fn reserve_beside(
        &'e self,
        found: Found<'e>,
        key: HashedKey<'_>,
        value_len: usize,
        meta: ItemMeta,
        now: Now,
    ) -> Result<Reservation<'e>, ReserveError> {
        let _kept = Pinned::new(self, found.address);
        drop(found);
        let mut reservation = self.reserve(key, value_len, meta, now)?;
        // It will be filled under the stripe, where nothing is allocated.
        while reservation.chained && reservation.bodies_len < value_len {
            if !reservation.add_body() {
                return Err(ReserveError::OutOfMemory);
            }
        }
        Ok(reservation)
    }
}

/// How an item will lie in memory.
struct Shape {
    /// What its first chunk must hold.
    size_bytes: usize,
    chained: bool,
    fields: ItemFields,
}

impl Shape {
    fn of(
        engine: &Engine,
        key_len: usize,
        value_len: usize,
        meta: ItemMeta,
    ) -> Result<Shape, ReserveError> {
        let fields = engine.fields_of(meta);
        let counted = engine.memory.counted_size_bytes(key_len, value_len, fields);
        if counted as u64 > engine.config.item_size_bytes_max || value_len > u32::MAX as usize {
            return Err(ReserveError::TooLarge);
        }
        // The same in every table.
        let chunk_size_bytes_max = engine.config.classes.chunk_size_bytes_max();
        if counted <= chunk_size_bytes_max {
            return Ok(Shape { size_bytes: counted, chained: false, fields });
        }
        let pages = engine.page_stats();
        if counted as u64 > pages.limit_for_items * engine.config.page_size_bytes as u64 {
            // Nothing that is evicted for it would be enough.
            return Err(ReserveError::OutOfMemory);
        }
        let head = Memory::chain_head_size_bytes(key_len, fields);
        if head > chunk_size_bytes_max {
            return Err(ReserveError::TooLarge);
        }
        Ok(Shape { size_bytes: head, chained: true, fields })
    }

    fn state(&self, key_len: usize) -> State {
        State::new_item(key_len as u8, self.fields, self.chained)
    }
}

impl<'e> Reservation<'e> {
    /// Bytes of the value.
    pub fn value_len(&self) -> usize {
        self.value_len
    }

    /// Bytes written so far.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Bytes still to be written.
    pub fn remaining(&self) -> usize {
        self.value_len - self.filled
    }

    /// Whether there was no memory for the rest of the value.
    pub fn is_starved(&self) -> bool {
        self.starved
    }

    /// The next place to write to, one of several for a chained item; empty when all is written, or when
    /// there is no memory for more ([`Reservation::is_starved`]).
    pub fn unfilled(&mut self) -> &mut [u8] {
        if self.remaining() == 0 {
            return &mut [];
        }
        let memory = &self.engine.memory;
        if !self.chained {
            let (filled, remaining) = (self.filled, self.remaining());
            let head = self.head.as_mut().expect("owned until published");
            let start = memory.layout(head.address()).value() + filled;
            return memory.arena.owned_bytes(head, start, remaining);
        }
        if self.filled == self.bodies_len && !self.add_body() {
            self.starved = true;
            return &mut [];
        }
        let within = self.within;
        let chunk = &mut self.bodies[self.filling];
        let room = memory.header(chunk.address()).len() - within;
        memory.arena.owned_bytes(chunk, HEADER_SIZE_BYTES + within, room)
    }

    /// Notes that `count` bytes of [`Reservation::unfilled`] were written.
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.unfilled().len(), "{count} bytes are more than there was room for");
        self.filled += count;
        if self.chained && count > 0 {
            self.within += count;
            let address = self.bodies[self.filling].address();
            if self.within == self.engine.memory.header(address).len() {
                (self.filling, self.within) = (self.filling + 1, 0);
            }
        }
    }

    /// Copies as much of `bytes` as the value has room for; returns how much that was.
    pub fn fill(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        loop {
            let place = self.unfilled();
            let count = place.len().min(bytes.len() - taken);
            if count == 0 {
                return taken;
            }
            place[..count].copy_from_slice(&bytes[taken..taken + count]);
            self.advance(count);
            taken += count;
        }
    }

    /// Copies all of `bytes`, for which there is room.
    pub(crate) fn fill_all(&mut self, bytes: &[u8]) {
        let taken = self.fill(bytes);
        assert_eq!(taken, bytes.len(), "a value is written within the size it was reserved for");
    }

    /// Shows the whole value, part by part.
    pub(crate) fn for_each_part(&mut self, mut visit: impl FnMut(&[u8])) {
        let memory = &self.engine.memory;
        let head = self.head.as_mut().expect("owned until published");
        for chunk in std::iter::once(head).chain(&mut self.bodies) {
            visit(memory.value_part(chunk.address(), ReadProof::owned(chunk)));
        }
    }

    /// Whether an item with this value length and these fields would lie in memory the same way.
    pub(crate) fn fits(&self, value_len: usize, meta: ItemMeta) -> bool {
        let state = self.engine.memory.header(self.address()).state().load();
        value_len == self.value_len && state.fields() == self.engine.fields_of(meta)
    }

    /// Changes what the client said; the same fields must be in use.
    pub(crate) fn set_meta(&mut self, meta: ItemMeta) {
        debug_assert!(self.fits(self.value_len, meta));
        let head = self.head.as_mut().expect("owned until published");
        self.engine.memory.write_meta(head, meta);
    }

    /// The engine that the memory belongs to.
    pub(crate) fn engine(&self) -> &'e Engine {
        self.engine
    }

    /// The item's first chunk.
    pub(crate) fn address(&self) -> ChunkAddress {
        self.head.as_ref().expect("owned until published").address()
    }

    /// When the item ends.
    pub(crate) fn expiry(&self) -> Expiry {
        let head = self.head.as_ref().expect("owned until published");
        self.engine.memory.expiry(head.address(), ReadProof::owned(head))
    }

    /// The item's key.
    pub fn key(&mut self) -> &[u8] {
        let key_len = self.key_len;
        let head = self.head.as_mut().expect("owned until published");
        let start = self.engine.memory.layout(head.address()).key();
        self.engine.memory.arena.owned_bytes(head, start, key_len)
    }

    /// The item's key with its hash.
    pub fn hashed_key(&mut self) -> HashedKey<'_> {
        let hash = self.key_hash;
        HashedKey::from_parts(self.key(), hash)
    }

    /// The hash of the item's key.
    pub(crate) fn hash(&self) -> u64 {
        self.key_hash
    }

    /// What was said of the item.
    pub(crate) fn meta(&self) -> ItemMeta {
        let head = self.head.as_ref().expect("owned until published");
        self.engine.memory.meta(head.address(), ReadProof::owned(head))
    }

    /// Whether its TTL is short enough for the temp queue.
    pub(crate) fn short_lived(&self) -> bool {
        self.short_lived
    }

    /// Ends the reservation: the caller publishes the item. Its bodies belong to it from here on.
    pub(crate) fn into_published(mut self) -> OwnedChunk {
        assert_eq!(self.remaining(), 0, "only a whole value is published");
        if self.chained {
            let first = self.bodies.first().map(OwnedChunk::address);
            let head = self.head.as_mut().expect("owned until published");
            self.engine.memory.write_chain(head, self.value_len, first);
        }
        for body in self.bodies.drain(..) {
            let _ = body.surrender();
        }
        self.head.take().expect("published once")
    }

    /// Takes the next body of a chained item, linked behind the one before, knowing its head. False:
    /// there is no memory.
    fn add_body(&mut self) -> bool {
        let engine = self.engine;
        let memory = &engine.memory;
        let wanted = self.value_len - self.bodies_len;
        let asked = wanted + HEADER_SIZE_BYTES;
        let Some(mut chunk) = engine.allocate(asked, self.now) else { return false };
        // The chunk may be larger than asked for, or as large as chunks are.
        let len = wanted.min(engine.chunk_size_of(&chunk) - HEADER_SIZE_BYTES);
        let header = memory.header(chunk.address());
        header.set_prev(Some(self.address()));
        header.set_next(None);
        memory.arena.set_len(&mut chunk, len);
        // Last: a mover that sees a body goes to its owner.
        memory.arena.set_state(&mut chunk, State::new_body());
        if let Some(last) = self.bodies.last() {
            memory.header(last.address()).set_next(Some(chunk.address()));
        }
        self.bodies_len += len;
        self.bodies.push(chunk);
        true
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        for body in self.bodies.drain(..) {
            self.engine.give_free(body);
        }
        if let Some(head) = self.head.take() {
            self.engine.give_free(head);
        }
    }
}
