//! The hash table of a stripe: linear hashing over buckets of one cache line.
//!
//! A bucket is one cache line of ten entries; an entry is a tag (8 bits of the hash) and a chunk
//! address (40 bits). A lookup reads one line and, if a tag matches, the item. Full buckets are extended by a chain
//! of overflow buckets.
//!
//! The table grows by one bucket at a time (W. Litwin, "Linear Hashing", VLDB 1980): with
//! `bucket_count = 2^L + s` the first `s` buckets of level `L` are already split, and a hash belongs to
//! its low `L + 1` bits if that bucket exists, else to its low `L` bits. Each insertion splits at most
//! one bucket, so growth never pauses operations. The table does not shrink.
//!
//! Invariants: every entry is in the bucket chain of its hash; `item_count` = entries; an overflow bucket is
//! in exactly one chain or on the free list, and holds an entry while it is in a chain.

use super::arena::prefetch;
use crate::layout::{ADDRESS_BITS, ChunkAddress};

pub const ENTRY_COUNT: usize = 10;

/// The mean number of entries per bucket above which a bucket is split. It is low in models, so that their few items
/// cause growth.
const SPLIT_LOAD: usize = if cfg!(any(loom, shuttle)) { 1 } else { 8 };

/// The number of buckets that are allocated together (512 B). Growth adds a segment and never copies the table.
const SEGMENT_BUCKETS: usize = if cfg!(any(loom, shuttle)) { 2 } else { 8 };

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Bucket {
    /// 0 marks an empty entry.
    tags: [u8; ENTRY_COUNT],
    high: [u8; ENTRY_COUNT],
    low: [u32; ENTRY_COUNT],
    /// The next overflow bucket of this chain, plus one; 0 for none.
    overflow: u32,
}

const _: () = assert!(size_of::<Bucket>() == 64, "a bucket is one cache line");
const _: () = assert!(ADDRESS_BITS == 40, "low and high hold 32 + 8 bits");

type Segment = Box<[Bucket; SEGMENT_BUCKETS]>;

/// The position of an entry, valid until the table changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The first bucket of the entry's chain.
    home: u32,
    bucket: BucketRef,
    entry: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BucketRef {
    Home(u32),
    Overflow(u32),
}

/// The overflow buckets and their free list.
#[derive(Default)]
struct Overflow {
    segments: Vec<Segment>,
    /// The number of buckets in chains or on the free list.
    bucket_count: u32,
    /// The first free bucket, plus one; the `overflow` fields link the others.
    free_head: u32,
    free_count: u32,
}

pub struct Table {
    segments: Vec<Segment>,
    overflow: Overflow,
    bucket_count: u32,
    item_count: u32,
}

impl Bucket {
    const EMPTY: Bucket = Bucket {
        tags: [0; ENTRY_COUNT],
        high: [0; ENTRY_COUNT],
        low: [0; ENTRY_COUNT],
        overflow: 0,
    };

    fn address(&self, entry: usize) -> ChunkAddress {
        let bits = u64::from(self.low[entry]) | u64::from(self.high[entry]) << 32;
        ChunkAddress::from_bits(bits).expect("a tagged entry holds an address")
    }

    fn set(&mut self, entry: usize, tag: u8, address: ChunkAddress) {
        let bits = ChunkAddress::to_bits(Some(address));
        self.tags[entry] = tag;
        self.low[entry] = bits as u32;
        self.high[entry] = (bits >> 32) as u8;
    }

    /// A bit mask of the entries with this tag.
    #[inline]
    fn matches(&self, tag: u8) -> u32 {
        let mut mask = 0;
        for (entry, &present) in self.tags.iter().enumerate() {
            mask |= u32::from(present == tag) << entry;
        }
        mask
    }

    fn first_entry(&self) -> Option<usize> {
        self.tags.iter().position(|&tag| tag != 0)
    }

    fn next(&self) -> Option<BucketRef> {
        self.overflow.checked_sub(1).map(BucketRef::Overflow)
    }
}

/// The tag of a hash: never 0, and independent of the bits that choose stripe and bucket.
fn tag_of(hash: u64) -> u8 {
    ((hash >> 40) as u8).max(1)
}

fn new_segment() -> Segment {
    Box::new([Bucket::EMPTY; SEGMENT_BUCKETS])
}

impl Table {
    /// An empty table of one segment, which the first insertion allocates.
    pub fn new() -> Table {
        Table {
            segments: Vec::new(),
            overflow: Overflow::default(),
            bucket_count: SEGMENT_BUCKETS as u32,
            item_count: 0,
        }
    }

