//! What a lost byte is worth in each class: the misses that it would save if it held an item.
//!
//! By the hull of a class's curve, a quarter more chunks than it has save so many misses a byte. Where memory is
//! divided well all classes come to the same; where it is not, a byte that is wasted next to a steep curve weighs
//! more than one beside a level curve. The values are relative: the mean byte of these classes is worth 1, and so is a
//! byte of a class of which no curve is known. Curves are
//! noisy where a class is small, so no byte is worth more than [`VALUE_MAX`], or less than one part of that.

use super::parts::Demand;
use crate::Snapshot;
use slabwise_base::SizeBar;

/// The most that a byte may be worth.
const VALUE_MAX: f64 = 4.0;
/// How much more memory a class's curve is asked for, as a part of what it has.
const STEP_SHARE: f64 = 0.25;

#[derive(Clone, Copy, Debug)]
struct Value {
    chunk_size_bytes: usize,
    bytes: f64,
    byte_value: f64,
}

/// These items, with the values of the classes of a snapshot that hold them; 1 for all where the snapshot has no
/// profiles.
pub fn valued(bars: impl Iterator<Item = SizeBar>, snapshot: &Snapshot) -> Vec<Demand> {
    let mut values = values(snapshot);
    values.sort_unstable_by_key(|value| value.chunk_size_bytes);
    let mut sizes: Vec<usize> = snapshot.classes.iter().map(|it| it.chunk_size_bytes).collect();
    sizes.sort_unstable();
    let byte_value = |size_bytes: usize| {
        // What is larger than the largest chunk lies in chunks of that size.
        let size = sizes.get(sizes.partition_point(|&size| size < size_bytes)).or(sizes.last());
        let known = size.and_then(|&size| {
            values.binary_search_by_key(&size, |value| value.chunk_size_bytes).ok()
        });
        known.map_or(1.0, |place| values[place].byte_value)
    };
    let demand = |bar: SizeBar| Demand { byte_value: byte_value(bar.size_bytes), ..bar.into() };
    bars.map(demand).collect()
}

fn values(snapshot: &Snapshot) -> Vec<Value> {
    let each = snapshot.classes.iter().zip(&snapshot.profiles);
    let each = each.filter(|(_, profile)| profile.curve.references() > 0.0);
    let mut values: Vec<Value> = each
        .map(|(class, profile)| {
            let chunks = (class.pages * class.chunks_per_page as u64) as f64;
            let step = (chunks * STEP_SHARE).max(1.0);
            let hull = profile.curve.lower_hull();
            let saved = hull.misses(chunks as u64) - hull.misses((chunks + step) as u64);
            let byte_value = saved / (step * class.chunk_size_bytes as f64);
            let bytes = chunks * class.chunk_size_bytes as f64;
            Value { chunk_size_bytes: class.chunk_size_bytes, bytes, byte_value }
        })
        .collect();
    let bytes: f64 = values.iter().map(|value| value.bytes).sum();
    let worth: f64 = values.iter().map(|value| value.bytes * value.byte_value).sum();
    for value in &mut values {
        let relative = if worth > 0.0 { value.byte_value * bytes / worth } else { 1.0 };
        value.byte_value = relative.clamp(1.0 / VALUE_MAX, VALUE_MAX);
    }
    values
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
