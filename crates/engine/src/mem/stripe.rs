//! A stripe: a table of the index, its items and their lock. A stripe guards the items that are in its table.
//!
//! An item enters a table only as a [`NewItem`] or as a copy that replaces an item of the same table,
//! and leaves it as a [`Removed`]. So the lock of a table guards each [`Linked`] that the table returns, by
//! construction.

use super::chunk::{Copied, NewItem, OwnedChunk, Remains};
use super::class_token::{ClassToken, MoverToken};
use super::item::{Exclusive, FIRST_BODY_SIZE_BYTES, Item, Linked, Pin, Queued, body_bytes};
use super::memory::Memory;
use super::state::State;
use super::table::{Slot, Table};
use crate::layout::{ChunkAddress, HEADER_SIZE_BYTES};
use slabwise_base::sync::MutexGuard;
use slabwise_base::{ClassId, Expiry};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The data that a stripe's lock protects: a table and its items.
pub struct Stripe {
    table: Table,
    memory: Arc<Memory>,
    number: u32,
}

/// A locked stripe.
pub type StripeGuard<'i> = MutexGuard<'i, Stripe>;

/// An item found in a locked stripe. The entry holds the lock.
pub struct Entry<'i> {
    guard: StripeGuard<'i>,
    slot: Slot,
    /// The address in the slot.
    address: ChunkAddress,
}

/// An item of a table that is in no queue yet: its stripe is locked exclusively, and no class links it.
pub struct Entered<'t> {
    memory: &'t Memory,
    address: ChunkAddress,
    class: ClassId,
}

/// An item that has left its table but still counts as linked. The caller must unlink it from its class.
#[must_use = "an item that left its table must be unlinked, or its memory leaks"]
#[derive(Debug, PartialEq, Eq)]
pub struct Removed {
    address: ChunkAddress,
    memory: u32,
}

/// The access token to write a published item's value: its stripe is locked exclusively, and nobody pins it but the
/// writer. A later pin is taken without the stripe, and so reads no value.
pub struct ValueAccess<'t> {
    memory: &'t Memory,
    address: ChunkAddress,
}

/// The access token to write a published item's expiry or rank: its stripe and its class are locked exclusively.
pub struct MetaAccess<'t> {
    memory: &'t Memory,
    address: ChunkAddress,
}

impl Stripe {
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    pub fn new(memory: &Arc<Memory>) -> Stripe {
        let number = memory.stripe_count.fetch_add(1, Relaxed);
        assert!(number < u32::MAX, "too many stripes");
        Stripe { table: Table::new(), memory: Arc::clone(memory), number }
    }

    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Allocates the buckets of an empty table before it grows.
    pub fn presize(&mut self, bucket_count: u32) {
        self.table.presize(bucket_count);
    }

    /// # Safety
    ///
    /// The item at `address` is in the table.
    #[inline]
    unsafe fn linked(&self, address: ChunkAddress) -> Linked<'_> {
        // SAFETY: the item is in the table, which is borrowed: its lock is held, and no item enters, leaves or is
        // written.
        unsafe { Item::new(&self.memory, address) }
    }

    /// Every item of the table, in arbitrary order.
    pub fn items(&self) -> impl Iterator<Item = Linked<'_>> {
        // SAFETY: the address comes from the table.
        self.table.addresses().map(|address| unsafe { self.linked(address) })
    }

    /// Finds the item of this hash that `is_match` accepts.
    #[inline(always)]
    fn find(
        &self,
        hash: u64,
        mut is_match: impl FnMut(Linked<'_>) -> bool,
    ) -> Option<(Slot, ChunkAddress)> {
        // SAFETY: the address comes from the table.
        self.table.find(hash, |address| is_match(unsafe { self.linked(address) }))
    }

    /// The first item that a lookup of `hash` would compare, with its position in the table.
    #[inline]
    pub fn candidate(&self, hash: u64) -> Option<(Slot, Linked<'_>)> {
        // SAFETY: the address comes from the table.
        self.table.candidate(hash).map(|(slot, address)| (slot, unsafe { self.linked(address) }))
    }

    /// The item at a position that [`Stripe::candidate`] returned; another item, or none, if the table has changed.
    #[inline]
    pub fn item_at(&self, slot: Slot) -> Option<Linked<'_>> {
        // SAFETY: the address comes from the table.
        self.table.address_at(slot).map(|address| unsafe { self.linked(address) })
    }

    pub fn get(&self, hash: u64, key: &[u8]) -> Option<Linked<'_>> {
        let (_, address) = self.find(hash, |item| item.key() == key)?;
        // SAFETY: the address comes from the table.
        Some(unsafe { self.linked(address) })
    }

    /// Panics with the broken invariant if the table breaks one. `hash_of` returns the hash of an item.
    pub fn check(&self, hash_of: impl Fn(Linked<'_>) -> u64) {
        // SAFETY: the address comes from the table.
        self.table.check(|address| hash_of(unsafe { self.linked(address) }));
    }
}

