//! The layout of bytes: addresses, the parts of an item, chunk sizes. This module only computes; it accesses no
//! memory and uses no other module of the engine.
//!
//! An address has 40 bits in queue links and index entries. It is an offset from the arena's start, so the page
//! number follows by a shift.
//!
//! An item after its chunk's header (its offsets depend only on key length, fields and chained):
//!
//! ```text
//! [client flags 4] [expiry 4] [cost 2] [rank 4] [whole value length 4, first body 5]  key  value
//!      each if the item stores it                            if chained
//! ```
//!
//! Invariants of a class table: sizes ascend strictly; every size is a multiple of 8; the smallest chunk holds a header
//! and one byte of key; the largest is at most a page; there are at most [`ClassId::COUNT_MAX`] classes. The class
//! numbers of a new engine's table ascend with the sizes; after a change (`space/change.rs`) they may be in any order.

use slabwise_base::memcached::beside_value_bytes;
use slabwise_base::{ClassId, Cost, Expiry};
use std::num::NonZeroU64;

/// The bits of a stored address. The value 0 means no chunk.
pub const ADDRESS_BITS: u32 = 40;

/// The alignment of chunks and the unit of addresses. It keeps a chunk's header words aligned.
pub const CHUNK_ALIGN_BYTES: usize = 8;

const _: () = {
    let addressable_bytes = ((1u64 << ADDRESS_BITS) - 1) * CHUNK_ALIGN_BYTES as u64;
    assert!(addressable_bytes >= 1 << 40, "at least 1 TiB must be addressable");
};

/// The position of a chunk in the arena. `Option<ChunkAddress>` has the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkAddress(NonZeroU64);

impl ChunkAddress {
    /// Returns the address of the chunk that starts `offset` bytes after the arena's start.
    pub fn from_offset(offset: usize) -> ChunkAddress {
        debug_assert!(offset.is_multiple_of(CHUNK_ALIGN_BYTES), "chunks are aligned");
        let unit = (offset / CHUNK_ALIGN_BYTES) as u64 + 1;
        assert!(unit >> ADDRESS_BITS == 0, "offset {offset} is beyond the largest address");
        ChunkAddress(NonZeroU64::MIN.saturating_add(unit - 1))
    }

    /// Returns the offset from the arena's start in bytes.
    pub fn offset(self) -> usize {
        (self.0.get() - 1) as usize * CHUNK_ALIGN_BYTES
    }

    /// Returns the 40 bits to store; 0 means no chunk.
    pub fn to_bits(address: Option<ChunkAddress>) -> u64 {
        address.map_or(0, |address| address.0.get())
    }

    /// The inverse of [`ChunkAddress::to_bits`].
    pub fn from_bits(bits: u64) -> Option<ChunkAddress> {
        NonZeroU64::new(bits).map(ChunkAddress)
    }
}

/// The size of a chunk's header.
pub const HEADER_SIZE_BYTES: usize = 29;

/// The size of the chain field of a chained item: the value's length and the address of the first body.
pub const CHAIN_SIZE_BYTES: usize = 9;

pub const COST_SIZE_BYTES: usize = 2;

/// The client-supplied properties of an item other than key and value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemMeta {
    /// An opaque number that is returned with the value.
    pub client_flags: u32,
    /// When the item expires.
    pub expiry: Expiry,
    /// The cost of recomputing the item; `None` if unknown.
    pub cost: Option<Cost>,
}

/// The optional fields that an item stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemFields {
    /// Client flags; without the field they are 0.
    pub flags: bool,
    /// An expiry; without the field the item never expires.
    pub expiry: bool,
    /// A cost; without the field it is unknown.
    pub cost: bool,
    /// A rank among the items of its class, for eviction kinds that use ranks.
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

    #[inline(always)]
    pub fn expiry(self) -> usize {
        HEADER_SIZE_BYTES + if self.fields.flags { 4 } else { 0 }
    }

    #[inline(always)]
    pub fn cost(self) -> usize {
        self.expiry() + if self.fields.expiry { 4 } else { 0 }
    }

    #[inline(always)]
    pub fn rank(self) -> usize {
        self.cost() + if self.fields.cost { COST_SIZE_BYTES } else { 0 }
    }

    /// The offset of a chained item's value length, which its first body follows.
    #[inline(always)]
    pub fn chain(self) -> usize {
        self.rank() + if self.fields.rank { 4 } else { 0 }
    }

    #[inline(always)]
    pub fn key(self) -> usize {
        self.chain() + if self.chained { CHAIN_SIZE_BYTES } else { 0 }
    }

    /// The value's offset, which is also the size of an item without its value.
    #[inline(always)]
    pub fn value(self) -> usize {
        self.key() + self.key_len
    }
}

