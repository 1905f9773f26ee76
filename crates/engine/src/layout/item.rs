//! The parts of an item, and where they lie in its chunk.
//!
//! After the chunk's header (offsets follow from key length, fields and chained alone):
//!
//! ```text
//! [client flags 4] [expiry 4] [cost 2] [rank 4] [whole value length 4, first body 5]  key  value
//!      each if the item stores it                            if chained
//! ```

use slabwise_base::{Cost, Expiry};

/// Bytes of a chunk before its contents.
pub const HEADER_SIZE_BYTES: usize = 29;

/// Bytes that a chained item keeps before its key: the value's length and the first body.
pub const CHAIN_SIZE_BYTES: usize = 9;

/// Bytes of a cost.
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
    /// The layout of an item with a key of this length and these fields.
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
