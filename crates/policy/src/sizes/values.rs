//! The value of a lost byte in each class: the misses that the byte would save if it held item data.
//!
//! The value is computed from the hull of the class's curve: the misses per byte that a quarter more chunks would save.
//! In the best partition of pages, a byte has the same value in all classes. In other partitions, a lost byte has a
//! higher value in a class with a steep curve than in a class with a flat curve. The values are relative: their mean
//! over all bytes of the classes with curves is 1 before limits are applied. If a class has no curve, the value of its
//! bytes is 1. The curves of small classes are noisy, so a value is at most [`VALUE_MAX`] and at least
//! 1 / [`VALUE_MAX`].

use super::parts::Demand;
use crate::{ClassSnapshot, Snapshot};
use slabwise_base::SizeBin;

/// The maximum value of a byte.
const VALUE_MAX: f64 = 4.0;
/// The additional memory for which the saved misses are computed, as a share of the class's memory.
const STEP_SHARE: f64 = 0.25;

/// Returns a demand for each of these bins of item sizes. Its byte value is that of the snapshot's class for this size,
/// or 1 if the snapshot has no profiles.
pub fn valued(bins: impl Iterator<Item = SizeBin>, snapshot: &Snapshot) -> Vec<Demand> {
    let values = values(snapshot);
    let byte_value = |size_bytes: usize| {
        let is_less = |class: &ClassSnapshot| class.chunk_size_bytes < size_bytes;
        // Most parts of an item that is larger than the largest chunk are in chunks of the largest size.
        let value = values.get(snapshot.classes.partition_point(is_less)).or(values.last());
        value.copied().unwrap_or(1.0)
    };
    bins.map(|SizeBin { size_bytes, items }| Demand {
        size_bytes,
        items,
        byte_value: byte_value(size_bytes),
    })
    .collect()
}

/// Returns the value of a byte in each class.
fn values(snapshot: &Snapshot) -> Vec<f64> {
    let value = |(index, class): (usize, &ClassSnapshot)| {
        let curve = &snapshot.profiles.get(index)?.curve;
        let chunks = (class.pages * class.chunks_per_page as u64) as f64;
        let step = (chunks * STEP_SHARE).max(1.0);
        let hull = curve.lower_hull();
        let saved = hull.misses(chunks as u64) - hull.misses((chunks + step) as u64);
        let chunk_size_bytes = class.chunk_size_bytes as f64;
        let known = (chunks * chunk_size_bytes, saved / (step * chunk_size_bytes));
        (curve.references() > 0.0).then_some(known)
    };
    let known: Vec<Option<(f64, f64)>> = snapshot.classes.iter().enumerate().map(value).collect();
    let bytes: f64 = known.iter().flatten().map(|(bytes, _)| bytes).sum();
    let value_sum: f64 = known.iter().flatten().map(|(bytes, value)| bytes * value).sum();
    let relative = |value: f64| if value_sum > 0.0 { value * bytes / value_sum } else { 1.0 };
    let limited = |value: f64| relative(value).clamp(1.0 / VALUE_MAX, VALUE_MAX);
    known.into_iter().map(|known| known.map_or(1.0, |(_, value)| limited(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::{VALUE_MAX, valued};
    use crate::testing::curves::{scan, snapshot};
    use slabwise_base::SizeBin;
    use slabwise_profile::{Mrc, Point};

    /// Returns a curve whose misses fall linearly, to 0 at `chunks` chunks.
    fn slope(chunks: u64, references: f64) -> Mrc {
        let points = [(0, references), (chunks, 0.0)];
        Mrc::new(points.map(|(chunks, misses)| Point { chunks, misses }).to_vec())
    }

    #[test]
    fn bytes_of_a_class_with_a_steep_curve_have_a_higher_value() {
        // Both classes have 10 pages of 10 chunks. Another page would save no miss of the second class, a scan.
        let cache = snapshot(10, vec![(10, slope(1_000, 10_000.0)), (10, scan(10_000.0))]);
        let bins = cache
            .classes
            .iter()
            .map(|class| SizeBin { size_bytes: class.chunk_size_bytes, items: 1 });
        let bins: Vec<SizeBin> = bins.collect();
        let demands = valued(bins.iter().copied(), &cache);
        assert!(
            demands[0].byte_value > 1.0,
            "a byte of the steep class is worth more: {demands:?}"
        );
        assert_eq!(
            demands[1].byte_value,
            1.0 / VALUE_MAX,
            "a byte of the scan is worth the minimum: {demands:?}"
        );
        let mut unknown = cache.clone();
        unknown.profiles.clear();
        let demands = valued(bins.into_iter(), &unknown);
        assert!(
            demands.iter().all(|demand| demand.byte_value == 1.0),
            "without profiles all values are 1: {demands:?}"
        );
    }
}
