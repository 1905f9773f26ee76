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

use super::arena::prefetch;
use crate::layout::{ADDRESS_BITS, ChunkAddress};

pub const ENTRIES_PER_BUCKET: usize = 10;

/// The mean number of entries per bucket above which an insertion splits a bucket. The number is low under loom and
/// shuttle, so that the few items of a model cause splits.
const SPLIT_LOAD: usize = if cfg!(any(loom, shuttle)) { 1 } else { 8 };

/// The number of buckets in a segment, the unit in which a table allocates buckets (512 bytes). So a table allocates
/// buckets without a copy of the existing buckets.
const BUCKETS_PER_SEGMENT: usize = if cfg!(any(loom, shuttle)) { 2 } else { 8 };

/// A bucket of ten entries. The tag and the address of one entry have the same index in the three arrays.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Bucket {
    /// The tag of each entry: 8 bits of its hash, or 0 if the entry is empty.
    tags: [u8; ENTRIES_PER_BUCKET],
    /// The upper 8 bits of each entry's address.
    high: [u8; ENTRIES_PER_BUCKET],
    /// The lower 32 bits of each entry's address.
    low: [u32; ENTRIES_PER_BUCKET],
    /// The index of the next bucket plus one, or 0 if there is no next bucket. It links the chain of a bucket's
    /// overflow buckets, and also the free list of overflow buckets.
    overflow: u32,
}

const _: () = assert!(size_of::<Bucket>() == 64, "a bucket is one cache line");
const _: () = assert!(ADDRESS_BITS == 40, "low and high together hold an address of 32 + 8 bits");

type Segment = Box<[Bucket; BUCKETS_PER_SEGMENT]>;

/// The position of an entry in the table. A position is valid until the table changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The index of the first bucket of the entry's chain.
    home: u32,
    /// The bucket that holds the entry.
    bucket: BucketId,
    /// The index of the entry in its bucket.
    entry: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BucketId {
    /// The first bucket of a chain, by its index in [`Table::segments`].
    Home(u32),
    /// An overflow bucket, by its index in [`OverflowBuckets::segments`].
    Overflow(u32),
}

/// The overflow buckets of a table, and the free list of those that are in no chain.
#[derive(Default)]
struct OverflowBuckets {
    segments: Vec<Segment>,
    /// The number of overflow buckets in chains and on the free list.
    bucket_count: u32,
    /// The index of the first bucket on the free list plus one, or 0 if the list is empty. [`Bucket::overflow`] links
    /// the further buckets of the list.
    free_head: u32,
    /// The number of buckets on the free list.
    free_count: u32,
}

/// A hash table of chunk addresses.
pub struct Table {
    /// The buckets of the table without overflow buckets. Empty until the first insertion or [`Table::presize`].
    segments: Vec<Segment>,
    overflow: OverflowBuckets,
    /// The number of buckets in use, without overflow buckets.
    bucket_count: u32,
    /// The number of entries.
    item_count: u32,
}

impl Bucket {
    const EMPTY: Bucket = Bucket {
        tags: [0; ENTRIES_PER_BUCKET],
        high: [0; ENTRIES_PER_BUCKET],
        low: [0; ENTRIES_PER_BUCKET],
        overflow: 0,
    };

    fn address(&self, entry: usize) -> ChunkAddress {
        let bits = u64::from(self.low[entry]) | u64::from(self.high[entry]) << 32;
        ChunkAddress::from_bits(bits).expect("an entry with a tag has an address")
    }

    fn set(&mut self, entry: usize, tag: u8, address: ChunkAddress) {
        let bits = ChunkAddress::to_bits(Some(address));
        self.tags[entry] = tag;
        self.low[entry] = bits as u32;
        self.high[entry] = (bits >> 32) as u8;
    }

    /// Returns a bit mask with a set bit at the index of each entry that has this tag.
    #[inline]
    fn matches(&self, tag: u8) -> u32 {
        let mut mask = 0;
        for (entry, &entry_tag) in self.tags.iter().enumerate() {
            mask |= u32::from(entry_tag == tag) << entry;
        }
        mask
    }

    fn first_entry(&self) -> Option<usize> {
        self.tags.iter().position(|&tag| tag != 0)
    }

    fn next(&self) -> Option<BucketId> {
        self.overflow.checked_sub(1).map(BucketId::Overflow)
    }
}

