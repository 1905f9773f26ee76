//! A stripe's table with what it leads to: which stripe guards an item follows from which table leads to it.
//!
//! An item enters a table only as a [`NewItem`] or as a copy that takes the place of an item of the same table,
//! and leaves it as a [`Removed`]. So a [`Linked`] that a table gives out is guarded by that table's lock, by
//! construction: no address and no lock is taken on trust.

use super::chunk::{Copied, NewItem, OwnedChunk, Remains};
use super::class_token::{ClassToken, MoverToken};
use super::item::{FIRST_BODY_SIZE_BYTES, InHand, Item, Linked, Pin, Queued, body_bytes};
use super::memory::Memory;
use super::state::State;
use super::table::{Slot, Table};
use crate::layout::{ChunkAddress, HEADER_SIZE_BYTES};
use slabwise_base::sync::MutexGuard;
use slabwise_base::{ClassId, Expiry};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// What a stripe's lock protects: the items that its table leads to.
pub struct Stripe {
    table: Table,
    memory: Arc<Memory>,
    number: u32,
}

/// A locked stripe.
pub type StripeGuard<'i> = MutexGuard<'i, Stripe>;

/// An item found in a locked stripe, which stays locked.
pub struct Entry<'i> {
    guard: StripeGuard<'i>,
    slot: Slot,
    /// What the slot leads to.
    address: ChunkAddress,
}

/// An item of a table that is in no queue yet: its stripe is locked exclusively, and no class knows of it.
pub struct Entered<'t> {
    memory: &'t Memory,
    address: ChunkAddress,
    class: ClassId,
}

/// An item that a table leads to no more, and that still counts as linked: its class is to unlink it.
#[must_use = "an item that left its table is to be unlinked, or its memory is lost"]
#[derive(Debug, PartialEq, Eq)]
pub struct Removed {
    address: ChunkAddress,
    memory: u32,
}

/// The right to write a published item's value: its stripe is locked exclusively, and nobody pins it but the
/// writer. Who pins it later does so without the stripe, and reads no value.
pub struct ValueRight<'t> {
    memory: &'t Memory,
    address: ChunkAddress,
}

/// The right to write a published item's expiry or rank: its stripe and its class are locked exclusively.
pub struct MetaRight<'t> {
    memory: &'t Memory,
    address: ChunkAddress,
}

impl Stripe {
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// An empty stripe of a memory.
    pub fn new(memory: &Arc<Memory>) -> Stripe {
        let number = memory.stripe_count.fetch_add(1, Relaxed);
        assert!(number < u32::MAX, "stripes are numbered");
        Stripe { table: Table::new(), memory: Arc::clone(memory), number }
    }

    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Gives an empty table the buckets that it would have grown to.
    pub fn presize(&mut self, bucket_count: u32) {
        self.table.presize(bucket_count);
    }

    /// # Safety
    ///
    /// The table leads to the item at `address`.
    #[inline]
    unsafe fn linked(&self, address: ChunkAddress) -> Linked<'_> {
        // SAFETY: the table leads to it and is borrowed: its lock is held, and no item enters, leaves or is
        // written.
        unsafe { Item::new(&self.memory, address) }
    }

    /// Every item that the table leads to, in no order.
    pub fn items(&self) -> impl Iterator<Item = Linked<'_>> {
        // SAFETY: the address comes from the table.
        self.table.addresses().map(|address| unsafe { self.linked(address) })
    }

    /// Looks at the item of this hash that `is_match` accepts.
    #[inline(always)]
    fn find(
        &self,
        hash: u64,
        mut is_match: impl FnMut(Linked<'_>) -> bool,
    ) -> Option<(Slot, ChunkAddress)> {
        // SAFETY: the address comes from the table.
        self.table.find(hash, |address| is_match(unsafe { self.linked(address) }))
    }

    /// The first item that a look-up of `hash` would compare.
    #[inline]
    pub fn candidate(&self, hash: u64) -> Option<Linked<'_>> {
        // SAFETY: the address comes from the table.
        self.table.candidate(hash).map(|address| unsafe { self.linked(address) })
    }

    pub fn get(&self, hash: u64, key: &[u8]) -> Option<Linked<'_>> {
        let (_, address) = self.find(hash, |item| item.key() == key)?;
        // SAFETY: the address comes from the table.
        Some(unsafe { self.linked(address) })
    }

    /// Panics with the invariant's name if the table breaks one; `hash_of` gives the hash of an item.
    pub fn check(&self, hash_of: impl Fn(Linked<'_>) -> u64) {
        // SAFETY: the address comes from the table.
        self.table.check(|address| hash_of(unsafe { self.linked(address) }));
    }
}

