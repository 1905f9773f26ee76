//! Reservations: memory for an item that is being written and not yet published.
//!
//! If an item fits into one chunk, its value is stored after its key. A larger item is chained: its first chunk, the
//! head, holds everything but the value, and other chunks, the bodies, hold the value. All bodies except the last one
//! are chunks of the largest class.
//!
//! A body is allocated when the bodies before it are full. So a client that announces a large value and sends nothing
//! occupies only the head. If there is no memory for the next body, the reservation is *starved*, and its owner drops
//! it.
//!
//! The size of a changed item depends on the existing item, but memory is allocated while no stripe is locked. So a
//! change works in rounds. The first round looks the item up, unlocks its stripe and reserves memory. The next round
//! looks the item up again. If another thread has changed the item meanwhile, so that memory of another size is needed,
//! this round reserves that memory, and another round follows. So more than two rounds are needed only if another
//! thread's change succeeds.

use super::handle::{Cache, Found};
use super::item::Pinned;
use super::own_spares::OwnSpares;
use crate::layout::{HEADER_SIZE_BYTES, ItemFields, ItemMeta, chain_head_size_bytes};
use crate::mem::{Exclusive, Item, NewItem, ValueShape};
use crate::space::Space;
use slabwise_base::{ClassId, Expiry, HashedKey, KEY_SIZE_BYTES_MAX, Now};

/// The reason why no memory was reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveError {
    /// The item is larger than [`item_size_bytes_max`](crate::EngineConfig::item_size_bytes_max), or its key does not
    /// fit into the largest chunk.
    TooLarge,
    /// There is no free memory, and no item can be evicted or eviction is disabled. Or the item is larger than all
    /// memory for items.
    OutOfMemory,
}

/// The memory for an item that is being written. Dropping a reservation frees the memory.
#[must_use = "a reservation holds memory until it is stored or dropped"]
pub struct Reservation<'e> {
    cache: &'e Cache,
    /// The item; `None` after it was published.
    item: Option<NewItem>,
    /// The number of bytes of the value that were written so far.
    filled: usize,
    /// The index of the body that is being filled. Unused if the item is not chained.
    filling: usize,
    /// The number of bytes written to the body with index `filling`.
    within: usize,
    /// True if there was no memory for the next body.
    starved: bool,
    /// The time at which further bodies are allocated.
    now: Now,
    /// The hash of the item's key.
    pub(super) key_hash: u64,
    /// True if the item's TTL is short enough for the temp queue.
    pub(super) short_lived: bool,
}

/// Returns the class that will queue an item of this size, as statistics show it: the largest class if the item is
/// chained. `None`: the item is too large, or the cache cannot hold it at its present memory limit.
pub fn class_of_size(
    space: &Space,
    key_len: usize,
    value_len: usize,
    meta: ItemMeta,
) -> Option<ClassId> {
    let shape = Shape::of(space, key_len, value_len, meta).ok()?;
    match shape.value {
        ValueShape::Chained(_) => Some(space.largest),
        ValueShape::Whole(_) => space.size_map.class_for(shape.size_bytes).map(|choice| choice.id),
    }
}

/// Returns the optional fields that an item with this metadata stores.
fn fields_of(space: &Space, meta: ItemMeta) -> ItemFields {
    let rank = space.ranks_items;
    ItemFields {
        flags: meta.client_flags != 0,
        expiry: meta.expiry != Expiry::NEVER,
        // If items are ranked, every item stores a cost. So the size of an item does not depend on whether its cost is
        // known.
        cost: rank || meta.cost.is_some(),
        rank,
    }
}

/// The layout of an item in memory.
struct Shape {
    /// The size that the first chunk must have at least, in bytes.
    size_bytes: usize,
    /// The length of the value, and whether the item is chained.
    value: ValueShape,
    /// The optional fields that the item stores.
    fields: ItemFields,
}