/// The size of a chained item in its first chunk: all but the value.
pub fn chain_head_size_bytes(key_len: usize, fields: ItemFields) -> usize {
    ItemLayout::new(key_len, fields, true).value()
}

/// How the size of an item is counted for the choice of its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeModel {
    /// The real size of the item.
    Exact,
    /// The size that the item would have in memcached: 48 bytes of header, 8 of CAS, the key and its zero byte, 4 of
    /// client flags if there are any, the value and its line end. It is at least the real size, so every item fits
    /// its chunk.
    Memcached,
}

impl SizeModel {
    /// Returns the size of an item for the choice of its class, the size limit and the statistics.
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
                    "memcached's size of an item is not below the real one"
                );
                memcached
            }
        }
    }
}

/// The size of the smallest chunk: a header and a short key.
pub const CHUNK_SIZE_BYTES_MIN: usize = (HEADER_SIZE_BYTES + 1).next_multiple_of(CHUNK_ALIGN_BYTES);

/// The growth factor of slabwise's default class table.
pub const GROWTH_FACTOR_DEFAULT: f64 = 1.12;

/// The class whose queues hold the chained items. It is in no class table and owns no pages.
pub const CHAINED: ClassId = ClassId(ClassId::NUMBERS as u8);

/// The number of class ids, [`CHAINED`] included.
pub const CLASS_NUMBERS: usize = ClassId::NUMBERS + 1;

/// The classes and their chunk sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassTable {
    /// In bytes, ascending.
    sizes: Vec<u32>,
    ids: Vec<ClassId>,
}

/// Why a class table is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClassTableError {
    /// No size was given.
    #[error("a class table needs at least one chunk size")]
    Empty,
    /// More sizes than there are class ids.
    #[error("{count} chunk sizes are too many: give at most {}", ClassId::COUNT_MAX)]
    TooMany {
        /// The number of sizes given.
        count: usize,
    },
    /// A size is not above the one before it, after both are rounded up to [`CHUNK_ALIGN_BYTES`].
    #[error(
        "chunk size {size_bytes} is not at least {CHUNK_ALIGN_BYTES} bytes above the one before it: give sizes in \
         ascending order"
    )]
    NotAscending {
        /// The rejected size.
        size_bytes: usize,
    },
    /// A size is below [`CHUNK_SIZE_BYTES_MIN`].
    #[error("chunk size {size_bytes} is too small: give at least {CHUNK_SIZE_BYTES_MIN} bytes")]
    TooSmall {
        /// The rejected size.
        size_bytes: usize,
    },
    /// A size is above the page size.
    #[error(
        "chunk size {size_bytes} is above the page size, {page_size_bytes} bytes: give a smaller size or a larger \
         page_size"
    )]
    TooLarge {
        /// The rejected size.
        size_bytes: usize,
        /// The page size.
        page_size_bytes: usize,
    },
}

impl ClassTable {
    /// Returns a table of exactly these sizes, each rounded up to [`CHUNK_ALIGN_BYTES`].
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

    /// Returns a table whose class numbers ascend with the sizes.
    fn numbered(sizes: Vec<u32>) -> ClassTable {
        let ids = (0..sizes.len() as u8).map(ClassId).collect();
        ClassTable { sizes, ids }
    }

    /// Replaces the class numbers. They must be distinct.
    pub(crate) fn renumbered(self, ids: Vec<ClassId>) -> ClassTable {
        assert_eq!(ids.len(), self.sizes.len(), "every class has a number");
        ClassTable { sizes: self.sizes, ids }
    }