impl<'i> Entry<'i> {
    /// The item of a key; else the stripe is handed back, locked.
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

    /// The item at this address if this stripe leads to it; else the stripe is handed back, locked.
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

    /// Lets a stripe lead to a new item, under a key that leads to nothing. `hash_of` gives the hash of another
    /// item of it. The item is to be queued.
    #[inline]
    pub fn insert(
        guard: StripeGuard<'i>,
        hash: u64,
        item: NewItem,
        hash_of: impl Fn(Linked<'_>) -> u64,
    ) -> Entry<'i> {
        let head = item.assemble(&guard.memory);
        // SAFETY: an item was written in this chunk, which its owner parts with here.
        unsafe { Entry::enter(guard, hash, head.address(), hash_of) }
    }

    /// Lets a stripe lead to an item, under a key that leads to nothing.
    ///
    /// # Safety
    ///
    /// At `address` of the stripe's memory is an item that no table leads to, and that nobody has a right to.
    #[inline]
    pub(super) unsafe fn enter(
        mut guard: StripeGuard<'i>,
        hash: u64,
        address: ChunkAddress,
        hash_of: impl Fn(Linked<'_>) -> u64,
    ) -> Entry<'i> {
        let Stripe { table, memory, .. } = &mut *guard;
        // SAFETY: the table leads to the others, and is borrowed exclusively.
        let slot =
            table.insert(hash, address, |other| hash_of(unsafe { Item::new(memory, other) }));
        Entry { guard, slot, address }
    }

