//! What a reader sees of an item: a view inside a look-up, or a pin beyond it.

use crate::engine::Engine;
use crate::mem::{ChunkAddress, ReadProof};
use slabwise_base::{ClassId, Expiry, Ticks};

/// An item under its stripe's lock, for as long as the closure of a get runs.
#[derive(Clone, Copy)]
pub struct ItemView<'v, 'e> {
    engine: &'e Engine,
    address: ChunkAddress,
    proof: ReadProof<'v>,
    last_access: Ticks,
    fetched: bool,
}

impl<'v, 'e: 'v> ItemView<'v, 'e> {
    /// A view of a linked item; `last_access` and `fetched` as they were before this look-up.
    pub(crate) fn new(
        engine: &'e Engine,
        address: ChunkAddress,
        proof: ReadProof<'v>,
        last_access: Ticks,
        fetched: bool,
    ) -> ItemView<'v, 'e> {
        ItemView { engine, address, proof, last_access, fetched }
    }

    /// The key.
    pub fn key(&self) -> &'v [u8] {
        self.engine.memory.key(self.address, self.proof)
    }

    /// Bytes of the value.
    pub fn value_len(&self) -> usize {
        self.engine.memory.value_len(self.address, self.proof)
    }

    /// The client's opaque number.
    pub fn client_flags(&self) -> u32 {
        self.engine.memory.client_flags(self.address, self.proof)
    }

    /// The CAS value.
    pub fn cas(&self) -> u64 {
        self.engine.memory.header(self.address).cas()
    }

    /// When it ends.
    pub fn expiry(&self) -> Expiry {
        self.engine.memory.expiry(self.address, self.proof)
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
        self.engine.memory.header(self.address).state().load().stale()
    }

    /// Whether a client has been given the right to store it anew.
    pub fn is_claimed(&self) -> bool {
        self.engine.memory.header(self.address).state().load().claimed()
    }

    /// Notes that this client may store it anew; false if another has been told so. The note lasts until
    /// the item is stored or marked stale.
    pub fn claim(&self) -> bool {
        self.engine.memory.header(self.address).state().claim()
    }

    /// Bytes that the item takes, as the stats count them.
    pub fn size_bytes(&self) -> u64 {
        self.engine.memory.counted_size_of(self.address, self.proof)
    }

    /// The class it is in.
    pub fn class(&self) -> ClassId {
        self.engine.queue_class(self.address)
    }

    /// The value, in order, in one slice, or in several if it is chained.
    pub fn value(&self) -> impl Iterator<Item = &'v [u8]> + use<'v, 'e> {
        parts(self.engine, self.address, self.proof)
    }

    /// Appends the value to `out`.
    #[inline]
    pub fn copy_value(&self, out: &mut Vec<u8>) {
        for part in self.value() {
            out.extend_from_slice(part);
        }
    }

    /// Keeps the item's bytes alive and unchanged beyond this look-up. `None` when too many hold it.
    pub fn pin(&self) -> Option<Pinned<'e>> {
        Pinned::new(self.engine, self.address)
    }
}

/// An item that stays as it is until this is dropped, whatever happens to its key.
#[must_use = "a pin keeps its item's memory until it is dropped"]
pub struct Pinned<'e> {
    engine: &'e Engine,
    address: ChunkAddress,
}

impl<'e> Pinned<'e> {
    /// Pins a linked item; `None` when too many hold it.
    pub(crate) fn new(engine: &'e Engine, address: ChunkAddress) -> Option<Pinned<'e>> {
        let pinned = engine.memory.header(address).state().try_pin();
        // Lazily: a `Pinned` that was never earned must not be made, for its drop would unpin.
        pinned.then(|| Pinned { engine, address })
    }
}

impl Pinned<'_> {
    /// The item's key.
    pub fn key(&self) -> &[u8] {
        self.engine.memory.key(self.address, ReadProof::under_pin(self))
    }

    /// The value, in order, in one slice, or in several if it is chained.
    pub fn value(&self) -> impl Iterator<Item = &[u8]> {
        parts(self.engine, self.address, ReadProof::under_pin(self))
    }

    /// Bytes of the value.
    pub fn value_len(&self) -> usize {
        self.engine.memory.value_len(self.address, ReadProof::under_pin(self))
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        self.engine.unpin(self.address);
    }
}

/// The parts of a value in order: the first chunk's, then those of the bodies.
pub(crate) fn parts<'v, 'e: 'v>(
    engine: &'e Engine,
    address: ChunkAddress,
    proof: ReadProof<'v>,
) -> impl Iterator<Item = &'v [u8]> + use<'v, 'e> {
    let memory = &engine.memory;
    let first = memory.first_body(address, proof);
    let head = first.is_none().then_some(address);
    let bodies = std::iter::successors(first, |&body| memory.header(body).next());
    head.into_iter().chain(bodies).map(move |chunk| memory.value_part(chunk, proof))
}
