//! Miss-ratio curves, and their lower convex hulls, which bridge their cliffs.

use std::sync::Arc;

/// The misses of one class's references as a function of its size in chunks.
///
/// Counts are real numbers: a sampled reference counts for several, and an old one for less than one.
///
/// Invariants: misses never rise with chunks; with no chunk every reference misses; the curve is linear between its
/// points and level after the last one.
#[derive(Clone, Debug, PartialEq)]
pub struct Mrc {
    /// In ascending order of chunks; never empty, and the first is at 0 chunks. Shared by all copies, as curves are
    /// long.
    points: Arc<[Point]>,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The size in chunks.
    pub chunks: u64,
    /// Misses at that size.
    pub misses: f64,
}

/// References that hit from some size on, with the sizes spread evenly over a range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hits {
    /// The number of references.
    pub count: f64,
    /// The smallest size at which some of them hit, at least 1.
    pub chunks_first: u64,
    /// The size from which all of them hit.
    pub chunks_last: u64,
}

impl Mrc {
    /// A curve through these points; the first is at 0 chunks and has all references as misses.
    ///
    /// # Panics
    /// If the first point is not at 0 chunks, sizes do not ascend, or misses rise.
    pub fn new(points: Vec<Point>) -> Mrc {
        assert!(
            points.first().is_some_and(|first| first.chunks == 0),
            "a curve must start at 0 chunks"
        );
        let falls = |a: &Point, b: &Point| a.chunks < b.chunks && a.misses >= b.misses;
        assert!(
            points.is_sorted_by(falls),
            "the points of a curve must ascend in size and must not rise"
        );
        Mrc { points: points.into() }
    }

    /// The curve without references.
    pub fn empty() -> Mrc {
        Mrc { points: [Point { chunks: 0, misses: 0.0 }].into() }
    }

    /// The curve of this many references, of which `hits` hit if there are enough chunks. They must be in ascending
    /// order of the chunks that they need.
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

    /// The number of references.
    pub fn references(&self) -> f64 {
        self.points[0].misses
    }

    /// Its points in ascending order of size.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The size of its points in bytes. Copies share the points.
    pub fn size_bytes(&self) -> usize {
        size_of_val(&*self.points)
    }

    /// The curve with this many references and the same misses; the difference counts as hits at any size above 0.
    pub fn with_references(&self, references: f64) -> Mrc {
        let misses_min = self.points.last().map_or(0.0, |last| last.misses);
        let references = references.max(misses_min);
        let point = |point: &Point| Point { misses: point.misses.min(references), ..*point };
        let mut points: Vec<Point> = self.points.iter().map(point).collect();
        points[0].misses = references;
        Mrc::new(points)
    }

    /// The misses of a cache with `chunks` chunks.
    pub fn misses(&self, chunks: u64) -> f64 {
        let next = self.points.partition_point(|point| point.chunks <= chunks);
        self.misses_before(next, chunks)
    }

    /// The misses for many sizes, which must ascend, in one pass without a search for each.
    pub fn misses_of_rising(&self, sizes: impl Iterator<Item = u64>) -> impl Iterator<Item = f64> {
        let mut next = 1;
        sizes.map(move |chunks| {
            while self.points.get(next).is_some_and(|point| point.chunks <= chunks) {
                next += 1;
            }
            self.misses_before(next, chunks)
        })
    }

    /// The misses at a size between the point before index `next` and the one at `next`, if there is one.
    fn misses_before(&self, next: usize, chunks: u64) -> f64 {
        let here = self.points[next - 1];
        let Some(next) = self.points.get(next) else { return here.misses };
        let part = (chunks - here.chunks) as f64 / (next.chunks - here.chunks) as f64;
        here.misses + (next.misses - here.misses) * part
    }

    /// The misses of two streams of references, each with its own cache of the same size.
    pub fn plus(&self, other: &Mrc) -> Mrc {
        let mut sizes: Vec<u64> = [self, other]
            .iter()
            .flat_map(|curve| curve.points.iter().map(|point| point.chunks))
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        let (mut misses_min, mut points) = (f64::INFINITY, Vec::with_capacity(sizes.len()));
        for chunks in sizes {
            // Rounding must not make the sum rise.
            misses_min = misses_min.min(self.misses(chunks) + other.misses(chunks));
            points.push(Point { chunks, misses: misses_min });
        }
        Mrc::new(points)
    }

