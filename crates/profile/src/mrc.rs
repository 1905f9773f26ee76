//! Miss-ratio curves, and their lower convex hulls, which bridge their cliffs.

use std::sync::Arc;

/// Misses of one class's references as a function of its size in chunks.
///
/// Counts are real numbers: a sampled reference stands for several, and one that is long past for less
/// than one.
///
/// Laws: it falls, or stays, as chunks are added; with no chunk every reference misses; between its
/// points it is linear, beyond the last one level.
#[derive(Clone, Debug, PartialEq)]
pub struct Mrc {
    /// By chunks, ascending; the first is at none. Never empty. Shared by all copies: curves are long.
    points: Arc<[Point]>,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The size.
    pub chunks: u64,
    /// Misses at that size.
    pub misses: f64,
}

/// References that hit from one size to another on, one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hits {
    /// How many.
    pub count: f64,
    /// The least size at which some of them hit, at least 1.
    pub chunks_first: u64,
    /// The size at which all of them do.
    pub chunks_last: u64,
}

impl Mrc {
    /// A curve through these points; the first, at no chunk, has all references.
    ///
    /// # Panics
    /// If the first is not at no chunk, or sizes do not rise, or misses do.
    pub fn new(points: Vec<Point>) -> Mrc {
        assert!(
            points.first().is_some_and(|first| first.chunks == 0),
            "a curve begins at no chunk"
        );
        let falls = |a: &Point, b: &Point| a.chunks < b.chunks && a.misses >= b.misses;
        assert!(points.is_sorted_by(falls), "a curve has a point a size, and does not rise");
        Mrc { points: points.into() }
    }

    /// The curve of nothing: no reference, no miss.
    pub fn empty() -> Mrc {
        Mrc { points: [Point { chunks: 0, misses: 0.0 }].into() }
    }

    /// The curve of so many references, of which these hit where there are chunks enough: those that need the
    /// fewest first.
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

    /// How many references it was made from.
    pub fn references(&self) -> f64 {
        self.points[0].misses
    }

    /// Its points, by size.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// What it takes, in bytes, however many copies there are.
    pub fn size_bytes(&self) -> usize {
        size_of_val(&*self.points)
    }

    /// The same misses of so many references: what is more or fewer of them are hits in any chunk.
    pub fn with_references(&self, references: f64) -> Mrc {
        let misses_min = self.points.last().map_or(0.0, |last| last.misses);
        let references = references.max(misses_min);
        let point = |point: &Point| Point { misses: point.misses.min(references), ..*point };
        let mut points: Vec<Point> = self.points.iter().map(point).collect();
        points[0].misses = references;
        Mrc::new(points)
    }

    /// Misses that a cache of `chunks` chunks would have had.
    pub fn misses(&self, chunks: u64) -> f64 {
        let behind = self.points.partition_point(|point| point.chunks <= chunks);
        self.misses_before(behind, chunks)
    }

    /// The same of many sizes, which must rise: in one walk, without a search for each.
    pub fn misses_of_rising(&self, sizes: impl Iterator<Item = u64>) -> impl Iterator<Item = f64> {
        let mut behind = 1;
        sizes.map(move |chunks| {
            while self.points.get(behind).is_some_and(|point| point.chunks <= chunks) {
                behind += 1;
            }
            self.misses_before(behind, chunks)
        })
    }

    /// Misses at a size between the point at `behind`, if there is one, and the one before it.
    fn misses_before(&self, behind: usize, chunks: u64) -> f64 {
        let here = self.points[behind - 1];
        let Some(next) = self.points.get(behind) else { return here.misses };
        let part = (chunks - here.chunks) as f64 / (next.chunks - here.chunks) as f64;
        here.misses + (next.misses - here.misses) * part
    }

    /// Misses of two streams of references, each with a cache of its own of the same size.
    pub fn plus(&self, other: &Mrc) -> Mrc {
        let mut sizes: Vec<u64> = [self, other]
            .iter()
            .flat_map(|curve| curve.points.iter().map(|point| point.chunks))
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        let (mut misses_min, mut points) = (f64::INFINITY, Vec::with_capacity(sizes.len()));
        for chunks in sizes {
            // Rounded sums must not rise either.
            misses_min = misses_min.min(self.misses(chunks) + other.misses(chunks));
            points.push(Point { chunks, misses: misses_min });
        }
        Mrc::new(points)
    }

    /// The same curve with its sizes in bytes, that is in chunks of one byte: so curves of several classes can
    /// be added and compared.
    pub fn in_bytes(&self, chunk_size_bytes: u64) -> Mrc {
        assert!(chunk_size_bytes > 0, "a chunk has at least one byte");
        let scaled = |point: &Point| Point { chunks: point.chunks * chunk_size_bytes, ..*point };
        Mrc::new(self.points.iter().map(scaled).collect())
    }

    /// The largest convex curve that is nowhere above this one: what is left of it once cliffs are bridged.
    /// No further chunk gains more than the one before.
    pub fn lower_hull(&self) -> Mrc {
        let points = self.points.iter().map(|point| (point.chunks, point.misses));
        let corners = lower_hull(points).into_iter();
        Mrc::new(corners.map(|(chunks, misses)| Point { chunks, misses }).collect())
    }

    /// The same of all references; 0 where there were none.
    pub fn miss_ratio(&self, chunks: u64) -> f64 {
        if self.references() == 0.0 { 0.0 } else { self.misses(chunks) / self.references() }
    }
}

/// The corners of the largest convex curve that is above none of these points, whose first numbers rise. From
/// corner to corner it falls less and less, and may rise at last.
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

/// Whether the point in the middle lies below the line between the others.
fn is_below(left: (u64, f64), middle: (u64, f64), right: (u64, f64)) -> bool {
    // Slopes are compared without dividing: hulls are made of many points.
    let (first, second) = ((middle.0 - left.0) as f64, (right.0 - middle.0) as f64);
    (middle.1 - left.1) * second < (right.1 - middle.1) * first
}

#[cfg(test)]
mod tests {
    use super::{Mrc, Point, lower_hull};
    use crate::{Distances, StackDistances};
    use slabwise_base::Random;
    use std::collections::VecDeque;

    /// Misses of a plain LRU.
    fn lru_misses(keys: &[u64], chunks: usize) -> u64 {
        let (mut queue, mut misses) = (VecDeque::new(), 0);
        for key in keys {
            match queue.iter().position(|known| known == key) {
                Some(place) => drop(queue.remove(place)),
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
    fn the_curve_is_what_an_lru_of_every_size_does() {
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
    fn between_points_the_curve_is_a_line_and_behind_the_last_level() {
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
            // Plateaus and cliffs, and gentle slopes between.
            misses *= [1.0, 0.4, 0.95][random.below(3) as usize];
            points.push(Point { chunks, misses });
        }
        Mrc::new(points)
    }

    #[test]
    fn a_sum_has_the_misses_of_both_at_every_size() {
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
    fn in_bytes_a_curve_is_the_same() {
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
    fn of_rising_sizes_it_tells_what_it_tells_of_each() {
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
    fn corners_are_points_below_which_there_is_none_and_no_line_between_two_is_above_a_third() {
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
            assert!(slopes.is_sorted_by(|a, b| a < b), "seed {seed}: {hull:?} turns");
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
