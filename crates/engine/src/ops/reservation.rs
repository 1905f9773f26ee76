//! Memory that is taken but not yet published: an upload in progress.
//!
//! A value that fits one chunk beside its key lies behind it. A larger one is chained: the first chunk
//! holds all but the value, the bodies hold the value, each but the last of the largest class.
//!
//! An upload takes its bodies one by one as it is filled, so that a client which announces a large value
//! and sends nothing costs nothing. If there is no memory for the next one the upload is *starved*: it
//! takes no more, and can only be dropped.

use super::cache::Cache;
use super::item::{Pinned, parts};
use super::lookup::Found;
use crate::layout::{ChunkAddress, HEADER_SIZE_BYTES, ItemFields, ItemMeta, chain_head_size_bytes};
use crate::mem::{OwnedChunk, ReadProof, State};
use crate::space::Space;
use slabwise_base::{ClassId, Expiry, HashedKey, KEY_SIZE_BYTES_MAX, Now};

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
    cache: &'e Cache,
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

/// The class that an item goes to by its size; a chained one counts to the largest. `None`: it is too large,
/// or no class is large enough just now. Takes no lock.
pub fn class_of_size(
    space: &Space,
    key_len: usize,
    value_len: usize,
    meta: ItemMeta,
) -> Option<ClassId> {
    let shape = Shape::of(space, key_len, value_len, meta).ok()?;
    if shape.chained {
        return Some(space.largest);
    }
    space.size_map.class_for(shape.size_bytes).map(|choice| choice.id)
}

