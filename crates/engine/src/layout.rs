//! The layout of bytes: addresses of chunks, offsets of the parts of an item, and tables of chunk sizes. The functions
//! of this module compute numbers. They do not access the arena.
//!
//! A chunk address has 40 bits. It is the offset from the arena's start in units of 8 bytes, plus one.
//!
//! An item begins with the header of its chunk. After the header follow these parts, with their sizes in bytes:
//!
//! ```text
//! [client flags 4] [expiry 4] [cost 2] [rank 4] [length of the whole value 4, address of the first body 5] key value
//!  each only if the item stores this field       only if the item is chained
//! ```
//!
//! The offsets of the parts depend only on the length of the key, on the fields that the item stores, and on whether
//! the item is chained. The value of a chained item is not in this chunk but in the item's bodies.
//!
//! Invariants of a class table: The chunk sizes ascend strictly. Every chunk size is a multiple of 8. The smallest
//! chunk has room for a header and one byte of a key. The largest chunk is at most a page. There are at most
//! [`ClassId::COUNT_MAX`] classes. In the table of a new engine, the class numbers ascend with the chunk sizes. After a
//! change of the table (`space/change.rs`) the class numbers may be in any order.

use slabwise_base::memcached::beside_value_bytes;
use slabwise_base::{ClassId, Cost, Expiry};
use std::num::NonZeroU64;

/// The number of bits of a stored chunk address. The value 0 means no chunk.
pub const ADDRESS_BITS: u32 = 40;

/// The alignment of chunks and the unit of chunk addresses. It aligns the words in the header of a chunk.
pub const CHUNK_ALIGN_BYTES: usize = 8;

const _: () = {
    let addressable_bytes = ((1u64 << ADDRESS_BITS) - 1) * CHUNK_ALIGN_BYTES as u64;
    assert!(addressable_bytes >= 1 << 40, "chunk addresses cover at least 1 TiB");
};

/// The address of a chunk: the position of its first byte in the arena. `Option<ChunkAddress>` has the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkAddress(NonZeroU64);

impl ChunkAddress {
    /// Returns the address of the chunk that starts `offset` bytes after the arena's start.
    pub fn from_offset(offset: usize) -> ChunkAddress {
        debug_assert!(offset.is_multiple_of(CHUNK_ALIGN_BYTES), "the offset of a chunk is aligned");
        let bits = (offset / CHUNK_ALIGN_BYTES) as u64 + 1;
        assert!(
            bits >> ADDRESS_BITS == 0,
            "the chunk address of offset {offset} has more than {ADDRESS_BITS} bits"
        );
        ChunkAddress(NonZeroU64::MIN.saturating_add(bits - 1))
    }

    /// Returns the offset of the chunk from the arena's start, in bytes.
    pub fn offset(self) -> usize {
        (self.0.get() - 1) as usize * CHUNK_ALIGN_BYTES
    }

    /// Returns the 40 bits that represent an address, or 0 for `None`.
    pub fn to_bits(address: Option<ChunkAddress>) -> u64 {
        address.map_or(0, |address| address.0.get())
    }

    /// Returns the address that these bits represent, or `None` for 0. It is the inverse of [`ChunkAddress::to_bits`].
    pub fn from_bits(bits: u64) -> Option<ChunkAddress> {
        NonZeroU64::new(bits).map(ChunkAddress)
    }
}

/// The size of the header of a chunk.
pub const HEADER_SIZE_BYTES: usize = 30;

/// The size of the chain field, which only chained items have: 4 bytes for the length of the whole value, and 5 bytes
/// for the address of the first body.
pub const CHAIN_SIZE_BYTES: usize = 9;

/// The size of a stored cost.
pub const COST_SIZE_BYTES: usize = 2;

/// The client-supplied properties of an item other than key and value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemMeta {
    /// A number that the client stores with the item and that gets return with the value.
    pub client_flags: u32,
    /// The time at which the item expires.
    pub expiry: Expiry,
    /// The cost of recomputing the item's value, or `None` if the cost is unknown.
    pub cost: Option<Cost>,
}

/// The optional fields of an item. Each is true if the item stores the field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemFields {
    /// The client flags. They are 0 in an item without this field.
    pub flags: bool,
    /// The expiry. An item without this field never expires.
    pub expiry: bool,
    /// The cost. It is unknown in an item without this field.
    pub cost: bool,
    /// The rank. Items store it only if the eviction kind ranks them.
    pub rank: bool,
}

/// The offsets of the parts of an item, in bytes from the chunk's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemLayout {
    fields: ItemFields,
    chained: bool,
    key_len: usize,
}

