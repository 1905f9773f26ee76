//! Who may touch a chunk's bytes: rights as values, so that the type checker follows them.
//!
//! ```text
//!   free list --claim--> OwnedChunk --publish--> linked item <--try_pin, detach-- Pin
//!                            ^                        |                            |
//!                            '------ LAST-HOLDER -----+-------- unlink, unpin -----'
//!
//!   &StripeGuard, &ClassState, &Pin, &OwnedChunk --> ReadProof             (reads)
//!   &StripeGuard and no pin but the caller's     --> ValueRight            (writes value, chain)
//!   &StripeGuard and &ClassState                 --> MetaRight           (writes expiry and rank)
//! ```
//!
//! A right is made only from the guard that gives it, or by the step of the state word that ends all
//! others' rights. What the types do not say is *which* stripe, class or item a guard is of: that is the
//! caller's law, and loom's models check it.
//!
//! None of the values costs anything at run time: they are empty, or an address.

use super::arena::Arena;
use super::state::{Kind, QueueKind, State};
use super::table::{StripeGuard, Table};
use crate::layout::ChunkAddress;
use slabwise_base::PageId;
use slabwise_base::sync::MutexGuard;
use std::marker::PhantomData;

/// The sole right to a chunk's bytes, from its allocation until it is published or freed.
#[must_use = "an owned chunk must be published or freed, or it is lost"]
#[derive(Debug, PartialEq, Eq)]
pub struct OwnedChunk {
    address: ChunkAddress,
}

/// A hold on an item, counted in its state word: the chunk is not freed, and its key stays readable. Taken
/// under the stripe it keeps the other bytes still, too.
#[must_use = "a pin must be dropped by Arena::unpin, or its item is never freed"]
#[derive(Debug, PartialEq, Eq)]
pub struct Pin {
    address: ChunkAddress,
}

/// Shows that, for `'g`, nobody writes the bytes that are about to be read.
#[derive(Clone, Copy)]
pub struct ReadProof<'g>(PhantomData<&'g ()>);

/// The right to write a published item's value and chain, for `'g`: nobody else reads them.
pub struct ValueRight<'g> {
    address: ChunkAddress,
    stripe: PhantomData<&'g ()>,
}

/// The right to write a published item's expiry or rank, for `'g`: they are read under its stripe or its class.
pub struct MetaRight<'g> {
    address: ChunkAddress,
    locks: PhantomData<&'g ()>,
}

/// A page that belongs to no class and that the pool has parted with: nothing on it is in use.
#[must_use = "a page taken from the pool must be given back"]
#[derive(Debug)]
pub struct UnusedPage {
    page: PageId,
}

/// What a class's lock protects: it can be reached only while the lock is held.
pub trait LockedClass {}

impl<T: LockedClass> LockedClass for MutexGuard<'_, T> {}

/// The arena's owner, which nobody else has: no thread serves, so every chunk stands still.
pub struct AtRest<'e, E> {
    owner: &'e E,
}

impl<'e, E> AtRest<'e, E> {
    /// The owner is the caller's alone for as long as this lives.
    pub fn of(owner: &'e mut E) -> AtRest<'e, E> {
        AtRest { owner }
    }

    /// That owner.
    pub fn owner(&self) -> &'e E {
        self.owner
    }

    /// Nobody writes.
    pub fn proof(&self) -> ReadProof<'e> {
        ReadProof(PhantomData)
    }

    /// Takes the pins off a linked item: who held them is gone.
    pub fn forget_pins(&self, arena: &Arena, address: ChunkAddress) {
        let word = arena.header(address).state();
        word.store(word.load().unpinned());
    }
}

