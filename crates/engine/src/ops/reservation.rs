//! Memory that is taken but not yet published: an upload in progress.
//!
//! A value that fits one chunk beside its key lies behind it. A larger one is chained: the first chunk
//! holds all but the value, the bodies hold the value, each but the last of the largest class.
//!
//! An upload takes its bodies one by one as it is filled, so that a client which announces a large value
//! and sends nothing costs nothing. If there is no memory for the next one the upload is *starved*: it
//! takes no more, and can only be dropped.
//!
//! What an item becomes (longer, shorter, with an expiry) depends on what it is, and memory is taken with
//! no stripe locked. So a rewrite goes in rounds: look, take memory, look again; if the item needs other
//! memory by then, the next round takes that. Each further round means that another writer made progress.
//!
//! Chunks come from the free lists of the class, the pool, eviction, and at the last from a page of another class.

use super::handle::{Cache, Found};
use super::item::Pinned;
use crate::heap::Choice;
use crate::layout::{HEADER_SIZE_BYTES, ItemFields, ItemMeta, chain_head_size_bytes};
use crate::mem::{Exclusive, Item, NewItem, OwnedChunk, ValueShape};
use crate::space::{Evicted, Space};
use slabwise_base::sync::lock;
use slabwise_base::{ClassId, Expiry, HashedKey, KEY_SIZE_BYTES_MAX, Now};
use std::sync::atomic::Ordering::Relaxed;

/// Evictions that one allocation tries: others may take what it frees, and a chained victim may free
/// chunks of other classes only.
const EVICTIONS_MAX: usize = 32;

/// Pages that one allocation tries to take from other classes.
const SEIZURES_MAX: usize = 3;

/// Why no chunk was given.
enum Refusal {
    /// Nothing is free and nothing can leave.
    OutOfMemory,
    /// The class is not in the table any more: the choice is to be made anew.
    Retired,
}

/// Why no memory was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveError {
    /// The item is larger than `item_size_bytes_max`.
    TooLarge,
    /// Nothing could be evicted, or eviction is off.
    OutOfMemory,
}

impl Cache {
    /// A chunk for an item or a part of one: of the class that the table gives its size (the largest for a
    /// part of whatever size), or of the next larger class where that one owns nothing; `None`: out of
    /// memory. The caller holds no stripe.
    pub fn allocate(&self, size_bytes: usize, now: Now) -> Option<OwnedChunk> {
        let size_bytes = size_bytes.min(self.space.config.classes.chunk_size_bytes_max());
        // Every turn but the last is a change of the table meanwhile.
        loop {
            let choice = self.space.size_map.class_for(size_bytes)?;
            match self.allocate_as(choice, now) {
                Ok(chunk) => return Some(chunk),
                Err(Refusal::OutOfMemory) => {
                    self.space.class(choice.id).lock().counters.out_of_memory += 1;
                    return None;
                }
                Err(Refusal::Retired) => {}
            }
        }
    }

    fn allocate_as(&self, choice: Choice, now: Now) -> Result<OwnedChunk, Refusal> {
        match self.allocate_in(choice, now) {
            Err(Refusal::OutOfMemory) => {}
            outcome => return outcome,
        }
        if !self.space.config.eviction_enabled || !self.may_take_anothers(choice) {
            return Err(Refusal::OutOfMemory);
        }
        for larger in self.larger_close_in_size(choice) {
            if self.space.class(larger.id).lock().pages.token.page_count() > 0 {
                self.space.class(choice.id).lock().counters.homeless += 1;
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
        // A class that was retired meanwhile gets no page; the table has another for such items.
        let is_present = self.space.class(choice.id).lock().accepts(choice);
        Err(if is_present { Refusal::OutOfMemory } else { Refusal::Retired })
    }

    /// Whether a class for which nothing is left may turn to others. Where it is granted a first page
    /// beyond the limit, only if there was none to be had.
    fn may_take_anothers(&self, choice: Choice) -> bool {
        !self.space.config.first_page_beyond_limit
            || self.space.class(choice.id).lock().pages.token.page_count() == 0
    }

    /// The larger classes in which an item may live without wasting more than it needs, least first.
    fn larger_close_in_size(&self, choice: Choice) -> Vec<Choice> {
        let sizes = choice.chunk_size_bytes + 1..2 * choice.chunk_size_bytes;
        let table = self.space.class_table();
        let larger = table.classes().filter(|(_, size)| sizes.contains(size));
        larger.map(|(id, chunk_size_bytes)| Choice { id, chunk_size_bytes }).collect()
    }

    fn allocate_in(&self, choice: Choice, now: Now) -> Result<OwnedChunk, Refusal> {
        let class = choice.id;
        if self.space.exact_order.load(Relaxed) {
            // Without segments nobody else looks at tails, as in memcached without its maintainer.
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
                // The class's number has come to stand for another one.
                Evicted::Chunk(chunk) => self.space.give_free(chunk),
                Evicted::Freed => {}
                Evicted::Nothing => break,
            }
        }
        Err(Refusal::OutOfMemory)
    }
}

/// An item that is being written. Dropping it gives its memory back.
#[must_use = "a reservation holds memory until it is stored or dropped"]
pub struct Reservation<'e> {
    cache: &'e Cache,
    /// `None` once published.
    item: Option<NewItem>,
    filled: usize,
    /// The body that is being filled, and how much of it is.
    filling: usize,
    within: usize,
    starved: bool,
    now: Now,
    pub(super) key_hash: u64,
    /// Whether its TTL is short enough for the temp queue.
    pub(super) short_lived: bool,
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
    match shape.value {
        ValueShape::Chained(_) => Some(space.largest),
        ValueShape::Whole(_) => space.size_map.class_for(shape.size_bytes).map(|choice| choice.id),
    }
}

