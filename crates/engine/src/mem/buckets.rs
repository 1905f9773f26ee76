//! The buckets of the tables of all stripes. They are in one range of address space, in which the stripes alternate:
//!
//! ```text
//!   bucket 0 of stripe 0, bucket 0 of stripe 1, ..., bucket 1 of stripe 0, bucket 1 of stripe 1, ...
//! ```
//!
//! So the address of a bucket follows from its number and its stripe. A lookup reads no pointer to find the bucket, and
//! a thread can prefetch a bucket without the lock of the stripe. All stripes of a cache have about the same number of
//! buckets, so the used buckets are at the start of the range, and the system commits only this part.
//!
//! Invariant BUCKETS-ALONE: for each stripe of a [`BucketSpace`] there is one [`Buckets`], and only it accesses the
//! stripe's buckets.

use super::arena::prefetch;
use super::mapping::{HugePages, Mapping, MappingError};
use crate::layout::{ADDRESS_BITS, ChunkAddress};
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::Arc;

pub const ENTRIES_PER_BUCKET: usize = 10;

/// A bucket of ten entries. The tag and the address of one entry have the same index in the three arrays. A bucket of
/// zeros is empty.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Bucket {
    /// The tag of each entry: 8 bits of its hash, or 0 if the entry is empty.
    pub tags: [u8; ENTRIES_PER_BUCKET],
    /// The upper 8 bits of each entry's address.
    high: [u8; ENTRIES_PER_BUCKET],
    /// The lower 32 bits of each entry's address.
    low: [u32; ENTRIES_PER_BUCKET],
    /// The index of the next bucket plus one, or 0 if there is no next bucket. It links the chain of a bucket's
    /// overflow buckets, and also the free list of overflow buckets.
    pub overflow: u32,
}

const _: () = assert!(size_of::<Bucket>() == 64, "a bucket is one cache line");
const _: () = assert!(ADDRESS_BITS == 40, "low and high together hold an address of 32 + 8 bits");

impl Bucket {
    pub const EMPTY: Bucket = Bucket {
        tags: [0; ENTRIES_PER_BUCKET],
        high: [0; ENTRIES_PER_BUCKET],
        low: [0; ENTRIES_PER_BUCKET],
        overflow: 0,
    };

    #[inline]
    pub fn address(&self, entry: usize) -> ChunkAddress {
        let bits = u64::from(self.low[entry]) | u64::from(self.high[entry]) << 32;
        ChunkAddress::from_bits(bits).expect("an entry with a tag has an address")
    }

    pub fn set(&mut self, entry: usize, tag: u8, address: ChunkAddress) {
        let bits = ChunkAddress::to_bits(Some(address));
        self.tags[entry] = tag;
        self.low[entry] = bits as u32;
        self.high[entry] = (bits >> 32) as u8;
    }

    /// Returns a bit mask with a set bit at the index of each entry that has this tag.
    #[inline]
    pub fn matches(&self, tag: u8) -> u32 {
        // SAFETY: every x86-64 processor has SSE2.
        #[cfg(target_arch = "x86_64")]
        return unsafe { self.matches_by_sse2(tag) };
        #[cfg(not(target_arch = "x86_64"))]
        {
            let is_equal = self.tags.iter().map(|&entry_tag| u32::from(entry_tag == tag));
            is_equal.enumerate().fold(0, |mask, (entry, bit)| mask | bit << entry)
        }
    }

    /// Implements [`Bucket::matches`].
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "sse2")]
    fn matches_by_sse2(&self, tag: u8) -> u32 {
        use std::arch::x86_64::{
            _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8,
        };
        const _: () = assert!(ENTRIES_PER_BUCKET <= 16, "a register holds all tags of a bucket");
        const _: () =
            assert!(offset_of!(Bucket, tags) == 0, "the tags are at the start of a bucket");
        // SAFETY: the load reads the first 16 bytes of a bucket, which has 64 bytes. All of them are initialised.
        let tags = unsafe { _mm_loadu_si128(std::ptr::from_ref(self).cast()) };
        let equal = _mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8(tag as i8))) as u32;
        // The bytes after the tags belong to another field.
        equal & ((1 << ENTRIES_PER_BUCKET) - 1)
    }

    /// Returns the index of the first entry that is not empty.
    pub fn first_entry(&self) -> Option<usize> {
        self.tags.iter().position(|&tag| tag != 0)
    }

    /// Returns the indexes of all entries that are not empty.
    pub fn entries(&self) -> impl Iterator<Item = usize> + '_ {
        (0..ENTRIES_PER_BUCKET).filter(|&entry| self.tags[entry] != 0)
    }
}