    /// Allocates at least `bucket_count` buckets of an empty table.
    pub fn presize(&mut self, bucket_count: u32) {
        assert!(self.segments.is_empty(), "only an empty table can be presized");
        if bucket_count > self.bucket_count {
            self.bucket_count = bucket_count;
            let segments = (bucket_count as usize).div_ceil(SEGMENT_BUCKETS);
            self.segments = (0..segments).map(|_| new_segment()).collect();
        }
    }

    pub fn item_count(&self) -> usize {
        self.item_count as usize
    }

    /// The number of buckets, without overflow buckets.
    pub fn bucket_count(&self) -> usize {
        self.bucket_count as usize
    }

    /// The heap bytes of the table.
    pub fn size_bytes(&self) -> usize {
        let segments = self.segments.len() + self.overflow.segments.len();
        let pointers = self.segments.capacity() + self.overflow.segments.capacity();
        segments * size_of::<[Bucket; SEGMENT_BUCKETS]>() + pointers * size_of::<Segment>()
    }

    /// Finds the entry of `hash` that `is_match` accepts.
    #[inline(always)]
    pub fn find(
        &self,
        hash: u64,
        mut is_match: impl FnMut(ChunkAddress) -> bool,
    ) -> Option<(Slot, ChunkAddress)> {
        if self.segments.is_empty() {
            return None;
        }
        let tag = tag_of(hash);
        let home = self.home(hash);
        let mut at = BucketRef::Home(home);
        loop {
            let bucket = self.bucket(at);
            let mut mask = bucket.matches(tag);
            while mask != 0 {
                let entry = mask.trailing_zeros() as usize;
                let address = bucket.address(entry);
                if is_match(address) {
                    return Some((Slot { home, bucket: at, entry: entry as u8 }, address));
                }
                mask &= mask - 1;
            }
            at = bucket.next()?;
        }
    }

    /// Prefetches the pointer to the segment of a hash's bucket.
    #[inline]
    pub fn prefetch_segment(&self, hash: u64) {
        if let Some(segment) = self.segments.get(self.home(hash) as usize / SEGMENT_BUCKETS) {
            prefetch(std::ptr::from_ref(segment));
        }
    }

