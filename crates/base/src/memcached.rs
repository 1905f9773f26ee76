//! Constants of memcached 1.6 (`memcached.h`, `slabs.c`): the defaults of its options and the layout of its items.

/// The size of a slab page.
pub const PAGE_SIZE_BYTES: usize = 1 << 20;
/// The default size of the largest chunk (`-o slab_chunk_max`). memcached stores a larger item in several chunks.
pub const CHUNK_SIZE_BYTES_MAX: usize = PAGE_SIZE_BYTES / 2;
/// Every chunk size is a multiple of this number.
pub const CHUNK_ALIGN_BYTES: usize = 8;
/// The default ratio of a class's chunk size to that of the next smaller class (`-f`).
pub const GROWTH_FACTOR: f64 = 1.25;
/// The default of `-n`: the bytes of the smallest chunk that remain after the item's header.
pub const ITEM_ROOM_BYTES_MIN: usize = 48;

/// The size of an item's header (the C type `item`).
pub const HEADER_SIZE_BYTES: usize = 48;
/// The size of the CAS value, which follows the header.
pub const CAS_SIZE_BYTES: usize = 8;
/// The sum of the sizes of the zero byte after the key (1) and of the line end after the value (2).
pub const ENDS_SIZE_BYTES: usize = 1 + 2;
/// The size of the header of each chunk of a chunked item (the C type `item_chunk`).
pub const CHAIN_HEADER_SIZE_BYTES: usize = 48;

/// Returns the bytes that an item without client flags occupies in addition to its value: the header, the CAS value,
/// the key, and the bytes after key and value.
#[inline]
pub const fn beside_value_bytes(key_len: usize) -> usize {
    HEADER_SIZE_BYTES + CAS_SIZE_BYTES + key_len + ENDS_SIZE_BYTES
}