/// The range of address space for the buckets of all stripes.
#[derive(Debug)]
pub struct BucketSpace {
    mapping: Mapping,
    /// The number of stripes is two to the power of this number.
    stripe_bits: u32,
    /// The largest number of buckets of a stripe.
    capacity: u32,
}

impl BucketSpace {
    /// Reserves address space for `capacity` buckets of each stripe. Returns the space, and the buckets of each stripe.
    ///
    /// Panics if the number of stripes is not a power of two.
    pub fn reserve(
        stripe_count: usize,
        capacity: u32,
        huge_pages: HugePages,
    ) -> Result<(Arc<BucketSpace>, Vec<Buckets>), MappingError> {
        assert!(stripe_count.is_power_of_two(), "{stripe_count} stripes: must be a power of two");
        let size_bytes = stripe_count * capacity as usize * size_of::<Bucket>();
        let mapping = Mapping::anonymous(size_bytes, huge_pages)?;
        let stripe_bits = stripe_count.ilog2();
        let space = Arc::new(BucketSpace { mapping, stripe_bits, capacity });
        let of_stripe = |stripe| Buckets {
            // SAFETY: `stripe` is below the number of stripes, so the first bucket of the stripe is in the mapping.
            first: unsafe { space.mapping.base().cast::<Bucket>().add(stripe) },
            stripe_bits,
            count: 0,
            space: Arc::clone(&space),
        };
        let buckets = (0..stripe_count).map(of_stripe).collect();
        Ok((space, buckets))
    }

    /// Commits the memory of the first `count` buckets of each stripe, so that later writes do not wait for the system.
    pub fn populate(&self, count: u32) {
        let rows = count.min(self.capacity) as usize;
        let len = (rows << self.stripe_bits) * size_of::<Bucket>();
        self.mapping.populate(0..len);
    }

    /// Prefetches a bucket. A number without a bucket is allowed.
    #[inline]
    pub fn prefetch(&self, stripe: usize, number: u32) {
        let index = (number as usize) << self.stripe_bits | stripe;
        prefetch(self.mapping.base().as_ptr().cast::<Bucket>().wrapping_add(index));
    }
}

/// Returns true if no address in buckets with these bytes is above `bits_max`, as bits. The addresses of empty entries count,
/// too, so that the loop over the entries of a bucket has no branch.
pub fn has_no_address_above(buckets: &[u8], bits_max: u64) -> bool {
    const HIGH_AT: usize = offset_of!(Bucket, high);
    const LOW_AT: usize = offset_of!(Bucket, low);
    let (low_max, high_max) = (bits_max as u32, (bits_max >> 32) as u8);
    let (whole, rest) = buckets.as_chunks::<{ size_of::<Bucket>() }>();
    debug_assert!(rest.is_empty(), "the bytes are whole buckets");
    whole.iter().all(|bucket| {
        let high: [u8; ENTRIES_PER_BUCKET] = std::array::from_fn(|entry| bucket[HIGH_AT + entry]);
        let low: [u32; ENTRIES_PER_BUCKET] = std::array::from_fn(|entry| {
            u32::from_ne_bytes(std::array::from_fn(|at| bucket[LOW_AT + 4 * entry + at]))
        });
        if high_max == 0 {
            return high == [0; ENTRIES_PER_BUCKET]
                && low.iter().fold(0, |max, &it| it.max(max)) <= low_max;
        }
        let is_within = |(&high, &low): (&u8, &u32)| (high, low) <= (high_max, low_max);
        high.iter().zip(&low).all(is_within)
    })
}