/// Returns the tag of a hash. A tag is never 0, and uses other bits of the hash than the choice of stripe and bucket.
fn tag_of(hash: u64) -> u8 {
    ((hash >> 40) as u8).max(1)
}

fn new_segment() -> Segment {
    Box::new([Bucket::EMPTY; BUCKETS_PER_SEGMENT])
}

impl Table {
    /// Returns an empty table of one segment. The first insertion allocates this segment.
    pub fn new() -> Table {
        Table {
            segments: Vec::new(),
            overflow: OverflowBuckets::default(),
            bucket_count: BUCKETS_PER_SEGMENT as u32,
            item_count: 0,
        }
    }

    /// Allocates `bucket_count` buckets for a table without allocated buckets, so that it need not grow to this size by
    /// splits. Has no effect if the buckets are not more than one segment.
    pub fn presize(&mut self, bucket_count: u32) {
        assert!(self.segments.is_empty(), "a table is presized before its first insertion");
        if bucket_count > self.bucket_count {
            self.bucket_count = bucket_count;
            let segments = (bucket_count as usize).div_ceil(BUCKETS_PER_SEGMENT);
            self.segments = (0..segments).map(|_| new_segment()).collect();
        }
    }

    pub fn item_count(&self) -> usize {
        self.item_count as usize
    }

    /// Returns the number of buckets, without overflow buckets.
    pub fn bucket_count(&self) -> usize {
        self.bucket_count as usize
    }

    /// Returns the number of heap bytes that the table uses.
    pub fn size_bytes(&self) -> usize {
        let segments = self.segments.len() + self.overflow.segments.len();
        let pointers = self.segments.capacity() + self.overflow.segments.capacity();
        segments * size_of::<[Bucket; BUCKETS_PER_SEGMENT]>() + pointers * size_of::<Segment>()
    }