    /// Returns a geometric table like memcached's: each size is `factor` times the one before, from `first_bytes` to
    /// `chunk_size_bytes_max`. With more sizes than class ids, the last class still has the maximum.
    pub fn geometric(first_bytes: usize, factor: f64, chunk_size_bytes_max: usize) -> ClassTable {
        assert!(factor > 1.0, "a growth factor of {factor} does not grow");
        let last = chunk_size_bytes_max / CHUNK_ALIGN_BYTES * CHUNK_ALIGN_BYTES;
        assert!(last >= CHUNK_SIZE_BYTES_MIN, "largest chunk of {last} bytes holds no item");
        let mut sizes: Vec<u32> = Vec::new();
        let mut size = first_bytes.max(CHUNK_SIZE_BYTES_MIN);
        while sizes.len() + 1 < ClassId::COUNT_MAX && (size as f64) < last as f64 / factor {
            size = size.next_multiple_of(CHUNK_ALIGN_BYTES);
            sizes.push(size as u32);
            // With a small factor the product may round to the same size, so the step is at least one.
            size = ((size as f64 * factor) as usize).max(size + 1);
        }
        if sizes.last().is_none_or(|&before| (before as usize) < last) {
            sizes.push(last as u32);
        }
        ClassTable::numbered(sizes)
    }

    /// Returns slabwise's default table for a page size: small steps up to half a page.
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

    /// Returns every class, smallest chunks first.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = ClassId> + '_ {
        self.ids.iter().copied()
    }

    /// Returns every class with its chunk size in bytes, smallest chunks first.
    pub fn classes(&self) -> impl DoubleEndedIterator<Item = (ClassId, usize)> + '_ {
        self.ids.iter().copied().zip(self.sizes.iter().map(|&size| size as usize))
    }

    /// True if the class is in the table.
    pub fn has(&self, class: ClassId) -> bool {
        self.ids.contains(&class)
    }

    /// Returns the class whose chunks have this size.
    pub fn class_of_size(&self, chunk_size_bytes: usize) -> Option<ClassId> {
        let index = self.sizes.binary_search(&u32::try_from(chunk_size_bytes).ok()?).ok()?;
        Some(self.ids[index])
    }

    /// Returns the chunk size of a class. Panics if the class is not in the table.
    pub fn chunk_size_bytes(&self, class: ClassId) -> usize {
        let size = self.classes().find_map(|(id, size)| (id == class).then_some(size));
        size.expect("the class is in this table")
    }

    /// Returns the class with the largest chunks.
    pub fn largest(&self) -> ClassId {
        *self.ids.last().expect("a table has a class")
    }

    /// Returns the largest chunk size.
    pub fn chunk_size_bytes_max(&self) -> usize {
        *self.sizes.last().expect("a table has a class") as usize
    }

    /// Returns the class with the smallest chunks that hold `size_bytes`, or `None` if the largest do not.
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
    fn addresses_up_to_the_largest_round_trip() {
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
    fn the_geometric_table_equals_memcacheds() {
        // memcached -vv with its defaults: chunk sizes 96, 120, 152, ... and 524288 last (39 classes).
        let table = ClassTable::geometric(96, 1.25, 512 << 10);
        assert_eq!(table.sizes()[..6], [96, 120, 152, 192, 240, 304]);
        assert_eq!(table.sizes()[table.count() - 2..], [394840, 524288]);
        assert_eq!(table.count(), 39);
    }

    #[test]
    fn every_size_has_the_class_of_the_smallest_sufficient_chunk() {
        let table = ClassTable::default_for(64 << 10);
        assert!(table.count() <= ClassId::COUNT_MAX);
        for size in 1..=table.chunk_size_bytes(table.largest()) {
            let class = table.class_for(size).expect("a class holds it");
            assert!(table.chunk_size_bytes(class) >= size);
            assert!(class.0 == 0 || table.chunk_size_bytes(ClassId(class.0 - 1)) < size);
        }
        assert_eq!(table.class_for((32 << 10) + 1), None);
    }

    #[test]
    fn invalid_tables_are_rejected_with_the_reason() {
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