/// Returns the bytes of the buckets of all stripes, up to the largest number of buckets of a stripe. `all` must be the
/// buckets of every stripe of a [`BucketSpace`], in order.
pub fn bytes_of_all<'b>(all: &'b [&'b Buckets]) -> &'b [u8] {
    let (first, len) = range_of_all(all, all.iter().map(|buckets| buckets.count).max());
    // SAFETY: 1. The range is the start of the mapping, which exists as long as the borrowed buckets. A bucket has no
    // padding, and all mapped bytes are initialised. 2. `all` borrows the `Buckets` of every stripe, so nothing writes the
    // range (BUCKETS-ALONE).
    unsafe { std::slice::from_raw_parts(first.as_ptr(), len) }
}

/// Adds empty buckets until every stripe has `count`, and returns the bytes of all buckets for writing. `all` must be the
/// buckets of every stripe of a [`BucketSpace`], in order.
pub fn bytes_of_all_mut<'b>(all: &'b mut [&'b mut Buckets], count: u32) -> &'b mut [u8] {
    all.iter_mut().for_each(|buckets| buckets.grow_to(count));
    let shared: Vec<&Buckets> = all.iter().map(|buckets| &**buckets).collect();
    let (first, len) = range_of_all(&shared, Some(count));
    // SAFETY: as in `bytes_of_all`. `all` borrows the `Buckets` of every stripe exclusively, so only the holder of the slice
    // accesses the range. Any bytes are a bucket.
    unsafe { std::slice::from_raw_parts_mut(first.as_ptr(), len) }
}

/// Returns the address and the length of the first `count` buckets of every stripe. Panics unless `all` are the buckets of
/// every stripe of one space, in order.
fn range_of_all(all: &[&Buckets], count: Option<u32>) -> (NonNull<u8>, usize) {
    let space = &all.first().expect("a space has a stripe").space;
    let base = space.mapping.base();
    assert_eq!(all.len(), 1 << space.stripe_bits, "the buckets are those of every stripe");
    for (stripe, buckets) in all.iter().enumerate() {
        assert!(Arc::ptr_eq(space, &buckets.space), "all buckets are in one space");
        let offset = buckets.first.addr().get() - base.addr().get();
        assert_eq!(offset, stripe * size_of::<Bucket>(), "the stripes are in order");
    }
    let count = count.unwrap_or(0);
    assert!(count <= space.capacity, "{count} buckets: a stripe has at most {}", space.capacity);
    (base, all.len() * count as usize * size_of::<Bucket>())
}

/// The buckets of one stripe. Their numbers begin with 0.
#[derive(Debug)]
pub struct Buckets {
    first: NonNull<Bucket>,
    stripe_bits: u32,
    /// The number of buckets that the stripe uses.
    count: u32,
    /// The mapping exists as long as this reference to it.
    space: Arc<BucketSpace>,
}

// SAFETY: a `Buckets` has exclusive access to the buckets of its stripe, which are plain memory.
unsafe impl Send for Buckets {}

impl Buckets {
    /// Returns the number of buckets.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the largest number of buckets.
    pub fn capacity(&self) -> u32 {
        self.space.capacity
    }

    /// Adds empty buckets until there are `count`. Panics if this is above the capacity.
    pub fn grow_to(&mut self, count: u32) {
        let capacity = self.capacity();
        assert!(count <= capacity, "{count} buckets: a stripe has at most {capacity}");
        self.count = self.count.max(count);
    }

    /// Sets the number of buckets. Panics if it is above the capacity. The buckets beyond it must be empty.
    pub fn set_count(&mut self, count: u32) {
        assert!(
            count <= self.capacity(),
            "{count} buckets: a stripe has at most {}",
            self.capacity()
        );
        self.count = count;
    }

    #[inline]
    pub fn get(&self, number: u32) -> &Bucket {
        // SAFETY: the bucket is in the mapping, which exists as long as `self.space`. Its bytes are zero or were written
        // as a `Bucket`. Only this `Buckets`, which is borrowed, accesses it (BUCKETS-ALONE).
        unsafe { self.address(number).as_ref() }
    }

    #[inline]
    pub fn get_mut(&mut self, number: u32) -> &mut Bucket {
        // SAFETY: as in `get`. `self` is borrowed exclusively.
        unsafe { self.address(number).as_mut() }
    }

    /// Returns the address of a bucket. Panics if there is no bucket with this number.
    #[inline]
    fn address(&self, number: u32) -> NonNull<Bucket> {
        assert!(number < self.count, "bucket {number} of {}: no such bucket", self.count);
        // SAFETY: `number` is below the count, which is at most the capacity, so the bucket is in the mapping.
        unsafe { self.first.add((number as usize) << self.stripe_bits) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bucket, BucketSpace, ENTRIES_PER_BUCKET, HugePages};
    use crate::layout::ChunkAddress;

    #[test]
    fn only_tags_match() {
        let mut bucket = Bucket::EMPTY;
        // The upper bits of these addresses equal the tag.
        let address = ChunkAddress::from_bits(7 << 32 | 1).expect("a valid address");
        for (entry, tag) in [(0, 7), (4, 8), (9, 7)] {
            bucket.set(entry, tag, address);
        }
        assert_eq!(bucket.matches(7), 1 << 9 | 1);
        assert_eq!(bucket.matches(8), 1 << 4);
        assert_eq!(bucket.matches(0), 0b01_1110_1110);
    }

    #[test]
    fn addresses_above_a_limit_are_found() {
        for bits_max in [1, u64::from(u32::MAX), 1 << 32, 5 << 32 | 7] {
            for (bits, is_within) in [(1, true), (bits_max, true), (bits_max + 1, false)] {
                let mut bucket = Bucket::EMPTY;
                bucket.set(ENTRIES_PER_BUCKET - 1, 1, ChunkAddress::from_bits(bits).unwrap());
                // SAFETY: a bucket has no padding.
                let bytes: [u8; size_of::<Bucket>()] = unsafe { std::mem::transmute(bucket) };
                let buckets = [[0; size_of::<Bucket>()], bytes].concat();
                let found = super::has_no_address_above(&buckets, bits_max);
                assert_eq!(found, is_within, "{bits} within {bits_max}");
            }
        }
    }

    #[test]
    fn the_buckets_of_stripes_are_separate_and_begin_empty() {
        let (space, mut stripes) =
            BucketSpace::reserve(4, 8, HugePages::BySystem).expect("the system has memory");
        assert_eq!(space.mapping.size_bytes(), 4 * 8 * size_of::<Bucket>());
        for (stripe, buckets) in stripes.iter_mut().enumerate() {
            buckets.grow_to(8);
            for number in 0..8 {
                assert_eq!(buckets.get(number).first_entry(), None, "a new bucket is empty");
                let address = ChunkAddress::from_offset(8 * (100 * stripe + number as usize));
                buckets.get_mut(number).set(ENTRIES_PER_BUCKET - 1, 1, address);
            }
        }
        for (stripe, buckets) in stripes.iter().enumerate() {
            for number in 0..8 {
                let bucket = buckets.get(number);
                let address = ChunkAddress::from_offset(8 * (100 * stripe + number as usize));
                assert_eq!(
                    bucket.entries().map(|entry| bucket.address(entry)).collect::<Vec<_>>(),
                    [address]
                );
            }
        }
    }

    #[test]
    #[should_panic(expected = "bucket 2 of 2")]
    fn a_bucket_beyond_the_count_is_refused() {
        let (_, mut stripes) =
            BucketSpace::reserve(2, 8, HugePages::BySystem).expect("the system has memory");
        stripes[1].grow_to(2);
        stripes[1].get(2);
    }

    #[test]
    #[should_panic(expected = "9 buckets: a stripe has at most 8")]
    fn a_stripe_does_not_grow_beyond_its_capacity() {
        let (_, mut stripes) =
            BucketSpace::reserve(2, 8, HugePages::BySystem).expect("the system has memory");
        stripes[0].grow_to(9);
    }
}
