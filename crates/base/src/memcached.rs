//! memcached's constants (`memcached.h`, `slabs.c` of 1.6): what its options, its classes and its size limits show.

/// Bytes of a page.
pub const PAGE_SIZE_BYTES: usize = 1 << 20;
/// The largest chunk by default (`-o slab_chunk_max`): larger items are chained.
pub const CHUNK_SIZE_BYTES_MAX: usize = PAGE_SIZE_BYTES / 2;
/// Every chunk size is a multiple of this.
pub const CHUNK_ALIGN_BYTES: usize = 8;
/// The ratio of neighbouring chunk sizes by default (`-f`).
pub const GROWTH_FACTOR: f64 = 1.25;
/// The room of the smallest chunk behind its header by default (`-n`).
pub const ITEM_ROOM_BYTES_MIN: usize = 48;

/// Bytes of an item's header (`item`).
pub const HEADER_SIZE_BYTES: usize = 48;
/// Bytes of an item's CAS value.
pub const CAS_SIZE_BYTES: usize = 8;
/// The zero byte behind a key and the line end behind a value.
pub const ENDS_SIZE_BYTES: usize = 1 + 2;
/// Bytes of the header of one chunk in a chain (`item_chunk`).
pub const CHAIN_HEADER_SIZE_BYTES: usize = 48;

/// Bytes of an item beside its value, without client flags.
#[inline]
pub const fn beside_value_bytes(key_len: usize) -> usize {
    HEADER_SIZE_BYTES + CAS_SIZE_BYTES + key_len + ENDS_SIZE_BYTES
}
