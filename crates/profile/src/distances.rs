//! How many references had which distance.

use crate::mrc::{Mrc, Point};

/// Counts of references by distance, and of those that had none.
#[derive(Clone, Debug, Default)]
pub struct Distances {
    /// Element `d`: references at distance `d`.
    counts: Vec<u64>,
    first_references: u64,
}

impl Distances {
    /// Counts a reference; `None` is a key's first.
    pub fn record(&mut self, distance: Option<u64>) {
        let Some(distance) = distance else {
            self.first_references += 1;
            return;
        };
        let distance = distance as usize;
        if distance >= self.counts.len() {
            self.counts.resize(distance + 1, 0);
        }
        self.counts[distance] += 1;
    }

    /// The curve of an LRU, exact at multiples of `step_chunks` (at least 1). First references miss at
    /// every size.
    pub fn mrc(&self, step_chunks: usize) -> Mrc {
        assert!(step_chunks > 0, "a curve's points lie at least one chunk apart");
        let reused: u64 = self.counts.iter().sum();
        let references = reused + self.first_references;
        let mut left = references;
        let mut points = vec![Point { chunks: 0, misses: left as f64 }];
        for (step, counts) in self.counts.chunks(step_chunks).enumerate() {
            left -= counts.iter().sum::<u64>();
            points.push(Point { chunks: ((step + 1) * step_chunks) as u64, misses: left as f64 });
        }
        Mrc::new(points)
    }
}