    /// Prefetches a hash's bucket.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if !self.segments.is_empty() {
            prefetch(std::ptr::from_ref(self.bucket(BucketRef::Home(self.home(hash)))));
        }
    }

    /// The first entry that a lookup of `hash` would compare.
    #[inline]
    pub fn candidate(&self, hash: u64) -> Option<(Slot, ChunkAddress)> {
        if self.segments.is_empty() {
            return None;
        }
        let home = self.home(hash);
        let bucket = self.bucket(BucketRef::Home(home));
        let mask = bucket.matches(tag_of(hash));
        let entry = mask.trailing_zeros() as usize;
        (mask != 0).then(|| {
            let slot = Slot { home, bucket: BucketRef::Home(home), entry: entry as u8 };
            (slot, bucket.address(entry))
        })
    }

    /// The address of the entry at a position that [`Table::candidate`] returned, perhaps before the table changed.
    #[inline]
    pub fn address_at(&self, slot: Slot) -> Option<ChunkAddress> {
        let bucket = self.bucket(BucketRef::Home(slot.home));
        let entry = usize::from(slot.entry);
        (bucket.tags[entry] != 0).then(|| bucket.address(entry))
    }

    /// Adds an entry, which must not be in the table, and splits a bucket if the load is above [`SPLIT_LOAD`].
    /// Returns the entry's position. `hash_of` returns the hash of an item in the table.
    pub fn insert(
        &mut self,
        hash: u64,
        address: ChunkAddress,
        hash_of: impl Fn(ChunkAddress) -> u64,
    ) -> Slot {
        if self.segments.is_empty() {
            self.segments.push(new_segment());
        }
        let slot = self.place(hash, address);
        self.item_count += 1;
        if self.item_count as usize <= self.bucket_count as usize * SPLIT_LOAD {
            return slot;
        }
        self.split(hash_of);
        let found = self.find(hash, |other| other == address);
        found.expect("a split loses no entry").0
    }

    /// Removes an entry. An entry of the chain's last bucket takes its place, so that chains stay as short as possible.
    pub fn remove(&mut self, slot: Slot) {
        let bucket = self.bucket_mut(slot.bucket);
        debug_assert!(bucket.tags[usize::from(slot.entry)] != 0, "an entry is removed once");
        bucket.tags[usize::from(slot.entry)] = 0;
        self.item_count -= 1;
        let mut before = BucketRef::Home(slot.home);
        let Some(mut last) = self.bucket(before).next() else { return };
        while let Some(next) = self.bucket(last).next() {
            (before, last) = (last, next);
        }
        let tail = self.bucket_mut(last);
        if last != slot.bucket {
            let moved = tail.first_entry().expect("an overflow bucket holds an entry");
            let (tag, address) = (tail.tags[moved], tail.address(moved));
            tail.tags[moved] = 0;
            self.bucket_mut(slot.bucket).set(usize::from(slot.entry), tag, address);
        }
        if let (BucketRef::Overflow(index), None) = (last, self.bucket(last).first_entry()) {
            self.bucket_mut(before).overflow = 0;
            self.overflow.give(index);
        }
    }

    /// Sets the address of an entry to another chunk of the same key.
    pub fn replace(&mut self, slot: Slot, address: ChunkAddress) {
        let entry = usize::from(slot.entry);
        let bucket = self.bucket_mut(slot.bucket);
        let tag = bucket.tags[entry];
        bucket.set(entry, tag, address);
    }

    /// Every address, in arbitrary order.
    pub fn addresses(&self) -> impl Iterator<Item = ChunkAddress> + '_ {
        let overflow = &self.overflow;
        let home = self.segments.iter().flat_map(|segment| segment.iter());
        home.chain(overflow.segments.iter().flat_map(|segment| segment.iter())).flat_map(|bucket| {
            (0..ENTRY_COUNT)
                .filter(|&entry| bucket.tags[entry] != 0)
                .map(|entry| bucket.address(entry))
        })
    }

    /// The bucket that a hash belongs to.
    #[inline]
    fn home(&self, hash: u64) -> u32 {
        let level = self.bucket_count.ilog2();
        let wide = hash as u32 & ((2u32 << level) - 1);
        if wide < self.bucket_count { wide } else { wide & ((1 << level) - 1) }
    }

    /// Splits the next bucket of the level in two.
    fn split(&mut self, hash_of: impl Fn(ChunkAddress) -> u64) {
        let count = self.bucket_count;
        if (count as usize).is_multiple_of(SEGMENT_BUCKETS) {
            self.segments.push(new_segment());
        }
        let old = count - (1 << count.ilog2());
        let entries = self.drain_chain(old);
        self.bucket_count = count + 1;
        for address in entries {
            self.place(hash_of(address), address);
        }
    }

    /// Empties a chain and returns its entries. Its overflow buckets go to the free list.
    fn drain_chain(&mut self, home: u32) -> Vec<ChunkAddress> {
        let mut entries = Vec::with_capacity(2 * ENTRY_COUNT);
        let mut at = Some(BucketRef::Home(home));
        while let Some(reference) = at {
            let bucket = std::mem::replace(self.bucket_mut(reference), Bucket::EMPTY);
            let present = (0..ENTRY_COUNT).filter(|&entry| bucket.tags[entry] != 0);
            entries.extend(present.map(|entry| bucket.address(entry)));
            if let BucketRef::Overflow(index) = reference {
                self.overflow.give(index);
            }
            at = bucket.next();
        }
        entries
    }

    /// Puts an entry into the first empty position of its chain, or into a new overflow bucket.
    fn place(&mut self, hash: u64, address: ChunkAddress) -> Slot {
        let home = self.home(hash);
        let mut at = BucketRef::Home(home);
        loop {
            let bucket = self.bucket_mut(at);
            let empty = bucket.matches(0);
            if empty != 0 {
                let entry = empty.trailing_zeros() as usize;
                bucket.set(entry, tag_of(hash), address);
                return Slot { home, bucket: at, entry: entry as u8 };
            }
            at = match bucket.next() {
                Some(next) => next,
                None => {
                    let index = self.overflow.take();
                    self.bucket_mut(at).overflow = index + 1;
                    BucketRef::Overflow(index)
                }
            };
        }
    }

    fn chain(&self, home: u32) -> impl Iterator<Item = BucketRef> {
        std::iter::successors(Some(BucketRef::Home(home)), |&at| self.bucket(at).next())
    }

    #[inline]
    fn bucket(&self, at: BucketRef) -> &Bucket {
        let (segments, index) = match at {
            BucketRef::Home(index) => (&self.segments, index as usize),
            BucketRef::Overflow(index) => (&self.overflow.segments, index as usize),
        };
        &segments[index / SEGMENT_BUCKETS][index % SEGMENT_BUCKETS]
    }

    fn bucket_mut(&mut self, at: BucketRef) -> &mut Bucket {
        let (segments, index) = match at {
            BucketRef::Home(index) => (&mut self.segments, index as usize),
            BucketRef::Overflow(index) => (&mut self.overflow.segments, index as usize),
        };
        &mut segments[index / SEGMENT_BUCKETS][index % SEGMENT_BUCKETS]
    }

    /// Panics with the broken invariant, if there is one.
    pub fn check(&self, hash_of: impl Fn(ChunkAddress) -> u64) {
        let mut seen = 0;
        let mut overflow_seen = 0;
        let homes = if self.segments.is_empty() { 0 } else { self.bucket_count };
        for home in 0..homes {
            for reference in self.chain(home) {
                overflow_seen += usize::from(matches!(reference, BucketRef::Overflow(_)));
                let bucket = self.bucket(reference);
                let empty = bucket.first_entry().is_none();
                assert!(
                    !empty || matches!(reference, BucketRef::Home(_)),
                    "an overflow bucket in a chain holds an entry"
                );
                for entry in (0..ENTRY_COUNT).filter(|&entry| bucket.tags[entry] != 0) {
                    let hash = hash_of(bucket.address(entry));
                    assert_eq!(self.home(hash), home, "an entry is in the bucket of its hash");
                    assert_eq!(bucket.tags[entry], tag_of(hash), "an entry has its hash's tag");
                    seen += 1;
                }
            }
        }
        assert_eq!(seen, self.item_count(), "item_count is the number of entries");
        let overflow_known = overflow_seen + self.overflow.free_count as usize;
        assert_eq!(
            overflow_known, self.overflow.bucket_count as usize,
            "an overflow bucket is in a chain or free"
        );
    }
}

