//! The hash table of a stripe: linear hashing over buckets of one cache line.
//!
//! A bucket is one cache line with ten entries. An entry consists of a tag (8 bits of the hash) and the address of an
//! item's first chunk (40 bits). A lookup reads the bucket of the hash, and compares the keys of the items whose tags
//! match. If a bucket is full, further entries are in a chain of overflow buckets.
//!
//! The table grows by one bucket at a time (W. Litwin, "Linear Hashing", VLDB 1980). Let `bucket_count = 2^L + s` with
//! `s < 2^L`. The first `s` of the lower `2^L` buckets are already split. The number of a hash's bucket is in the
//! hash's low `L + 1` bits if a bucket with this number exists, and otherwise in the low `L` bits. Each insertion
//! splits at most one bucket, so growth never pauses operations. The table does not shrink.
//!
//! Invariants: every entry is in the bucket chain of its hash. `item_count` is the number of entries. An overflow
//! bucket is either in exactly one chain, and holds at least one entry, or on the free list.

use super::buckets::{Bucket, Buckets};
use crate::layout::ChunkAddress;

/// The mean number of entries per bucket above which an insertion splits a bucket. The number is low under loom and
/// shuttle, so that the few items of a model cause splits.
pub const SPLIT_LOAD: usize = if cfg!(any(loom, shuttle)) { 1 } else { 8 };

/// The number of buckets of an empty table.
const BUCKETS_MIN: u32 = if cfg!(any(loom, shuttle)) { 2 } else { 8 };

/// The number of buckets of each kind in a table counts as a multiple of this number ([`Table::size_bytes`]).
const BUCKETS_PER_STEP: u32 = 8;

/// The position of an entry in the table. A position is valid until the table changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The number of the first bucket of the entry's chain.
    home: u32,
    /// The bucket that holds the entry.
    bucket: BucketId,
    /// The index of the entry in its bucket.
    entry: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BucketId {
    /// The first bucket of a chain, by its number.
    Home(u32),
    /// An overflow bucket, by its number.
    Overflow(u32),
}

/// The overflow buckets of a table, and the free list of those that are in no chain.
struct OverflowBuckets {
    /// The overflow buckets in chains and on the free list.
    buckets: Buckets,
    /// The number of the first bucket on the free list plus one, or 0 if the list is empty. [`Bucket::overflow`] links
    /// the further buckets of the list.
    free_head: u32,
    /// The number of buckets on the free list.
    free_count: u32,
}

/// A hash table of chunk addresses.
pub struct Table {
    /// The buckets of the table without overflow buckets.
    home: Buckets,
    overflow: OverflowBuckets,
    /// The number of entries.
    item_count: u32,
}

/// The numbers of a table that are not in its buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableCounts {
    /// The number of buckets without overflow buckets.
    pub home: u32,
    /// The number of overflow buckets, those on the free list included.
    pub overflow: u32,
    /// The first overflow bucket on the free list plus one, or 0.
    pub free_head: u32,
    /// The number of overflow buckets on the free list.
    pub free: u32,
    /// The number of entries.
    pub items: u32,
}

/// Returns the tag of a hash. A tag is never 0, and uses other bits of the hash than the choice of stripe and bucket.
fn tag_of(hash: u64) -> u8 {
    ((hash >> 40) as u8).max(1)
}

/// Returns the bucket that follows in the chain.
fn next_of(bucket: &Bucket) -> Option<BucketId> {
    bucket.overflow.checked_sub(1).map(BucketId::Overflow)
}

/// Returns the number of the first bucket in the chain of a hash, in a table of this number of buckets.
#[inline]
pub fn home_of(hash: u64, bucket_count: u32) -> u32 {
    let level = bucket_count.ilog2();
    let low_bits = hash as u32 & ((2u32 << level) - 1);
    if low_bits < bucket_count { low_bits } else { low_bits & ((1 << level) - 1) }
}

