//! Where a chunk is: its distance from the arena's start, in units of 8 bytes.
//!
//! Packed in one place: 40 bits here, in queue links and in index entries. A page's number is the
//! upper part of the distance, so page and position both follow from it by a shift.

use std::num::NonZeroU64;

/// Bits of an address, its zero ("nothing") included.
pub const ADDRESS_BITS: u32 = 40;

/// Bytes an address unit. Chunk sizes are multiples of it, so that a chunk's header words are aligned.
pub const CHUNK_ALIGN_BYTES: usize = 8;

const _: () = {
    let addressable_bytes = ((1u64 << ADDRESS_BITS) - 1) * CHUNK_ALIGN_BYTES as u64;
    assert!(addressable_bytes >= 1 << 40, "at least 1 TiB must be addressable");
};

/// The place of a chunk in the arena. `Option<ChunkAddress>` takes no more room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkAddress(NonZeroU64);

impl ChunkAddress {
    /// The chunk that starts `offset` bytes into the arena.
    pub fn from_offset(offset: usize) -> ChunkAddress {
        debug_assert!(offset.is_multiple_of(CHUNK_ALIGN_BYTES), "chunks are aligned");
        let unit = (offset / CHUNK_ALIGN_BYTES) as u64 + 1;
        assert!(unit >> ADDRESS_BITS == 0, "offset {offset} lies beyond the address width");
        ChunkAddress(NonZeroU64::MIN.saturating_add(unit - 1))
    }

    /// Bytes from the arena's start.
    pub fn offset(self) -> usize {
        (self.0.get() - 1) as usize * CHUNK_ALIGN_BYTES
    }

    /// The 40 bits to store; 0 stands for no chunk.
    pub fn to_bits(address: Option<ChunkAddress>) -> u64 {
        address.map_or(0, |address| address.0.get())
    }

    /// The inverse of [`ChunkAddress::to_bits`].
    pub fn from_bits(bits: u64) -> Option<ChunkAddress> {
        NonZeroU64::new(bits).map(ChunkAddress)
    }
}

#[cfg(test)]
mod tests {
    use super::{ADDRESS_BITS, CHUNK_ALIGN_BYTES, ChunkAddress};

    #[test]
    fn addresses_round_trip_to_the_last() {
        let last = ((1usize << ADDRESS_BITS) - 2) * CHUNK_ALIGN_BYTES;
        for offset in [0, 8, 1 << 20, last] {
            let address = ChunkAddress::from_offset(offset);
            assert_eq!(address.offset(), offset);
            assert_eq!(
                ChunkAddress::from_bits(ChunkAddress::to_bits(Some(address))),
                Some(address)
            );
        }
        assert_eq!(ChunkAddress::from_bits(0), None);
    }
}