impl<'i> Entry<'i> {
    /// Finds the item of a key, or returns the locked stripe.
    #[inline(always)]
    pub fn find(
        guard: StripeGuard<'i>,
        hash: u64,
        key: &[u8],
    ) -> Result<Entry<'i>, StripeGuard<'i>> {
        match guard.find(hash, |item| item.key() == key) {
            Some((slot, address)) => Ok(Entry { guard, slot, address }),
            None => Err(guard),
        }
    }

    /// Finds the item at this address, or returns the locked stripe if its table does not hold it.
    pub fn find_address(
        guard: StripeGuard<'i>,
        hash: u64,
        address: ChunkAddress,
    ) -> Result<Entry<'i>, StripeGuard<'i>> {
        match guard.table.find(hash, |candidate| candidate == address) {
            Some((slot, address)) => Ok(Entry { guard, slot, address }),
            None => Err(guard),
        }
    }

    /// Inserts a new item, whose key must not be in the table. `hash_of` returns the hash of any item of the table. The
    /// caller must queue the item.
    #[inline]
    pub fn insert(
        guard: StripeGuard<'i>,
        hash: u64,
        item: NewItem,
        hash_of: impl Fn(Linked<'_>) -> u64,
    ) -> Entry<'i> {
        let head = item.assemble(&guard.memory);
        // SAFETY: an item was written in this chunk, which its owner gives up here.
        unsafe { Entry::enter(guard, hash, head.address(), hash_of) }
    }

    /// Inserts an item, whose key must not be in the table.
    ///
    /// # Safety
    ///
    /// At `address` of the stripe's memory is an item that is in no table, and that nobody has access to.
    #[inline]
    pub(super) unsafe fn enter(
        mut guard: StripeGuard<'i>,
        hash: u64,
        address: ChunkAddress,
        hash_of: impl Fn(Linked<'_>) -> u64,
    ) -> Entry<'i> {
        let Stripe { table, memory, .. } = &mut *guard;
        // SAFETY: the others are in the table, which is borrowed exclusively.
        let slot =
            table.insert(hash, address, |other| hash_of(unsafe { Item::new(memory, other) }));
        Entry { guard, slot, address }
    }