/// Returns the number of buckets of each kind that a stripe can need if all stripes together hold up to `items_max`
/// items. No stripe holds a quarter more items than the mean, except if it holds few.
pub fn buckets_max(items_max: u64, stripe_count: usize) -> u32 {
    let mean = items_max / stripe_count as u64 / SPLIT_LOAD as u64;
    u32::try_from(mean + mean / 4 + 64).unwrap_or(u32::MAX)
}

impl Table {
    /// Returns an empty table. Both `home` and `overflow` must be without buckets.
    pub fn new(mut home: Buckets, overflow: Buckets) -> Table {
        home.grow_to(BUCKETS_MIN);
        let overflow = OverflowBuckets { buckets: overflow, free_head: 0, free_count: 0 };
        Table { home, overflow, item_count: 0 }
    }

    /// Makes `bucket_count` buckets for an empty table, so that it need not grow to this size by splits. Has no effect
    /// if the table has more buckets.
    pub fn presize(&mut self, bucket_count: u32) {
        assert!(self.item_count == 0, "a table is presized before its first insertion");
        self.home.grow_to(bucket_count.min(self.home.capacity()));
    }

    pub fn item_count(&self) -> usize {
        self.item_count as usize
    }

    pub fn counts(&self) -> TableCounts {
        TableCounts {
            home: self.home.count(),
            overflow: self.overflow.buckets.count(),
            free_head: self.overflow.free_head,
            free: self.overflow.free_count,
            items: self.item_count,
        }
    }

    /// Sets the numbers of a table whose buckets have been written as a whole. The buckets beyond these numbers are empty.
    pub fn set_counts(&mut self, counts: TableCounts) {
        self.home.set_count(counts.home);
        self.overflow.buckets.set_count(counts.overflow);
        self.overflow.free_head = counts.free_head;
        self.overflow.free_count = counts.free;
        self.item_count = counts.items;
    }

    /// Returns the buckets, and the overflow buckets.
    pub fn buckets(&self) -> [&Buckets; 2] {
        [&self.home, &self.overflow.buckets]
    }

    /// Returns the buckets, and the overflow buckets, for writing.
    pub fn buckets_mut(&mut self) -> [&mut Buckets; 2] {
        [&mut self.home, &mut self.overflow.buckets]
    }

    /// Returns the number of buckets, without overflow buckets.
    #[inline]
    pub fn bucket_count(&self) -> u32 {
        self.home.count()
    }

    /// Returns the number of bytes that the buckets of the table use. Both numbers of buckets are rounded up, because the
    /// system commits memory for all stripes at once, and some stripes have a few buckets more than others.
    pub fn size_bytes(&self) -> usize {
        let rounded = |count: u32| count.next_multiple_of(BUCKETS_PER_STEP) as usize;
        let count = rounded(self.home.count()) + rounded(self.overflow.buckets.count());
        count * size_of::<Bucket>()
    }

    /// Returns the position and the address of the first entry whose address `is_match` accepts. Calls `is_match` only
    /// for the entries in the bucket chain of `hash` that have the tag of `hash`.
    #[inline(always)]
    pub fn find(
        &self,
        hash: u64,
        mut is_match: impl FnMut(ChunkAddress) -> bool,
    ) -> Option<(Position, ChunkAddress)> {
        let tag = tag_of(hash);
        let home = self.home(hash);
        let mut at = BucketId::Home(home);
        loop {
            let bucket = self.bucket(at);
            let mut mask = bucket.matches(tag);
            while mask != 0 {
                let entry = mask.trailing_zeros() as usize;
                let address = bucket.address(entry);
                if is_match(address) {
                    return Some((Position { home, bucket: at, entry: entry as u8 }, address));
                }
                mask &= mask - 1;
            }
            at = next_of(bucket)?;
        }
    }

    /// Returns the position and the address of the first entry whose key a lookup of `hash` would compare. Ignores
    /// overflow buckets.
    #[inline]
    pub fn candidate(&self, hash: u64) -> Option<(Position, ChunkAddress)> {
        let home = self.home(hash);
        let at = BucketId::Home(home);
        let bucket = self.bucket(at);
        let mask = bucket.matches(tag_of(hash));
        let entry = mask.trailing_zeros() as usize;
        (mask != 0)
            .then(|| (Position { home, bucket: at, entry: entry as u8 }, bucket.address(entry)))
    }

