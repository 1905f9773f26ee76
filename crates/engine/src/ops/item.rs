//! What a reader sees of an item: a view inside a look-up, or a pin beyond it.

use crate::layout::ChunkAddress;
use crate::mem::{Pin, ReadProof};
use crate::space::Space;
use slabwise_base::{ClassId, Cost, Expiry, Ticks};

/// An item under its stripe's lock, for as long as the closure of a get runs.
#[derive(Clone, Copy)]
pub struct ItemView<'v, 'e> {
    space: &'e Space,
    address: ChunkAddress,
    proof: ReadProof<'v>,
    last_access: Ticks,
    fetched: bool,
}

impl<'v, 'e: 'v> ItemView<'v, 'e> {
    /// A view of a linked item; `last_access` and `fetched` as they were before this look-up.
    pub fn new(
        space: &'e Space,
        address: ChunkAddress,
        proof: ReadProof<'v>,
        last_access: Ticks,
        fetched: bool,
    ) -> ItemView<'v, 'e> {
        ItemView { space, address, proof, last_access, fetched }
    }

    /// The key.
    pub fn key(&self) -> &'v [u8] {
        self.space.memory.key(self.address, self.proof)
    }

    /// Bytes of the value.
    pub fn value_len(&self) -> usize {
        self.space.memory.value_len(self.address, self.proof)
    }

    /// The client's opaque number.
    pub fn client_flags(&self) -> u32 {
        self.space.memory.client_flags(self.address, self.proof)
    }

    /// What it costs to recompute, if that is known.
    pub fn cost(&self) -> Option<Cost> {
        self.space.memory.cost(self.address, self.proof)
    }

    /// The CAS value.
    pub fn cas(&self) -> u64 {
        self.space.memory.header(self.address).cas()
    }

    /// When it ends.
    pub fn expiry(&self) -> Expiry {
        self.space.memory.expiry(self.address, self.proof)
    }

    /// When it was last accessed, this look-up aside.
    pub fn last_access(&self) -> Ticks {
        self.last_access
    }

    /// Whether it was hit before this look-up.
    pub fn fetched(&self) -> bool {
        self.fetched
    }

    /// Whether it was marked stale.
    pub fn is_stale(&self) -> bool {
        self.space.memory.header(self.address).state().load().stale()
    }

    /// Whether a client has been given the right to store it anew.
    pub fn is_claimed(&self) -> bool {
        self.space.memory.header(self.address).state().load().claimed()
    }

    /// Notes that this client may store it anew; false if another has been told so. The note lasts until
    /// the item is stored or marked stale.
    pub fn claim(&self) -> bool {
        self.space.memory.header(self.address).state().claim()
    }

    /// Bytes that the item takes, as the stats count them.
    pub fn size_bytes(&self) -> u64 {
        self.space.memory.counted_size_of(self.address, self.proof)
    }

    /// The class it is shown in; a chained item's is the last of the table.
    pub fn class(&self) -> ClassId {
        self.space.shown_class(self.address)
    }

    /// The value, in order, in one slice, or in several if it is chained.
    pub fn value(&self) -> impl Iterator<Item = &'v [u8]> + use<'v, 'e> {
        parts(self.space, self.address, self.proof)
    }

    /// Appends the value to `out`.
    #[inline(always)]
    pub fn copy_value(&self, out: &mut Vec<u8>) {
        let memory = &self.space.memory;
        if memory.header(self.address).state().load().chained() {
            self.value().for_each(|part| out.extend_from_slice(part));
        } else {
            out.extend_from_slice(memory.value_part(self.address, self.proof));
        }
    }

    /// Keeps the item's bytes alive and unchanged beyond this look-up. `None` when too many hold it.
    pub fn pin(&self) -> Option<Pinned<'e>> {
        Pinned::new(self.space, self.address)
    }
}

/// An item that stays as it is until this is dropped, whatever happens to its key.
#[must_use = "a pin keeps its item's memory until it is dropped"]
pub struct Pinned<'e> {
    space: &'e Space,
    /// `None` only while this is dropped.
    pin: Option<Pin>,
}

impl<'e> Pinned<'e> {
    /// Pins a linked item; `None` when too many hold it.
    pub fn new(space: &'e Space, address: ChunkAddress) -> Option<Pinned<'e>> {
        let pin = space.memory.arena.try_pin(address)?;
        Some(Pinned { space, pin: Some(pin) })
    }
}

impl Pinned<'_> {
    /// The item's key.
    pub fn key(&self) -> &[u8] {
        let pin = self.pin();
        self.space.memory.key(pin.address(), ReadProof::under_pin(pin))
    }

    /// The value, in order, in one slice, or in several if it is chained.
    pub fn value(&self) -> impl Iterator<Item = &[u8]> {
        let pin = self.pin();
        parts(self.space, pin.address(), ReadProof::under_pin(pin))
    }

    /// Bytes of the value.
    pub fn value_len(&self) -> usize {
        let pin = self.pin();
        self.space.memory.value_len(pin.address(), ReadProof::under_pin(pin))
    }

    fn pin(&self) -> &Pin {
        self.pin.as_ref().expect("held until dropped")
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        if let Some(pin) = self.pin.take() {
            self.space.unpin(pin);
        }
    }
}

/// The parts of a value in order: the first chunk's, then those of the bodies.
pub fn parts<'v, 'e: 'v>(
    space: &'e Space,
    address: ChunkAddress,
    proof: ReadProof<'v>,
) -> impl Iterator<Item = &'v [u8]> + use<'v, 'e> {
    let memory = &space.memory;
    let first = memory.first_body(address, proof);
    let head = first.is_none().then_some(address);
    let bodies = std::iter::successors(first, |&body| memory.header(body).next());
    head.into_iter().chain(bodies).map(move |chunk| memory.value_part(chunk, proof))
}
