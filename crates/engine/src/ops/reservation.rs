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
//! A reservation that was filled is published: it enters the index and a queue, and what it replaces ends.

use super::cache::Cache;
use super::item::{Found, Pinned};
use crate::layout::{HEADER_SIZE_BYTES, ItemFields, ItemMeta, chain_head_size_bytes};
use crate::mem::{Entry, InHand, Item, NewItem, StripeGuard, ValueShape};
use crate::space::{AccessKind, Space};
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
    /// `None` once published.
    item: Option<NewItem>,
    filled: usize,
    /// The body that is being filled, and how much of it is.
    filling: usize,
    within: usize,
    starved: bool,
    now: Now,
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
        let head = cache.allocate(shape.size_bytes, now).ok_or(ReserveError::OutOfMemory)?;
        let short_lived = space.is_short_lived(meta.expiry, now);
        let value = if shape.chained {
            ValueShape::Chained(value_len)
        } else {
            ValueShape::Whole(value_len)
        };
        let item = NewItem::begin(&space.memory, head, key, (meta, shape.fields), value);
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
        let _kept = Pinned::new(found.space, found.item());
        drop(found);
        let mut reservation = Reservation::take(cache, key, value_len, meta, now)?;
        // It will be filled under the stripe, where nothing is allocated.
        while reservation.new_item().room() < value_len {
            if !reservation.add_body() {
                return Err(ReserveError::OutOfMemory);
            }
        }
        Ok(reservation)
    }

    fn new_item(&self) -> &NewItem {
        self.item.as_ref().expect("owned until published")
    }

    fn new_item_mut(&mut self) -> &mut NewItem {
        self.item.as_mut().expect("owned until published")
    }

    pub(super) fn item(&self) -> Item<'_, InHand> {
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
    pub fn cache(&self) -> &'e Cache {
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

    /// The hash of the item's key.
    pub(super) fn hash(&self) -> u64 {
        self.key_hash
    }

    /// Whether its TTL is short enough for the temp queue.
    pub(super) fn short_lived(&self) -> bool {
        self.short_lived
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

/// What one round came to.
pub enum Room<'e> {
    /// Here is memory for what the item is to become; its stripe is still locked.
    Ready(Found<'e>, Reservation<'e>),
    /// Memory was taken, and the stripe let go: look the item up again.
    LookAgain,
}

/// What giving an item an expiry came to.
pub enum ExpirySet<'e> {
    /// It has it; perhaps in another chunk.
    Done(Found<'e>),
    /// Memory was taken, and the stripe let go: look the item up again.
    LookAgain,
}

impl<'e> Spare<'e> {
    /// Nothing was taken yet.
    pub fn new(cache: &'e Cache) -> Spare<'e> {
        Spare { cache, taken: None }
    }

    /// Memory of this shape: what was taken in an earlier round, or else taken now.
    pub fn room(
        &mut self,
        found: Found<'e>,
        key: HashedKey<'_>,
        value_len: usize,
        meta: ItemMeta,
        now: Now,
    ) -> Result<Room<'e>, ReserveError> {
        if let Some(mut ready) = self.taken.take_if(|spare| spare.fits(value_len, meta)) {
            ready.set_meta(meta);
            return Ok(Room::Ready(found, ready));
        }
        self.taken = None;
        self.taken = Some(Reservation::beside(self.cache, found, key, value_len, meta, now)?);
        Ok(Room::LookAgain)
    }

    /// Gives a found item a new expiry: in place if it stores one, else in a new chunk with the same CAS
    /// value and marks.
    pub fn set_expiry(
        &mut self,
        mut found: Found<'e>,
        key: HashedKey<'_>,
        expiry: Expiry,
        now: Now,
    ) -> Result<ExpirySet<'e>, ReserveError> {
        if found.can_hold(expiry) {
            found.set_expiry_in_place(expiry);
            return Ok(ExpirySet::Done(found));
        }
        let item = found.item();
        let (value_len, meta) = (item.value_len(), ItemMeta { expiry, ..item.meta() });
        match self.room(found, key, value_len, meta, now)? {
            Room::LookAgain => Ok(ExpirySet::LookAgain),
            Room::Ready(same, reservation) => {
                found = same;
                let copy = reservation.into_copy_of(&found);
                found.supersede(copy);
                Ok(ExpirySet::Done(found))
            }
        }
    }
}

/// An item that was published.
pub struct Stored {
    pub cas: u64,
    pub value_len: usize,
}

/// Publishes a filled reservation under its key, which leads to nothing.
pub fn publish_new<'e>(
    space: &'e Space,
    stripe: StripeGuard<'e>,
    reservation: Reservation<'_>,
    cas: Option<u64>,
    now: Now,
) -> Entry<'e> {
    let hash = reservation.hash();
    let (item, short_lived) = finish(space, reservation, cas, now);
    let (mut entry, has_grown) =
        space.index.insert(stripe, hash, item, |other| space.hash_of(other));
    if has_grown {
        space.charge_index();
    }
    enqueue_new(space, &mut entry, short_lived);
    entry
}

/// Publishes a reservation in the place of the item found under its key, as new.
pub fn publish_over(
    reservation: Reservation<'_>,
    mut found: Found<'_>,
    cas: Option<u64>,
    now: Now,
) -> Stored {
    let (space, hash) = (found.space, reservation.hash());
    found.item().prefetch_neighbours();
    let (item, short_lived) = finish(space, reservation, cas, now);
    let removed = found.entry.replace(item);
    let remains = space.unlink_unfreed(removed);
    let class = enqueue_new(space, &mut found.entry, short_lived);
    let outcome = stored(&found.entry);
    drop(found);
    space.free_remains(remains);
    space.show_access(hash, AccessKind::Store, Some(class));
    outcome
}

/// The answer for an item that was just published, whose stripe is still locked.
pub fn stored(entry: &Entry<'_>) -> Stored {
    Stored { cas: entry.item().cas(), value_len: entry.item().value_len() }
}

/// Gives a filled reservation its CAS value and time.
#[inline(always)]
fn finish(
    space: &Space,
    reservation: Reservation<'_>,
    cas: Option<u64>,
    now: Now,
) -> (NewItem, bool) {
    let short_lived = reservation.short_lived();
    let new = reservation.into_published();
    new.item(&space.memory).set_time(now.ticks);
    space.flush.give_cas(new.item(&space.memory), cas, now);
    (new, short_lived)
}

/// Returns the class in whose queue the item is.
fn enqueue_new(space: &Space, entry: &mut Entry<'_>, short_lived: bool) -> ClassId {
    let item = entry.entered();
    let id = item.queue_class();
    let mut class = space.class(id).lock();
    let queue = class.queue_for_new(short_lived);
    class.enqueue(item, queue);
    id
}