/// The fields that an item stores of which this is said.
fn fields_of(space: &Space, meta: ItemMeta) -> ItemFields {
    let rank = space.ranks_items;
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
    value: ValueShape,
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
            let value = ValueShape::Whole(value_len);
            return Ok(Shape { size_bytes: counted, value, fields });
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
        Ok(Shape { size_bytes: head, value: ValueShape::Chained(value_len), fields })
    }
}

impl<'e> Reservation<'e> {
    /// Takes memory for an item and writes its key; see [`Handle::reserve`](crate::Handle::reserve).
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
            "a key of {} bytes got past the protocol",
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

    /// The class in whose queue the item is to be.
    #[inline]
    pub(super) fn queue_class(&self) -> ClassId {
        self.new_item().queue_class()
    }

    /// Bytes of the value.
    pub fn value_len(&self) -> usize {
        self.new_item().value_len()
    }

    /// Bytes written so far.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Bytes still to be written.
    pub fn remaining(&self) -> usize {
        self.value_len() - self.filled
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

    /// Notes that `count` bytes of [`Reservation::unfilled`] were written.
    pub fn advance(&mut self, count: usize) {
        let room = self.unfilled().len();
        assert!(count <= room, "{count} bytes are more than there was room for");
        self.filled += count;
        if self.new_item().is_chained() {
            self.within += count;
            if count == room && count > 0 {
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
        found.item().value().for_each(|part| self.fill_all(part));
    }

    /// Ends a reservation of a found item's size as its copy, with its CAS value and time; the caller
    /// publishes it.
    pub(super) fn into_copy_of(mut self, found: &Found<'_>) -> NewItem {
        self.fill_with(found);
        let (old, new) = (found.item(), self.item());
        new.set_cas(old.cas());
        new.set_time(old.time());
        self.into_published()
    }

    /// Shows the whole value, part by part.
    pub(super) fn for_each_part(&self, visit: impl FnMut(&[u8])) {
        self.new_item().for_each_part(&self.cache.space.memory, visit);
    }

    /// Whether an item with this value length and these fields would lie in memory the same way.
    pub(super) fn fits(&self, value_len: usize, meta: ItemMeta) -> bool {
        let fields = fields_of(&self.cache.space, meta);
        value_len == self.value_len() && self.item().state().fields() == fields
    }

    /// Changes what the client said; the same fields must be in use.
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

    /// Ends the reservation: the caller publishes the item.
    pub(super) fn into_published(mut self) -> NewItem {
        assert_eq!(self.remaining(), 0, "only a whole value is published");
        self.item.take().expect("published once")
    }

    /// Takes the next body of a chained item. False: there is no memory.
    fn add_body(&mut self) -> bool {
        let wanted = self.value_len() - self.new_item().room();
        // The chunk may be larger than asked for, or as large as chunks are.
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

/// The memory that one operation has taken so far.
pub struct Spare<'e> {
    cache: &'e Cache,
    taken: Option<Reservation<'e>>,
}

impl<'e> Spare<'e> {
    /// Nothing was taken yet.
    pub fn new(cache: &'e Cache) -> Spare<'e> {
        Spare { cache, taken: None }
    }

    /// Memory of this shape for what a found item is to become: what was taken in an earlier round, with its stripe
    /// still locked. `None`: memory was taken now, and the stripe let go, so look the item up again.
    pub fn room(
        &mut self,
        found: Found<'e>,
        key: HashedKey<'_>,
        value_len: usize,
        meta: ItemMeta,
        now: Now,
    ) -> Result<Option<(Found<'e>, Reservation<'e>)>, ReserveError> {
        if let Some(mut ready) = self.taken.take_if(|spare| spare.fits(value_len, meta)) {
            ready.set_meta(meta);
            return Ok(Some((found, ready)));
        }
        self.taken = None;
        // An operation never evicts its own subject.
        let _kept = Pinned::new(found.space, found.item());
        drop(found);
        let mut taken = Reservation::take(self.cache, key, value_len, meta, now)?;
        // It will be filled under the stripe, where nothing is allocated.
        while taken.new_item().room() < value_len {
            if !taken.add_body() {
                return Err(ReserveError::OutOfMemory);
            }
        }
        self.taken = Some(taken);
        Ok(None)
    }

    /// Gives a found item a new expiry: in place if it stores one, else in a new chunk with the same CAS
    /// value and marks. `None`: look the item up again.
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
        let room = self.room(found, key, value_len, meta, now)?;
        Ok(room.map(|(mut found, reservation)| {
            let copy = reservation.into_copy_of(&found);
            found.supersede(copy);
            found
        }))
    }
}
