//! A histogram of weights by distance, in bounded memory. The width of a [step](crate::steps) is a small share of the
//! distance (less than 1 %), but at least the *grain*.
//!
//! The error of a sampled distance is about the number of keys that a sampled key represents. The grain is the largest
//! power of two that does not exceed this number, so memory depends only on the number of sampled keys. The grain never
//! decreases, so each old step lies within one new step.

use crate::mrc::{Mrc, Point};
use crate::steps::{OCTAVE_STEPS, edges, place};

/// The weights of references by distance. An octave, from a distance to twice that distance, has [`OCTAVE_STEPS`] steps.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// For each octave, the weight of each step; empty if no reference was recorded in the octave.
    octaves: Vec<Vec<f64>>,
    /// The weight of references with an infinite distance.
    infinite: f64,
    /// The logarithm to base 2 of the grain, the minimum width of a step. Distances are divided by the grain before
    /// their step is determined.
    grain_log2: u32,
}

impl Histogram {
    /// Adds a reference with this distance and weight. `None` is an infinite distance: the reference misses at every
    /// size.
    pub fn record(&mut self, distance: Option<u64>, weight: f64) {
        let Some(distance) = distance else {
            self.infinite += weight;
            return;
        };
        let (octave, step) = place::<OCTAVE_STEPS>(distance >> self.grain_log2);
        if octave >= self.octaves.len() {
            self.octaves.resize(octave + 1, Vec::new());
        }
        let steps = &mut self.octaves[octave];
        if steps.is_empty() {
            *steps = vec![0.0; OCTAVE_STEPS];
        }
        steps[step] += weight;
    }

    /// Raises the grain, the minimum width of a step, to the largest power of two that is at most `grain`. Does nothing
    /// if the current grain is larger.
    pub fn set_grain(&mut self, grain: u64) {
        let grain_log2 = grain.max(1).ilog2();
        if grain_log2 <= self.grain_log2 {
            return;
        }
        let fine = Histogram { infinite: self.infinite, ..std::mem::take(self) };
        (self.infinite, self.grain_log2) = (fine.infinite, grain_log2);
        fine.steps().for_each(|(from, _, weight)| self.record(Some(from), weight));
    }

    /// Returns the grain.
    pub fn grain(&self) -> u64 {
        1 << self.grain_log2
    }

    /// Adds the weights of another histogram. The grain is then at least that of both.
    pub fn add(&mut self, other: &Histogram) {
        self.set_grain(1 << other.grain_log2);
        other.steps().for_each(|(from, _, weight)| self.record(Some(from), weight));
        self.infinite += other.infinite;
    }

    /// Multiplies all weights by this factor.
    pub fn scale(&mut self, factor: f64) {
        self.octaves.iter_mut().flatten().for_each(|weight| *weight *= factor);
        self.infinite *= factor;
    }

    /// Returns all steps with a weight in ascending order: the first distance of the step, the first distance of the
    /// next step, and the weight.
    pub fn steps(&self) -> impl DoubleEndedIterator<Item = (u64, u64, f64)> {
        let octaves = self.octaves.iter().enumerate();
        let all = octaves.flat_map(|(octave, steps)| {
            steps.iter().enumerate().map(move |(step, &weight)| (octave, step, weight))
        });
        all.filter(|&(.., weight)| weight > 0.0).map(move |(octave, step, weight)| {
            let (from, to) = edges::<OCTAVE_STEPS>(octave, step);
            (from << self.grain_log2, to << self.grain_log2, weight)
        })
    }

    /// Returns the weight of all references.
    pub fn weight(&self) -> f64 {
        self.finite_weight() + self.infinite
    }

    pub fn size_bytes(&self) -> usize {
        let steps: usize = self.octaves.iter().map(Vec::capacity).sum();
        steps * size_of::<f64>() + self.octaves.capacity() * size_of::<Vec<f64>>()
    }

    /// Returns the weight of all references with a finite distance.
    pub fn finite_weight(&self) -> f64 {
        self.octaves.iter().flatten().sum()
    }

