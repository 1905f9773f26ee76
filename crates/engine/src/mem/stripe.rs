//! A stripe: a table of the index and the items in this table. One lock protects the table and its items.
//!
//! An item enters a table as a [`NewItem`], as a restored item, or as a copy that replaces an item of the same table.
//! An item that is removed from a table becomes a [`Removed`]. So the lock of a stripe protects each [`Linked`] item
//! that the stripe returns.

use super::access::{MetaAccess, ValueAccess, rank_offset, write_field};
#[cfg(test)]
use super::buckets::BucketSpace;
use super::buckets::Buckets;
use super::chunk::{Copied, NewItem, OwnedChunk, UnlinkedChunks};
use super::class_token::{ClassToken, MoverToken};
use super::item::{Exclusive, Item, Linked, Pin, Queued};
#[cfg(test)]
use super::mapping::HugePages;
use super::memory::Memory;
use super::state::State;
use super::table::{Position, Table};
use crate::counted_lock::CountedGuard;
use crate::layout::ChunkAddress;
use slabwise_base::ClassId;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The data that the lock of a stripe protects: a table and the items in this table.
pub struct Stripe {
    table: Table,
    memory: Arc<Memory>,
    /// The number of stripes that were created before this one for the same memory. It identifies the stripe.
    number: u32,
}

/// A locked stripe.
pub type StripeGuard<'i> = CountedGuard<'i, Stripe>;

/// An item in the table of a locked stripe. The entry holds the lock of the stripe.
pub struct Entry<'i> {
    guard: StripeGuard<'i>,
    /// The position of the item in the table.
    position: Position,
    /// The address of the item's first chunk, as the table stores it at this position.
    address: ChunkAddress,
}

/// An item that has entered a table and is in no queue yet. Borrows the item's locked stripe exclusively.
pub struct Inserted<'t> {
    memory: &'t Memory,
    address: ChunkAddress,
    /// The class whose queue the item will enter.
    class: ClassId,
}

/// An item that was removed from its table but is still marked as linked. The caller must remove it from its queue, if
/// it is in one, and unlink it.
#[must_use = "the memory of a removed item leaks unless the item is unlinked"]
#[derive(Debug, PartialEq, Eq)]
pub struct Removed {
    address: ChunkAddress,
    /// The number of the memory.
    memory: u32,
}

impl Stripe {
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Returns a stripe whose table is empty and will use these buckets.
    pub fn new(memory: &Arc<Memory>, home: Buckets, overflow: Buckets) -> Stripe {
        let number = memory.stripe_count.fetch_add(1, Relaxed);
        assert!(number < u32::MAX, "a memory has at most {} stripes", u32::MAX);
        Stripe { table: Table::new(home, overflow), memory: Arc::clone(memory), number }
    }

    /// Returns `count` stripes, for a test.
    #[cfg(test)]
    pub fn of_count(count: usize, memory: &Arc<Memory>) -> impl Iterator<Item = Stripe> + use<> {
        let memory = Arc::clone(memory);
        let reserve = || BucketSpace::reserve(count, 1 << 10, HugePages::BySystem);
        let buckets = || reserve().expect("the system has memory").1;
        let both = buckets().into_iter().zip(buckets());
        both.map(move |(home, overflow)| Stripe::new(&memory, home, overflow))
    }

    pub fn table(&self) -> &Table {
        &self.table
    }

    pub(super) fn table_mut(&mut self) -> &mut Table {
        &mut self.table
    }

    /// Makes `bucket_count` buckets for an empty table. So the table need not grow until it has many items.
    pub fn presize(&mut self, bucket_count: u32) {
        self.table.presize(bucket_count);
    }