impl Overflow {
    fn take(&mut self) -> u32 {
        if let Some(index) = self.free_head.checked_sub(1) {
            let bucket = self.bucket_mut(index);
            let next = std::mem::replace(&mut bucket.overflow, 0);
            self.free_head = next;
            self.free_count -= 1;
            return index;
        }
        if (self.bucket_count as usize).is_multiple_of(SEGMENT_BUCKETS) {
            self.segments.push(new_segment());
        }
        self.bucket_count += 1;
        self.bucket_count - 1
    }

    /// Frees an empty bucket that was removed from its chain.
    fn give(&mut self, index: u32) {
        let next = self.free_head;
        self.bucket_mut(index).overflow = next;
        self.free_head = index + 1;
        self.free_count += 1;
    }

    fn bucket_mut(&mut self, index: u32) -> &mut Bucket {
        &mut self.segments[index as usize / SEGMENT_BUCKETS][index as usize % SEGMENT_BUCKETS]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Table;
    use crate::layout::ChunkAddress;
    use slabwise_base::{Random, random::mix};
    use std::collections::HashMap;

    /// The item at offset 8 * n has the hash mix(n).
    fn hash_of(address: ChunkAddress) -> u64 {
        mix((address.offset() / 8) as u64)
    }

    #[test]
    fn agrees_with_a_hash_map_as_model() {
        let mut random = Random::new(42);
        let mut table = Table::new();
        let mut model = HashMap::new();
        for step in 0..60_000u64 {
            let id = random.below(20_000);
            let address = ChunkAddress::from_offset(id as usize * 8);
            let found = table.find(mix(id), |candidate| candidate == address);
            assert_eq!(found.map(|(_, found)| found), model.get(&id).copied());
            match (found, random.below(3)) {
                (Some((slot, _)), 0) => {
                    table.remove(slot);
                    model.remove(&id);
                }
                (None, _) => {
                    table.insert(mix(id), address, hash_of);
                    model.insert(id, address);
                }
                (Some(_), _) => {}
            }
            if step % 10_000 == 0 {
                table.check(hash_of);
            }
        }
        table.check(hash_of);
        assert_eq!(table.item_count(), model.len());
    }

    #[test]
    fn replacing_items_does_not_grow_the_table() {
        let mut random = Random::new(5);
        let mut table = Table::new();
        let mut present: Vec<u64> = (0..2_000).collect();
        for &id in &present {
            table.insert(mix(id), ChunkAddress::from_offset(id as usize * 8), hash_of);
        }
        let before = table.size_bytes();
        for fresh in 2_000..400_000u64 {
            let place = random.below(2_000) as usize;
            let old = ChunkAddress::from_offset(present[place] as usize * 8);
            let (slot, _) =
                table.find(mix(present[place]), |address| address == old).expect("present");
            table.remove(slot);
            table.insert(mix(fresh), ChunkAddress::from_offset(fresh as usize * 8), hash_of);
            present[place] = fresh;
        }
        table.check(hash_of);
        let after = table.size_bytes();
        assert!(after <= before + before / 5, "the table grew from {before} to {after} bytes");
    }

    #[test]
    fn the_table_needs_less_than_11_bytes_per_item() {
        let mut table = Table::new();
        let mut worst = 0.0f64;
        for id in 0..200_000u64 {
            table.insert(mix(id), ChunkAddress::from_offset(id as usize * 8), hash_of);
            if id > 10_000 {
                worst = worst.max(table.size_bytes() as f64 / (id + 1) as f64);
            }
        }
        assert!(worst < 11.0, "{worst} bytes per item");
    }
}
