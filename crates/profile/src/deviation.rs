//! How far a sampled curve is to be trusted.
//!
//! Among `c` keys a spatial sample of rate `r` has about `c r`, with a variance of `c r (1 - r)`. A size of `c` chunks is
//! therefore off by `sqrt(c (1 - r) / r)` chunks, and a cliff may be up to so many chunks away: a plan for a size near
//! one looks at both sides.

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