impl ItemLayout {
    #[inline(always)]
    pub fn new(key_len: usize, fields: ItemFields, chained: bool) -> ItemLayout {
        ItemLayout { fields, chained, key_len }
    }

    /// Returns the offset of the expiry, for an item that stores it.
    #[inline(always)]
    pub fn expiry(self) -> usize {
        HEADER_SIZE_BYTES + if self.fields.flags { 4 } else { 0 }
    }

    /// Returns the offset of the cost, for an item that stores it.
    #[inline(always)]
    pub fn cost(self) -> usize {
        self.expiry() + if self.fields.expiry { 4 } else { 0 }
    }

    /// Returns the offset of the rank, for an item that stores it.
    #[inline(always)]
    pub fn rank(self) -> usize {
        self.cost() + if self.fields.cost { COST_SIZE_BYTES } else { 0 }
    }

    /// Returns the offset of the chain field. Only chained items have this field.
    #[inline(always)]
    pub fn chain(self) -> usize {
        self.rank() + if self.fields.rank { 4 } else { 0 }
    }

    /// Returns the offset of the key.
    #[inline(always)]
    pub fn key(self) -> usize {
        self.chain() + if self.chained { CHAIN_SIZE_BYTES } else { 0 }
    }

    /// Returns the offset of the value. It is also the size of the item without its value.
    #[inline(always)]
    pub fn value(self) -> usize {
        self.key() + self.key_len
    }
}

/// Returns the number of bytes that a chained item needs in its first chunk: all its parts except the value.
pub fn chain_head_size_bytes(key_len: usize, fields: ItemFields) -> usize {
    ItemLayout::new(key_len, fields, true).value()
}

/// The rule that counts the size of an item for the choice of its class, the size limit and the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeModel {
    /// The size of an item is the number of bytes of its header, its stored fields, its key and its value.
    Exact,
    /// The size of an item is the number of bytes that memcached stores for it: a header of 48 bytes, 8 bytes for the
    /// CAS value, the key and a zero byte, 4 bytes for the client flags unless they are 0, and the value and its line
    /// end. This number is at least that of `Exact`, so every item fits into a chunk of its class.
    Memcached,
}

impl SizeModel {
    /// Returns the size of an item in bytes by this rule.
    #[inline]
    pub fn counted_size_bytes(self, key_len: usize, value_len: usize, fields: ItemFields) -> usize {
        let exact = ItemLayout::new(key_len, fields, false).value() + value_len;
        match self {
            SizeModel::Exact => exact,
            SizeModel::Memcached => {
                let flags = if fields.flags { 4 } else { 0 };
                let memcached = beside_value_bytes(key_len) + flags + value_len;
                debug_assert!(
                    memcached >= exact,
                    "memcached stores at least as many bytes for an item as slabwise"
                );
                memcached
            }
        }
    }
}

/// The size of the smallest chunk: a header and a short key.
pub const CHUNK_SIZE_BYTES_MIN: usize = (HEADER_SIZE_BYTES + 1).next_multiple_of(CHUNK_ALIGN_BYTES);

/// The growth factor of slabwise's default class table: the ratio of the chunk sizes of successive classes.
pub const GROWTH_FACTOR_DEFAULT: f64 = 1.12;

/// The class whose queues hold the chained items. It is in no class table and owns no pages.
pub const CHAINED: ClassId = ClassId(ClassId::NUMBERS as u8);

/// The number of class numbers that a class table may use.
pub const TABLE_NUMBERS: usize = if cfg!(loom) { 4 } else { ClassId::NUMBERS };

/// The number of class numbers, that of [`CHAINED`] included.
pub const CLASS_NUMBERS: usize = ClassId::NUMBERS + 1;

/// A class table: the classes and their chunk sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassTable {
    /// The chunk size of each class in bytes, ascending.
    sizes: Vec<u32>,
    /// The class for each entry of `sizes`.
    ids: Vec<ClassId>,
}

