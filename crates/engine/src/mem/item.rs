//! Handles of shared items, and the pins that keep items after a lock is released. The way in which a handle was
//! obtained decides which parts of the item it may read:
//!
//! | handle | made by | reads | because |
//! |---|---|---|---|
//! | [`Linked`] | a locked stripe's table | everything | value, expiry and rank are written with the stripe locked exclusively |
//! | [`Queued`] | a locked class: its lists, or a checked address | all but the value | expiry and rank are written under stripe and class |
//! | [`HeldValue`] | a [`ValuePin`](super::ValuePin), taken under the stripe | all but expiry and rank | a value is written only while nobody but the writer pins it |
//! | [`Held`] | any other [`Pin`](super::Pin) | the constant parts | a pin keeps the chunk |
//!
//! The constant parts of a published item are key, client flags, cost and the length of the whole value.
//! CAS value, time and marks are atomics, which every handle reads and writes; the locks that `arena.rs` and `state.rs`
//! name protect what they mean.

use super::arena::Header;
use super::memory::Memory;
use super::state::{Kind, State, StateWord};
use crate::layout::{
    CHUNK_ALIGN_BYTES, COST_SIZE_BYTES, ChunkAddress, HEADER_SIZE_BYTES, ItemLayout, ItemMeta,
};
use slabwise_base::{ClassId, Cost, Expiry, Ticks};
use std::marker::PhantomData;

/// The stored cost of an item of unknown cost: a code that no cost has.
pub(super) const UNKNOWN_COST: u16 = u16::MAX;

pub(super) const FIRST_BODY_SIZE_BYTES: usize = 5;

const _: () = assert!(CHUNK_ALIGN_BYTES == 8);

/// A pin on an item, counted in its state word: the chunk is not freed, and the item's constant parts stay readable.
#[must_use = "a pin must be dropped by Memory::unpin, or its item is never freed"]
#[derive(Debug, PartialEq, Eq)]
pub struct Pin {
    address: ChunkAddress,
    memory: u32,
}

/// A pin that was taken under the item's stripe. It also keeps the value unchanged.
#[must_use = "a pin must be dropped by Memory::unpin, or its item is never freed"]
#[derive(Debug, PartialEq, Eq)]
pub struct ValuePin {
    pin: Pin,
}

mod sealed {
    pub trait ReadAccess {}
}

/// The way in which a handle was obtained, and so what it may read.
pub trait ReadAccess: sealed::ReadAccess {}

/// Handles that may read expiry and rank.
pub trait ReadsMeta: ReadAccess {}

/// Handles that may read the value.
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
    /// The holder has exclusive access: the item is being written, has just entered its table, or is unlinked.
    Exclusive: ReadsMeta ReadsValue;
    /// A pin keeps the item.
    UnderPin: ;
    /// A pin that was taken under the item's stripe keeps it.
    UnderValuePin: ReadsValue;
}

/// A handle of an item, valid for `'t`; see the module's table.
#[derive(Debug)]
pub struct Item<'t, R> {
    memory: &'t Memory,
    address: ChunkAddress,
    access: PhantomData<R>,
}

/// An item in the table of a locked stripe.
pub type Linked<'t> = Item<'t, InTable>;
/// An item in a queue of a locked class.
pub type Queued<'t> = Item<'t, InQueue>;
/// An item under a pin.
pub type Held<'t> = Item<'t, UnderPin>;
/// An item under a pin that was taken under its stripe.
pub type HeldValue<'t> = Item<'t, UnderValuePin>;

impl<R> Clone for Item<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Item<'_, R> {}

impl<'t, R: ReadAccess> Item<'t, R> {
    /// The item at `address`.
    ///
    /// # Safety
    ///
    /// A chunk of this memory starts at `address`. For `'t` it holds an item whose key nobody writes, and nobody
    /// writes what else `R` reads.
    #[inline]
    pub(super) unsafe fn new(memory: &'t Memory, address: ChunkAddress) -> Item<'t, R> {
        Item { memory, address, access: PhantomData }
    }

    #[inline]
    pub(super) fn header(self) -> Header<'t> {
        // SAFETY: a chunk starts here, as `Item::new` was promised.
        unsafe { self.memory.arena.header_of(self.address) }
    }

