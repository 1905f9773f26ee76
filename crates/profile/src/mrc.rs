//! Miss-ratio curves and their lower convex hulls.

use std::sync::Arc;

/// A miss-ratio curve: the misses of the references of a class as a function of the class's size in chunks.
///
/// Numbers of misses are not integers: a sampled reference counts as several references, and the weight of an old
/// reference is below 1.
///
/// Invariants: misses never increase with the size; with no chunk every reference misses; the curve is linear between
/// its points and level after the last point.
#[derive(Clone, Debug, PartialEq)]
pub struct Mrc {
    /// The points of the curve, in ascending order of sizes. The first point is at 0 chunks. All copies of a curve
    /// share the points, because curves have many points.
    points: Arc<[Point]>,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The size of the class, in chunks.
    pub chunks: u64,
    /// The number of misses at this size.
    pub misses: f64,
}

/// References that hit if the class is large enough. The sizes from which they hit are spread evenly over a range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hits {
    /// The number of references.
    pub count: f64,
    /// The smallest size at which some of the references hit, in chunks; at least 1.
    pub chunks_first: u64,
    /// The smallest size at which all of the references hit, in chunks.
    pub chunks_last: u64,
}

impl Mrc {
    /// Creates a curve through these points. The misses of the first point, at 0 chunks, are all references.
    ///
    /// # Panics
    /// Panics if the first point is not at 0 chunks, sizes do not ascend, or misses increase.
    pub fn new(points: Vec<Point>) -> Mrc {
        assert!(
            points.first().is_some_and(|first| first.chunks == 0),
            "a curve must start at 0 chunks"
        );
        let falls = |a: &Point, b: &Point| a.chunks < b.chunks && a.misses >= b.misses;
        assert!(
            points.is_sorted_by(falls),
            "the points of a curve must ascend in size, and their misses must not increase"
        );
        Mrc { points: points.into() }
    }

    /// Returns the curve without references.
    pub fn empty() -> Mrc {
        Mrc { points: [Point { chunks: 0, misses: 0.0 }].into() }
    }

    /// Returns the curve of this many references. The references in `hits` hit if there are enough chunks; the others
    /// always miss. `hits` must be in ascending order of sizes.
    pub fn of_hits(references: f64, hits: impl IntoIterator<Item = Hits>) -> Mrc {
        let mut misses = references;
        let mut points = vec![Point { chunks: 0, misses }];
        let mut last = 0;
        for Hits { count, chunks_first, chunks_last } in hits {
            if chunks_first > last + 1 {
                points.push(Point { chunks: chunks_first - 1, misses });
                last = chunks_first - 1;
            }
            misses = (misses - count).max(0.0);
            if chunks_last > last {
                points.push(Point { chunks: chunks_last, misses });
                last = chunks_last;
            } else if let Some(point) = points.last_mut() {
                point.misses = misses;
            }
        }
        Mrc::new(points)
    }

    /// Returns the number of references.
    pub fn references(&self) -> f64 {
        self.points[0].misses
    }

    /// Returns the points of the curve in ascending order of sizes.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Returns the memory of the curve's points, in bytes. Copies of the curve share this memory.
    pub fn size_bytes(&self) -> usize {
        size_of_val(&*self.points)
    }

    /// Returns the curve with this many references and the same misses at sizes above 0. So additional references count
    /// as hits at any size above 0. If there are fewer references, no size has more misses than references.
    pub fn with_references(&self, references: f64) -> Mrc {
        let misses_min = self.points.last().map_or(0.0, |last| last.misses);
        let references = references.max(misses_min);
        let point = |point: &Point| Point { misses: point.misses.min(references), ..*point };
        let mut points: Vec<Point> = self.points.iter().map(point).collect();
        points[0].misses = references;
        Mrc::new(points)
    }

    /// Returns the misses of a class with this many chunks.
    pub fn misses(&self, chunks: u64) -> f64 {
        let next = self.points.partition_point(|point| point.chunks <= chunks);
        self.misses_before(next, chunks)
    }

    /// Returns the misses at each of these sizes, which must ascend, in one pass along the curve.
    pub fn misses_at_ascending(
        &self,
        sizes: impl Iterator<Item = u64>,
    ) -> impl Iterator<Item = f64> {
        let mut next = 1;
        sizes.map(move |chunks| {
            while self.points.get(next).is_some_and(|point| point.chunks <= chunks) {
                next += 1;
            }
            self.misses_before(next, chunks)
        })
    }

    /// Returns the misses at a size between the point before the index `next` and the point at `next`. If there is no
    /// point at `next`, the curve is level.
    fn misses_before(&self, next: usize, chunks: u64) -> f64 {
        let here = self.points[next - 1];
        let Some(next) = self.points.get(next) else { return here.misses };
        let part = (chunks - here.chunks) as f64 / (next.chunks - here.chunks) as f64;
        here.misses + (next.misses - here.misses) * part
    }