    #[inline]
    pub fn item(&self) -> Linked<'_> {
        // SAFETY: an entry's address is the one in its slot.
        unsafe { self.guard.linked(self.address) }
    }

    pub fn stripe(&self) -> &Stripe {
        &self.guard
    }

    pub fn into_guard(self) -> StripeGuard<'i> {
        self.guard
    }

    /// Replaces the item by a new one of the same key. The caller must queue the new item and unlink the old one.
    #[inline]
    pub fn replace(&mut self, item: NewItem) -> Removed {
        let head = item.assemble(&self.guard.memory);
        self.lead_to(head)
    }

    #[inline]
    fn lead_to(&mut self, head: OwnedChunk) -> Removed {
        let memory = self.guard.memory.number;
        self.guard.table.replace(self.slot, head.address());
        Removed { address: std::mem::replace(&mut self.address, head.address()), memory }
    }

    /// Removes the item from the table. The caller must unlink it.
    #[inline]
    pub fn remove(mut self) -> (StripeGuard<'i>, Removed) {
        self.guard.table.remove(self.slot);
        let memory = self.guard.memory.number;
        (self.guard, Removed { address: self.address, memory })
    }

    /// The item that was just inserted here, to be queued.
    #[inline]
    pub fn entered(&mut self) -> Entered<'_> {
        let state = self.item().state();
        assert!(!state.linked(), "a new item is queued once");
        let (memory, address) = (&*self.guard.memory, self.address);
        Entered { memory, address, class: memory.queue_class(address, state.chained()) }
    }

    fn check_own(&self, own: &Pin) {
        let item = own.item(&self.guard.memory);
        assert_eq!(item.address(), self.address, "the writer's pin is on this item");
    }

    /// The access token to write the item's value; `None` if it has a pin other than `own`.
    pub fn value_access(&mut self, own: Option<&Pin>) -> Option<ValueAccess<'_>> {
        if let Some(own) = own {
            self.check_own(own);
        }
        let is_alone = self.item().state().pins() == u32::from(own.is_some());
        is_alone.then(|| ValueAccess { memory: &self.guard.memory, address: self.address })
    }

    /// The access token to write the item's expiry or rank.
    pub fn meta_access<'t>(&'t mut self, class: &'t mut ClassToken) -> MetaAccess<'t> {
        let memory = &*self.guard.memory;
        assert!(std::ptr::eq(memory, class.memory()), "stripe and class belong to one memory");
        assert_eq!(self.item().queue_class(), class.class(), "an item is written under its class");
        MetaAccess { memory, address: self.address }
    }

    /// Copies the item to an owned chunk. Returns the chunk if the item does not fit.
    pub fn copy_to(&self, chunk: OwnedChunk) -> Result<Copied, OwnedChunk> {
        chunk.check(&self.guard.memory);
        Copied::of(self.item(), self.guard.number, chunk)
    }

    /// Replaces the item by its copy, which takes over the chain. The caller must queue the copy and unlink the old
    /// item. Returns the copy if the item is chained and has a pin other than `own`.
    pub fn carry_to(
        &mut self,
        copied: Copied,
        own: &Pin,
        mover: &mut MoverToken,
    ) -> Result<Removed, Copied> {
        mover.check(&self.guard.memory);
        assert_eq!(copied.stripe, self.guard.number, "a copy replaces an item of its stripe");
        assert_eq!(copied.from, self.address, "a copy replaces its original");
        copied.head.check(&self.guard.memory);
        self.check_own(own);
        // The stripe may have been unlocked since, and the item at this address replaced.
        assert!(copied.is_of(self.item()), "a copy replaces its original");
        let Copied { mut head, from, stripe } = copied;
        if self.item().state().chained() {
            let Some(mut access) = self.value_access(Some(own)) else {
                return Err(Copied { head, from, stripe });
            };
            access.hand_chain_to(&mut head);
        }
        Ok(self.lead_to(head))
    }

    /// Moves a body of the item to `chunk`, and returns the chunk that it was in. Returns `chunk` as the error if it is
    /// too small, the item has no such body, or the item has a pin other than `own`.
    pub fn carry_body(
        &mut self,
        body: ChunkAddress,
        chunk: OwnedChunk,
        own: &Pin,
        mover: &mut MoverToken,
    ) -> Result<OwnedChunk, OwnedChunk> {
        mover.check(&self.guard.memory);
        match self.value_access(Some(own)) {
            Some(mut access) => access.carry_body(body, chunk),
            None => Err(chunk),
        }
    }
}

