//! Item handles, and pins. An item handle is an [`Item`], through which a thread reads an item. (It is not the handle
//! of a worker.) A pin keeps an item in its chunk after a lock is released. The kind of an item handle says where the
//! caller got it, and which parts of the item it can read:
//!
//! - [`Linked`], from the table of a locked stripe, reads all parts. A thread that writes value, expiry or rank borrows
//!   the locked stripe exclusively.
//! - [`Queued`], from a list of a locked class or from an address that such a class has checked, reads all parts except
//!   the value. A thread that writes expiry or rank holds the locks of stripe and class.
//! - [`HeldValue`], from a [`ValuePin`](super::ValuePin) that was taken under the lock of the stripe, reads all parts
//!   except expiry and rank. A thread writes the value only if no other thread pins the item.
//! - [`PinnedItem`], from any other [`Pin`](super::Pin), reads the constant parts.
//! - An [`Exclusive`] item, to which only the holder of the handle has access, reads all parts.
//!
//! The constant parts of a published item are its key, client flags, cost and the length of its whole value.
//!
//! CAS value, time, uses and marks are atomics, which the holder of any item handle can read and write. `arena.rs` and
//! `state.rs` name the locks that protect the meaning of these atomics.

use super::arena::Header;
use super::memory::Memory;
use super::state::{Kind, State, StateWord};
use crate::layout::{
    CHUNK_ALIGN_BYTES, COST_SIZE_BYTES, ChunkAddress, HEADER_SIZE_BYTES, ItemLayout, ItemMeta,
};
use slabwise_base::{ClassId, Cost, Expiry, Uses, WorkTime};
use std::marker::PhantomData;

/// The number that an item stores as its cost if the cost is unknown. No known cost is stored as this number.
pub(super) const UNKNOWN_COST: u16 = u16::MAX;

/// The size of the address of the first body in a chained item.
pub(super) const FIRST_BODY_SIZE_BYTES: usize = 5;

const _: () = assert!(CHUNK_ALIGN_BYTES == 8, "an address in units of 8 bytes has 5 bytes");

/// A pin of an item, counted in the state word of the item. As long as the pin exists, the item is not freed, and the
/// holder of the pin can read the constant parts of the item: key, client flags, cost and the length of the whole
/// value.
#[must_use = "a pinned item is never freed unless Memory::unpin removes the pin"]
#[derive(Debug, PartialEq, Eq)]
pub struct Pin {
    address: ChunkAddress,
    /// The number of the memory.
    memory: u32,
}

/// A pin that was taken under the lock of the item's stripe. It also keeps the value unchanged.
#[must_use = "a pinned item is never freed unless Memory::unpin removes the pin"]
#[derive(Debug, PartialEq, Eq)]
pub struct ValuePin {
    pin: Pin,
}

mod sealed {
    pub trait ReadAccess {}
}

/// The kind of an item handle ([`Item`]). It decides which parts of the item can be read through the handle.
pub trait ReadAccess: sealed::ReadAccess {}

/// A kind of item handle through which expiry and rank can be read.
pub trait ReadsMeta: ReadAccess {}

/// A kind of item handle through which the value can be read.
pub trait ReadsValue: ReadAccess {}

macro_rules! access_kinds {
    ($($(#[$doc:meta])* $access:ident: $($trait:ident)*;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $access {}
        impl sealed::ReadAccess for $access {}
        impl ReadAccess for $access {}
        $(impl $trait for $access {})*
    )*};
}

access_kinds! {
    /// The item is in the table of a locked stripe.
    InTable: ReadsMeta ReadsValue;
    /// The item is in a queue of a locked class.
    InQueue: ReadsMeta;
    /// Only the holder of the handle has access to the item, which is being written, or has just entered its table, or
    /// is unlinked.
    Exclusive: ReadsMeta ReadsValue;
    /// A pin keeps the item in its chunk.
    UnderPin: ;
    /// A pin that was taken under the lock of the item's stripe keeps the item in its chunk and its value unchanged.
    UnderValuePin: ReadsValue;
}

/// An item handle: access to an item for the lifetime `'t`. The kind `R` of the handle decides which parts of the item
/// can be read.
#[derive(Debug)]
pub struct Item<'t, R> {
    memory: &'t Memory,
    address: ChunkAddress,
    access: PhantomData<R>,
}

/// A handle of an item in the table of a locked stripe.
pub type Linked<'t> = Item<'t, InTable>;
/// A handle of an item in a queue of a locked class.
pub type Queued<'t> = Item<'t, InQueue>;
/// A handle of a pinned item.
pub type PinnedItem<'t> = Item<'t, UnderPin>;
/// A handle of an item with a pin that was taken under the lock of the item's stripe.
pub type HeldValue<'t> = Item<'t, UnderValuePin>;