    /// Returns the sum of two curves: the misses of two streams of references, each with its own cache of the same
    /// size.
    pub fn plus(&self, other: &Mrc) -> Mrc {
        let mut sizes: Vec<u64> = [self, other]
            .iter()
            .flat_map(|curve| curve.points.iter().map(|point| point.chunks))
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        let (mut misses_min, mut points) = (f64::INFINITY, Vec::with_capacity(sizes.len()));
        for chunks in sizes {
            // The sum must not increase because of rounding.
            misses_min = misses_min.min(self.misses(chunks) + other.misses(chunks));
            points.push(Point { chunks, misses: misses_min });
        }
        Mrc::new(points)
    }

    /// Returns the curve with sizes in bytes instead of chunks, so that the curves of several classes can be added and
    /// compared.
    pub fn in_bytes(&self, chunk_size_bytes: u64) -> Mrc {
        assert!(chunk_size_bytes > 0, "a chunk must have at least 1 byte, not 0");
        let scaled = |point: &Point| Point { chunks: point.chunks * chunk_size_bytes, ..*point };
        Mrc::new(self.points.iter().map(scaled).collect())
    }

    /// Returns the lower hull: the largest convex curve that is at no size above this curve. On the hull, an additional
    /// chunk never saves more misses than the chunk before it.
    pub fn lower_hull(&self) -> Mrc {
        let points = self.points.iter().map(|point| (point.chunks, point.misses));
        let corners = lower_hull(points).into_iter();
        Mrc::new(corners.map(|(chunks, misses)| Point { chunks, misses }).collect())
    }

    /// Returns the misses with this many chunks as a share of all references; 0 if there are no references.
    pub fn miss_ratio(&self, chunks: u64) -> f64 {
        if self.references() == 0.0 { 0.0 } else { self.misses(chunks) / self.references() }
    }
}

/// Returns the corners of the lower convex hull of these points: the largest convex curve that is not above any of
/// them. The first numbers of the points must ascend. The slope of the hull increases at each corner and may become
/// positive.
pub fn lower_hull(points: impl IntoIterator<Item = (u64, f64)>) -> Vec<(u64, f64)> {
    let mut corners: Vec<(u64, f64)> = Vec::new();
    for point in points {
        while let [.., before, last] = corners[..]
            && !is_below(before, last, point)
        {
            corners.pop();
        }
        corners.push(point);
    }
    corners
}

/// Returns true if the point `middle` is below the line through the points `left` and `right`.
fn is_below(left: (u64, f64), middle: (u64, f64), right: (u64, f64)) -> bool {
    // Slopes are compared without divisions, because hulls have many points.
    let (first, second) = ((middle.0 - left.0) as f64, (right.0 - middle.0) as f64);
    (middle.1 - left.1) * second < (right.1 - middle.1) * first
}

#[cfg(test)]
mod tests {
    use super::{Mrc, Point, lower_hull};
    use crate::{Distances, StackDistances};
    use slabwise_base::Random;
    use std::collections::VecDeque;

    /// Returns the misses of a simple LRU with this many chunks.
    fn lru_misses(keys: &[u64], chunks: usize) -> u64 {
        let (mut queue, mut misses) = (VecDeque::new(), 0);
        for key in keys {
            match queue.iter().position(|known| known == key) {
                Some(index) => drop(queue.remove(index)),
                None => misses += 1,
            }
            queue.push_front(*key);
            queue.truncate(chunks);
        }
        misses
    }

    fn distances(keys: &[u64]) -> Distances {
        let (mut exact, mut distances) = (StackDistances::default(), Distances::default());
        keys.iter().for_each(|&key| distances.record(exact.reference(key)));
        distances
    }

    #[test]
    fn the_curve_equals_an_lru_of_every_size() {
        for seed in 0..10 {
            let mut random = Random::new(seed);
            let mut key = || random.below(100).min(random.below(100));
            let keys: Vec<u64> = (0..2_000).map(|_| key()).collect();
            let (fine, coarse) = (distances(&keys).mrc(1), distances(&keys).mrc(7));
            assert_eq!(fine.references(), 2_000.0);
            for chunks in 0..110 {
                let expected = lru_misses(&keys, chunks) as f64;
                assert_eq!(fine.misses(chunks as u64), expected, "seed {seed}, {chunks} chunks");
                if chunks % 7 == 0 {
                    let found = coarse.misses(chunks as u64);
                    assert_eq!(found, expected, "seed {seed}, {chunks} chunks, steps of 7");
                }
            }
        }
    }

    #[test]
    fn the_curve_is_linear_between_points_and_level_after_the_last() {
        let keys: Vec<u64> = (0..10).chain(0..10).collect();
        let mrc = distances(&keys).mrc(10);
        assert_eq!(mrc.misses(0), 20.0);
        assert_eq!(mrc.misses(5), 15.0);
        assert_eq!(mrc.misses(10), 10.0);
        assert_eq!(mrc.misses(1_000), 10.0);
        assert_eq!(mrc.miss_ratio(1_000), 0.5);
        assert_eq!(super::Mrc::empty().miss_ratio(3), 0.0);
    }

