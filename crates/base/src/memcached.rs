//! Constants of memcached 1.6 (`memcached.h`, `slabs.c`): the defaults of its options and the layout of its items.

/// The size of a page.
pub const PAGE_SIZE_BYTES: usize = 1 << 20;
/// The largest chunk by default (`-o slab_chunk_max`): larger items are chained.
pub const CHUNK_SIZE_BYTES_MAX: usize = PAGE_SIZE_BYTES / 2;
/// The alignment of chunk sizes.
pub const CHUNK_ALIGN_BYTES: usize = 8;
/// The ratio of neighbouring chunk sizes by default (`-f`).
pub const GROWTH_FACTOR: f64 = 1.25;
/// The bytes of the smallest chunk after its header by default (`-n`).
pub const ITEM_ROOM_BYTES_MIN: usize = 48;

/// The size of an item's header (`item`).
pub const HEADER_SIZE_BYTES: usize = 48;
/// The size of an item's CAS value.
pub const CAS_SIZE_BYTES: usize = 8;
/// The size of the zero byte after a key and the line end after a value.
pub const ENDS_SIZE_BYTES: usize = 1 + 2;
/// The size of the header of one chunk of a chunked item (`item_chunk`).
pub const CHAIN_HEADER_SIZE_BYTES: usize = 48;

/// Returns the bytes of an item other than its value, without client flags.
#[inline]
pub const fn beside_value_bytes(key_len: usize) -> usize {
    HEADER_SIZE_BYTES + CAS_SIZE_BYTES + key_len + ENDS_SIZE_BYTES
}