    /// Returns the position and the address of the first entry whose address `is_match` accepts. Calls `is_match` only
    /// for the entries in the bucket chain of `hash` that have the tag of `hash`.
    #[inline(always)]
    pub fn find(
        &self,
        hash: u64,
        mut is_match: impl FnMut(ChunkAddress) -> bool,
    ) -> Option<(Position, ChunkAddress)> {
        if self.segments.is_empty() {
            return None;
        }
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
            at = bucket.next()?;
        }
    }

    /// Prefetches the pointer to the segment that contains the bucket of a hash.
    #[inline]
    pub fn prefetch_segment(&self, hash: u64) {
        if let Some(segment) = self.segments.get(self.home(hash) as usize / BUCKETS_PER_SEGMENT) {
            prefetch(std::ptr::from_ref(segment));
        }
    }

    /// Prefetches the bucket of a hash. Reads the pointer that [`Table::prefetch_segment`] prefetches.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if !self.segments.is_empty() {
            prefetch(std::ptr::from_ref(self.bucket(BucketId::Home(self.home(hash)))));
        }
    }

    /// Returns the position and the address of the first entry whose key a lookup of `hash` would compare. Ignores
    /// overflow buckets.
    #[inline]
    pub fn candidate(&self, hash: u64) -> Option<(Position, ChunkAddress)> {
        if self.segments.is_empty() {
            return None;
        }
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
        if self.segments.is_empty() {
            self.segments.push(new_segment());
        }
        let position = self.place(hash, address);
        self.item_count += 1;
        if self.item_count as usize <= self.bucket_count as usize * SPLIT_LOAD {
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
        let Some(mut last) = self.bucket(before).next() else { return };
        while let Some(next) = self.bucket(last).next() {
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
        let overflow = &self.overflow;
        let home = self.segments.iter().flat_map(|segment| segment.iter());
        home.chain(overflow.segments.iter().flat_map(|segment| segment.iter())).flat_map(|bucket| {
            (0..ENTRIES_PER_BUCKET)
                .filter(|&entry| bucket.tags[entry] != 0)
                .map(|entry| bucket.address(entry))
        })
    }

    /// Returns the index of the first bucket in the chain of a hash.
    #[inline]
    fn home(&self, hash: u64) -> u32 {
        let level = self.bucket_count.ilog2();
        let low_bits = hash as u32 & ((2u32 << level) - 1);
        if low_bits < self.bucket_count { low_bits } else { low_bits & ((1 << level) - 1) }
    }

    /// Splits a bucket: the first of the lower `2^L` buckets that is not split yet (see the head of this file). Adds a
    /// bucket, and distributes the entries of the old bucket over the old and the new bucket.
    fn split(&mut self, hash_of: impl Fn(ChunkAddress) -> u64) {
        let count = self.bucket_count;
        if (count as usize).is_multiple_of(BUCKETS_PER_SEGMENT) {
            self.segments.push(new_segment());
        }
        let old = count - (1 << count.ilog2());
        let entries = self.drain_chain(old);
        self.bucket_count = count + 1;
        for address in entries {
            self.place(hash_of(address), address);
        }
    }

    /// Empties a chain, puts its overflow buckets on the free list, and returns the addresses of its entries.
    fn drain_chain(&mut self, home: u32) -> Vec<ChunkAddress> {
        let mut entries = Vec::with_capacity(2 * ENTRIES_PER_BUCKET);
        let mut at = Some(BucketId::Home(home));
        while let Some(id) = at {
            let bucket = std::mem::replace(self.bucket_mut(id), Bucket::EMPTY);
            let present = (0..ENTRIES_PER_BUCKET).filter(|&entry| bucket.tags[entry] != 0);
            entries.extend(present.map(|entry| bucket.address(entry)));
            if let BucketId::Overflow(index) = id {
                self.overflow.give(index);
            }
            at = bucket.next();
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
            at = match bucket.next() {
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
        std::iter::successors(Some(BucketId::Home(home)), |&at| self.bucket(at).next())
    }

    #[inline]
    fn bucket(&self, at: BucketId) -> &Bucket {
        let (segments, index) = match at {
            BucketId::Home(index) => (&self.segments, index as usize),
            BucketId::Overflow(index) => (&self.overflow.segments, index as usize),
        };
        &segments[index / BUCKETS_PER_SEGMENT][index % BUCKETS_PER_SEGMENT]
    }

    fn bucket_mut(&mut self, at: BucketId) -> &mut Bucket {
        let (segments, index) = match at {
            BucketId::Home(index) => (&mut self.segments, index as usize),
            BucketId::Overflow(index) => (&mut self.overflow.segments, index as usize),
        };
        &mut segments[index / BUCKETS_PER_SEGMENT][index % BUCKETS_PER_SEGMENT]
    }

    /// Panics with the name of the broken invariant if the table breaks one. `hash_of` must return the hash of any item
    /// in the table.
    pub fn check(&self, hash_of: impl Fn(ChunkAddress) -> u64) {
        let mut entry_count = 0;
        let mut overflow_in_chains = 0;
        let homes = if self.segments.is_empty() { 0 } else { self.bucket_count };
        for home in 0..homes {
            for id in self.chain(home) {
                overflow_in_chains += usize::from(matches!(id, BucketId::Overflow(_)));
                let bucket = self.bucket(id);
                let empty = bucket.first_entry().is_none();
                assert!(
                    !empty || matches!(id, BucketId::Home(_)),
                    "an overflow bucket in a chain has an entry"
                );
                for entry in (0..ENTRIES_PER_BUCKET).filter(|&entry| bucket.tags[entry] != 0) {
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
        let expected = self.overflow.bucket_count as usize;
        assert_eq!(found, expected, "each overflow bucket is in a chain or on the free list");
    }
}

impl OverflowBuckets {
    /// Takes an empty bucket off the free list, or adds a bucket if the list is empty. Returns the index of the bucket.
    fn take(&mut self) -> u32 {
        if let Some(index) = self.free_head.checked_sub(1) {
            let bucket = self.bucket_mut(index);
            let next = std::mem::replace(&mut bucket.overflow, 0);
            self.free_head = next;
            self.free_count -= 1;
            return index;
        }
        if (self.bucket_count as usize).is_multiple_of(BUCKETS_PER_SEGMENT) {
            self.segments.push(new_segment());
        }
        self.bucket_count += 1;
        self.bucket_count - 1
    }

    /// Puts an empty bucket that is in no chain on the free list.
    fn give(&mut self, index: u32) {
        let next = self.free_head;
        self.bucket_mut(index).overflow = next;
        self.free_head = index + 1;
        self.free_count += 1;
    }

    fn bucket_mut(&mut self, index: u32) -> &mut Bucket {
        &mut self.segments[index as usize / BUCKETS_PER_SEGMENT]
            [index as usize % BUCKETS_PER_SEGMENT]
    }
}
