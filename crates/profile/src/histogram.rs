//! Weights by distance in bounded memory: by [steps](crate::steps) of less than 1 % of the distance.
//!
//! An octave takes memory from its first reference on: under a low sampling rate the lower ones stay empty.

use crate::mrc::{Mrc, Point};
use crate::steps::{OCTAVE_STEPS, edges, place};

/// References by distance, with weights.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// By octave and step; an octave that has no weight may be empty.
    octaves: Vec<Vec<f64>>,
    /// References that miss at every size.
    infinite: f64,
}

impl Histogram {
    /// Adds a reference; `None` is a distance beyond every size.
    pub fn record(&mut self, distance: Option<u64>, weight: f64) {
        let Some(distance) = distance else {
            self.infinite += weight;
            return;
        };
        let (octave, step) = place(distance);
        if octave >= self.octaves.len() {
            self.octaves.resize(octave + 1, Vec::new());
        }
        let steps = &mut self.octaves[octave];
        if steps.is_empty() {
            *steps = vec![0.0; OCTAVE_STEPS];
        }
        steps[step] += weight;
    }

    /// Multiplies every weight.
    pub fn scale(&mut self, factor: f64) {
        self.octaves.iter_mut().flatten().for_each(|weight| *weight *= factor);
        self.infinite *= factor;
    }

    /// What it takes, in bytes.
    pub fn size_bytes(&self) -> usize {
        let steps: usize = self.octaves.iter().map(Vec::capacity).sum();
        steps * size_of::<f64>() + self.octaves.capacity() * size_of::<Vec<f64>>()
    }

    /// References that hit at some size.
    pub fn finite(&self) -> f64 {
        self.octaves.iter().flatten().sum()
    }

    /// The curve of an LRU; exact at its points. Every weight is multiplied by `factor`, one at a distance by
    /// `finite`, too. Then `extra` is added at distance 0; where it is negative, it is taken from the least
    /// distances.
    pub fn mrc(&self, factor: f64, finite: f64, extra: f64) -> Mrc {
        // From the far end, so that no difference of sums makes a curve rise.
        let infinite = self.infinite * factor;
        let mut misses = infinite;
        let mut points = Vec::new();
        for (octave, steps) in self.octaves.iter().enumerate().rev() {
            for (step, &weight) in
                steps.iter().enumerate().rev().filter(|(_, weight)| **weight > 0.0)
            {
                let (from, to) = edges(octave, step);
                if points.last().is_none_or(|last: &Point| last.chunks != to) {
                    points.push(Point { chunks: to, misses });
                }
                misses += weight * factor * finite;
                points.push(Point { chunks: from, misses });
            }
        }
        let references = (misses + extra).max(infinite);
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
            assert_eq!(curve.references(), 2.0 * exact.references(), "seed {seed}");
            for point in curve.points() {
                let expected = 2.0 * exact.misses(point.chunks);
                assert_eq!(point.misses, expected, "seed {seed}, {} chunks", point.chunks);
            }
            assert!(curve.points().len() > 500, "seed {seed}: few points");
        }
    }

    #[test]
    fn what_is_added_is_at_distance_0_and_what_is_taken_is_near_it() {
        let mut histogram = Histogram::default();
        for (distance, weight) in [(Some(0), 1.0), (Some(3), 4.0), (None, 5.0)] {
            histogram.record(distance, weight);
        }
        let mrc = |extra| histogram.mrc(1.0, 1.0, extra);
        let misses = |extra| [0, 1, 3, 4].map(|chunks| mrc(extra).misses(chunks));
        assert_eq!(histogram.mrc(1.0, 2.0, 0.0).misses(0), 5.0 + 2.0 * histogram.finite());
        assert_eq!(misses(2.0), [12.0, 9.0, 9.0, 5.0]);
        assert_eq!(misses(-2.0), [8.0, 8.0, 8.0, 5.0]);
        assert_eq!(misses(-100.0), [5.0; 4]);
    }
}
