//! Counts of recent gets and misses, of sampled keys and of all keys.
//!
//! The sample has all gets of a small part of the keys. Because popularity differs between keys, its miss ratio differs
//! from that of all keys. So the counts of all keys are kept beside those of the sample.

/// The number of recent gets and misses, weighted like the references of curves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RecentGets {
    /// The number of gets of all keys; 0 if they were not reported.
    pub all: f64,
    /// The number of gets of all keys that missed.
    pub all_misses: f64,
    /// The number of gets that missed according to the sample.
    pub sampled_misses: f64,
    /// The number of gets of keys that were never stored, according to the sample. Such keys belong to no class and miss
    /// with any memory size.
    pub unstored: f64,
    /// The number of sampled keys.
    pub sampled_keys: usize,
}

/// Counts with decaying weights. A reader divides them by the current weight.
#[derive(Clone, Debug, Default)]
pub(crate) struct GetCounts {
    /// The weight of the gets of sampled keys that missed.
    pub sampled_misses: f64,
    /// The weight of the gets of sampled keys that were never stored.
    pub unstored: f64,
    all: f64,
    all_misses: f64,
    /// The gets and misses since the start at the last report; `None` before the first report.
    reported: Option<(u64, u64)>,
}

impl GetCounts {
    /// Adds the gets and misses of all keys since the last report. The arguments count since the start.
    pub fn note_all(&mut self, gets: u64, misses: u64, weight: f64) {
        if let Some((gets_before, misses_before)) = self.reported.replace((gets, misses)) {
            self.all += gets.saturating_sub(gets_before) as f64 * weight;
            self.all_misses += misses.saturating_sub(misses_before) as f64 * weight;
        }
    }

    /// Multiplies all weights by this factor.
    pub fn scale(&mut self, factor: f64) {
        let GetCounts { sampled_misses, unstored, all, all_misses, reported: _ } = self;
        for weight in [sampled_misses, unstored, all, all_misses] {
            *weight *= factor;
        }
    }

    /// Returns the counts; `weight` is the current weight.
    pub fn recent(&self, weight: f64, sampled_keys: usize) -> RecentGets {
        RecentGets {
            all: self.all / weight,
            all_misses: self.all_misses / weight,
            sampled_misses: self.sampled_misses / weight,
            unstored: self.unstored / weight,
            sampled_keys,
        }
    }
}
