//! Miss-ratio curves.

/// Misses of one class's references as a function of its size in chunks.
///
/// Counts are real numbers: a sampled reference stands for several, and one that is long past for less
/// than one.
///
/// Laws: it falls, or stays, as chunks are added; with no chunk every reference misses; between its
/// points it is linear, beyond the last one level.
#[derive(Clone, Debug, PartialEq)]
pub struct Mrc {
    /// By chunks, ascending; the first is at none. Never empty.
    points: Vec<Point>,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The size.
    pub chunks: u64,
    /// Misses at that size.
    pub misses: f64,
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
        Mrc { points }
    }

    /// The curve of nothing: no reference, no miss.
    pub fn empty() -> Mrc {
        Mrc { points: vec![Point { chunks: 0, misses: 0.0 }] }
    }

    /// How many references it was made from.
    pub fn references(&self) -> f64 {
        self.points[0].misses
    }

    /// Its points, by size.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Misses that a cache of `chunks` chunks would have had.
    pub fn misses(&self, chunks: u64) -> f64 {
        let behind = self.points.partition_point(|point| point.chunks <= chunks);
        let here = self.points[behind - 1];
        let Some(next) = self.points.get(behind) else { return here.misses };
        let part = (chunks - here.chunks) as f64 / (next.chunks - here.chunks) as f64;
        here.misses + (next.misses - here.misses) * part
    }

    /// The same of all references; 0 where there were none.
    pub fn miss_ratio(&self, chunks: u64) -> f64 {
        if self.references() == 0.0 { 0.0 } else { self.misses(chunks) / self.references() }
    }
}

#[cfg(test)]
mod tests {
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
}
