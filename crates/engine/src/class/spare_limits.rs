//! The limits of spare chunks (`space/spares.rs`): the number of chunks of each class that one handle may keep.
//!
//! Invariant: the limit of a class is 0, or [`SPARES_MAX`], or the number of chunks that the class owns divided by
//! `chunks_per_spare`. The class computes its limit under its lock, each time that it gets or loses a page. So all
//! handles together may keep the configured part of the chunks of each class.

use crate::layout::TABLE_NUMBERS;
use crate::mem::SPARES_MAX;
use slabwise_base::ClassId;
use slabwise_base::sync::{AtomicU8, Ordering::Relaxed};

/// The size of the largest chunks that may be spare, in bytes.
const SPARE_SIZE_BYTES_MAX: usize = 4096;

/// The limits of all classes.
#[derive(Debug)]
pub struct SpareLimits {
    /// The number of chunks that a class owns for each chunk that one handle may keep.
    chunks_per_spare: u64,
    /// The largest class. None of its chunks is spare, because an allocation in this class compares whole and chained
    /// items.
    largest: ClassId,
    counts_max: [AtomicU8; TABLE_NUMBERS],
}

impl SpareLimits {
    /// Returns limits of 0 for all classes.
    pub fn new(chunks_per_spare: u64, largest: ClassId) -> SpareLimits {
        let counts_max = std::array::from_fn(|_| AtomicU8::new(0));
        SpareLimits { chunks_per_spare, largest, counts_max }
    }

    /// Returns the largest number of spare chunks of this class that a handle may have now.
    #[inline]
    pub fn count_max(&self, class: ClassId) -> usize {
        usize::from(self.counts_max[class.index()].load(Relaxed))
    }

    /// True if chunks of this size of this class may be spare.
    pub fn allows(&self, class: ClassId, chunk_size_bytes: usize) -> bool {
        class != self.largest && chunk_size_bytes <= SPARE_SIZE_BYTES_MAX
    }

    /// Sets the limit of a class that owns this number of chunks. The caller holds the lock of the class.
    pub fn set(&self, class: ClassId, chunk_size_bytes: usize, chunk_count: u64) {
        let allowed = self.allows(class, chunk_size_bytes);
        let count = if allowed { chunk_count / self.chunks_per_spare } else { 0 };
        let count_max = count.min(SPARES_MAX as u64) as u8;
        // CHAINED, the class without chunks, has no limit. A limit that stays the same is not written, because all
        // workers have its cache line.
        if let Some(limit) = self.counts_max.get(class.index())
            && limit.load(Relaxed) != count_max
        {
            limit.store(count_max, Relaxed);
        }
    }
}