impl<'g> ReadProof<'g> {
    /// The stripe of the item's key is locked.
    pub fn under_stripe(_stripe: &'g StripeGuard<'_>) -> ReadProof<'g> {
        ReadProof(PhantomData)
    }

    /// The same while the stripe's table changes: the lock is held as long as either is used.
    pub fn with_table(stripe: &'g mut StripeGuard<'_>) -> (&'g mut Table, ReadProof<'g>) {
        (stripe, ReadProof(PhantomData))
    }

    /// The class whose queue holds the item is locked (what its lock protects is reached in no other way): key and
    /// expiry stand still.
    pub fn under_class(_class: &'g impl LockedClass) -> ReadProof<'g> {
        ReadProof(PhantomData)
    }

    /// The class whose queues these are is locked (they are reached in no other way), as for
    /// [`ReadProof::under_class`].
    pub fn under_queues(_queues: &'g impl LockedClass) -> ReadProof<'g> {
        ReadProof(PhantomData)
    }

    /// A pin keeps the item; see [`Pin`] for what stands still.
    pub fn under_pin(_pin: &'g Pin) -> ReadProof<'g> {
        ReadProof(PhantomData)
    }

    /// The chunk, or the head of its chain, is the caller's alone.
    pub fn owned(_chunk: &'g OwnedChunk) -> ReadProof<'g> {
        ReadProof(PhantomData)
    }
}

impl OwnedChunk {
    /// The chunk that just left a free list of its page, or is its next fresh one (OWNED-ALONE). Only the
    /// class's lock lets anybody take it there.
    pub fn claim(address: ChunkAddress, _class: &mut impl LockedClass) -> OwnedChunk {
        OwnedChunk { address }
    }

    /// Where it is.
    pub fn address(&self) -> ChunkAddress {
        self.address
    }

    /// Ends the ownership: the chunk is a body of an item, or on its way to a free list.
    pub fn surrender(self) -> ChunkAddress {
        self.address
    }
}

impl Pin {
    /// The item's chunk.
    pub fn address(&self) -> ChunkAddress {
        self.address
    }
}

impl<'g> MetaRight<'g> {
    /// The stripe and the class of the item at `address` are locked.
    pub fn under_both(
        address: ChunkAddress,
        _stripe: &'g StripeGuard<'_>,
        _class: &'g impl LockedClass,
    ) -> MetaRight<'g> {
        MetaRight { address, locks: PhantomData }
    }

    /// The item's chunk.
    pub fn address(&self) -> ChunkAddress {
        self.address
    }
}

impl ValueRight<'_> {
    /// The item's chunk.
    pub fn address(&self) -> ChunkAddress {
        self.address
    }
}

impl UnusedPage {
    /// The page that the pool has just taken off its list of free pages.
    pub fn taken_from_pool(page: PageId) -> UnusedPage {
        UnusedPage { page }
    }

    /// Which page it is.
    pub fn id(&self) -> PageId {
        self.page
    }
}

/// The steps of the state word that make and end rights.
impl Arena {
    /// Says what an owned chunk holds.
    #[inline]
    pub fn set_state(&self, chunk: &mut OwnedChunk, state: State) {
        self.header(chunk.address).state().store(state);
    }

    /// Says how many bytes of value an owned chunk holds; below 16 MiB.
    pub fn set_len(&self, chunk: &mut OwnedChunk, len: usize) {
        self.header(chunk.address).set_len(len);
    }

    /// Publishes an item in a queue of its class, which is locked.
    #[inline]
    pub fn publish(&self, chunk: OwnedChunk, queue: QueueKind) -> ChunkAddress {
        self.header(chunk.address).state().publish(queue);
        chunk.address
    }

    /// Pins a linked item. `None`: it is not linked any more, or too many pin it.
    pub fn try_pin(&self, address: ChunkAddress) -> Option<Pin> {
        let pinned = self.header(address).state().try_pin();
        pinned.then_some(Pin { address })
    }

    /// Pins a queued item and notes that it left its queue, in one step. Its class is locked.
    pub fn detach(&self, address: ChunkAddress) -> Pin {
        self.header(address).state().detach();
        Pin { address }
    }

    /// Drops a pin. `Some`: it was the last on an unlinked item, so the caller owns the chunk (LAST-HOLDER).
    pub fn unpin(&self, pin: Pin) -> Option<OwnedChunk> {
        let last = self.header(pin.address).state().unpin();
        last.then_some(OwnedChunk { address: pin.address })
    }

    /// Takes an item's link away; its stripe is locked, and its entry leads elsewhere or is gone. `Some`:
    /// nobody pins it, so the caller owns the chunk (LAST-HOLDER).
    #[inline]
    pub fn unlink(&self, address: ChunkAddress) -> Option<OwnedChunk> {
        let last = self.header(address).state().unlink();
        last.then_some(OwnedChunk { address })
    }

    /// The right to write an item in place: its stripe is locked, and nobody pins it beside the caller with
    /// `own_pins` pins. `None`: somebody does. Who pins it later does so without the stripe, and reads
    /// only the key.
    pub fn value_right<'g>(
        &self,
        address: ChunkAddress,
        own_pins: u32,
        _stripe: &'g StripeGuard<'_>,
    ) -> Option<ValueRight<'g>> {
        let alone = self.header(address).state().load().pins() == own_pins;
        alone.then_some(ValueRight { address, stripe: PhantomData })
    }

    /// The body of an owned chained item, as a chunk of its own. Each body is claimed once.
    pub fn claim_body(&self, body: ChunkAddress, head: &OwnedChunk) -> OwnedChunk {
        self.claim_body_of(body, head.address)
    }

    /// The same of a published item whose chain leads past the body by now.
    pub fn claim_bypassed(&self, body: ChunkAddress, head: &ValueRight<'_>) -> OwnedChunk {
        self.claim_body_of(body, head.address)
    }

    fn claim_body_of(&self, body: ChunkAddress, head: ChunkAddress) -> OwnedChunk {
        let header = self.header(body);
        assert_eq!(header.state().load().kind(), Kind::Body, "what a chain leads to is a body");
        assert_eq!(header.prev(), Some(head), "a body belongs to its head");
        // No body any more: a second claim is noticed.
        header.state().store(State::IN_HAND);
        OwnedChunk { address: body }
    }
}