    /// # Safety
    ///
    /// They are bytes of the item that never change, or that `R` lets its holder read.
    #[inline]
    pub(super) unsafe fn bytes(self, start: usize, len: usize) -> &'t [u8] {
        // SAFETY: 1. within the item, and an item lies within its chunk. 2. Nobody writes them for 't.
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
        // SAFETY: a key never changes.
        unsafe { self.bytes(state.layout().key(), state.key_len()) }
    }

    #[inline]
    pub fn client_flags(self) -> u32 {
        if !self.state().fields().flags {
            return 0;
        }
        // SAFETY: client flags never change.
        word(unsafe { self.bytes(HEADER_SIZE_BYTES, 4) })
    }

    /// The cost of recomputing the item, if known.
    #[inline]
    pub fn cost(self) -> Option<Cost> {
        let state = self.state();
        if !state.fields().cost {
            return None;
        }
        // SAFETY: a cost never changes.
        let bytes = unsafe { self.bytes(state.layout().cost(), COST_SIZE_BYTES) };
        let bits = u16::from_le_bytes(bytes.try_into().expect("a cost has two bytes"));
        (bits != UNKNOWN_COST).then(|| Cost::from_bits(bits))
    }

    /// The length of the whole value.
    #[inline]
    pub fn value_len(self) -> usize {
        let state = self.state();
        if !state.chained() {
            return self.header().len();
        }
        // SAFETY: the length of a value never changes.
        word(unsafe { self.bytes(state.layout().chain(), 4) }) as usize
    }

    /// The size of the item, as classes, limits and statistics count it.
    #[inline]
    pub fn counted_size_bytes(self) -> u64 {
        let state = self.state();
        let value_len = self.value_len();
        self.memory.counted_size_bytes(state.key_len(), value_len, state.fields()) as u64
    }

    #[inline]
    pub fn chunk_class(self) -> ClassId {
        self.memory.class_of(self.address)
    }

    /// The class whose queues may hold the item: its chunk's, or [`CHAINED`](crate::layout::CHAINED).
    #[inline]
    pub fn queue_class(self) -> ClassId {
        self.memory.queue_class(self.address, self.state().chained())
    }

    /// The CAS value. Acquire: a reader of a client-supplied value also sees the mark for it in the state word.
    #[inline]
    pub fn cas(self) -> u64 {
        self.header().cas()
    }

    pub fn set_cas(self, cas: u64) {
        self.header().set_cas(cas);
    }

    #[inline]
    pub fn time(self) -> Ticks {
        self.header().time()
    }

    #[inline]
    pub fn set_time(self, time: Ticks) {
        self.header().set_time(time);
    }

    /// The marks of the item's use in its state word. Any holder may set them.
    #[inline]
    pub fn marks(self) -> &'t StateWord {
        self.header().state()
    }

    /// Pins the item; `None` if it is no longer linked or has too many pins.
    pub fn pin_key(self) -> Option<Pin> {
        let pinned = self.header().state().try_pin();
        // SAFETY: the pin was just counted.
        pinned.then(|| unsafe { Pin::new(self.memory, self.address) })
    }

    #[inline]
    pub fn is_unpinned(self) -> bool {
        self.state().pins() == 0
    }

    /// Prefetches header, key, and the start of most values.
    #[inline]
    pub fn prefetch(self) {
        self.memory.prefetch_item(self.address);
    }

    /// Prefetches the item's neighbours in its queue, which its removal will write.
    #[inline]
    pub fn prefetch_neighbours(self) {
        self.memory.arena.prefetch_neighbours(self.header());
    }
}

impl<'t, R: ReadsMeta> Item<'t, R> {
    /// The handle without access to the value.
    #[inline]
    pub fn without_value(self) -> Queued<'t> {
        // SAFETY: for 't nobody writes expiry and rank, as `R` says.
        unsafe { Item::new(self.memory, self.address) }
    }

    #[inline]
    pub fn expiry(self) -> Expiry {
        let state = self.state();
        if !state.fields().expiry {
            return Expiry::NEVER;
        }
        // SAFETY: `R` reads expiries.
        Expiry::from_bits(word(unsafe { self.bytes(state.layout().expiry(), 4) }))
    }

    /// The rank of the item in its class; 0 if it stores none.
    #[inline]
    pub fn rank(self) -> u32 {
        let state = self.state();
        if !state.fields().rank {
            return 0;
        }
        // SAFETY: `R` reads ranks.
        word(unsafe { self.bytes(state.layout().rank(), 4) })
    }

    pub fn meta(self) -> ItemMeta {
        let (client_flags, expiry, cost) = (self.client_flags(), self.expiry(), self.cost());
        ItemMeta { client_flags, expiry, cost }
    }
}