    fn random_curve(random: &mut Random) -> Mrc {
        let (mut chunks, mut misses) = (0, 1_000.0);
        let mut points = vec![Point { chunks, misses }];
        for _ in 0..random.below(30) {
            chunks += 1 + random.below(20);
            // The next part of the curve is flat, a cliff or a gentle slope.
            misses *= [1.0, 0.4, 0.95][random.below(3) as usize];
            points.push(Point { chunks, misses });
        }
        Mrc::new(points)
    }

    #[test]
    fn a_sum_has_the_misses_of_both_curves() {
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let (one, other) = (random_curve(&mut random), random_curve(&mut random));
            let sum = one.plus(&other);
            for chunks in 0..700 {
                let expected = one.misses(chunks) + other.misses(chunks);
                let off = (sum.misses(chunks) - expected).abs();
                assert!(off < 1e-6, "seed {seed}, {chunks} chunks: the sum is off by {off} misses");
            }
            assert_eq!(one.plus(&Mrc::empty()), one, "seed {seed}: an empty curve adds nothing");
        }
    }

    #[test]
    fn a_curve_in_bytes_has_the_same_misses() {
        for seed in 0..20 {
            let curve = random_curve(&mut Random::new(seed));
            let bytes = curve.in_bytes(96);
            for chunks in 0..700 {
                let off = (bytes.misses(96 * chunks) - curve.misses(chunks)).abs();
                assert!(
                    off < 1e-9,
                    "seed {seed}, {chunks} chunks: the curve is off by {off} misses"
                );
            }
        }
    }

    #[test]
    fn misses_at_ascending_sizes_equal_the_misses_at_each_size() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let curve = random_curve(&mut random);
            let mut sizes: Vec<u64> = (0..50).map(|_| random.below(700)).collect();
            sizes.sort_unstable();
            let found: Vec<f64> = curve.misses_at_ascending(sizes.iter().copied()).collect();
            let expected: Vec<f64> = sizes.iter().map(|&size| curve.misses(size)).collect();
            assert_eq!(found, expected, "seed {seed}: misses at ascending sizes");
        }
    }

    #[test]
    fn a_lower_hull_is_convex_and_touches_the_curve_at_its_corners() {
        for seed in 0..100 {
            let curve = random_curve(&mut Random::new(seed));
            let hull = curve.lower_hull();
            let gains: Vec<f64> =
                (0..700).map(|chunks| hull.misses(chunks) - hull.misses(chunks + 1)).collect();
            assert!(
                gains.is_sorted_by(|a, b| *a >= *b - 1e-9),
                "seed {seed}: the hull is convex: {hull:?}"
            );
            for chunks in 0..700 {
                let above = hull.misses(chunks) - curve.misses(chunks);
                assert!(above < 1e-9, "seed {seed}, {chunks} chunks: the hull is above by {above}");
            }
            assert!(
                hull.points().iter().all(|point| curve.points().contains(point)),
                "seed {seed}: each corner of the hull is a point of the curve"
            );
            let last = |curve: &Mrc| curve.points().last().copied();
            assert_eq!(
                hull.points()[0],
                curve.points()[0],
                "seed {seed}: the first points are equal"
            );
            assert_eq!(last(&hull), last(&curve), "seed {seed}: the last points are equal");
        }
    }

    #[test]
    fn the_lower_hull_of_points_is_convex_and_not_above_any_point() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let mut at = 0;
            let points: Vec<(u64, f64)> = (0..1 + random.below(40))
                .map(|_| {
                    at += 1 + random.below(9);
                    (at, random.below(50) as f64)
                })
                .collect();
            let hull = lower_hull(points.iter().copied());
            assert_eq!((hull.first(), hull.last()), (points.first(), points.last()));
            assert!(
                hull.iter().all(|corner| points.contains(corner)),
                "seed {seed}: corners are points: {hull:?}"
            );
            let slope = |a: (u64, f64), b: (u64, f64)| (b.1 - a.1) / (b.0 - a.0) as f64;
            let slopes: Vec<f64> = hull.windows(2).map(|two| slope(two[0], two[1])).collect();
            assert!(slopes.is_sorted_by(|a, b| a < b), "seed {seed}: the hull is convex: {hull:?}");
            for two in hull.windows(2) {
                let between = points.iter().filter(|it| (two[0].0..two[1].0).contains(&it.0));
                for point in between {
                    let line = two[0].1 + slope(two[0], two[1]) * (point.0 - two[0].0) as f64;
                    assert!(
                        point.1 >= line - 1e-9,
                        "seed {seed}: {point:?} is not below the hull {hull:?}"
                    );
                }
            }
        }
    }
}