impl<R> Clone for Item<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Item<'_, R> {}

impl<'t, R: ReadAccess> Item<'t, R> {
    /// Returns a handle of the item at `address`.
    ///
    /// # Safety
    ///
    /// A chunk of this memory starts at `address`. For the lifetime `'t` this chunk holds one item, and no thread
    /// writes the parts of the item that can be read through a handle of the kind `R`.
    #[inline]
    pub(super) unsafe fn new(memory: &'t Memory, address: ChunkAddress) -> Item<'t, R> {
        Item { memory, address, access: PhantomData }
    }

    #[inline]
    pub(super) fn header(self) -> Header<'t> {
        // SAFETY: the caller of `Item::new` guaranteed that a chunk starts at the address.
        unsafe { self.memory.arena.header_of(self.address) }
    }

    /// Returns `len` bytes of the item, beginning `start` bytes after the chunk's start.
    ///
    /// # Safety
    ///
    /// The bytes are a part of the item that can be read through a handle of the kind `R`, and are not in the header.
    #[inline]
    pub(super) unsafe fn bytes(self, start: usize, len: usize) -> &'t [u8] {
        // SAFETY: 1. The bytes are within the item, which is within its chunk. 2. The caller of `Item::new` guaranteed
        // that no thread writes these bytes for the lifetime 't.
        unsafe { self.memory.arena.read(self.address, start, len) }
    }

    pub(super) fn memory(self) -> &'t Memory {
        self.memory
    }

    #[inline]
    pub fn address(self) -> ChunkAddress {
        self.address
    }

    #[inline]
    pub fn state(self) -> State {
        self.header().state().load()
    }

    #[inline]
    pub(super) fn layout(self) -> ItemLayout {
        self.state().layout()
    }

    #[inline]
    pub fn key(self) -> &'t [u8] {
        let state = self.state();
        // SAFETY: a handle of any kind can read the key, which is a constant part.
        unsafe { self.bytes(state.layout().key(), state.key_len()) }
    }

    #[inline]
    pub fn client_flags(self) -> u32 {
        if !self.state().fields().flags {
            return 0;
        }
        // SAFETY: a handle of any kind can read the client flags, which are a constant part.
        word(unsafe { self.bytes(HEADER_SIZE_BYTES, 4) })
    }

    /// Returns the cost of the item, or `None` if it is unknown.
    #[inline]
    pub fn cost(self) -> Option<Cost> {
        let state = self.state();
        if !state.fields().cost {
            return None;
        }
        // SAFETY: a handle of any kind can read the cost, which is a constant part.
        let bytes = unsafe { self.bytes(state.layout().cost(), COST_SIZE_BYTES) };
        let bits = u16::from_le_bytes(bytes.try_into().expect("a stored cost has two bytes"));
        (bits != UNKNOWN_COST).then(|| Cost::from_bits(bits))
    }

    /// Returns the length of the whole value in bytes, the parts in bodies included.
    #[inline]
    pub fn value_len(self) -> usize {
        let state = self.state();
        if !state.chained() {
            return self.header().len();
        }
        // SAFETY: a handle of any kind can read the length of the whole value, which is a constant part.
        word(unsafe { self.bytes(state.layout().chain(), 4) }) as usize
    }

    /// Returns the size of the item in bytes, as the choice of its class, the size limit and the statistics count it.
    #[inline]
    pub fn counted_size_bytes(self) -> u64 {
        let state = self.state();
        let value_len = self.value_len();
        self.memory.counted_size_bytes(state.key_len(), value_len, state.fields()) as u64
    }

    /// Returns the number of bytes of its first chunk that the item uses.
    #[inline]
    pub fn size_in_first_chunk_bytes(self) -> usize {
        self.layout().value() + self.header().len()
    }

    /// Returns the class that owns the page of the item's first chunk.
    #[inline]
    pub fn chunk_class(self) -> ClassId {
        self.memory.class_of(self.address)
    }

    /// Returns the class whose queues may hold the item: [`CHAINED`](crate::layout::CHAINED) for a chained item, and
    /// otherwise the class that owns the page of the item's chunk.
    #[inline]
    pub fn queue_class(self) -> ClassId {
        self.memory.queue_class(self.address, self.state().chained())
    }

    /// Returns the CAS value. With Acquire ordering, because a thread that reads a client-supplied value must also see
    /// the mark "given CAS" in the state word.
    #[inline]
    pub fn cas(self) -> u64 {
        self.header().cas()
    }

    pub fn set_cas(self, cas: u64) {
        self.header().set_cas(cas);
    }

    /// Returns the time of the last access.
    #[inline]
    pub fn time(self) -> WorkTime {
        self.header().time()
    }

    /// Sets the time of the last access.
    #[inline]
    pub fn set_time(self, time: WorkTime) {
        self.header().set_time(time);
    }

    /// Sets the time of the last access, unless it has changed since it was `before`.
    pub fn replace_time(self, before: WorkTime, time: WorkTime) {
        self.header().replace_time(before, time);
    }

    /// Returns the requests for the item.
    #[inline]
    pub fn uses(self) -> Uses {
        self.header().uses()
    }

    /// Sets the requests for the item.
    #[inline]
    pub fn set_uses(self, uses: Uses) {
        self.header().set_uses(uses);
    }

    /// Returns the state word, through which the holder of any handle can set the item's marks.
    #[inline]
    pub fn marks(self) -> &'t StateWord {
        self.header().state()
    }

    /// Pins the item. Unlike the pin of [`Item::pin`], this pin gives no access to the value. Returns `None` if the
    /// item is not linked or has [`PIN_COUNT_MAX`](super::state::PIN_COUNT_MAX) pins.
    pub fn pin_key(self) -> Option<Pin> {
        let pinned = self.header().state().try_pin();
        // SAFETY: `try_pin` has just added a pin for this `Pin`.
        pinned.then(|| unsafe { Pin::new(self.memory, self.address) })
    }

    #[inline]
    pub fn is_unpinned(self) -> bool {
        self.state().pins() == 0
    }

    /// Prefetches the header, the key, and the start of the value.
    #[inline]
    pub fn prefetch(self) {
        self.memory.prefetch_item(self.address);
    }

    /// Prefetches the headers of the item's neighbours in its queue. The removal of the item from the queue will write
    /// these headers.
    #[inline]
    pub fn prefetch_neighbours(self) {
        self.memory.arena.prefetch_neighbours(self.header());
    }
}

