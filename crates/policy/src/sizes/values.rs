//! What a lost byte is worth in each class: the misses that it would save if it held an item.
//!
//! By the hull of a class's curve, a quarter more chunks than it has save so many misses a byte. Where memory is
//! divided well all classes come to the same; where it is not, a byte that is wasted next to a steep curve weighs
//! more than one beside a level curve. The values are relative: the mean byte of these classes is worth 1, and so is a
//! byte of a class of which no curve is known. Curves are
//! noisy where a class is small, so no byte is worth more than [`VALUE_MAX`], or less than one part of that.

use super::parts::Demand;
use crate::{ClassSnapshot, Snapshot};
use slabwise_base::SizeBar;

/// The most that a byte may be worth.
const VALUE_MAX: f64 = 4.0;
/// How much more memory a class's curve is asked for, as a part of what it has.
const STEP_SHARE: f64 = 0.25;

/// These items, with the values of the classes of a snapshot that hold them; 1 for all where the snapshot has no
/// profiles.
pub fn valued(bars: impl Iterator<Item = SizeBar>, snapshot: &Snapshot) -> Vec<Demand> {
    let values = values(snapshot);
    let byte_value = |size_bytes: usize| {
        let is_less = |class: &ClassSnapshot| class.chunk_size_bytes < size_bytes;
        // Parts of an item larger than the largest chunk are in chunks of that size.
        let value = values.get(snapshot.classes.partition_point(is_less)).or(values.last());
        value.copied().unwrap_or(1.0)
    };
    bars.map(|SizeBar { size_bytes, items }| Demand {
        size_bytes,
        items,
        byte_value: byte_value(size_bytes),
    })
    .collect()
}

/// What a byte of each class is worth.
fn values(snapshot: &Snapshot) -> Vec<f64> {
    let value = |(place, class): (usize, &ClassSnapshot)| {
        let curve = &snapshot.profiles.get(place)?.curve;
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
    let worth: f64 = known.iter().flatten().map(|(bytes, value)| bytes * value).sum();
    let relative = |value: f64| if worth > 0.0 { value * bytes / worth } else { 1.0 };
    let limited = |value: f64| relative(value).clamp(1.0 / VALUE_MAX, VALUE_MAX);
    known.into_iter().map(|known| known.map_or(1.0, |(_, value)| limited(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::{VALUE_MAX, valued};
    use crate::testing::curves::{scan, snapshot};
    use slabwise_base::SizeBar;
    use slabwise_profile::{Mrc, Point};

    /// A curve that falls evenly until all references hit.
    fn slope(chunks: u64, references: f64) -> Mrc {
        let points = [(0, references), (chunks, 0.0)];
        Mrc::new(points.map(|(chunks, misses)| Point { chunks, misses }).to_vec())
    }

    #[test]
    fn bytes_beside_a_steep_curve_are_worth_more() {
        // Both have 10 pages of 10 chunks; no page more would save a miss of the scan.
        let cache = snapshot(10, vec![(10, slope(1_000, 10_000.0)), (10, scan(10_000.0))]);
        let bars = cache
            .classes
            .iter()
            .map(|class| SizeBar { size_bytes: class.chunk_size_bytes, items: 1 });
        let bars: Vec<SizeBar> = bars.collect();
        let demands = valued(bars.iter().copied(), &cache);
        assert!(demands[0].byte_value > 1.0, "{demands:?}");
        assert_eq!(demands[1].byte_value, 1.0 / VALUE_MAX, "{demands:?}");
        let mut unknown = cache.clone();
        unknown.profiles.clear();
        let demands = valued(bars.into_iter(), &unknown);
        assert!(demands.iter().all(|demand| demand.byte_value == 1.0), "{demands:?}");
    }
}