impl Entered<'_> {
    #[inline]
    pub fn item(&self) -> Item<'_, Exclusive> {
        // SAFETY: the item is in the table, which is borrowed exclusively; no class links it.
        unsafe { Item::new(self.memory, self.address) }
    }

    pub fn address(&self) -> ChunkAddress {
        self.address
    }

    /// The class whose queue the item enters.
    #[inline]
    pub fn queue_class(&self) -> ClassId {
        self.class
    }

    /// Sets the rank. Panics if the item stores none.
    pub fn set_rank(&mut self, rank: u32) {
        // SAFETY: the table is borrowed exclusively, and no class links the item.
        unsafe { write_word(self.memory, self.address, place_of_rank, rank) };
    }
}

impl Removed {
    pub fn address(&self) -> ChunkAddress {
        self.address
    }

    #[inline]
    pub(super) fn state(&self, memory: &Memory) -> State {
        assert_eq!(self.memory, memory.number, "an item is unlinked in its own memory");
        // SAFETY: an item that counts as linked is in a chunk of its memory.
        unsafe { memory.arena.header_of(self.address) }.state().load()
    }

    /// The class whose queues may hold the item.
    #[inline]
    pub fn queue_class(&self, memory: &Memory) -> ClassId {
        memory.queue_class(self.address, self.state(memory).chained())
    }

    /// The item, if it is in a queue of this class.
    #[inline]
    pub fn queued<'c>(&self, class: &'c ClassToken) -> Option<Queued<'c>> {
        let state = self.state(class.memory());
        let here = class.memory().queue_class(self.address, state.chained()) == class.class();
        // SAFETY: it is in a queue of this class, whose lock is held.
        (state.queued() && here).then(|| unsafe { Item::new(class.memory(), self.address) })
    }

    /// Unlinks an item that is in no queue. Returns its remains if nobody pins it (LAST-HOLDER).
    pub fn unlink(self, memory: &Memory) -> Option<Remains> {
        assert!(!self.state(memory).queued(), "a queued item is unlinked by its queue");
        // SAFETY: the item is no longer in its table, and in no queue.
        unsafe { self.unlink_unqueued(memory) }
    }

    /// Unlinks the item. Returns its remains if nobody pins it (LAST-HOLDER).
    ///
    /// # Safety
    ///
    /// The item is in no list.
    #[inline]
    pub(super) unsafe fn unlink_unqueued(self, memory: &Memory) -> Option<Remains> {
        // SAFETY: an item that counts as linked is in a chunk of its memory.
        let last = unsafe { memory.arena.header_of(self.address) }.state().unlink();
        // SAFETY: the item is in no table and no list, and nobody pins it.
        last.then(|| unsafe { Remains::new(memory, self.address) })
    }
}