impl<'t, R: ReadsValue> Item<'t, R> {
    /// The first body of a chained item.
    pub(super) fn first_body(self) -> Option<ChunkAddress> {
        let state = self.state();
        if !state.chained() {
            return None;
        }
        let at = state.layout().chain() + 4;
        // SAFETY: `R` reads values, and so where they are.
        body_address(unsafe { self.bytes(at, FIRST_BODY_SIZE_BYTES) })
    }

    pub(super) fn bodies(self) -> impl Iterator<Item = ChunkAddress> + use<'t, R> {
        let memory = self.memory;
        // SAFETY: a chain links bodies, which are chunks of this memory as long as the chain exists.
        let next = move |&body: &ChunkAddress| unsafe { memory.arena.header_of(body) }.next();
        std::iter::successors(self.first_body(), next)
    }

    /// The part of the value in the first chunk: all of it, unless the item is chained.
    #[inline]
    pub fn value_in_first_chunk(self) -> &'t [u8] {
        // SAFETY: `R` reads values.
        unsafe { self.bytes(self.layout().value(), self.header().len()) }
    }

    /// Panics with the broken invariant if the item's bodies belong to another item or do not add up to its value.
    pub fn check_chain(self) {
        let mut len = self.header().len();
        for body in self.bodies() {
            // SAFETY: a chain links bodies, which are chunks of this memory as long as the chain exists.
            let header = unsafe { self.memory.arena.header_of(body) };
            assert_eq!(header.state().load().kind(), Kind::Body, "a chain links bodies");
            assert_eq!(header.prev(), Some(self.address), "a body links to its item");
            len += header.len();
        }
        assert_eq!(len, self.value_len(), "the parts add up to the value");
    }

    /// The value in order: one slice, or several if the item is chained.
    pub fn value(self) -> impl Iterator<Item = &'t [u8]> + use<'t, R> {
        let memory = self.memory;
        let whole = (!self.state().chained()).then(|| self.value_in_first_chunk());
        let part = move |body: ChunkAddress| {
            // SAFETY: a body is a chunk of this memory as long as the chain exists.
            let len = unsafe { memory.arena.header_of(body) }.len();
            // SAFETY: within the body, whose part of the value nobody writes for 't: `R` reads values.
            unsafe { memory.arena.read(body, HEADER_SIZE_BYTES, len) }
        };
        whole.into_iter().chain(self.bodies().map(part))
    }

    /// Pins the item and its value; `None` if it has too many pins. The pin keeps the value also after the stripe is
    /// unlocked.
    pub fn pin(self) -> Option<ValuePin> {
        // Nobody writes the value now, as `R` says, and nobody begins to while it is pinned: a writer of a value holds
        // the stripe exclusively, and has seen no pin but its own.
        self.pin_key().map(|pin| ValuePin { pin })
    }
}

impl Pin {
    /// # Safety
    ///
    /// A pin was counted in the state word of the item at `address`, for this value alone.
    pub(super) unsafe fn new(memory: &Memory, address: ChunkAddress) -> Pin {
        Pin { address, memory: memory.number }
    }

    /// The item's first chunk.
    pub fn address(&self) -> ChunkAddress {
        self.address
    }

    #[inline]
    fn check(&self, memory: &Memory) {
        assert_eq!(self.memory, memory.number, "a pin is used with its own memory");
    }

    #[inline]
    pub fn item<'p>(&'p self, memory: &'p Memory) -> Held<'p> {
        self.check(memory);
        // SAFETY: the pin keeps the chunk, and with it the constant parts.
        unsafe { Item::new(memory, self.address) }
    }
}

impl ValuePin {
    #[inline]
    pub fn item<'p>(&'p self, memory: &'p Memory) -> HeldValue<'p> {
        self.pin.check(memory);
        // SAFETY: the pin keeps the chunk, and was taken when nobody could write the value; nobody begins to.
        unsafe { Item::new(memory, self.pin.address) }
    }
}

impl From<ValuePin> for Pin {
    fn from(pin: ValuePin) -> Pin {
        pin.pin
    }
}

pub(super) fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("a word has four bytes"))
}

pub(super) fn body_address(bytes: &[u8]) -> Option<ChunkAddress> {
    let mut bits = [0; 8];
    bits[..FIRST_BODY_SIZE_BYTES].copy_from_slice(bytes);
    ChunkAddress::from_bits(u64::from_le_bytes(bits))
}

pub(super) fn body_bytes(address: Option<ChunkAddress>) -> [u8; FIRST_BODY_SIZE_BYTES] {
    let bytes = ChunkAddress::to_bits(address).to_le_bytes();
    std::array::from_fn(|at| bytes[at])
}
