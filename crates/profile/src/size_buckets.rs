//! The sizes of items in two bytes, and the class of a table that holds items of a size.

use crate::class_size::ClassSize;
use slabwise_base::ClassId;
use slabwise_base::size_histogram::bucket_of;

/// The number of a bucket of [`size_histogram`](slabwise_base::size_histogram), which is at most 8,704 for items of up
/// to a gigabyte; 0 if the size is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SizeBucket(pub u16);

impl SizeBucket {
    pub const UNKNOWN: SizeBucket = SizeBucket(0);

    /// Returns the bucket of a size in bytes. The size 0 is unknown.
    #[inline]
    pub fn of(size_bytes: u64) -> SizeBucket {
        SizeBucket(u16::try_from(bucket_of(size_bytes as usize)).unwrap_or(u16::MAX))
    }
}

/// The classes of a class table, in ascending order of chunk sizes.
#[derive(Debug, Default)]
pub struct SizeClasses {
    /// The bucket of the chunk size and the number of each class.
    classes: Vec<(SizeBucket, ClassId)>,
}

impl SizeClasses {
    pub fn new(sizes: &[ClassSize]) -> SizeClasses {
        let class = |size: &ClassSize| (SizeBucket::of(size.chunk_size_bytes), size.class);
        let mut classes: Vec<_> = sizes.iter().map(class).collect();
        classes.sort_unstable();
        SizeClasses { classes }
    }

    /// Returns the class with the smallest chunks that hold items of a size. Items above the largest chunk size are
    /// chained, and counted in the largest class. Returns `None` if the size is unknown or if there are no classes.
    #[inline]
    pub fn class_for(&self, bucket: SizeBucket) -> Option<ClassId> {
        if bucket == SizeBucket::UNKNOWN {
            return None;
        }
        let index = self.classes.partition_point(|&(largest, _)| largest < bucket);
        Some(self.classes.get(index).or(self.classes.last())?.1)
    }

    pub fn size_bytes(&self) -> usize {
        self.classes.capacity() * size_of::<(SizeBucket, ClassId)>()
    }
}

#[cfg(test)]
mod tests {
    use super::{SizeBucket, SizeClasses};
    use crate::class_size::ClassSize;
    use slabwise_base::ClassId;

    #[test]
    fn an_item_belongs_to_the_class_with_the_smallest_sufficient_chunks() {
        let size = |(class, chunk_size_bytes)| ClassSize {
            class: ClassId(class),
            chunks: 0,
            chunks_per_page: 1,
            chunk_size_bytes,
        };
        let classes = SizeClasses::new(&[(7, 5_000), (2, 64), (1, 100)].map(size));
        let found = [0, 1, 64, 65, 100, 101, 5_000, 1 << 30];
        let found = found.map(|bytes| classes.class_for(SizeBucket::of(bytes)).map(|it| it.0));
        assert_eq!(found, [None, Some(2), Some(2), Some(1), Some(1), Some(7), Some(7), Some(7)]);
        assert_eq!(SizeClasses::default().class_for(SizeBucket::of(64)), None);
    }
}