    #[inline]
    pub fn item(&self) -> Linked<'_> {
        // SAFETY: an entry's address is what its slot leads to.
        unsafe { self.guard.linked(self.address) }
    }

    pub fn stripe(&self) -> &Stripe {
        &self.guard
    }

    /// Forgets which item was found.
    pub fn into_guard(self) -> StripeGuard<'i> {
        self.guard
    }

    /// Lets the entry lead to a new item of the same key, which is to be queued; the old one is to be unlinked.
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

    /// Takes the entry out; the item is to be unlinked.
    #[inline]
    pub fn remove(mut self) -> (StripeGuard<'i>, Removed) {
        self.guard.table.remove(self.slot);
        let memory = self.guard.memory.number;
        (self.guard, Removed { address: self.address, memory })
    }

    /// The item that this entry was just made to lead to, to be queued.
    #[inline]
    pub fn entered(&mut self) -> Entered<'_> {
        let state = self.item().state();
        assert!(!state.linked(), "an item is queued anew once");
        let (memory, address) = (&*self.guard.memory, self.address);
        Entered { memory, address, class: memory.queue_class(address, state.chained()) }
    }

    fn check_own(&self, own: &Pin) {
        let item = own.item(&self.guard.memory);
        assert_eq!(item.address(), self.address, "the writer's pin is on this item");
    }

    /// The right to write the item's value; `None`: somebody pins it beside `own`.
    pub fn value_right(&mut self, own: Option<&Pin>) -> Option<ValueRight<'_>> {
        if let Some(own) = own {
            self.check_own(own);
        }
        let is_alone = self.item().state().pins() == u32::from(own.is_some());
        is_alone.then(|| ValueRight { memory: &self.guard.memory, address: self.address })
    }

    /// The right to write the item's expiry or rank, with its class.
    pub fn meta_right<'t>(&'t mut self, class: &'t mut ClassToken) -> MetaRight<'t> {
        let memory = &*self.guard.memory;
        assert!(std::ptr::eq(memory, class.memory()), "stripe and class are of one memory");
        assert_eq!(self.item().queue_class(), class.class(), "an item is written under its class");
        MetaRight { memory, address: self.address }
    }

    /// Copies the item to an owned chunk, which is given back if the item does not fit.
    pub fn copy_to(&self, chunk: OwnedChunk) -> Result<Copied, OwnedChunk> {
        chunk.check(&self.guard.memory);
        Copied::of(self.item(), self.guard.number, chunk)
    }

    /// Lets the item's copy stand for it, chain and all; the copy is to be queued, the old one to be unlinked.
    /// The copy is handed back where the item is chained and somebody pins it beside `own`.
    pub fn carry_to(
        &mut self,
        copied: Copied,
        own: &Pin,
        mover: &mut MoverToken,
    ) -> Result<Removed, Copied> {
        mover.check(&self.guard.memory);
        assert_eq!(copied.stripe, self.guard.number, "a copy is of an item of this stripe");
        assert_eq!(copied.from, self.address, "a copy stands for the item that it is of");
        copied.head.check(&self.guard.memory);
        self.check_own(own);
        // The stripe may have been unlocked since, and its item another.
        assert!(copied.is_of(self.item()), "a copy stands for the item that it is of");
        let Copied { mut head, from, stripe } = copied;
        if self.item().state().chained() {
            let Some(mut right) = self.value_right(Some(own)) else {
                return Err(Copied { head, from, stripe });
            };
            right.hand_chain_to(&mut head);
        }
        Ok(self.lead_to(head))
    }

    /// Carries a body of the item to an owned chunk. Returns the chunk that the body was in, or the one given,
    /// where that is too small, there is no such body, or somebody pins the item beside `own`.
    pub fn carry_body(
        &mut self,
        body: ChunkAddress,
        chunk: OwnedChunk,
        own: &Pin,
        mover: &mut MoverToken,
    ) -> Result<OwnedChunk, OwnedChunk> {
        mover.check(&self.guard.memory);
        match self.value_right(Some(own)) {
            Some(mut right) => right.carry_body(body, chunk),
            None => Err(chunk),
        }
    }
}

impl Entered<'_> {
    #[inline]
    pub fn item(&self) -> Item<'_, InHand> {
        // SAFETY: the table leads to the item and is borrowed exclusively; no class knows of it.
        unsafe { Item::new(self.memory, self.address) }
    }

    pub fn address(&self) -> ChunkAddress {
        self.address
    }

    /// The class in whose queue it is to be.
    #[inline]
    pub fn queue_class(&self) -> ClassId {
        self.class
    }

    /// Ranks an item that stores a rank.
    pub fn set_rank(&mut self, rank: u32) {
        // SAFETY: the table is borrowed exclusively, and no class knows of the item.
        unsafe { write_word(self.memory, self.address, place_of_rank, rank) };
    }
}

impl Removed {
    pub fn address(&self) -> ChunkAddress {
        self.address
    }

    #[inline]
    pub(super) fn state(&self, memory: &Memory) -> State {
        assert_eq!(self.memory, memory.number, "an item is unlinked in the memory that it is of");
        // SAFETY: an item that counts as linked is in a chunk of its memory.
        unsafe { memory.arena.header_of(self.address) }.state().load()
    }

    /// The class in whose queue it may be.
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

    /// Unlinks an item that is in no queue. `Some`: nobody pins it (LAST-HOLDER).
    pub fn unlink(self, memory: &Memory) -> Option<Remains> {
        assert!(!self.state(memory).queued(), "a queued item is unlinked by its queue");
        // SAFETY: the table leads to it no more, and no queue does.
        unsafe { self.unlink_unqueued(memory) }
    }

