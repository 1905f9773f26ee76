//! Memory that is reserved but not yet published: an upload in progress.
//!
//! A value that fits into one chunk with its key is stored after the key. A larger item is chained: the first
//! chunk holds all but the value, and bodies hold the value; all bodies but the last are of the largest class.
//!
//! An upload allocates its bodies one by one as it is filled, so a client that announces a large value and sends
//! nothing takes no memory. If there is no memory for the next body the upload is *starved*: it accepts no more
//! bytes, and can only be dropped.
//!
//! The size of a changed item depends on the existing item, but memory is allocated with no stripe locked. So a
//! change works in rounds: look the item up, reserve memory, look it up again. If it then needs memory of another
//! size, the next round reserves that. Each further round means that another writer made progress.
//!
//! Chunks come from the free lists of the class, the pool, eviction, and as a last resort from a page of another
//! class.

use super::handle::{Cache, Found};
use super::item::Pinned;
use crate::heap::Choice;
use crate::layout::{HEADER_SIZE_BYTES, ItemFields, ItemMeta, chain_head_size_bytes};
use crate::mem::{Exclusive, Item, NewItem, OwnedChunk, ValueShape};
use crate::space::{Evicted, Space};
use slabwise_base::sync::lock;
use slabwise_base::{ClassId, Expiry, HashedKey, KEY_SIZE_BYTES_MAX, Now};
use std::sync::atomic::Ordering::Relaxed;

/// The most evictions of one allocation: other threads may take the chunks that it frees, and a chained victim
/// may free only chunks of other classes.
const EVICTIONS_MAX: usize = 32;

/// The most pages that one allocation tries to take from other classes.
const SEIZURES_MAX: usize = 3;

/// The reason why an allocation in a class failed.
enum Refusal {
    /// No chunk is free and no item can be evicted.
    OutOfMemory,
    /// The class is no longer in the table, so the caller must choose again.
    Retired,
}

/// The reason why no memory was reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveError {
    /// The item is larger than `item_size_bytes_max`.
    TooLarge,
    /// No item can be evicted, or eviction is off.
    OutOfMemory,
}

impl Cache {
    /// Allocates a chunk for an item or a body. The chunk is of the class for its size (at most the largest), or of
    /// a larger class if that class owns no page. `None`: out of memory. The caller holds no stripe lock.
    pub fn allocate(&self, size_bytes: usize, now: Now) -> Option<OwnedChunk> {
        let size_bytes = size_bytes.min(self.space.config.classes.chunk_size_bytes_max());
        // Repeats only after a change of the table.
        loop {
            let choice = self.space.size_map.class_for(size_bytes)?;
            match self.allocate_for(choice, now) {
                Ok(chunk) => return Some(chunk),
                Err(Refusal::OutOfMemory) => {
                    self.space.class(choice.id).lock().counters.out_of_memory += 1;
                    return None;
                }
                Err(Refusal::Retired) => {}
            }
        }
    }

    fn allocate_for(&self, choice: Choice, now: Now) -> Result<OwnedChunk, Refusal> {
        match self.allocate_in(choice, now) {
            Err(Refusal::OutOfMemory) => {}
            outcome => return outcome,
        }
        if !self.space.config.eviction_enabled || !self.may_use_other_classes(choice) {
            return Err(Refusal::OutOfMemory);
        }
        for larger in self.larger_close_in_size(choice) {
            if self.space.class(larger.id).lock().pages.token.page_count() > 0 {
                self.space.class(choice.id).lock().counters.allocated_in_larger_class += 1;
                if let Ok(chunk) = self.allocate_in(larger, now) {
                    return Ok(chunk);
                }
            }
        }
        for _ in 0..SEIZURES_MAX {
            if !lock(&self.mover).seize_page(&self.space, choice.id, now) {
                break;
            }
            match self.allocate_in(choice, now) {
                Err(Refusal::OutOfMemory) => {}
                outcome => return outcome,
            }
        }
        // A class that was retired in the meantime gets no page; the new table has another class for the size.
        let is_present = self.space.class(choice.id).lock().accepts(choice);
        Err(if is_present { Refusal::OutOfMemory } else { Refusal::Retired })
    }

    /// True if a class without memory may use that of other classes. If first pages are granted beyond the limit,
    /// only a class that could not get one may.
    fn may_use_other_classes(&self, choice: Choice) -> bool {
        !self.space.config.first_page_beyond_limit
            || self.space.class(choice.id).lock().pages.token.page_count() == 0
    }

    /// The larger classes with chunks of less than twice the size, smallest first.
    fn larger_close_in_size(&self, choice: Choice) -> Vec<Choice> {
        let sizes = choice.chunk_size_bytes + 1..2 * choice.chunk_size_bytes;
        let table = self.space.class_table();
        let larger = table.classes().filter(|(_, size)| sizes.contains(size));
        larger.map(|(id, chunk_size_bytes)| Choice { id, chunk_size_bytes }).collect()
    }