    /// Returns the miss-ratio curve of an LRU, which is exact at its points. All weights are multiplied by `factor`,
    /// and weights of finite distances also by `finite_factor`. Then the weight `removed_hits` is removed from the hits
    /// with the smallest distances.
    pub fn mrc(&self, factor: f64, finite_factor: f64, removed_hits: f64) -> Mrc {
        // The sum starts at the largest distance, so that misses never rise with the size because of rounding.
        let infinite = self.infinite * factor;
        let mut misses = infinite;
        let mut points = Vec::new();
        for (from, to, weight) in self.steps().rev() {
            if points.last().is_none_or(|last: &Point| last.chunks != to) {
                points.push(Point { chunks: to, misses });
            }
            misses += weight * factor * finite_factor;
            points.push(Point { chunks: from, misses });
        }
        let references = (misses - removed_hits).max(infinite);
        if points.last().is_none_or(|first| first.chunks != 0) {
            points.push(Point { chunks: 0, misses });
        }
        points.reverse();
        points[0].misses = references;
        for point in &mut points {
            point.misses = point.misses.min(references);
        }
        Mrc::new(points)
    }
}

#[cfg(test)]
mod tests {
    use super::Histogram;
    use crate::Distances;
    use slabwise_base::Random;

    #[test]
    fn the_curve_is_exact_at_its_points() {
        for seed in 0..10 {
            let mut random = Random::new(seed);
            let (mut histogram, mut exact) = (Histogram::default(), Distances::default());
            for _ in 0..3_000 {
                let bound = 1 << random.below(14);
                let distance = (random.below(20) > 0).then(|| random.below(bound));
                histogram.record(distance, 1.0);
                exact.record(distance);
            }
            let (curve, exact) = (histogram.mrc(2.0, 1.0, 0.0), exact.mrc(1));
            assert_eq!(
                curve.references(),
                2.0 * exact.references(),
                "seed {seed}: number of references"
            );
            for point in curve.points() {
                let expected = 2.0 * exact.misses(point.chunks);
                assert_eq!(point.misses, expected, "seed {seed}, {} chunks", point.chunks);
            }
            assert!(curve.points().len() > 500, "seed {seed}: the curve has more than 500 points");
        }
    }

    #[test]
    fn a_growing_grain_keeps_the_curve_exact_at_its_multiples() {
        for seed in 0..10 {
            let mut random = Random::new(seed);
            let (mut coarse, mut exact) = (Histogram::default(), Histogram::default());
            for reference in 0..3_000u64 {
                coarse.set_grain(1 + reference / 50);
                let bound = 1 << random.below(14);
                let distance = random.below(bound);
                coarse.record(Some(distance), 1.0);
                exact.record(Some(distance), 1.0);
            }
            // The last grain was the largest power of two up to 60.
            let grain = 32;
            let (found, expected) = (coarse.mrc(1.0, 1.0, 7.0), exact.mrc(1.0, 1.0, 7.0));
            assert_eq!(
                found.references(),
                2_993.0,
                "seed {seed}: 7 of 3,000 references are removed"
            );
            for point in found.points().iter().filter(|point| point.chunks > 1) {
                assert_eq!(
                    point.chunks % grain,
                    0,
                    "seed {seed}: sizes are multiples of the grain"
                );
                let expected = expected.misses(point.chunks);
                assert_eq!(point.misses, expected, "seed {seed}, {} chunks", point.chunks);
            }
            assert!(found.points().len() > 100, "seed {seed}: the curve has more than 100 points");
            assert!(
                coarse.size_bytes() < exact.size_bytes() / 2 + 2_000,
                "seed {seed}: a larger grain takes less memory"
            );
        }
    }

    #[test]
    fn hits_are_scaled_and_removed_from_the_smallest_distances() {
        let mut histogram = Histogram::default();
        for (distance, weight) in [(Some(0), 1.0), (Some(3), 4.0), (None, 5.0)] {
            histogram.record(distance, weight);
        }
        let misses = |finite, taken| {
            let curve = histogram.mrc(1.0, finite, taken);
            [0, 1, 3, 4].map(|chunks| curve.misses(chunks))
        };
        assert_eq!(histogram.finite_weight(), 5.0);
        assert_eq!(misses(2.0, 0.0), [15.0, 13.0, 13.0, 5.0]);
        assert_eq!(misses(1.0, 2.0), [8.0, 8.0, 8.0, 5.0]);
        assert_eq!(misses(1.0, 100.0), [5.0; 4]);
    }
}
