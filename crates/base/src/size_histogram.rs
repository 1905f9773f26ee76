//! A histogram of item sizes.
//!
//! Each size up to [`EXACT_SIZE_BYTES_MAX`] has its own bucket. Above that size, an octave (the sizes from one power of
//! two to the next) has 256 buckets, so the largest size of a bucket is less than 0.4 % above its smallest size. A
//! bucket is reported by its largest size, so that every item of the bucket fits into a chunk of that size.

/// The largest size, in bytes, that has a bucket of its own.
pub const EXACT_SIZE_BYTES_MAX: usize = 4096;

/// The base-2 logarithm of the number of buckets in an octave.
const OCTAVE_BITS: u32 = 8;

/// One bucket of a histogram: the number of items whose sizes are in the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeBin {
    /// The largest size of the bucket, in bytes.
    pub size_bytes: usize,
    /// The number of items in the bucket.
    pub items: u64,
}

/// Returns the number of the bucket that contains this size. Buckets are counted from 0, in ascending order of sizes.
#[inline]
pub fn bucket_of(size_bytes: usize) -> usize {
    if size_bytes <= EXACT_SIZE_BYTES_MAX {
        return size_bytes;
    }
    // The sizes from 2^n + 1 to 2^(n + 1) are an octave. Subtracting 1 makes all sizes of an octave start with bit n.
    let below = size_bytes - 1;
    let octave = below.ilog2() - EXACT_SIZE_BYTES_MAX.ilog2();
    let shift = below.ilog2() - OCTAVE_BITS;
    let within = (below >> shift) & ((1 << OCTAVE_BITS) - 1);
    EXACT_SIZE_BYTES_MAX + 1 + ((octave as usize) << OCTAVE_BITS) + within
}

/// Returns the largest size, in bytes, that is in this bucket.
pub fn size_bytes_max_of(bucket: usize) -> usize {
    let Some(above) = bucket.checked_sub(EXACT_SIZE_BYTES_MAX + 1) else { return bucket };
    let (octave, within) = (above >> OCTAVE_BITS, above & ((1 << OCTAVE_BITS) - 1));
    let shift = octave as u32 + EXACT_SIZE_BYTES_MAX.ilog2() - OCTAVE_BITS;
    ((1 << OCTAVE_BITS) + within + 1) << shift
}

/// The number of items in each bucket of sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SizeHistogram {
    /// One entry per bucket, up to the last bucket with items: the number of items in the bucket.
    items: Vec<u64>,
}

impl SizeHistogram {
    /// Adds this number of items of one size.
    pub fn add(&mut self, size_bytes: usize, items: u64) {
        self.add_to_bucket(bucket_of(size_bytes), items);
    }

    /// Adds this number of items to a bucket.
    pub fn add_to_bucket(&mut self, bucket: usize, items: u64) {
        if items > 0 {
            if bucket >= self.items.len() {
                self.items.resize(bucket + 1, 0);
            }
            self.items[bucket] += items;
        }
    }

    /// Returns the buckets that have items, in ascending order of sizes.
    pub fn bins(&self) -> impl DoubleEndedIterator<Item = SizeBin> + '_ {
        let filled = self.items.iter().enumerate().filter(|&(_, &items)| items > 0);
        filled.map(|(bucket, &items)| SizeBin { size_bytes: size_bytes_max_of(bucket), items })
    }

    /// Returns the number of items in all buckets.
    pub fn item_count(&self) -> u64 {
        self.items.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{EXACT_SIZE_BYTES_MAX, SizeBin, SizeHistogram, bucket_of, size_bytes_max_of};

    #[test]
    fn the_largest_size_of_a_bucket_is_at_most_0_4_percent_above_each_size_in_the_bucket() {
        let mut bucket_before = 0;
        for size in (0..200_000).chain((200_000..1 << 30).step_by(99_991)) {
            let bucket = bucket_of(size);
            let size_max = size_bytes_max_of(bucket);
            assert!(bucket >= bucket_before, "a larger size has a later bucket or the same bucket");
            assert_eq!(
                bucket_of(size_max),
                bucket,
                "the largest size of a bucket is in the bucket"
            );
            assert_ne!(bucket_of(size_max + 1), bucket, "a larger size is in another bucket");
            if size <= EXACT_SIZE_BYTES_MAX {
                assert_eq!(size_max, size);
            } else {
                assert!(
                    (size..=size + size / 250).contains(&size_max),
                    "the largest size in the bucket of {size} bytes is {size_max} bytes, not within 0.4 %"
                );
            }
            bucket_before = bucket;
        }
    }

    #[test]
    fn bins_returns_the_items_that_were_added() {
        let mut histogram = SizeHistogram::default();
        histogram.add(100, 2);
        histogram.add(5000, 1);
        histogram.add(100, 1);
        histogram.add(70, 4);
        let bin = |size_bytes, items| SizeBin { size_bytes, items };
        assert_eq!(
            histogram.bins().collect::<Vec<_>>(),
            [bin(70, 4), bin(100, 3), bin(size_bytes_max_of(bucket_of(5000)), 1)]
        );
        assert_eq!(histogram.item_count(), 8);
    }
}
