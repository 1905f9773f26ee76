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
    /// The chunk size in bytes and the number of each class.
    classes: Vec<(u64, ClassId)>,
}

impl SizeClasses {
    pub fn new(sizes: &[ClassSize]) -> SizeClasses {
        let class = |size: &ClassSize| (size.chunk_size_bytes, size.class);
        let mut classes: Vec<_> = sizes.iter().map(class).collect();
        classes.sort_unstable();
        SizeClasses { classes }
    }

    /// Returns the class with the smallest chunks that hold items of a size in bytes. Items above the largest chunk size
    /// are chained, and counted in the largest class. Returns `None` if the size is 0 or if there are no classes.
    #[inline]
    pub fn class_for(&self, size_bytes: u64) -> Option<ClassId> {
        self.first_class(size_bytes > 0, |chunk_size_bytes| chunk_size_bytes < size_bytes)
    }

    /// Returns the class for items of a bucket, as [`SizeClasses::class_for`] does. If a chunk size is in the bucket, it
    /// is assumed that its chunks hold all items of the bucket.
    pub fn class_for_bucket(&self, bucket: SizeBucket) -> Option<ClassId> {
        let is_below = |chunk_size_bytes| SizeBucket::of(chunk_size_bytes) < bucket;
        self.first_class(bucket != SizeBucket::UNKNOWN, is_below)
    }

    /// Returns true if items of the bucket may belong to this class.
    pub fn may_hold(&self, class: ClassId, bucket: SizeBucket) -> bool {
        let next = SizeBucket(bucket.0.saturating_add(1));
        bucket != SizeBucket::UNKNOWN
            && [bucket, next].map(|it| self.class_for_bucket(it)).contains(&Some(class))
    }

    fn first_class(&self, is_known: bool, is_below: impl Fn(u64) -> bool) -> Option<ClassId> {
        let index =
            self.classes.partition_point(|&(chunk_size_bytes, _)| is_below(chunk_size_bytes));
        let class = self.classes.get(index).or(self.classes.last()).filter(|_| is_known);
        class.map(|&(_, class)| class)
    }

    pub fn size_bytes(&self) -> usize {
        self.classes.capacity() * size_of::<(u64, ClassId)>()
    }
}

#[cfg(test)]
mod tests {
    use super::{SizeBucket, SizeClasses};
    use crate::class_size::ClassSize;
    use slabwise_base::ClassId;

    fn classes(sizes: [(u8, u64); 3]) -> SizeClasses {
        let size = |(class, chunk_size_bytes)| ClassSize {
            class: ClassId(class),
            chunks: 0,
            chunks_per_page: 1,
            chunk_size_bytes,
        };
        SizeClasses::new(&sizes.map(size))
    }

    #[test]
    fn an_item_belongs_to_the_class_with_the_smallest_sufficient_chunks() {
        let classes = classes([(7, 5_000), (2, 64), (1, 100)]);
        let sizes = [0, 1, 64, 65, 100, 101, 5_000, 1 << 30];
        let expected = [None, Some(2), Some(2), Some(1), Some(1), Some(7), Some(7), Some(7)];
        let found = sizes.map(|bytes| classes.class_for(bytes).map(|it| it.0));
        assert_eq!(found, expected);
        let found = sizes.map(|bytes| classes.class_for_bucket(SizeBucket::of(bytes)));
        assert_eq!(found.map(|class| class.map(|it| it.0)), expected);
        assert_eq!(SizeClasses::default().class_for(64), None);
    }

    #[test]
    fn a_class_may_hold_items_of_the_bucket_of_the_next_smaller_chunks() {
        // A bucket has the sizes from 5,009 to 5,024 bytes.
        let classes = classes([(0, 100), (1, 5_016), (2, 8_000)]);
        assert_eq!(
            [5_016, 5_017].map(|size| classes.class_for(size).map(|it| it.0)),
            [Some(1), Some(2)]
        );
        let bucket = SizeBucket::of(5_017);
        assert_eq!(bucket, SizeBucket::of(5_016));
        assert_eq!(classes.class_for_bucket(bucket), Some(ClassId(1)));
        assert_eq!([0, 1, 2].map(|it| classes.may_hold(ClassId(it), bucket)), [false, true, true]);
        let next = SizeBucket::of(5_025);
        assert_eq!([0, 1, 2].map(|it| classes.may_hold(ClassId(it), next)), [false, false, true]);
    }
}