    fn allocate_in(&self, choice: Choice, now: Now) -> Result<OwnedChunk, Refusal> {
        let class = choice.id;
        if self.space.exact_order.load(Relaxed) {
            // In exact order no maintainer runs, so expired tails are reclaimed here, as in memcached.
            drop(self.space.reclaim_tail(self.space.class(class).lock(), now));
        }
        for _ in 0..EVICTIONS_MAX {
            {
                let mut state = self.space.class(class).lock();
                if !state.accepts(choice) {
                    return Err(Refusal::Retired);
                }
                if let Some(chunk) = self.space.take_free(&mut state) {
                    return Ok(chunk);
                }
            }
            if !self.space.config.eviction_enabled {
                break;
            }
            match self.space.evict_for(class, now) {
                Evicted::Chunk(chunk) if chunk.size_bytes() == choice.chunk_size_bytes => {
                    return Ok(chunk);
                }
                // The class's number now belongs to another class.
                Evicted::Chunk(chunk) => self.space.give_free(chunk),
                Evicted::Freed => {}
                Evicted::Nothing => break,
            }
        }
        Err(Refusal::OutOfMemory)
    }
}

/// An item that is being written. Dropping it frees its memory.
#[must_use = "a reservation holds memory until it is stored or dropped"]
pub struct Reservation<'e> {
    cache: &'e Cache,
    /// `None` once published.
    item: Option<NewItem>,
    filled: usize,
    /// The index of the body that is being filled.
    filling: usize,
    /// The number of bytes written to that body.
    within: usize,
    starved: bool,
    now: Now,
    pub(super) key_hash: u64,
    /// True if its TTL is short enough for the temp queue.
    pub(super) short_lived: bool,
}

/// The class for an item of this size; for a chained item, the largest. `None`: it is too large, or no class is
/// large enough at the moment. Takes no lock.
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

/// The optional fields that an item with this metadata stores.
fn fields_of(space: &Space, meta: ItemMeta) -> ItemFields {
    let rank = space.ranks_items;
    ItemFields {
        flags: meta.client_flags != 0,
        expiry: meta.expiry != Expiry::NEVER,
        // Ranked items all store a cost, so that sizes do not depend on it.
        cost: rank || meta.cost.is_some(),
        rank,
    }
}

/// The layout of an item in memory.
struct Shape {
    /// The required size of its first chunk.
    size_bytes: usize,
    value: ValueShape,
    fields: ItemFields,
}

impl Shape {
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
        // The largest size is the same in every table.
        let chunk_size_bytes_max = space.config.classes.chunk_size_bytes_max();
        if counted <= chunk_size_bytes_max {
            let value = ValueShape::Whole(value_len);
            return Ok(Shape { size_bytes: counted, value, fields });
        }
        let pages = space.page_stats();
        if counted as u64 > pages.limit_for_items * space.config.page_size_bytes as u64 {
            // Even the eviction of all items would not free enough memory.
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
    /// Reserves memory for an item and writes its key; see [`Handle::reserve`](crate::Handle::reserve).
    pub(super) fn take(
        cache: &'e Cache,
        key: HashedKey<'_>,
        value_len: usize,
        meta: ItemMeta,
        now: Now,
    ) -> Result<Reservation<'e>, ReserveError> {
        let (key, key_hash) = (key.bytes(), key.hash());
        assert!(
            (1..=KEY_SIZE_BYTES_MAX).contains(&key.len()),
            "key of {} bytes: the limit is {KEY_SIZE_BYTES_MAX}",
            key.len()
        );
        let space = &cache.space;
        let shape = Shape::of(space, key.len(), value_len, meta)?;
        let head = cache.allocate(shape.size_bytes, now).ok_or(ReserveError::OutOfMemory)?;
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
        self.item.as_ref().expect("owned until published")
    }

    fn new_item_mut(&mut self) -> &mut NewItem {
        self.item.as_mut().expect("owned until published")
    }