    /// The curve with sizes in bytes, as if a chunk had one byte, so that curves of several classes can be added and
    /// compared.
    pub fn in_bytes(&self, chunk_size_bytes: u64) -> Mrc {
        assert!(chunk_size_bytes > 0, "a chunk has at least one byte");
        let scaled = |point: &Point| Point { chunks: point.chunks * chunk_size_bytes, ..*point };
        Mrc::new(self.points.iter().map(scaled).collect())
    }

    /// The largest convex curve that is nowhere above this one; it bridges cliffs. Each further chunk gains at most as
    /// much as the previous one.
    pub fn lower_hull(&self) -> Mrc {
        let points = self.points.iter().map(|point| (point.chunks, point.misses));
        let corners = lower_hull(points).into_iter();
        Mrc::new(corners.map(|(chunks, misses)| Point { chunks, misses }).collect())
    }

    /// The misses as a share of all references; 0 if there are none.
    pub fn miss_ratio(&self, chunks: u64) -> f64 {
        if self.references() == 0.0 { 0.0 } else { self.misses(chunks) / self.references() }
    }
}

/// The corners of the largest convex curve that is not above any of these points, whose first numbers ascend. Its
/// slopes rise from corner to corner, and may be positive at the end.
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

/// True if the middle point is below the line through the others.
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

    /// The misses of a simple LRU.
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
            // Plateaus, cliffs and gentle slopes.
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
                assert!(off < 1e-6, "seed {seed}, {chunks} chunks: {off} off");
            }
            assert_eq!(one.plus(&Mrc::empty()), one, "seed {seed}");
        }
    }

    #[test]
    fn a_curve_in_bytes_has_the_same_misses() {
        for seed in 0..20 {
            let curve = random_curve(&mut Random::new(seed));
            let bytes = curve.in_bytes(96);
            for chunks in 0..700 {
                let off = (bytes.misses(96 * chunks) - curve.misses(chunks)).abs();
                assert!(off < 1e-9, "seed {seed}, {chunks} chunks: {off} off");
            }
        }
    }

    #[test]
    fn misses_of_rising_sizes_equal_those_of_each_size() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let curve = random_curve(&mut random);
            let mut sizes: Vec<u64> = (0..50).map(|_| random.below(700)).collect();
            sizes.sort_unstable();
            let found: Vec<f64> = curve.misses_of_rising(sizes.iter().copied()).collect();
            let expected: Vec<f64> = sizes.iter().map(|&size| curve.misses(size)).collect();
            assert_eq!(found, expected, "seed {seed}");
        }
    }

    #[test]
    fn a_lower_hull_is_convex_and_touches_the_curve_at_its_corners() {
        for seed in 0..100 {
            let curve = random_curve(&mut Random::new(seed));
            let hull = curve.lower_hull();
            let gains: Vec<f64> =
                (0..700).map(|chunks| hull.misses(chunks) - hull.misses(chunks + 1)).collect();
            assert!(gains.is_sorted_by(|a, b| *a >= *b - 1e-9), "seed {seed}: {hull:?}");
            for chunks in 0..700 {
                let above = hull.misses(chunks) - curve.misses(chunks);
                assert!(above < 1e-9, "seed {seed}, {chunks} chunks: {above} above the curve");
            }
            assert!(
                hull.points().iter().all(|point| curve.points().contains(point)),
                "seed {seed}"
            );
            let last = |curve: &Mrc| curve.points().last().copied();
            assert_eq!(hull.points()[0], curve.points()[0], "seed {seed}");
            assert_eq!(last(&hull), last(&curve), "seed {seed}");
        }
    }

    #[test]
    fn a_lower_hull_is_convex_and_not_above_any_point() {
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
            assert!(hull.iter().all(|corner| points.contains(corner)), "seed {seed}: {hull:?}");
            let slope = |a: (u64, f64), b: (u64, f64)| (b.1 - a.1) / (b.0 - a.0) as f64;
            let slopes: Vec<f64> = hull.windows(2).map(|two| slope(two[0], two[1])).collect();
            assert!(slopes.is_sorted_by(|a, b| a < b), "seed {seed}: {hull:?} is not convex");
            for two in hull.windows(2) {
                let between = points.iter().filter(|it| (two[0].0..two[1].0).contains(&it.0));
                for point in between {
                    let line = two[0].1 + slope(two[0], two[1]) * (point.0 - two[0].0) as f64;
                    assert!(point.1 >= line - 1e-9, "seed {seed}: {point:?} is below {hull:?}");
                }
            }
        }
    }
}