impl Shape {
    /// Returns the layout of an item with this key length, value length and metadata, or an error if the item is too
    /// large.
    #[inline(always)]
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
        // The largest chunk size is the same in every class table.
        let chunk_size_bytes_max = space.config.classes.chunk_size_bytes_max();
        if counted <= chunk_size_bytes_max {
            let value = ValueShape::Whole(value_len);
            return Ok(Shape { size_bytes: counted, value, fields });
        }
        let pages = space.page_stats();
        if counted as u64 > pages.limit_for_items * space.config.page_size_bytes as u64 {
            // The eviction of all items would not free enough memory for this item.
            return Err(ReserveError::OutOfMemory);
        }
        let head = chain_head_size_bytes(key_len, fields);
        if head > chunk_size_bytes_max {
            return Err(ReserveError::TooLarge);
        }
        Ok(Shape { size_bytes: head, value: ValueShape::Chained(value_len), fields })
    }
}

impl<'e> Reservation<'e> {
    /// Reserves memory for an item and writes its key. [`Handle::reserve`](crate::Handle::reserve) describes the
    /// details.
    pub(super) fn begin(
        (cache, spares): (&'e Cache, &OwnSpares<'_>),
        key: HashedKey<'_>,
        value_len: usize,
        meta: ItemMeta,
        now: Now,
    ) -> Result<Reservation<'e>, ReserveError> {
        let (key, key_hash) = (key.bytes(), key.hash());
        assert!(
            (1..=KEY_SIZE_BYTES_MAX).contains(&key.len()),
            "key of {} bytes: a key has 1 to {KEY_SIZE_BYTES_MAX} bytes",
            key.len()
        );
        let space = &cache.space;
        let shape = Shape::of(space, key.len(), value_len, meta)?;
        // The lookup that publishes the item reads these lines. They arrive during the allocation and the copy of the
        // value.
        space.index.prefetch(key_hash);
        let head = cache.allocate(shape.size_bytes, now, Some(spares));
        let head = head.ok_or(ReserveError::OutOfMemory)?;
        space.index.prefetch_bucket(key_hash);
        let short_lived = space.is_short_lived(meta.expiry, now);
        let item = NewItem::begin(&space.memory, head, key, (meta, shape.fields), shape.value);
        Ok(Reservation {
            cache,
            item: Some(item),
            filled: 0,
            filling: 0,
            within: 0,
            starved: false,
            now,
            key_hash,
            short_lived,
        })
    }

    fn new_item(&self) -> &NewItem {
        self.item.as_ref().expect("the reservation owns its item until it is published")
    }

    fn new_item_mut(&mut self) -> &mut NewItem {
        self.item.as_mut().expect("the reservation owns its item until it is published")
    }

    /// Returns the item that is being written.
    pub(super) fn item(&self) -> Item<'_, Exclusive> {
        self.new_item().item(&self.cache.space.memory)
    }

    /// Returns the class that will queue the item.
    #[inline]
    pub(super) fn queue_class(&self) -> ClassId {
        self.new_item().queue_class()
    }

    /// Returns the length that the value will have, in bytes.
    pub fn value_len(&self) -> usize {
        self.new_item().value_len()
    }

    /// Returns the number of bytes of the value that were written so far.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Returns the number of bytes of the value that are not written yet.
    pub fn remaining(&self) -> usize {
        self.value_len() - self.filled
    }

    /// True if there was no memory for the rest of the value.
    pub fn is_starved(&self) -> bool {
        self.starved
    }

    /// Returns the buffer for the next bytes of the value. The value of a chained item has several buffers, one after
    /// the other. The buffer is empty if the value is complete, or if there is no memory for the rest of the value
    /// ([`Reservation::is_starved`]).
    pub fn unfilled(&mut self) -> &mut [u8] {
        if self.remaining() == 0 {
            return &mut [];
        }
        let memory = &self.cache.space.memory;
        let (filled, filling, within) = (self.filled, self.filling, self.within);
        if !self.new_item().is_chained() {
            return self.new_item_mut().value_mut(memory, filled);
        }
        if filled == self.new_item().room() && !self.add_body(None) {
            self.starved = true;
            return &mut [];
        }
        self.new_item_mut().body_mut(memory, filling, within)
    }

    /// Records that the caller has written `count` bytes to the buffer that [`Reservation::unfilled`] returned.
    ///
    /// Panics if `count` is above the length of this buffer.
    pub fn advance(&mut self, count: usize) {
        let is_chained = self.new_item().is_chained();
        let room = if is_chained { self.unfilled().len() } else { self.remaining() };
        assert!(count <= room, "{count} bytes written to a buffer of {room} bytes");
        self.filled += count;
        if is_chained {
            self.within += count;
            if count == room && count > 0 {
                (self.filling, self.within) = (self.filling + 1, 0);
            }
        }
    }

    /// Copies `bytes` to the end of the value. Copies only a part if the value is complete then, or if there is no
    /// memory for more. Returns the number of copied bytes.
    pub fn fill(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        loop {
            let buffer = self.unfilled();
            let count = buffer.len().min(bytes.len() - taken);
            if count == 0 {
                return taken;
            }
            buffer[..count].copy_from_slice(&bytes[taken..taken + count]);
            self.advance(count);
            taken += count;
        }
    }

    /// Copies all of `bytes` to the end of the value.
    ///
    /// Panics if they do not fit.
    pub(super) fn fill_all(&mut self, bytes: &[u8]) {
        let taken = self.fill(bytes);
        assert_eq!(taken, bytes.len(), "all bytes fit into the reservation");
    }

    /// Copies the value of a found item to the end of the value.
    pub(super) fn fill_with(&mut self, found: &Found<'_>) {
        found.item().value().for_each(|part| self.fill_all(part));
    }

    /// Fills the reservation with a copy of a found item, including its CAS value and access time. Returns the copy,
    /// which the caller publishes.
    pub(super) fn into_filled_copy_of(mut self, found: &Found<'_>) -> NewItem {
        self.fill_with(found);
        let (old, new) = (found.item(), self.item());
        new.set_cas(old.cas());
        new.set_time(old.time());
        new.set_uses(old.uses());
        self.into_item()
    }

    /// Calls `visit` with each part of the value that was written, in order.
    pub(super) fn for_each_part(&self, visit: impl FnMut(&[u8])) {
        self.new_item().for_each_part(&self.cache.space.memory, visit);
    }

    /// True if an item with this value length and metadata has the same layout as this reservation.
    pub(super) fn has_layout(&self, value_len: usize, meta: ItemMeta) -> bool {
        let fields = fields_of(&self.cache.space, meta);
        value_len == self.value_len() && self.item().state().fields() == fields
    }

    /// Changes the metadata of the item. The new metadata must need the same optional fields as the old.
    pub(super) fn set_meta(&mut self, meta: ItemMeta) {
        debug_assert!(
            self.has_layout(self.value_len(), meta),
            "the metadata need the same optional fields"
        );
        let memory = &self.cache.space.memory;
        self.new_item_mut().set_meta(memory, meta);
    }

    /// Returns the cache in which the memory was reserved.
    pub(super) fn cache(&self) -> &'e Cache {
        self.cache
    }

    /// Returns the item's key.
    pub fn key(&self) -> &[u8] {
        self.item().key()
    }

    /// Returns the item's key with its hash.
    pub fn hashed_key(&self) -> HashedKey<'_> {
        HashedKey::from_parts(self.key(), self.key_hash)
    }

    /// Frees the memory. The chunks become spare chunks if possible. The caller must hold no stripe lock.
    pub(super) fn free_into(mut self, spares: &OwnSpares<'_>) {
        if let Some(item) = self.item.take() {
            item.into_chunks().for_each(|chunk| spares.free(chunk));
        }
    }

    /// Returns the item of a filled reservation. The caller publishes the item.
    ///
    /// Panics if the value is incomplete.
    pub(super) fn into_item(mut self) -> NewItem {
        assert_eq!(self.remaining(), 0, "an item is published only when its value is complete");
        self.item.take().expect("an item is published only once")
    }

    /// Sets the time of the allocations that follow. A value can arrive for minutes.
    pub fn set_now(&mut self, now: Now) {
        self.now = now;
    }

    /// Allocates the next body of a chained item. Returns false if there is no memory.
    fn add_body(&mut self, spares: Option<&OwnSpares<'_>>) -> bool {
        let wanted = self.value_len() - self.new_item().room();
        // The chunk may be larger than the requested size. It may also be smaller, because no chunk is larger than the
        // largest chunk size; another body then follows.
        let Some(chunk) = self.cache.allocate(wanted + HEADER_SIZE_BYTES, self.now, spares) else {
            return false;
        };
        let memory = &self.cache.space.memory;
        self.new_item_mut().add_body(memory, chunk);
        true
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if let Some(item) = self.item.take() {
            item.into_chunks().for_each(|chunk| self.cache.space.give_free(chunk));
        }
    }
}