/// The reason why a class table is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClassTableError {
    /// The list of chunk sizes is empty.
    #[error("a class table needs at least one chunk size")]
    Empty,
    /// The list has more than [`ClassId::COUNT_MAX`] chunk sizes.
    #[error("{count} chunk sizes are too many: give at most {}", ClassId::COUNT_MAX)]
    TooMany {
        /// The number of chunk sizes in the list.
        count: usize,
    },
    /// A chunk size is not above the chunk size before it in the list, after both were rounded up to a multiple of
    /// [`CHUNK_ALIGN_BYTES`].
    #[error(
        "chunk size {size_bytes} is not at least {CHUNK_ALIGN_BYTES} bytes above the one before it: give sizes in \
         ascending order"
    )]
    NotAscending {
        /// The rejected chunk size.
        size_bytes: usize,
    },
    /// A chunk size is below [`CHUNK_SIZE_BYTES_MIN`].
    #[error("chunk size {size_bytes} is too small: give at least {CHUNK_SIZE_BYTES_MIN} bytes")]
    TooSmall {
        /// The rejected chunk size.
        size_bytes: usize,
    },
    /// A chunk size is above the page size.
    #[error(
        "chunk size {size_bytes} is above the page size, {page_size_bytes} bytes: give a smaller size or a larger \
         page_size"
    )]
    TooLarge {
        /// The rejected chunk size.
        size_bytes: usize,
        /// The page size of the cache.
        page_size_bytes: usize,
    },
}

impl ClassTable {
    /// Returns a table with one class for each of these chunk sizes. Each size is rounded up to a multiple of
    /// [`CHUNK_ALIGN_BYTES`]. Fails if the table breaks an invariant of class tables.
    pub fn explicit(
        sizes: &[usize],
        page_size_bytes: usize,
    ) -> Result<ClassTable, ClassTableError> {
        if sizes.is_empty() {
            return Err(ClassTableError::Empty);
        }
        if sizes.len() > ClassId::COUNT_MAX {
            return Err(ClassTableError::TooMany { count: sizes.len() });
        }
        let mut table: Vec<u32> = Vec::with_capacity(sizes.len());
        for &size_bytes in sizes {
            if size_bytes > page_size_bytes {
                return Err(ClassTableError::TooLarge { size_bytes, page_size_bytes });
            }
            let rounded = size_bytes.next_multiple_of(CHUNK_ALIGN_BYTES);
            if rounded < CHUNK_SIZE_BYTES_MIN {
                return Err(ClassTableError::TooSmall { size_bytes });
            }
            if table.last().is_some_and(|&last| rounded <= last as usize) {
                return Err(ClassTableError::NotAscending { size_bytes });
            }
            table.push(rounded as u32);
        }
        Ok(ClassTable::numbered(table))
    }

    /// Returns a table whose class numbers ascend with the chunk sizes.
    fn numbered(sizes: Vec<u32>) -> ClassTable {
        let ids = (0..sizes.len() as u8).map(ClassId).collect();
        ClassTable { sizes, ids }
    }

    /// Returns a table with the same chunk sizes and these class numbers, in the order of the chunk sizes. The class
    /// numbers must differ from each other.
    pub(crate) fn renumbered(self, ids: Vec<ClassId>) -> ClassTable {
        assert_eq!(ids.len(), self.sizes.len(), "there is one class number for each chunk size");
        ClassTable { sizes: self.sizes, ids }
    }

    /// Returns a geometric table like memcached's. The first chunk size is `first_bytes`, but at least
    /// [`CHUNK_SIZE_BYTES_MIN`]. Each further size is `factor` times the size before it. The last size is
    /// `chunk_size_bytes_max`, rounded down to a multiple of [`CHUNK_ALIGN_BYTES`]; the other sizes are rounded up. If
    /// these are more than [`ClassId::COUNT_MAX`] sizes, the table lacks the largest, except the last.
    pub fn geometric(first_bytes: usize, factor: f64, chunk_size_bytes_max: usize) -> ClassTable {
        assert!(factor > 1.0, "the growth factor is above 1, unlike {factor}");
        let last = chunk_size_bytes_max / CHUNK_ALIGN_BYTES * CHUNK_ALIGN_BYTES;
        assert!(
            last >= CHUNK_SIZE_BYTES_MIN,
            "the largest chunk has at least {CHUNK_SIZE_BYTES_MIN} bytes, unlike {last}"
        );
        let mut sizes: Vec<u32> = Vec::new();
        let mut size = first_bytes.max(CHUNK_SIZE_BYTES_MIN);
        while sizes.len() + 1 < ClassId::COUNT_MAX && (size as f64) < last as f64 / factor {
            size = size.next_multiple_of(CHUNK_ALIGN_BYTES);
            sizes.push(size as u32);
            // With a small factor, the product may be rounded down to the same size. So the size grows by at least one
            // byte.
            size = ((size as f64 * factor) as usize).max(size + 1);
        }
        if sizes.last().is_none_or(|&before| (before as usize) < last) {
            sizes.push(last as u32);
        }
        ClassTable::numbered(sizes)
    }

    /// Returns slabwise's default table for a page size. Its chunk sizes grow by `GROWTH_FACTOR_DEFAULT` up to half a
    /// page.
    pub fn default_for(page_size_bytes: usize) -> ClassTable {
        ClassTable::geometric(CHUNK_SIZE_BYTES_MIN, GROWTH_FACTOR_DEFAULT, page_size_bytes / 2)
    }