    pub(super) fn item(&self) -> Item<'_, Exclusive> {
        self.new_item().item(&self.cache.space.memory)
    }

    /// The class that will queue the item.
    #[inline]
    pub(super) fn queue_class(&self) -> ClassId {
        self.new_item().queue_class()
    }

    /// The length of the value in bytes.
    pub fn value_len(&self) -> usize {
        self.new_item().value_len()
    }

    /// The number of bytes written so far.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// The number of bytes still to be written.
    pub fn remaining(&self) -> usize {
        self.value_len() - self.filled
    }

    /// True if there was no memory for the rest of the value.
    pub fn is_starved(&self) -> bool {
        self.starved
    }

    /// The next buffer to write to; a chained item has several. Empty if the value is complete, or if there is no
    /// memory for more ([`Reservation::is_starved`]).
    pub fn unfilled(&mut self) -> &mut [u8] {
        if self.remaining() == 0 {
            return &mut [];
        }
        let memory = &self.cache.space.memory;
        let (filled, filling, within) = (self.filled, self.filling, self.within);
        if !self.new_item().is_chained() {
            return self.new_item_mut().value_mut(memory, filled);
        }
        if filled == self.new_item().room() && !self.add_body() {
            self.starved = true;
            return &mut [];
        }
        self.new_item_mut().body_mut(memory, filling, within)
    }

    /// Records that `count` bytes of [`Reservation::unfilled`] were written.
    pub fn advance(&mut self, count: usize) {
        let room =
            if self.new_item().is_chained() { self.unfilled().len() } else { self.remaining() };
        assert!(count <= room, "{count} bytes written to a buffer of {room}");
        self.filled += count;
        if self.new_item().is_chained() {
            self.within += count;
            if count == room && count > 0 {
                (self.filling, self.within) = (self.filling + 1, 0);
            }
        }
    }

    /// Copies as many of `bytes` as there is room for; returns their number.
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

    /// Copies all of `bytes`, for which there is room.
    pub(super) fn fill_all(&mut self, bytes: &[u8]) {
        let taken = self.fill(bytes);
        assert_eq!(taken, bytes.len(), "the value is longer than its reservation");
    }

    /// Copies the value of a found item.
    pub(super) fn fill_with(&mut self, found: &Found<'_>) {
        found.item().value().for_each(|part| self.fill_all(part));
    }

    /// Completes a reservation as a copy of a found item, with its CAS value and access time; the caller publishes
    /// it.
    pub(super) fn into_copy_of(mut self, found: &Found<'_>) -> NewItem {
        self.fill_with(found);
        let (old, new) = (found.item(), self.item());
        new.set_cas(old.cas());
        new.set_time(old.time());
        self.into_published()
    }

    pub(super) fn for_each_part(&self, visit: impl FnMut(&[u8])) {
        self.new_item().for_each_part(&self.cache.space.memory, visit);
    }

    /// True if an item with this value length and metadata has the same layout.
    pub(super) fn fits(&self, value_len: usize, meta: ItemMeta) -> bool {
        let fields = fields_of(&self.cache.space, meta);
        value_len == self.value_len() && self.item().state().fields() == fields
    }

    /// Changes the metadata; the item must have the same optional fields.
    pub(super) fn set_meta(&mut self, meta: ItemMeta) {
        debug_assert!(self.fits(self.value_len(), meta));
        let memory = &self.cache.space.memory;
        self.new_item_mut().set_meta(memory, meta);
    }

    /// The cache that the memory belongs to.
    pub(super) fn cache(&self) -> &'e Cache {
        self.cache
    }

    /// The item's key.
    pub fn key(&self) -> &[u8] {
        self.item().key()
    }

    /// The item's key with its hash.
    pub fn hashed_key(&self) -> HashedKey<'_> {
        HashedKey::from_parts(self.key(), self.key_hash)
    }

    /// Completes the reservation; the caller publishes the item.
    pub(super) fn into_published(mut self) -> NewItem {
        assert_eq!(self.remaining(), 0, "only a complete value is published");
        self.item.take().expect("published once")
    }

    /// Allocates the next body of a chained item. Returns false if there is no memory.
    fn add_body(&mut self) -> bool {
        let wanted = self.value_len() - self.new_item().room();
        // The chunk may be larger than requested, or smaller because chunks have a maximum size.
        let Some(chunk) = self.cache.allocate(wanted + HEADER_SIZE_BYTES, self.now) else {
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

/// The memory that one operation has reserved in an earlier round.
pub struct Spare<'e> {
    cache: &'e Cache,
    reserved: Option<Reservation<'e>>,
}

impl<'e> Spare<'e> {
    pub fn new(cache: &'e Cache) -> Spare<'e> {
        Spare { cache, reserved: None }
    }

    /// Returns memory of this layout for the successor of a found item, whose stripe stays locked, if an earlier
    /// round reserved it. `None`: the stripe was unlocked to reserve memory, so the caller repeats the lookup.
    pub fn reserve(
        &mut self,
        found: Found<'e>,
        key: HashedKey<'_>,
        value_len: usize,
        meta: ItemMeta,
        now: Now,
    ) -> Result<Option<(Found<'e>, Reservation<'e>)>, ReserveError> {
        if let Some(mut ready) = self.reserved.take_if(|spare| spare.fits(value_len, meta)) {
            ready.set_meta(meta);
            return Ok(Some((found, ready)));
        }
        self.reserved = None;
        // Pinned so that the operation does not evict the item that it changes.
        let _pinned = Pinned::new(found.space, found.item());
        drop(found);
        let mut reserved = Reservation::take(self.cache, key, value_len, meta, now)?;
        // All bodies are allocated now, because the reservation is filled under the stripe's lock.
        while reserved.new_item().room() < value_len {
            if !reserved.add_body() {
                return Err(ReserveError::OutOfMemory);
            }
        }
        self.reserved = Some(reserved);
        Ok(None)
    }

    /// Sets the expiry of a found item: in place if it stores one, else in a copy with the same CAS value and
    /// marks. `None`: the caller repeats the lookup.
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
            let copy = reservation.into_copy_of(&found);
            found.supersede(copy);
            found
        }))
    }
}
