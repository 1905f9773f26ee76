//! The sizes, distances and reuse times of the most recent references of a sample. They say how the references of a class
//! are distributed among the sizes of its items, and how long ago the keys at a distance were used.

use crate::size_buckets::SizeBucket;
use crate::steps::{OCTAVE_STEPS, edges, place};

/// A distance or a reuse time in two bytes, rounded down by less than 1 %. The order of codes is the order of distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DistanceCode(u16);

impl DistanceCode {
    pub const INFINITE: DistanceCode = DistanceCode(u16::MAX);

    /// Encodes a distance; `None` is an infinite distance.
    pub fn new(distance: Option<u64>) -> DistanceCode {
        distance.map_or(DistanceCode::INFINITE, |distance| {
            let (octave, step) = place::<OCTAVE_STEPS>(distance);
            DistanceCode((octave * OCTAVE_STEPS + step) as u16)
        })
    }

    /// Returns the distance or reuse time, which is finite.
    pub fn value(self) -> f64 {
        let number = usize::from(self.0);
        edges::<OCTAVE_STEPS>(number / OCTAVE_STEPS, number % OCTAVE_STEPS).0 as f64
    }
}

/// A reference of a sampled key.
#[derive(Clone, Copy, Debug)]
pub struct RecentReference {
    /// The size of the key's item, which is known.
    pub bucket: SizeBucket,
    /// The distance of the key in the stack of its class.
    pub distance: DistanceCode,
    /// The time since the last use of the key, in sampled accesses; infinite if the distance is infinite.
    pub reuse_time: DistanceCode,
}

/// The most recent references, in any order.
#[derive(Debug)]
pub struct RecentReferences {
    references: Vec<RecentReference>,
    /// The index of the oldest reference, if the maximum number of references is reached.
    next: usize,
    count_max: usize,
}

impl RecentReferences {
    /// Starts without references. At most `count_max` of them are kept.
    pub fn new(count_max: usize) -> RecentReferences {
        RecentReferences { references: Vec::new(), next: 0, count_max }
    }

    /// Adds a reference with its distance and reuse time, unless the size is unknown. `None`: both are infinite. Forgets
    /// the oldest reference if there are too many.
    #[inline]
    pub fn add(&mut self, bucket: SizeBucket, distance_and_time: Option<(u64, u32)>) {
        if bucket == SizeBucket::UNKNOWN {
            return;
        }
        let distance = DistanceCode::new(distance_and_time.map(|(distance, _)| distance));
        let reuse_time = DistanceCode::new(distance_and_time.map(|(_, time)| time.into()));
        let reference = RecentReference { bucket, distance, reuse_time };
        if self.references.len() < self.count_max {
            if self.references.is_empty() {
                self.references.reserve_exact(self.count_max);
            }
            self.references.push(reference);
        } else {
            self.references[self.next] = reference;
            self.next = (self.next + 1) % self.count_max;
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &RecentReference> {
        self.references.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut RecentReference> {
        self.references.iter_mut()
    }

    pub fn size_bytes(&self) -> usize {
        self.references.capacity() * size_of::<RecentReference>()
    }
}

#[cfg(test)]
mod tests {
    use super::{DistanceCode, RecentReferences};
    use crate::size_buckets::SizeBucket;

    #[test]
    fn the_most_recent_references_are_kept() {
        let mut recent = RecentReferences::new(3);
        recent.add(SizeBucket::UNKNOWN, Some((1, 1)));
        (1..=8).for_each(|number| recent.add(SizeBucket(number), None));
        let mut kept: Vec<u16> = recent.iter().map(|it| it.bucket.0).collect();
        kept.sort_unstable();
        assert_eq!(kept, [6, 7, 8]);
    }

    #[test]
    fn codes_have_the_order_of_distances_and_a_small_error() {
        let distances = (0..1_000).chain((10..40).map(|bits| (1 << bits) + 12_345));
        let mut last = None;
        for distance in distances {
            let code = DistanceCode::new(Some(distance));
            let off = distance as f64 - code.value();
            assert!(
                off >= 0.0 && off <= distance as f64 / 100.0,
                "{distance} has a code off by {off}"
            );
            assert!(last.is_none_or(|last| last <= code), "{distance}");
            last = Some(code);
        }
        assert!(last < Some(DistanceCode::INFINITE));
    }
}