    /// Returns an [`Item`] to read the item at `address`.
    ///
    /// # Safety
    ///
    /// An item at `address` is in the table.
    #[inline]
    unsafe fn linked(&self, address: ChunkAddress) -> Linked<'_> {
        // SAFETY: the caller guarantees that the item is in the table. The `Item` borrows the stripe, whose lock is
        // held. So as long as the `Item` exists, no item enters the table, is removed from the table or is written.
        unsafe { Item::new(&self.memory, address) }
    }

    /// Returns every item of the table, in arbitrary order.
    pub fn items(&self) -> impl Iterator<Item = Linked<'_>> {
        // SAFETY: the address comes from the table.
        self.table.addresses().map(|address| unsafe { self.linked(address) })
    }

    /// Returns the position and the address of the first item that `is_match` accepts. Calls `is_match` only with those
    /// items in the buckets of `hash` whose tag (8 bits of the hash) matches.
    #[inline(always)]
    fn find(
        &self,
        hash: u64,
        mut is_match: impl FnMut(Linked<'_>) -> bool,
    ) -> Option<(Position, ChunkAddress)> {
        // SAFETY: the address comes from the table.
        self.table.find(hash, |address| is_match(unsafe { self.linked(address) }))
    }

    /// Returns the first item whose key a lookup of `hash` would compare, and its position in the table. Ignores the
    /// table's overflow buckets.
    #[inline]
    pub fn candidate(&self, hash: u64) -> Option<(Position, Linked<'_>)> {
        let (position, address) = self.table.candidate(hash)?;
        // SAFETY: the address comes from the table.
        Some((position, unsafe { self.linked(address) }))
    }

    /// Returns the item at a position of this table, or `None` if the position is empty. If the table has changed since
    /// it returned the position, the returned item may be another item.
    #[inline]
    pub fn item_at(&self, position: Position) -> Option<Linked<'_>> {
        // SAFETY: the address comes from the table.
        self.table.address_at(position).map(|address| unsafe { self.linked(address) })
    }

    /// Returns the item of a key, whose hash must be `hash`.
    pub fn get(&self, hash: u64, key: &[u8]) -> Option<Linked<'_>> {
        let (_, address) = self.find(hash, |item| item.key() == key)?;
        // SAFETY: the address comes from the table.
        Some(unsafe { self.linked(address) })
    }

    /// Panics with the name of the broken invariant if the table breaks one. `hash_of` must return the hash of an item.
    pub fn check(&self, hash_of: impl Fn(Linked<'_>) -> u64) {
        // SAFETY: the address comes from the table.
        self.table.check(|address| hash_of(unsafe { self.linked(address) }));
    }
}

impl<'i> Entry<'i> {
    /// Returns the entry of a key, whose hash must be `hash`. Returns the locked stripe as the error if the table has
    /// no item of the key.
    #[inline(always)]
    pub fn find(
        guard: StripeGuard<'i>,
        hash: u64,
        key: &[u8],
    ) -> Result<Entry<'i>, StripeGuard<'i>> {
        match guard.find(hash, |item| item.key() == key) {
            Some((position, address)) => Ok(Entry { guard, position, address }),
            None => Err(guard),
        }
    }

    /// Returns the entry of the item at `address`, if the item's key has the hash `hash`. Returns the locked stripe as
    /// the error if its table has no such item.
    pub fn find_address(
        guard: StripeGuard<'i>,
        hash: u64,
        address: ChunkAddress,
    ) -> Result<Entry<'i>, StripeGuard<'i>> {
        match guard.table.find(hash, |candidate| candidate == address) {
            Some((position, address)) => Ok(Entry { guard, position, address }),
            None => Err(guard),
        }
    }

    /// Inserts a new item, whose key must not be in the table. The caller must then put the item into a queue.
    /// `hash_of` must return the hash of any item of the table.
    #[inline]
    pub fn insert(
        guard: StripeGuard<'i>,
        hash: u64,
        item: NewItem,
        hash_of: impl Fn(Linked<'_>) -> u64,
    ) -> Entry<'i> {
        let head = item.assemble(&guard.memory);
        // SAFETY: the chunk holds the new item, which is in no table. The only access token of the item ends here.
        unsafe { Entry::enter(guard, hash, head.address(), hash_of) }
    }

    /// Inserts the item at `address`, whose key must not be in the table.
    ///
    /// # Safety
    ///
    /// The chunk at `address` of the stripe's memory holds an item. The item is in no table, and nothing else has
    /// access to the item.
    #[inline]
    pub(super) unsafe fn enter(
        mut guard: StripeGuard<'i>,
        hash: u64,
        address: ChunkAddress,
        hash_of: impl Fn(Linked<'_>) -> u64,
    ) -> Entry<'i> {
        let Stripe { table, memory, .. } = &mut *guard;
        // SAFETY: `other` is the address of an item in the table, which is borrowed exclusively.
        let position =
            table.insert(hash, address, |other| hash_of(unsafe { Item::new(memory, other) }));
        Entry { guard, position, address }
    }