    /// Returns the chunk sizes in bytes, ascending.
    pub fn sizes(&self) -> &[u32] {
        &self.sizes
    }

    /// Returns the number of classes.
    pub fn count(&self) -> usize {
        self.sizes.len()
    }

    /// Returns every class, in ascending order of the chunk sizes.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = ClassId> + '_ {
        self.ids.iter().copied()
    }

    /// Returns every class with its chunk size in bytes, in ascending order of the chunk sizes.
    pub fn classes(&self) -> impl DoubleEndedIterator<Item = (ClassId, usize)> + '_ {
        self.ids.iter().copied().zip(self.sizes.iter().map(|&size| size as usize))
    }

    /// Returns true if the class is in the table.
    pub fn has(&self, class: ClassId) -> bool {
        self.ids.contains(&class)
    }

    /// Returns the class whose chunks have exactly this size, or `None` if the table has no such class.
    pub fn class_of_size(&self, chunk_size_bytes: usize) -> Option<ClassId> {
        let index = self.sizes.binary_search(&u32::try_from(chunk_size_bytes).ok()?).ok()?;
        Some(self.ids[index])
    }

    /// Returns the chunk size of a class. Panics if the class is not in the table.
    pub fn chunk_size_bytes(&self, class: ClassId) -> usize {
        let size = self.classes().find_map(|(id, size)| (id == class).then_some(size));
        size.expect("the class is in the class table")
    }

    /// Returns the class with the largest chunks.
    pub fn largest(&self) -> ClassId {
        *self.ids.last().expect("a class table has at least one class")
    }

    /// Returns the largest chunk size.
    pub fn chunk_size_bytes_max(&self) -> usize {
        *self.sizes.last().expect("a class table has at least one class") as usize
    }

    /// Returns the class with the smallest chunks of at least `size_bytes`, or `None` if even the largest chunks are
    /// smaller.
    pub fn class_for(&self, size_bytes: usize) -> Option<ClassId> {
        let index = self.sizes.partition_point(|&size| (size as usize) < size_bytes);
        self.ids.get(index).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        ADDRESS_BITS, CHUNK_ALIGN_BYTES, CHUNK_SIZE_BYTES_MIN, ChunkAddress, ClassTable,
        ClassTableError,
    };
    use slabwise_base::ClassId;

    #[test]
    fn the_bits_of_an_address_represent_the_same_address() {
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

    #[test]
    fn the_geometric_table_has_the_chunk_sizes_of_memcached() {
        // The chunk sizes that `memcached -vv` prints with default options: 96, 120, 152, ..., 524288, 39 sizes in all.
        let table = ClassTable::geometric(96, 1.25, 512 << 10);
        assert_eq!(table.sizes()[..6], [96, 120, 152, 192, 240, 304]);
        assert_eq!(table.sizes()[table.count() - 2..], [394840, 524288]);
        assert_eq!(table.count(), 39);
    }

    #[test]
    fn the_class_for_a_size_has_the_smallest_chunks_of_at_least_this_size() {
        let table = ClassTable::default_for(64 << 10);
        assert!(table.count() <= ClassId::COUNT_MAX);
        for size in 1..=table.chunk_size_bytes(table.largest()) {
            let class = table.class_for(size).expect("the largest chunks have at least this size");
            assert!(table.chunk_size_bytes(class) >= size);
            assert!(class.0 == 0 || table.chunk_size_bytes(ClassId(class.0 - 1)) < size);
        }
        assert_eq!(table.class_for((32 << 10) + 1), None);
    }

    #[test]
    fn an_invalid_table_is_rejected_with_its_reason() {
        let page = 64 << 10;
        assert_eq!(ClassTable::explicit(&[], page), Err(ClassTableError::Empty));
        assert_eq!(
            ClassTable::explicit(&[96, 96], page),
            Err(ClassTableError::NotAscending { size_bytes: 96 })
        );
        assert_eq!(
            ClassTable::explicit(&[8], page),
            Err(ClassTableError::TooSmall { size_bytes: 8 })
        );
        assert_eq!(
            ClassTable::explicit(&[page + 1], page),
            Err(ClassTableError::TooLarge { size_bytes: page + 1, page_size_bytes: page })
        );
        let many: Vec<usize> = (1..=64).map(|i| i * CHUNK_SIZE_BYTES_MIN).collect();
        assert_eq!(ClassTable::explicit(&many, page), Err(ClassTableError::TooMany { count: 64 }));
    }
}