    /// Returns the address at a position of this table, or `None` if the position is empty. If the table has changed
    /// since the position was returned, the address may be that of another item.
    #[inline]
    pub fn address_at(&self, position: Position) -> Option<ChunkAddress> {
        let bucket = self.bucket(position.bucket);
        let entry = usize::from(position.entry);
        (bucket.tags[entry] != 0).then(|| bucket.address(entry))
    }

    /// Adds an entry and returns its position. Then splits a bucket if the mean number of entries per bucket is above
    /// [`SPLIT_LOAD`]. The entry must not be in the table. `hash_of` must return the hash of any item in the table.
    pub fn insert(
        &mut self,
        hash: u64,
        address: ChunkAddress,
        hash_of: impl Fn(ChunkAddress) -> u64,
    ) -> Position {
        let position = self.place(hash, address);
        self.item_count += 1;
        let is_loaded = self.item_count as usize > self.bucket_count() as usize * SPLIT_LOAD;
        if !is_loaded || self.bucket_count() == self.home.capacity() {
            return position;
        }
        self.split(hash_of);
        let found = self.find(hash, |other| other == address);
        found.expect("the new entry is still in the table after a split").0
    }

    /// Removes an entry. If its chain has overflow buckets, an entry of the last bucket takes the position of the
    /// removed entry, so that the chain is as short as possible.
    pub fn remove(&mut self, position: Position) {
        let bucket = self.bucket_mut(position.bucket);
        let tag = bucket.tags[usize::from(position.entry)];
        debug_assert!(tag != 0, "the position holds an entry");
        bucket.tags[usize::from(position.entry)] = 0;
        self.item_count -= 1;
        let mut before = BucketId::Home(position.home);
        let Some(mut last) = next_of(self.bucket(before)) else { return };
        while let Some(next) = next_of(self.bucket(last)) {
            (before, last) = (last, next);
        }
        let tail = self.bucket_mut(last);
        if last != position.bucket {
            let moved = tail.first_entry().expect("an overflow bucket of a chain has an entry");
            let (tag, address) = (tail.tags[moved], tail.address(moved));
            tail.tags[moved] = 0;
            self.bucket_mut(position.bucket).set(usize::from(position.entry), tag, address);
        }
        if let (BucketId::Overflow(index), None) = (last, self.bucket(last).first_entry()) {
            self.bucket_mut(before).overflow = 0;
            self.overflow.give(index);
        }
    }

    /// Replaces the address in an entry. The item at the new address must have the same key.
    pub fn replace(&mut self, position: Position, address: ChunkAddress) {
        let entry = usize::from(position.entry);
        let bucket = self.bucket_mut(position.bucket);
        let tag = bucket.tags[entry];
        bucket.set(entry, tag, address);
    }

