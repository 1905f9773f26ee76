//! How an item's bytes are counted when its class is chosen.

use super::item::{ItemFields, ItemLayout};
use slabwise_base::memcached::beside_value_bytes;

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
