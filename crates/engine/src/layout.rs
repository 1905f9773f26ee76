//! How bytes are laid out: addresses, the parts of an item, chunk sizes. Values and arithmetic only; nothing
//! here touches memory, and nothing of the engine is used.
//!
//! An address is packed in 40 bits, in queue links and in index entries. A page's number is the upper part of the
//! distance from the arena's start, so page and position both follow from it by a shift.
//!
//! An item after its chunk's header (offsets follow from key length, fields and chained alone):
//!
//! ```text
//! [client flags 4] [expiry 4] [cost 2] [rank 4] [whole value length 4, first body 5]  key  value
//!      each if the item stores it                            if chained
//! ```
//!
//! Invariants of a class table: sizes ascend strictly; every size is a multiple of 8; the least holds a header
//! and one byte of key; the largest is at most a page; there are at most
//! [`ClassId::COUNT_MAX`] classes. A table that an engine starts with numbers its classes in the order
//! of their sizes; after a change (`space/change.rs`) the numbers may come in any order.

use slabwise_base::memcached::beside_value_bytes;
use slabwise_base::{ClassId, Cost, Expiry};
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

/// Bytes of a chunk before its contents.
pub const HEADER_SIZE_BYTES: usize = 29;

/// Bytes that a chained item keeps before its key: the value's length and the first body.
pub const CHAIN_SIZE_BYTES: usize = 9;

pub const COST_SIZE_BYTES: usize = 2;

/// What a client says of an item beside key and value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemMeta {
    /// An opaque number that is handed back with the value.
    pub client_flags: u32,
    /// When the item ends.
    pub expiry: Expiry,
    /// What it costs to recompute; `None` where nobody said.
    pub cost: Option<Cost>,
}

/// Which of the fields that not every item needs an item stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemFields {
    /// Client flags; others have 0.
    pub flags: bool,
    /// An expiry; others have none.
    pub expiry: bool,
    /// A cost; that of others is not known.
    pub cost: bool,
    /// A rank among the items of its class: under eviction kinds that go by ranks.
    pub rank: bool,
}

/// Where the parts of an item are, in bytes from the chunk's start.
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

    /// The expiry's offset.
    #[inline(always)]
    pub fn expiry(self) -> usize {
        HEADER_SIZE_BYTES + if self.fields.flags { 4 } else { 0 }
    }

    /// The cost's offset.
    #[inline(always)]
    pub fn cost(self) -> usize {
        self.expiry() + if self.fields.expiry { 4 } else { 0 }
    }

    /// The rank's offset.
    #[inline(always)]
    pub fn rank(self) -> usize {
        self.cost() + if self.fields.cost { COST_SIZE_BYTES } else { 0 }
    }

    /// The offset of a chained item's value length, which its first body follows.
    #[inline(always)]
    pub fn chain(self) -> usize {
        self.rank() + if self.fields.rank { 4 } else { 0 }
    }

    /// The key's offset.
    #[inline(always)]
    pub fn key(self) -> usize {
        self.chain() + if self.chained { CHAIN_SIZE_BYTES } else { 0 }
    }

    /// The value's offset; also the bytes that an item takes beside its value.
    #[inline(always)]
    pub fn value(self) -> usize {
        self.key() + self.key_len
    }
}

/// Bytes that a chained item's first chunk takes: all but the value.
pub fn chain_head_size_bytes(key_len: usize, fields: ItemFields) -> usize {
    ItemLayout::new(key_len, fields, true).value()
}

/// How an item's bytes are counted when its class is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeModel {
    /// What the item really takes here.
    Exact,
    /// What it would take in memcached: 48 bytes of header, 8 of CAS, the key and its zero byte, 4 of
    /// client flags if there are any, the value and its line end. Never less than it takes here, so
    /// that every item still fits its chunk.
    Memcached,
}

impl SizeModel {
    /// Bytes that count for the choice of a class, the size limit and the stats.
    #[inline]
    pub fn counted_size_bytes(self, key_len: usize, value_len: usize, fields: ItemFields) -> usize {
        let exact = ItemLayout::new(key_len, fields, false).value() + value_len;
        match self {
            SizeModel::Exact => exact,
            SizeModel::Memcached => {
                let flags = if fields.flags { 4 } else { 0 };
                let memcached = beside_value_bytes(key_len) + flags + value_len;
                debug_assert!(memcached >= exact, "an item always fits where memcached puts it");
                memcached
            }
        }
    }
}

/// The least chunk: a header and a short key.
pub const CHUNK_SIZE_BYTES_MIN: usize = (HEADER_SIZE_BYTES + 1).next_multiple_of(CHUNK_ALIGN_BYTES);

/// The growth factor of slabwise's own table.
pub const GROWTH_FACTOR_DEFAULT: f64 = 1.12;

/// The class that chained items are queued in. No table reaches its number, and no page is ever its own.
pub const CHAINED: ClassId = ClassId(ClassId::NUMBERS as u8);

/// Numbers of classes, [`CHAINED`] included.
pub const CLASS_NUMBERS: usize = ClassId::NUMBERS + 1;

/// The classes, by their chunk sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassTable {
    /// In bytes, ascending.
    sizes: Vec<u32>,
    ids: Vec<ClassId>,
}