    /// Returns the address of every entry, in arbitrary order.
    pub fn addresses(&self) -> impl Iterator<Item = ChunkAddress> + '_ {
        let home = (0..self.home.count()).map(|number| self.home.get(number));
        let overflow = &self.overflow.buckets;
        let overflow = (0..overflow.count()).map(|number| overflow.get(number));
        home.chain(overflow).flat_map(|bucket| bucket.entries().map(|entry| bucket.address(entry)))
    }

    /// Returns the number of the first bucket in the chain of a hash.
    #[inline]
    fn home(&self, hash: u64) -> u32 {
        home_of(hash, self.home.count())
    }

    /// Splits a bucket: the first of the lower `2^L` buckets that is not split yet (see the head of this file). Adds a
    /// bucket, and distributes the entries of the old bucket over the old and the new bucket.
    fn split(&mut self, hash_of: impl Fn(ChunkAddress) -> u64) {
        let count = self.bucket_count();
        let old = count - (1 << count.ilog2());
        let entries = self.drain_chain(old);
        self.home.grow_to(count + 1);
        for address in entries {
            self.place(hash_of(address), address);
        }
    }

    /// Empties a chain, puts its overflow buckets on the free list, and returns the addresses of its entries.
    fn drain_chain(&mut self, home: u32) -> Vec<ChunkAddress> {
        let mut entries = Vec::new();
        let mut at = Some(BucketId::Home(home));
        while let Some(id) = at {
            let bucket = std::mem::replace(self.bucket_mut(id), Bucket::EMPTY);
            entries.extend(bucket.entries().map(|entry| bucket.address(entry)));
            if let BucketId::Overflow(index) = id {
                self.overflow.give(index);
            }
            at = next_of(&bucket);
        }
        entries
    }

    /// Puts an entry into the first empty position of its chain, or into an additional overflow bucket if the chain is
    /// full.
    fn place(&mut self, hash: u64, address: ChunkAddress) -> Position {
        let home = self.home(hash);
        let mut at = BucketId::Home(home);
        loop {
            let bucket = self.bucket_mut(at);
            let empty = bucket.matches(0);
            if empty != 0 {
                let entry = empty.trailing_zeros() as usize;
                bucket.set(entry, tag_of(hash), address);
                return Position { home, bucket: at, entry: entry as u8 };
            }
            at = match next_of(bucket) {
                Some(next) => next,
                None => {
                    let index = self.overflow.take();
                    self.bucket_mut(at).overflow = index + 1;
                    BucketId::Overflow(index)
                }
            };
        }
    }

    /// Returns the buckets of a chain, beginning with the bucket `home`.
    fn chain(&self, home: u32) -> impl Iterator<Item = BucketId> {
        std::iter::successors(Some(BucketId::Home(home)), |&at| next_of(self.bucket(at)))
    }

    #[inline]
    fn bucket(&self, at: BucketId) -> &Bucket {
        match at {
            BucketId::Home(number) => self.home.get(number),
            BucketId::Overflow(number) => self.overflow.buckets.get(number),
        }
    }

    #[inline]
    fn bucket_mut(&mut self, at: BucketId) -> &mut Bucket {
        match at {
            BucketId::Home(number) => self.home.get_mut(number),
            BucketId::Overflow(number) => self.overflow.buckets.get_mut(number),
        }
    }

    /// Panics with the name of the broken invariant if the table breaks one. `hash_of` must return the hash of any item
    /// in the table.
    pub fn check(&self, hash_of: impl Fn(ChunkAddress) -> u64) {
        let mut entry_count = 0;
        let mut overflow_in_chains = 0;
        for home in 0..self.bucket_count() {
            for id in self.chain(home) {
                overflow_in_chains += usize::from(matches!(id, BucketId::Overflow(_)));
                let bucket = self.bucket(id);
                let empty = bucket.first_entry().is_none();
                assert!(
                    !empty || matches!(id, BucketId::Home(_)),
                    "an overflow bucket in a chain has an entry"
                );
                for entry in bucket.entries() {
                    let hash = hash_of(bucket.address(entry));
                    assert_eq!(self.home(hash), home, "an entry is in the chain of its hash");
                    assert_eq!(
                        bucket.tags[entry],
                        tag_of(hash),
                        "an entry has the tag of its hash"
                    );
                    entry_count += 1;
                }
            }
        }
        assert_eq!(entry_count, self.item_count(), "item_count is the number of entries");
        let found = overflow_in_chains + self.overflow.free_count as usize;
        let expected = self.overflow.buckets.count() as usize;
        assert_eq!(found, expected, "each overflow bucket is in a chain or on the free list");
    }
}

impl OverflowBuckets {
    /// Takes an empty bucket off the free list, or adds a bucket if the list is empty. Returns the bucket's number.
    fn take(&mut self) -> u32 {
        if let Some(number) = self.free_head.checked_sub(1) {
            let bucket = self.buckets.get_mut(number);
            self.free_head = std::mem::replace(&mut bucket.overflow, 0);
            self.free_count -= 1;
            return number;
        }
        let number = self.buckets.count();
        self.buckets.grow_to(number + 1);
        number
    }

    /// Puts an empty bucket that is in no chain on the free list.
    fn give(&mut self, number: u32) {
        self.buckets.get_mut(number).overflow = self.free_head;
        self.free_head = number + 1;
        self.free_count += 1;
    }
}
