//! A histogram of item sizes.
//!
//! Each size up to [`EXACT_SIZE_BYTES_MAX`] has its own bucket. Above, each power of two has 256 buckets, so a
//! bucket's largest size is less than 0.4 % above its smallest. A bucket is represented by its largest size, so
//! that a chunk of that size holds every item of the bucket.

/// Each size up to this one has its own bucket.
pub const EXACT_SIZE_BYTES_MAX: usize = 4096;

/// The base-2 logarithm of the number of buckets in an octave.
const OCTAVE_BITS: u32 = 8;

/// One bin of a histogram: the number of items of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeBin {
    /// The size of each item.
    pub size_bytes: usize,
    /// The number of items.
    pub items: u64,
}

/// Returns the bucket of a size.
#[inline]
pub fn bucket_of(size_bytes: usize) -> usize {
    if size_bytes <= EXACT_SIZE_BYTES_MAX {
        return size_bytes;
    }
    // Sizes (2^n, 2^(n+1)] make an octave.
    let below = size_bytes - 1;
    let octave = below.ilog2() - EXACT_SIZE_BYTES_MAX.ilog2();
    let shift = below.ilog2() - OCTAVE_BITS;
    let within = (below >> shift) & ((1 << OCTAVE_BITS) - 1);
    EXACT_SIZE_BYTES_MAX + 1 + ((octave as usize) << OCTAVE_BITS) + within
}

/// Returns the largest size of a bucket.
pub fn size_bytes_max_of(bucket: usize) -> usize {
    let Some(above) = bucket.checked_sub(EXACT_SIZE_BYTES_MAX + 1) else { return bucket };
    let (octave, within) = (above >> OCTAVE_BITS, above & ((1 << OCTAVE_BITS) - 1));
    let shift = octave as u32 + EXACT_SIZE_BYTES_MAX.ilog2() - OCTAVE_BITS;
    ((1 << OCTAVE_BITS) + within + 1) << shift
}

/// The number of items of each size, in buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SizeHistogram {
    /// Items by bucket, up to the last bucket that was added to.
    items: Vec<u64>,
}

impl SizeHistogram {
    /// Adds items of one size.
    pub fn add(&mut self, size_bytes: usize, items: u64) {
        self.add_to_bucket(bucket_of(size_bytes), items);
    }

    /// Adds items of one bucket.
    pub fn add_to_bucket(&mut self, bucket: usize, items: u64) {
        if items > 0 {
            if bucket >= self.items.len() {
                self.items.resize(bucket + 1, 0);
            }
            self.items[bucket] += items;
        }
    }

    /// Returns the bins that hold items, by ascending size.
    pub fn bins(&self) -> impl DoubleEndedIterator<Item = SizeBin> + '_ {
        let filled = self.items.iter().enumerate().filter(|&(_, &items)| items > 0);
        filled.map(|(bucket, &items)| SizeBin { size_bytes: size_bytes_max_of(bucket), items })
    }

    /// Returns the number of items.
    pub fn item_count(&self) -> u64 {
        self.items.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{EXACT_SIZE_BYTES_MAX, SizeBin, SizeHistogram, bucket_of, size_bytes_max_of};

    #[test]
    fn buckets_are_exact_up_to_4_kib_and_half_a_percent_above() {
        let mut bucket_before = 0;
        for size in (0..200_000).chain((200_000..1 << 30).step_by(99_991)) {
            let bucket = bucket_of(size);
            let size_max = size_bytes_max_of(bucket);
            assert!(bucket >= bucket_before, "buckets ascend with sizes");
            assert_eq!(bucket_of(size_max), bucket, "a bucket holds its largest size");
            assert_ne!(bucket_of(size_max + 1), bucket, "a bucket holds no larger size");
            if size <= EXACT_SIZE_BYTES_MAX {
                assert_eq!(size_max, size);
            } else {
                assert!((size..=size + size / 250).contains(&size_max), "{size}: {size_max}");
            }
            bucket_before = bucket;
        }
    }

    #[test]
    fn bins_hold_the_items_that_were_added() {
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