/// Why a class table is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClassTableError {
    /// No size was given.
    #[error("a class table needs at least one chunk size")]
    Empty,
    /// More sizes than there are class ids.
    #[error("{count} chunk sizes are too many: give at most {}", ClassId::COUNT_MAX)]
    TooMany {
        /// How many were given.
        count: usize,
    },
    /// A size is not above the one before it (both as rounded up to [`CHUNK_ALIGN_BYTES`]).
    #[error(
        "chunk size {size_bytes} is not at least {CHUNK_ALIGN_BYTES} bytes above the one before it: give sizes in \
         ascending order"
    )]
    NotAscending {
        /// The size as given.
        size_bytes: usize,
    },
    /// A size is below [`CHUNK_SIZE_BYTES_MIN`].
    #[error("chunk size {size_bytes} is below the least, {CHUNK_SIZE_BYTES_MIN} bytes")]
    TooSmall {
        /// The size as given.
        size_bytes: usize,
    },
    /// A size is above the page size.
    #[error(
        "chunk size {size_bytes} is above the page size, {page_size_bytes} bytes: give a smaller size or a larger \
         page_size"
    )]
    TooLarge {
        /// The size as given.
        size_bytes: usize,
        /// The page size.
        page_size_bytes: usize,
    },
}

impl ClassTable {
    /// A table of exactly these sizes, each rounded up to [`CHUNK_ALIGN_BYTES`].
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

    /// A table whose classes are numbered in the order of their sizes.
    fn numbered(sizes: Vec<u32>) -> ClassTable {
        let ids = (0..sizes.len() as u8).map(ClassId).collect();
        ClassTable { sizes, ids }
    }

    /// The same sizes under other numbers, of which none comes twice.
    pub(crate) fn renumbered(self, ids: Vec<ClassId>) -> ClassTable {
        assert_eq!(ids.len(), self.sizes.len(), "a number for every class");
        ClassTable { sizes: self.sizes, ids }
    }

    /// memcached's geometric table: from `first_bytes`, each size `factor` times the one before,
    /// ending with `chunk_size_bytes_max`. Where the class ids run out first, the last one is the
    /// maximum, too.
    pub fn geometric(first_bytes: usize, factor: f64, chunk_size_bytes_max: usize) -> ClassTable {
        assert!(factor > 1.0, "a growth factor of {factor} does not grow");
        let last = chunk_size_bytes_max / CHUNK_ALIGN_BYTES * CHUNK_ALIGN_BYTES;
        assert!(last >= CHUNK_SIZE_BYTES_MIN, "largest chunk of {last} bytes holds no item");
        let mut sizes: Vec<u32> = Vec::new();
        let mut size = first_bytes.max(CHUNK_SIZE_BYTES_MIN);
        while sizes.len() + 1 < ClassId::COUNT_MAX && (size as f64) < last as f64 / factor {
            size = size.next_multiple_of(CHUNK_ALIGN_BYTES);
            sizes.push(size as u32);
            // A small factor may not reach the next multiple: the step is then one multiple.
            size = ((size as f64 * factor) as usize).max(size + 1);
        }
        if sizes.last().is_none_or(|&before| (before as usize) < last) {
            sizes.push(last as u32);
        }
        ClassTable::numbered(sizes)
    }

    /// slabwise's own table for a page size: fine steps up to half a page.
    pub fn default_for(page_size_bytes: usize) -> ClassTable {
        ClassTable::geometric(CHUNK_SIZE_BYTES_MIN, GROWTH_FACTOR_DEFAULT, page_size_bytes / 2)
    }

    /// The chunk sizes in bytes, ascending.
    pub fn sizes(&self) -> &[u32] {
        &self.sizes
    }

    /// How many classes there are.
    pub fn count(&self) -> usize {
        self.sizes.len()
    }

    /// Every class, smallest chunks first.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = ClassId> + '_ {
        self.ids.iter().copied()
    }

    /// Every class with its chunk size in bytes, smallest chunks first.
    pub fn classes(&self) -> impl DoubleEndedIterator<Item = (ClassId, usize)> + '_ {
        self.ids.iter().copied().zip(self.sizes.iter().map(|&size| size as usize))
    }

    /// Whether it has a class of this number.
    pub fn has(&self, class: ClassId) -> bool {
        self.ids.contains(&class)
    }

    /// The class whose chunks have this size.
    pub fn class_of_size(&self, chunk_size_bytes: usize) -> Option<ClassId> {
        let index = self.sizes.binary_search(&u32::try_from(chunk_size_bytes).ok()?).ok()?;
        Some(self.ids[index])
    }

    /// Bytes a chunk of this class, which is in the table.
    pub fn chunk_size_bytes(&self, class: ClassId) -> usize {
        let size = self.classes().find_map(|(id, size)| (id == class).then_some(size));
        size.expect("a class of this table was asked for")
    }

    /// The class with the largest chunks.
    pub fn largest(&self) -> ClassId {
        *self.ids.last().expect("a table has a class")
    }

    /// Bytes a chunk of that class.
    pub fn chunk_size_bytes_max(&self) -> usize {
        *self.sizes.last().expect("a table has a class") as usize
    }

    /// The class with the least chunks that hold `size_bytes`; `None` if no chunk does.
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

    #[test]
    fn memcacheds_table_is_reproduced() {
        // memcached -vv with its defaults: chunk sizes 96, 120, 152, ... and 524288 last (39 classes).
        let table = ClassTable::geometric(96, 1.25, 512 << 10);
        assert_eq!(table.sizes()[..6], [96, 120, 152, 192, 240, 304]);
        assert_eq!(table.sizes()[table.count() - 2..], [394840, 524288]);
        assert_eq!(table.count(), 39);
    }

    #[test]
    fn every_size_goes_to_the_least_chunk_that_holds_it() {
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
    fn bad_tables_are_refused_with_the_reason() {
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
