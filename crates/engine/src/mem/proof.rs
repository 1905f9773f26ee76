//! Who may touch a chunk's bytes: rights as values, so that the type checker follows them.

use super::address::ChunkAddress;
use std::marker::PhantomData;

/// The sole right to a chunk's bytes, from its allocation until it is published or freed.
#[must_use = "an owned chunk must be published or freed, or it is lost"]
#[derive(Debug, PartialEq, Eq)]
pub struct OwnedChunk {
    address: ChunkAddress,
}

/// Shows that, for `'g`, nobody writes the bytes that are about to be read.
#[derive(Clone, Copy)]
pub struct ReadProof<'g>(PhantomData<&'g ()>);

impl<'g> ReadProof<'g> {
    /// The stripe of the item's key is locked by `_guard`.
    pub fn under_stripe<T>(_guard: &'g T) -> ReadProof<'g> {
        ReadProof(PhantomData)
    }

    /// The class whose queue holds the item is locked by `_guard`: its key and expiry stand still.
    pub fn under_class<T>(_guard: &'g T) -> ReadProof<'g> {
        ReadProof(PhantomData)
    }

    /// `_pin` keeps the item: taken under the stripe it keeps all bytes still, else only the key's.
    pub fn under_pin<T>(_pin: &'g T) -> ReadProof<'g> {
        ReadProof(PhantomData)
    }
}

impl OwnedChunk {
    /// The chunk that just left a free list, or whose last holder the caller is (OWNED-ALONE).
    pub fn claim(address: ChunkAddress) -> OwnedChunk {
        OwnedChunk { address }
    }

    /// Where it is.
    pub fn address(&self) -> ChunkAddress {
        self.address
    }

    /// Ends the ownership: the chunk is published, or on its way to a free list.
    pub fn surrender(self) -> ChunkAddress {
        self.address
    }
}