impl<'t, R: ReadsMeta> Item<'t, R> {
    /// Returns a handle of the same item through which the value cannot be read.
    #[inline]
    pub fn without_value(self) -> Queued<'t> {
        // SAFETY: no thread writes expiry and rank for the lifetime 't, because they can be read through this handle,
        // too.
        unsafe { Item::new(self.memory, self.address) }
    }

    /// Returns the expiry, which is [`Expiry::NEVER`] if the item stores none.
    #[inline]
    pub fn expiry(self) -> Expiry {
        let state = self.state();
        if !state.fields().expiry {
            return Expiry::NEVER;
        }
        // SAFETY: the expiry can be read through a handle of this kind.
        Expiry::from_bits(word(unsafe { self.bytes(state.layout().expiry(), 4) }))
    }

    /// Returns the rank of the item in its class, or 0 if the item stores no rank.
    #[inline]
    pub fn rank(self) -> u32 {
        let state = self.state();
        if !state.fields().rank {
            return 0;
        }
        // SAFETY: the rank can be read through a handle of this kind.
        word(unsafe { self.bytes(state.layout().rank(), 4) })
    }

    /// Returns client flags, expiry and cost.
    pub fn meta(self) -> ItemMeta {
        let (client_flags, expiry, cost) = (self.client_flags(), self.expiry(), self.cost());
        ItemMeta { client_flags, expiry, cost }
    }
}

impl<'t, R: ReadsValue> Item<'t, R> {
    /// Returns the address of the first body, or `None` if the item has no bodies.
    pub(super) fn first_body(self) -> Option<ChunkAddress> {
        let state = self.state();
        if !state.chained() {
            return None;
        }
        let at = state.layout().chain() + 4;
        // SAFETY: the value can be read through a handle of this kind, and the chain field belongs to the value.
        body_address(unsafe { self.bytes(at, FIRST_BODY_SIZE_BYTES) })
    }