/// The fields that an item stores of which this is said.
fn fields_of(space: &Space, meta: ItemMeta) -> ItemFields {
    let rank = space.config.eviction.stores_rank();
    ItemFields {
        flags: meta.client_flags != 0,
        expiry: meta.expiry != Expiry::NEVER,
        // Where items are ranked, all lie in memory alike, so that none is favoured for its size.
        cost: rank || meta.cost.is_some(),
        rank,
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
        space: &Space,
        key_len: usize,
        value_len: usize,
        meta: ItemMeta,
    ) -> Result<Shape, ReserveError> {
        let fields = fields_of(space, meta);
        let counted = space.memory.counted_size_bytes(key_len, value_len, fields);
        if counted as u64 > space.config.item_size_bytes_max || value_len > u32::MAX as usize {
            return Err(ReserveError::TooLarge);
        }
        // The same in every table.
        let chunk_size_bytes_max = space.config.classes.chunk_size_bytes_max();
        if counted <= chunk_size_bytes_max {
            return Ok(Shape { size_bytes: counted, chained: false, fields });
        }
        let pages = space.page_stats();
        if counted as u64 > pages.limit_for_items * space.config.page_size_bytes as u64 {
            // Nothing that is evicted for it would be enough.
            return Err(ReserveError::OutOfMemory);
        }
        let head = chain_head_size_bytes(key_len, fields);
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
    /// Takes memory for an item and writes its key; see [`Handle::reserve`](crate::Handle::reserve).
    pub fn take(
        cache: &'e Cache,
        key: HashedKey<'_>,
        value_len: usize,
        meta: ItemMeta,
        now: Now,
    ) -> Result<Reservation<'e>, ReserveError> {
        let (key, key_hash) = (key.bytes(), key.hash());
        assert!(
            (1..=KEY_SIZE_BYTES_MAX).contains(&key.len()),
            "a key of {} bytes got past the protocol",
            key.len()
        );
        let space = &cache.space;
        let shape = Shape::of(space, key.len(), value_len, meta)?;
        let mut head = cache.allocate(shape.size_bytes, now).ok_or(ReserveError::OutOfMemory)?;
        let short_lived = space.is_short_lived(meta.expiry, now);
        let state = shape.state(key.len());
        space.memory.arena.set_state(&mut head, state);
        space.memory.write_key(&mut head, key);
        space.memory.write_meta(&mut head, meta);
        space.memory.arena.set_len(&mut head, if shape.chained { 0 } else { value_len });
        Ok(Reservation {
            cache,
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
        })
    }

    /// Takes memory to rewrite an item that was found, and lets go of its stripe meanwhile. The item is
    /// pinned: an operation never evicts its own subject.
    pub fn beside(
        cache: &'e Cache,
        found: Found<'e>,
        key: HashedKey<'_>,
        value_len: usize,
        meta: ItemMeta,
        now: Now,
    ) -> Result<Reservation<'e>, ReserveError> {
        let _kept = Pinned::new(found.space, found.address);
        drop(found);
        let mut reservation = Reservation::take(cache, key, value_len, meta, now)?;
        // It will be filled under the stripe, where nothing is allocated.
        while reservation.chained && reservation.bodies_len < value_len {
            if !reservation.add_body() {
                return Err(ReserveError::OutOfMemory);
            }
        }
        Ok(reservation)
    }

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
        let memory = &self.cache.space.memory;
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
            if self.within == self.cache.space.memory.header(address).len() {
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
    pub(super) fn fill_all(&mut self, bytes: &[u8]) {
        let taken = self.fill(bytes);
        assert_eq!(taken, bytes.len(), "a value is written within the size it was reserved for");
    }

    /// Copies the value of a found item.
    pub(super) fn fill_with(&mut self, found: &Found<'_>) {
        for part in parts(found.space, found.address, found.proof()) {
            self.fill_all(part);
        }
    }

    /// Ends a reservation of a found item's size as its copy, with its CAS value and time; the caller
    /// publishes it.
    pub(super) fn into_copy_of(mut self, found: &Found<'_>) -> OwnedChunk {
        self.fill_with(found);
        let chunk = self.into_published();
        let (old, new) = (found.header(), found.space.memory.header(chunk.address()));
        new.set_cas(old.cas());
        new.set_time(old.time());
        chunk
    }

    /// Shows the whole value, part by part.
    pub(super) fn for_each_part(&mut self, mut visit: impl FnMut(&[u8])) {
        let memory = &self.cache.space.memory;
        let head = self.head.as_mut().expect("owned until published");
        for chunk in std::iter::once(head).chain(&mut self.bodies) {
            visit(memory.value_part(chunk.address(), ReadProof::owned(chunk)));
        }
    }

    /// Whether an item with this value length and these fields would lie in memory the same way.
    pub(super) fn fits(&self, value_len: usize, meta: ItemMeta) -> bool {
        let state = self.cache.space.memory.header(self.address()).state().load();
        value_len == self.value_len && state.fields() == fields_of(&self.cache.space, meta)
    }

    /// Changes what the client said; the same fields must be in use.
    pub(super) fn set_meta(&mut self, meta: ItemMeta) {
        debug_assert!(self.fits(self.value_len, meta));
        let head = self.head.as_mut().expect("owned until published");
        self.cache.space.memory.write_meta(head, meta);
    }

    /// The cache that the memory belongs to.
    pub fn cache(&self) -> &'e Cache {
        self.cache
    }

    /// The item's first chunk.
    pub(super) fn address(&self) -> ChunkAddress {
        self.head.as_ref().expect("owned until published").address()
    }

    /// When the item ends.
    pub(super) fn expiry(&self) -> Expiry {
        let head = self.head.as_ref().expect("owned until published");
        self.cache.space.memory.expiry(head.address(), ReadProof::owned(head))
    }

    /// The item's key.
    pub fn key(&mut self) -> &[u8] {
        let key_len = self.key_len;
        let head = self.head.as_mut().expect("owned until published");
        let start = self.cache.space.memory.layout(head.address()).key();
        self.cache.space.memory.arena.owned_bytes(head, start, key_len)
    }

    /// The item's key with its hash.
    pub fn hashed_key(&mut self) -> HashedKey<'_> {
        let hash = self.key_hash;
        HashedKey::from_parts(self.key(), hash)
    }

    /// The hash of the item's key.
    pub(super) fn hash(&self) -> u64 {
        self.key_hash
    }

    /// What was said of the item.
    pub(super) fn meta(&self) -> ItemMeta {
        let head = self.head.as_ref().expect("owned until published");
        self.cache.space.memory.meta(head.address(), ReadProof::owned(head))
    }

    /// Whether its TTL is short enough for the temp queue.
    pub(super) fn short_lived(&self) -> bool {
        self.short_lived
    }

    /// Ends the reservation: the caller publishes the item. Its bodies belong to it from here on.
    pub(super) fn into_published(mut self) -> OwnedChunk {
        assert_eq!(self.remaining(), 0, "only a whole value is published");
        if self.chained {
            let first = self.bodies.first().map(OwnedChunk::address);
            let head = self.head.as_mut().expect("owned until published");
            self.cache.space.memory.write_chain(head, self.value_len, first);
        }
        for body in self.bodies.drain(..) {
            let _ = body.surrender();
        }
        self.head.take().expect("published once")
    }

    /// Takes the next body of a chained item, linked behind the one before, knowing its head. False:
    /// there is no memory.
    fn add_body(&mut self) -> bool {
        let space = &self.cache.space;
        let memory = &space.memory;
        let wanted = self.value_len - self.bodies_len;
        let asked = wanted + HEADER_SIZE_BYTES;
        let Some(mut chunk) = self.cache.allocate(asked, self.now) else { return false };
        // The chunk may be larger than asked for, or as large as chunks are.
        let len = wanted.min(space.chunk_size_of(&chunk) - HEADER_SIZE_BYTES);
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
            self.cache.space.give_free(body);
        }
        if let Some(head) = self.head.take() {
            self.cache.space.give_free(head);
        }
    }
}