/// The memory that an operation has prepared for a changed item. An earlier round of the operation has reserved it.
pub struct PreparedMemory<'e, 'h> {
    cache: &'e Cache,
    /// The spare chunks of the handle.
    spares: &'h OwnSpares<'e>,
    /// The reserved memory; `None` if no round has reserved memory yet, or if the memory was used.
    reserved: Option<Reservation<'e>>,
}

impl<'e, 'h> PreparedMemory<'e, 'h> {
    pub fn new(cache: &'e Cache, spares: &'h OwnSpares<'e>) -> PreparedMemory<'e, 'h> {
        PreparedMemory { cache, spares, reserved: None }
    }

    /// Returns memory for an item of this layout, which will replace a found item. If an earlier round has reserved
    /// such memory, the item's stripe stays locked. `None`: this call has unlocked the stripe and reserved the memory,
    /// so the caller must repeat the lookup.
    pub fn reserve(
        &mut self,
        found: Found<'e>,
        key: HashedKey<'_>,
        value_len: usize,
        meta: ItemMeta,
        now: Now,
    ) -> Result<Option<(Found<'e>, Reservation<'e>)>, ReserveError> {
        if let Some(mut ready) =
            self.reserved.take_if(|reserved| reserved.has_layout(value_len, meta))
        {
            ready.set_meta(meta);
            return Ok(Some((found, ready)));
        }
        self.reserved = None;
        // The pin keeps the allocation from evicting the item that this operation changes.
        let _pinned = Pinned::new(found.space, found.item());
        drop(found);
        let memory = (self.cache, self.spares);
        let mut reserved = Reservation::begin(memory, key, value_len, meta, now)?;
        // All bodies are allocated now, because the next round fills the reservation while the stripe is locked.
        while reserved.new_item().room() < value_len {
            if !reserved.add_body(Some(self.spares)) {
                return Err(ReserveError::OutOfMemory);
            }
        }
        self.reserved = Some(reserved);
        Ok(None)
    }

    /// Sets the expiry of a found item. If the item has no field for an expiry, replaces the item by a copy that has
    /// one ([`Found::replace_by_copy`]). The copy has the same CAS value. `None`: this call has reserved memory for the
    /// copy, and the caller must repeat the lookup.
    pub fn set_expiry(
        &mut self,
        mut found: Found<'e>,
        key: HashedKey<'_>,
        expiry: Expiry,
        now: Now,
    ) -> Result<Option<Found<'e>>, ReserveError> {
        if found.can_hold(expiry) {
            found.set_expiry_in_place(expiry);
            return Ok(Some(found));
        }
        let item = found.item();
        let (value_len, meta) = (item.value_len(), ItemMeta { expiry, ..item.meta() });
        let ready = self.reserve(found, key, value_len, meta, now)?;
        Ok(ready.map(|(mut found, reservation)| {
            let copy = reservation.into_filled_copy_of(&found);
            found.replace_by_copy(copy);
            found
        }))
    }
}
