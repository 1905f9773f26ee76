//! Weights by distance in bounded memory: by [steps](crate::steps) of less than 1 % of the distance.
//!
//! An octave takes memory from its first reference on: under a low sampling rate the lower ones stay empty.

use crate::mrc::{Mrc, Point};
use crate::steps::{OCTAVE_STEPS, edges, place};

/// References by distance, with weights; an octave has so many steps.
#[derive(Clone, Debug, Default)]
pub struct Histogram<const STEPS: usize = OCTAVE_STEPS> {
    /// By octave and step; an octave that has no weight may be empty.
    octaves: Vec<Vec<f64>>,
    /// References that miss at every size.
    infinite: f64,
}

impl<const STEPS: usize> Histogram<STEPS> {
    /// Adds a reference; `None` is a distance beyond every size.
    pub fn record(&mut self, distance: Option<u64>, weight: f64) {
        let Some(distance) = distance else {
            self.infinite += weight;
            return;
        };
        let (octave, step) = place::<STEPS>(distance);
        if octave >= self.octaves.len() {
            self.octaves.resize(octave + 1, Vec::new());
        }
        let steps = &mut self.octaves[octave];
        if steps.is_empty() {
            *steps = vec![0.0; STEPS];
        }
        steps[step] += weight;
    }

    /// Multiplies every weight.
    pub fn scale(&mut self, factor: f64) {
        self.octaves.iter_mut().flatten().for_each(|weight| *weight *= factor);
        self.infinite *= factor;
    }

    /// Adds all of another, its weights multiplied.
    pub fn add(&mut self, other: &Histogram<STEPS>, factor: f64) {
        if other.octaves.len() > self.octaves.len() {
            self.octaves.resize(other.octaves.len(), Vec::new());
        }
        for (octave, more) in self.octaves.iter_mut().zip(&other.octaves) {
            octave.resize(more.len().max(octave.len()), 0.0);
            octave.iter_mut().zip(more).for_each(|(weight, more)| *weight += factor * more);
        }
        self.infinite += factor * other.infinite;
    }

    /// The weights of all distances, the least first: from a distance to the one behind its step.
    pub fn steps(&self) -> impl Iterator<Item = (u64, u64, f64)> {
        let octaves = self.octaves.iter().enumerate();
        let all = octaves.flat_map(|(octave, steps)| {
            steps.iter().enumerate().map(move |(step, &weight)| (octave, step, weight))
        });
        all.filter(|&(.., weight)| weight > 0.0).map(|(octave, step, weight)| {
            let (from, to) = edges::<STEPS>(octave, step);
            (from, to, weight)
        })
    }

    /// The sum of all weights.
    pub fn weight(&self) -> f64 {
        self.octaves.iter().flatten().sum::<f64>() + self.infinite
    }

    /// What it takes, in bytes.
    pub fn size_bytes(&self) -> usize {
        let steps: usize = self.octaves.iter().map(Vec::capacity).sum();
        steps * size_of::<f64>() + self.octaves.capacity() * size_of::<Vec<f64>>()
    }

    /// The curve of an LRU, every weight multiplied by `factor`; exact at its points. `extra`, before it is
    /// multiplied, is added at distance 0; where it is negative, it is taken from the least distances.
    pub fn mrc(&self, factor: f64, extra: f64) -> Mrc {
        // From the far end, so that no difference of sums makes a curve rise.
        let mut misses = self.infinite;
        let mut points = Vec::new();
        for (octave, steps) in self.octaves.iter().enumerate().rev() {
            for (step, &weight) in
                steps.iter().enumerate().rev().filter(|(_, weight)| **weight > 0.0)
            {
                let (from, to) = edges::<STEPS>(octave, step);
                if points.last().is_none_or(|last: &Point| last.chunks != to) {
                    points.push(Point { chunks: to, misses });
                }
                misses += weight;
                points.push(Point { chunks: from, misses });
            }
        }
        let references = (misses + extra).max(self.infinite);
        if points.last().is_none_or(|first| first.chunks != 0) {
            points.push(Point { chunks: 0, misses });
        }
        points.reverse();
        points[0].misses = references;
        for point in &mut points {
            point.misses = point.misses.min(references) * factor;
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
            let (mut histogram, mut exact) = (<Histogram>::default(), Distances::default());
            for _ in 0..3_000 {
                let bound = 1 << random.below(14);
                let distance = (random.below(20) > 0).then(|| random.below(bound));
                histogram.record(distance, 1.0);
                exact.record(distance);
            }
            let (curve, exact) = (histogram.mrc(2.0, 0.0), exact.mrc(1));
            assert_eq!(curve.references(), 2.0 * exact.references(), "seed {seed}");
            for point in curve.points() {
                let expected = 2.0 * exact.misses(point.chunks);
                assert_eq!(point.misses, expected, "seed {seed}, {} chunks", point.chunks);
            }
            assert!(curve.points().len() > 500, "seed {seed}: few points");
        }
    }

    #[test]
    fn a_histogram_that_is_added_counts_by_its_factor() {
        for seed in 0..10 {
            let mut random = Random::new(seed);
            let (mut one, mut other) = (Histogram::<16>::default(), Histogram::<16>::default());
            let mut both = Histogram::<16>::default();
            for _ in 0..500 {
                let bound = 1 << random.below(14);
                let distance = (random.below(20) > 0).then(|| random.below(bound));
                let (half, factor) =
                    if random.below(2) == 0 { (&mut one, 1.0) } else { (&mut other, 0.5) };
                half.record(distance, 2.0);
                both.record(distance, 2.0 * factor);
            }
            one.add(&other, 0.5);
            assert_eq!(one.weight(), both.weight(), "seed {seed}");
            let steps: Vec<_> = both.steps().collect();
            assert_eq!(one.steps().collect::<Vec<_>>(), steps, "seed {seed}");
            assert!(steps.is_sorted_by(|a, b| a.1 <= b.0), "seed {seed}");
        }
    }

    #[test]
    fn what_is_added_is_at_distance_0_and_what_is_taken_is_near_it() {
        let mut histogram = <Histogram>::default();
        for (distance, weight) in [(Some(0), 1.0), (Some(3), 4.0), (None, 5.0)] {
            histogram.record(distance, weight);
        }
        let misses = |extra| [0, 1, 3, 4].map(|chunks| histogram.mrc(1.0, extra).misses(chunks));
        assert_eq!(misses(2.0), [12.0, 9.0, 9.0, 5.0]);
        assert_eq!(misses(-2.0), [8.0, 8.0, 8.0, 5.0]);
        assert_eq!(misses(-100.0), [5.0; 4]);
    }
}
