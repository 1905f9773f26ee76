//! How far a sampled curve is to be trusted.
//!
//! Two things are off in a curve of a spatial sample, independent of one another to a first order:
//!
//! - *sizes*: among `c` keys a sample of rate `r` has about `c r`, with a variance of `c r (1 - r)`. A size of `c`
//!   chunks is therefore off by `s = sqrt(c (1 - r) / r)` chunks, and misses by half the fall of the curve from
//!   `c - s` to `c + s`;
//! - *counts*: all references to a key are in the sample or none, so of `misses r` sampled misses at most as many are
//!   independent as there are sampled keys. Misses are off by `misses sqrt((1 - r) / min(misses r, keys))`.
//!
//! The deviation is the root of the sum of their squares. It leaves out that keys are referenced unequally often:
//! what hot keys do to the count of references is corrected by the profiler, and at sizes of interest they hit.
//! Nor does it tell that a cliff may be up to `s` chunks away: who plans for a size near one asks for both sides.

use crate::mrc::Mrc;

/// The sample that a curve was made from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The share of keys that are in it, in (0, 1].
    pub rate: f64,
    /// How many keys that was.
    pub keys: u64,
}

impl Sample {
    /// By how many chunks a size of a curve of this sample is expected to be off, as a standard deviation.
    pub fn size_deviation(self, chunks: u64) -> f64 {
        (chunks as f64 * (1.0 - self.rate) / self.rate).sqrt()
    }
}

impl Mrc {
    /// The expected standard deviation, in misses, of this curve at a size, if it was made from such a sample.
    pub fn deviation(&self, chunks: u64, sample: Sample) -> f64 {
        let Sample { rate, keys } = sample;
        let missed = 1.0 - rate;
        let off_chunks = sample.size_deviation(chunks);
        let below = self.misses((chunks as f64 - off_chunks).max(0.0) as u64);
        let above = self.misses((chunks as f64 + off_chunks) as u64);
        let by_sizes = (below - above) / 2.0;
        let misses = self.misses(chunks);
        let independent = (misses * rate).min(keys as f64).max(1.0);
        let by_counts = misses * (missed / independent).sqrt();
        by_sizes.hypot(by_counts)
    }
}