    /// Returns an [`Item`] to read the item.
    #[inline]
    pub fn item(&self) -> Linked<'_> {
        // SAFETY: the address of an entry is in the table.
        unsafe { self.guard.linked(self.address) }
    }

    pub fn stripe(&self) -> &Stripe {
        &self.guard
    }

    pub fn into_guard(self) -> StripeGuard<'i> {
        self.guard
    }

    /// Replaces the item in the table by a new item of the same key. Returns the old item. The caller must put the new
    /// item into a queue and unlink the old item.
    #[inline]
    pub fn replace(&mut self, item: NewItem) -> Removed {
        let head = item.assemble(&self.guard.memory);
        self.replace_address(head)
    }

    /// Replaces the address in the table by that of `head`. Returns the item at the old address.
    #[inline]
    fn replace_address(&mut self, head: OwnedChunk) -> Removed {
        let memory = self.guard.memory.number;
        self.guard.table.replace(self.position, head.address());
        Removed { address: std::mem::replace(&mut self.address, head.address()), memory }
    }

    /// Removes the item from the table. Returns the locked stripe and the item. The caller must unlink the item.
    #[inline]
    pub fn remove(mut self) -> (StripeGuard<'i>, Removed) {
        self.guard.table.remove(self.position);
        let memory = self.guard.memory.number;
        (self.guard, Removed { address: self.address, memory })
    }

    /// Returns the access token with which a list queues the item that was just inserted. Panics if the item is already
    /// linked.
    #[inline]
    pub fn entered(&mut self) -> Inserted<'_> {
        let state = self.item().state();
        assert!(!state.linked(), "an item that enters a queue is in none yet");
        let (memory, address) = (&*self.guard.memory, self.address);
        Inserted { memory, address, class: memory.queue_class(address, state.chained()) }
    }

    /// Panics if the caller's own pin is on another item.
    fn check_pin(&self, own: &Pin) {
        let item = own.item(&self.guard.memory);
        assert_eq!(item.address(), self.address, "the caller's pin is on the item of the entry");
    }

    /// Returns the access token to write the item's value. `own` is the caller's pin of the item, if it has one.
    /// Returns `None` if the item has any other pin.
    pub fn value_access(&mut self, own: Option<&Pin>) -> Option<ValueAccess<'_>> {
        if let Some(own) = own {
            self.check_pin(own);
        }
        let is_alone = self.item().state().pins() == u32::from(own.is_some());
        is_alone.then(|| ValueAccess { memory: &self.guard.memory, address: self.address })
    }

    /// Returns the access token to write the item's expiry or rank. `class` is the token of the class that queues the
    /// item.
    pub fn meta_access<'t>(&'t mut self, class: &'t mut ClassToken) -> MetaAccess<'t> {
        let memory = &*self.guard.memory;
        assert!(std::ptr::eq(memory, class.memory()), "stripe and class belong to one memory");
        let queue_class = self.item().queue_class();
        assert_eq!(queue_class, class.class(), "the token is of the class that queues the item");
        MetaAccess { memory, address: self.address }
    }

    /// Copies the first chunk of the item to an owned chunk. Returns the owned chunk as the error if the item does not
    /// fit into it.
    pub fn copy_to(&self, chunk: OwnedChunk) -> Result<Copied, OwnedChunk> {
        chunk.check(&self.guard.memory);
        Copied::of(self.item(), self.guard.number, chunk)
    }

    /// Replaces the item in the table by its copy, and links the bodies to the copy. Returns the old item. The caller
    /// must put the copy into a queue and unlink the old item. `own` is the caller's pin of the old item. Returns the
    /// copy as the error, and changes nothing, if the item is chained and has any other pin.
    pub fn carry_to(
        &mut self,
        copied: Copied,
        own: &Pin,
        mover: &mut MoverToken,
    ) -> Result<Removed, Copied> {
        mover.check(&self.guard.memory);
        let stripe = self.guard.number;
        assert_eq!(copied.stripe, stripe, "a copy replaces an item of the stripe of its original");
        assert_eq!(copied.from, self.address, "a copy replaces only its original");
        copied.head.check(&self.guard.memory);
        self.check_pin(own);
        // The stripe may have been unlocked since the copy was made. So the chunk at this address may hold another
        // item.
        assert!(copied.is_copy_of(self.item()), "a copy replaces only its original");
        let Copied { mut head, from, stripe } = copied;
        if self.item().state().chained() {
            let Some(mut access) = self.value_access(Some(own)) else {
                return Err(Copied { head, from, stripe });
            };
            access.move_chain_to(&mut head);
        }
        Ok(self.replace_address(head))
    }

    /// Moves the body at `body` to `chunk`. Returns the chunk in which the body was. `own` is the caller's pin of the
    /// item. Returns `chunk` as the error, and changes nothing, if the body does not fit into `chunk`, if the item has
    /// no body at this address, or if the item has any other pin.
    pub fn move_body(
        &mut self,
        body: ChunkAddress,
        chunk: OwnedChunk,
        own: &Pin,
        mover: &mut MoverToken,
    ) -> Result<OwnedChunk, OwnedChunk> {
        mover.check(&self.guard.memory);
        match self.value_access(Some(own)) {
            Some(mut access) => access.move_body(body, chunk),
            None => Err(chunk),
        }
    }
}