    /// Returns the addresses of the bodies, in the order of the value.
    pub(super) fn bodies(self) -> impl Iterator<Item = ChunkAddress> + use<'t, R> {
        let memory = self.memory;
        // SAFETY: the chunks of a chain are bodies of this memory as long as the chain exists.
        let next = move |&body: &ChunkAddress| unsafe { memory.arena.header_of(body) }.next();
        std::iter::successors(self.first_body(), next)
    }

    /// Returns the addresses of the item's chunks: the first chunk, then the bodies.
    pub fn chunks(self) -> impl Iterator<Item = ChunkAddress> + use<'t, R> {
        std::iter::once(self.address).chain(self.bodies())
    }

    /// Returns the part of the value in the first chunk: the whole value, or no byte if the item is chained.
    #[inline]
    pub fn value_in_first_chunk(self) -> &'t [u8] {
        // SAFETY: the value can be read through a handle of this kind.
        unsafe { self.bytes(self.layout().value(), self.header().len()) }
    }

    /// Panics with the name of the broken invariant if a body belongs to another item, or if the lengths of the parts
    /// do not add up to the length of the value.
    pub fn check_chain(self) {
        let mut len = self.header().len();
        for body in self.bodies() {
            // SAFETY: the chunks of a chain are bodies of this memory as long as the chain exists.
            let header = unsafe { self.memory.arena.header_of(body) };
            assert_eq!(header.state().load().kind(), Kind::Body, "a chunk of a chain is a body");
            assert_eq!(header.prev(), Some(self.address), "a body links to its item's first chunk");
            len += header.len();
        }
        let value_len = self.value_len();
        assert_eq!(len, value_len, "the lengths of the parts add up to the length of the value");
    }

    /// Returns the parts of the value in the order of the value: one slice, or one slice per body if the item is
    /// chained.
    pub fn value(self) -> impl Iterator<Item = &'t [u8]> + use<'t, R> {
        let memory = self.memory;
        let whole = (!self.state().chained()).then(|| self.value_in_first_chunk());
        let part = move |body: ChunkAddress| {
            // SAFETY: the chunks of a chain are bodies of this memory as long as the chain exists.
            let len = unsafe { memory.arena.header_of(body) }.len();
            // SAFETY: the bytes are within the body. They belong to the value, which can be read through a handle of
            // this kind, so no thread writes them for the lifetime 't.
            unsafe { memory.arena.read(body, HEADER_SIZE_BYTES, len) }
        };
        whole.into_iter().chain(self.bodies().map(part))
    }

    /// Pins the item and keeps its value unchanged, also after the stripe is unlocked. Returns `None` if the item is
    /// not linked or has [`PIN_COUNT_MAX`](super::state::PIN_COUNT_MAX) pins.
    pub fn pin(self) -> Option<ValuePin> {
        // The value can be read through a handle of this kind, so no thread writes the value now. No thread begins to
        // write it while this pin exists: a writer borrows the locked stripe exclusively, and does not write if it
        // finds a pin other than its own.
        self.pin_key().map(|pin| ValuePin { pin })
    }
}

impl Pin {
    /// Returns the access token of a pin.
    ///
    /// # Safety
    ///
    /// A pin was added to the state word of the item at `address`, and no other `Pin` exists for this pin.
    pub(super) unsafe fn new(memory: &Memory, address: ChunkAddress) -> Pin {
        Pin { address, memory: memory.number }
    }

    /// Returns the address of the item's first chunk.
    pub fn address(&self) -> ChunkAddress {
        self.address
    }

    /// Panics if the item belongs to another memory.
    #[inline]
    fn check(&self, memory: &Memory) {
        assert_eq!(self.memory, memory.number, "a pin is used with its own memory");
    }

    /// Returns a handle of the pinned item.
    #[inline]
    pub fn item<'p>(&'p self, memory: &'p Memory) -> PinnedItem<'p> {
        self.check(memory);
        // SAFETY: the pin keeps the item in its chunk, and a handle of this kind reads only the constant parts.
        unsafe { Item::new(memory, self.address) }
    }
}

impl ValuePin {
    /// Returns a handle of the pinned item.
    #[inline]
    pub fn item<'p>(&'p self, memory: &'p Memory) -> HeldValue<'p> {
        self.pin.check(memory);
        // SAFETY: the pin keeps the item in its chunk. The pin was taken while no thread could write the value, and no
        // thread writes the value of an item that another thread pins.
        unsafe { Item::new(memory, self.pin.address) }
    }
}

impl From<ValuePin> for Pin {
    fn from(pin: ValuePin) -> Pin {
        pin.pin
    }
}

/// Returns the number that is stored in four bytes.
pub(super) fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("a stored number has four bytes"))
}

/// Returns the address of a first body that is stored in these bytes.
pub(super) fn body_address(bytes: &[u8]) -> Option<ChunkAddress> {
    let mut bits = [0; 8];
    bits[..FIRST_BODY_SIZE_BYTES].copy_from_slice(bytes);
    ChunkAddress::from_bits(u64::from_le_bytes(bits))
}

/// Returns the bytes to store the address of a first body.
pub(super) fn body_bytes(address: Option<ChunkAddress>) -> [u8; FIRST_BODY_SIZE_BYTES] {
    let bytes = ChunkAddress::to_bits(address).to_le_bytes();
    std::array::from_fn(|at| bytes[at])
}