    /// Ends the item. `Some`: nobody pins it (LAST-HOLDER).
    ///
    /// # Safety
    ///
    /// No list leads to the item.
    #[inline]
    pub(super) unsafe fn unlink_unqueued(self, memory: &Memory) -> Option<Remains> {
        // SAFETY: an item that counts as linked is in a chunk of its memory.
        let last = unsafe { memory.arena.header_of(self.address) }.state().unlink();
        // SAFETY: neither a table nor a list leads to the item, and nobody pins it.
        last.then(|| unsafe { Remains::new(memory, self.address) })
    }
}

impl ValueRight<'_> {
    fn item(&self) -> Linked<'_> {
        // SAFETY: the stripe is locked exclusively.
        unsafe { Item::new(self.memory, self.address) }
    }

    /// Overwrites a part of an unchained item's value, from `start` on.
    pub fn overwrite(&mut self, start: usize, bytes: &[u8]) {
        let (state, len) = (self.item().state(), self.item().value_len());
        assert!(!state.chained(), "a chained value is not overwritten");
        let fits = start <= len && bytes.len() <= len - start;
        assert!(fits, "a write stays within the value");
        // SAFETY: 1. within the value, and so within the chunk. 2. Nobody reads or writes a value beside this
        // right's holder.
        let place = unsafe {
            self.memory.arena.write(self.address, state.layout().value() + start, bytes.len())
        };
        place.copy_from_slice(bytes);
    }

    fn set_first_body(&mut self, body: Option<ChunkAddress>) {
        let at = self.item().layout().chain() + 4;
        // SAFETY: 1. within the item, which is chained. 2. As for a value.
        let field = unsafe { self.memory.arena.write(self.address, at, FIRST_BODY_SIZE_BYTES) };
        field.copy_from_slice(&body_bytes(body));
    }

    /// Hands the chain over to the item's copy.
    fn hand_chain_to(&mut self, head: &mut OwnedChunk) {
        let first = self.item().first_body();
        for body in self.item().bodies() {
            // SAFETY: a chain leads over bodies, which are chunks of this memory.
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
            // SAFETY: a chain leads over bodies, which are chunks of this memory.
            Some(body) => unsafe { memory.arena.header_of(body) }.next(),
            None => self.item().first_body(),
        };
        if found != Some(old) {
            return Err(chunk);
        }
        // SAFETY: a chain leads over bodies, which are chunks of this memory.
        let header = unsafe { memory.arena.header_of(old) };
        if HEADER_SIZE_BYTES + header.len() > chunk.size_bytes() {
            return Err(chunk);
        }
        // SAFETY: within the body, whose part of the value is this right's holder's.
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
        // SAFETY: the chunk was its chain's alone, which leads past it by now.
        Ok(unsafe { OwnedChunk::reclaim(memory, old) })
    }
}

impl MetaRight<'_> {
    /// Changes when an item that stores an expiry ends.
    pub fn set_expiry(&mut self, expiry: Expiry) {
        let at = |state: State| {
            let stores = state.fields().expiry;
            assert!(stores, "an item without the field cannot take an expiry in place");
            state.layout().expiry()
        };
        // SAFETY: others need the stripe or the class to read or write expiries.
        unsafe { write_word(self.memory, self.address, at, expiry.to_bits()) };
    }

    /// Ranks an item that stores a rank.
    pub fn set_rank(&mut self, rank: u32) {
        // SAFETY: others need the stripe or the class to read or write ranks.
        unsafe { write_word(self.memory, self.address, place_of_rank, rank) };
    }
}

fn place_of_rank(state: State) -> usize {
    assert!(state.fields().rank, "an item without the field cannot take a rank");
    state.layout().rank()
}

/// # Safety
///
/// At `address` of this memory is an item; `at` says where a field of four bytes is that an item in this state stores,
/// and nobody else reads or writes it.
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