impl Inserted<'_> {
    /// Returns an [`Item`] to read the item.
    #[inline]
    pub fn item(&self) -> Item<'_, Exclusive> {
        // SAFETY: the item is in a table, which this token borrows exclusively, and in no queue. So nothing writes the
        // item.
        unsafe { Item::new(self.memory, self.address) }
    }

    pub fn address(&self) -> ChunkAddress {
        self.address
    }

    /// Returns the class whose queue the item will enter.
    #[inline]
    pub fn queue_class(&self) -> ClassId {
        self.class
    }

    /// Sets the rank. Panics if the item stores no rank.
    pub fn set_rank(&mut self, rank: u32) {
        // SAFETY: the chunk at the address holds the item. This token borrows the item's table exclusively, and the
        // item is in no queue, so nothing else reads or writes the rank.
        unsafe { write_field(self.memory, self.address, rank_offset, rank) };
    }
}

impl Removed {
    pub fn address(&self) -> ChunkAddress {
        self.address
    }

    #[inline]
    pub(super) fn state(&self, memory: &Memory) -> State {
        assert_eq!(self.memory, memory.number, "a removed item is used with its own memory");
        // SAFETY: the item is still marked as linked, so its chunk is in use.
        unsafe { memory.arena.header_of(self.address) }.state().load()
    }

    /// Returns the class whose queues may hold the item.
    #[inline]
    pub fn queue_class(&self, memory: &Memory) -> ClassId {
        memory.queue_class(self.address, self.state(memory).chained())
    }

    /// Returns the item if it is in a queue of this class, and otherwise `None`.
    #[inline]
    pub fn queued<'c>(&self, class: &'c ClassToken) -> Option<Queued<'c>> {
        let state = self.state(class.memory());
        let here = class.memory().queue_class(self.address, state.chained()) == class.class();
        // SAFETY: the item is in a queue of this class, whose lock is held as long as the token is borrowed.
        (state.queued() && here).then(|| unsafe { Item::new(class.memory(), self.address) })
    }

    /// Unlinks an item that is in no queue. Returns the item's chunks, which the caller must free, or `None` if the
    /// item still has pins (LAST-HOLDER). Panics if the item is in a queue: such an item is unlinked by its list.
    pub fn unlink(self, memory: &Memory) -> Option<UnlinkedChunks> {
        assert!(!self.state(memory).queued(), "an item in a queue is unlinked by its list");
        // SAFETY: the item is in no queue, so it is in no list.
        unsafe { self.unlink_unqueued(memory) }
    }

    /// Unlinks the item. Returns the item's chunks, which the caller must free, or `None` if the item still has pins
    /// (LAST-HOLDER).
    ///
    /// # Safety
    ///
    /// No list links to the item.
    #[inline]
    pub(super) unsafe fn unlink_unqueued(self, memory: &Memory) -> Option<UnlinkedChunks> {
        // SAFETY: the item is still marked as linked, so its chunk is in use.
        let last = unsafe { memory.arena.header_of(self.address) }.state().unlink();
        // SAFETY: the item is in no table and in no list and has no pins, so only this call has access to its chunks.
        last.then(|| unsafe { UnlinkedChunks::new(memory, self.address) })
    }
}