impl ValueAccess<'_> {
    fn item(&self) -> Linked<'_> {
        // SAFETY: the stripe is locked exclusively.
        unsafe { Item::new(self.memory, self.address) }
    }

    /// Overwrites the part of an unchained item's value from `start` on.
    pub fn overwrite(&mut self, start: usize, bytes: &[u8]) {
        let (state, len) = (self.item().state(), self.item().value_len());
        assert!(!state.chained(), "a chained value is not overwritten");
        let fits = start <= len && bytes.len() <= len - start;
        assert!(fits, "a write stays within the value");
        // SAFETY: 1. within the value, and so within the chunk. 2. Only the holder of this access token reads or writes
        // the value.
        let place = unsafe {
            self.memory.arena.write(self.address, state.layout().value() + start, bytes.len())
        };
        place.copy_from_slice(bytes);
    }

    fn set_first_body(&mut self, body: Option<ChunkAddress>) {
        let at = self.item().layout().chain() + 4;
        // SAFETY: 1. within the item, which is chained. 2. Only the holder of this access token reads or writes it.
        let field = unsafe { self.memory.arena.write(self.address, at, FIRST_BODY_SIZE_BYTES) };
        field.copy_from_slice(&body_bytes(body));
    }

    /// Moves the chain to the item's copy.
    fn hand_chain_to(&mut self, head: &mut OwnedChunk) {
        let first = self.item().first_body();
        for body in self.item().bodies() {
            // SAFETY: a chain links bodies, which are chunks of this memory.
            unsafe { self.memory.arena.header_of(body) }.set_prev(Some(head.address()));
        }
        let at = self.item().layout().chain() + 4;
        head.write(self.memory, at, FIRST_BODY_SIZE_BYTES).copy_from_slice(&body_bytes(first));
        self.set_first_body(None);
    }

    fn carry_body(
        &mut self,
        old: ChunkAddress,
        mut chunk: OwnedChunk,
    ) -> Result<OwnedChunk, OwnedChunk> {
        let memory = self.memory;
        let before = self.item().bodies().take_while(|&body| body != old).last();
        let found = match before {
            // SAFETY: a chain links bodies, which are chunks of this memory.
            Some(body) => unsafe { memory.arena.header_of(body) }.next(),
            None => self.item().first_body(),
        };
        if found != Some(old) {
            return Err(chunk);
        }
        // SAFETY: a chain links bodies, which are chunks of this memory.
        let header = unsafe { memory.arena.header_of(old) };
        if HEADER_SIZE_BYTES + header.len() > chunk.size_bytes() {
            return Err(chunk);
        }
        // SAFETY: within the body, whose part of the value only the holder of this access token reads or writes.
        let part = unsafe { memory.arena.read(old, HEADER_SIZE_BYTES, header.len()) };
        chunk.write(memory, HEADER_SIZE_BYTES, part.len()).copy_from_slice(part);
        let copy = chunk.header(memory);
        copy.set_len(header.len());
        copy.set_prev(Some(self.address));
        copy.set_next(header.next());
        copy.state().store(State::new_body());
        let new = Some(chunk.address());
        match before {
            // SAFETY: as above.
            Some(body) => unsafe { memory.arena.header_of(body) }.set_next(new),
            None => self.set_first_body(new),
        }
        // SAFETY: only its chain led to the chunk, and no longer does.
        Ok(unsafe { OwnedChunk::reclaim(memory, old) })
    }
}

impl MetaAccess<'_> {
    /// Sets the expiry. Panics if the item stores none.
    pub fn set_expiry(&mut self, expiry: Expiry) {
        let at = |state: State| {
            let stores = state.fields().expiry;
            assert!(stores, "an item that stores no expiry cannot be given one in place");
            state.layout().expiry()
        };
        // SAFETY: others need the stripe or the class to read or write expiries.
        unsafe { write_word(self.memory, self.address, at, expiry.to_bits()) };
    }

    /// Sets the rank. Panics if the item stores none.
    pub fn set_rank(&mut self, rank: u32) {
        // SAFETY: others need the stripe or the class to read or write ranks.
        unsafe { write_word(self.memory, self.address, place_of_rank, rank) };
    }
}

fn place_of_rank(state: State) -> usize {
    assert!(state.fields().rank, "an item that stores no rank cannot be given one");
    state.layout().rank()
}

/// # Safety
///
/// At `address` of this memory is an item; `at` returns the offset of a field of four bytes that an item in this state
/// stores, and nobody else reads or writes it.
unsafe fn write_word(
    memory: &Memory,
    address: ChunkAddress,
    at: impl FnOnce(State) -> usize,
    word: u32,
) {
    // SAFETY: a chunk of this memory starts here.
    let state = unsafe { memory.arena.header_of(address) }.state().load();
    // SAFETY: 1. within the item, which stores the field. 2. Nobody else reads or writes it.
    let field = unsafe { memory.arena.write(address, at(state), 4) };
    field.copy_from_slice(&word.to_le_bytes());
}
