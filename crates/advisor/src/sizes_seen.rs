//! How many items there are of which size, as a source tells it.
//!
//! Sizes are memcached's: header, CAS value, key, flags, value and line end; what `size=` of a dump says, and
//! what chunks have to hold. Laws: no size is 0, none has 0 items, all items together have at most
//! [`BYTES_MAX`] bytes and are at most [`ITEMS_MAX`]: so no sum overflows, not that of their chunks either.

use std::collections::BTreeMap;

/// The most bytes that all items may have together: 1 EiB, more than any server holds.
pub const BYTES_MAX: u64 = 1 << 60;

/// The most items: each in a chunk of 16 MiB, the largest page, they have a sum that 63 bits hold.
pub const ITEMS_MAX: u64 = 1 << 38;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SizesSeen {
    items: BTreeMap<usize, u64>,
    item_count: u64,
    bytes: u64,
}

/// The items are more than [`ITEMS_MAX`], or their bytes more than [`BYTES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMuch;

impl SizesSeen {
    /// Adds items of one size; items of size 0 have no bytes, and are nobody's.
    pub fn add(&mut self, size_bytes: usize, items: u64) -> Result<(), TooMuch> {
        if size_bytes == 0 || items == 0 {
            return Ok(());
        }
        let added = items.checked_mul(size_bytes as u64).ok_or(TooMuch)?;
        let bytes = self.bytes.checked_add(added).filter(|&bytes| bytes <= BYTES_MAX);
        let item_count = self.item_count.checked_add(items).filter(|&count| count <= ITEMS_MAX);
        self.bytes = bytes.ok_or(TooMuch)?;
        self.item_count = item_count.ok_or(TooMuch)?;
        *self.items.entry(size_bytes).or_default() += items;
        Ok(())
    }

    /// Every size with its number of items, ascending.
    pub fn bars(&self) -> impl DoubleEndedIterator<Item = (usize, u64)> + '_ {
        self.items.iter().map(|(&size_bytes, &items)| (size_bytes, items))
    }

    pub fn item_count(&self) -> u64 {
        self.item_count
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
