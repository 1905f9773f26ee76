//! One class of a [`Profiler`](crate::Profiler): its sampled keys in order of use, and its counts.

use crate::class_profile::{ClassProfile, Sample};
use crate::decay::DecayingMean;
use crate::histogram::Histogram;
use crate::mrc::{Mrc, Point};
use crate::stack::Stack;
use slabwise_base::ClassId;

/// A distance of fewer sampled keys is small: at larger ones, hot keys in the sample and hot keys outside it cancel
/// each other out.
const NEAR_SAMPLED_KEYS: f64 = 4.0;

/// The current size of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassSize {
    /// The number of the class.
    pub class: ClassId,
    /// Chunks on its pages.
    pub chunks: u64,
    /// Chunks on a page; at least 1.
    pub chunks_per_page: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// The weight for counts since the start: 1 / rate.
    pub total: f64,
    /// The weight for decaying counts: 1 / rate times the current weight.
    pub decaying: f64,
}

#[derive(Debug, Default)]
pub struct ClassKeys {
    /// Sampled keys that were stored last in this class and are not deleted.
    pub stack: Stack,
    pub size: Option<ClassSize>,
    pub keys_max: usize,
    /// The mean time from a miss to the store that follows it, in microseconds.
    pub miss_time_us: DecayingMean,
    /// Scaled hits of the sample since the last report of hits.
    pub hits_sampled: f64,
    hits_reported: Option<u64>,
    /// The difference of all hits and the sample's hits, as a decaying weight.
    hits_missing: f64,
    histogram: Histogram,
    misses: f64,
    misses_by_eviction: f64,
    /// See [`ClassProfile::shadow_hits`].
    pub shadow_hits: f64,
}

impl ClassKeys {
    pub fn unlimited() -> ClassKeys {
        ClassKeys { keys_max: usize::MAX, ..ClassKeys::default() }
    }

    pub fn hit(&mut self, distance: u64, share: Share) {
        self.record(Some(distance), share);
    }

    /// Counts a get miss; without a distance it misses at every size.
    pub fn miss(&mut self, distance: Option<u64>, share: Share) {
        self.record(distance, share);
        self.misses += share.total;
        let Some(distance) = distance else { return };
        self.misses_by_eviction += share.total;
        let is_shadow =
            |size: ClassSize| (size.chunks..size.chunks + size.chunks_per_page).contains(&distance);
        if self.size.is_some_and(is_shadow) {
            self.shadow_hits += share.total;
        }
    }

    /// Sets the hits since the start. The difference from the sample's hits since the last call gets this weight; 0 if
    /// hits were lost for another reason than sampling.
    pub fn note_hits(&mut self, hits: u64, weight: f64) {
        if let Some(before) = self.hits_reported.replace(hits) {
            let since = hits.saturating_sub(before) as f64;
            self.hits_missing += (since - self.hits_sampled) * weight;
        }
        self.hits_sampled = 0.0;
    }

    pub fn references(&self) -> f64 {
        self.histogram.weight()
    }

    pub fn scale(&mut self, factor: f64) {
        self.histogram.scale(factor);
        self.hits_missing *= factor;
        self.miss_time_us.scale(factor);
    }

    fn record(&mut self, distance: Option<u64>, share: Share) {
        // A sampled distance is as inexact as the number of keys that a sampled key represents.
        self.histogram.set_grain(share.total as u64);
        self.histogram.record(distance, share.decaying);
    }

    /// The profile of the class. Weights are multiplied by `factor`, and a sampled key represents `scale` keys.
    ///
    /// The sample may have too few or too many hits. A difference of up to one standard deviation of the number of its
    /// keys is spread over all distances; the rest is attributed to hot keys, at small distances.
    pub fn profile(&self, factor: f64, scale: f64) -> ClassProfile {
        let missing = self.hits_missing * factor;
        let sampled = self.histogram.finite() * factor;
        let chance = sampled / (self.stack.count().max(1) as f64).sqrt();
        let by_chance = missing.clamp(-chance, chance);
        let finite = if sampled > 0.0 { 1.0 + by_chance / sampled } else { 1.0 };
        let unsampled = missing - by_chance;
        let known = self.histogram.mrc(factor, finite, (-unsampled).max(0.0));
        let curve = match unsampled > 0.0 {
            true => known.plus(&unsampled_hits(unsampled, NEAR_SAMPLED_KEYS * scale)),
            false => known,
        };
        ClassProfile {
            curve,
            sample: Sample { rate: 1.0 / scale, keys: self.stack.count() as u64 },
            misses: self.misses,
            misses_by_eviction: self.misses_by_eviction,
            shadow_hits: self.shadow_hits,
            miss_time_us: self.miss_time_us.mean(),
            ..ClassProfile::default()
        }
    }

    pub fn size_bytes(&self) -> usize {
        size_of::<ClassKeys>() + self.stack.size_bytes() + self.histogram.size_bytes()
    }
}

/// The curve of this many hits at unknown distances below `reach` chunks, spread as for a Zipf distribution: equally
/// many from one chunk to two and from two to four.
fn unsampled_hits(hits: f64, reach: f64) -> Mrc {
    let lost = |chunks: u64| hits * (1.0 - (chunks as f64).ln_1p() / reach.ln_1p());
    let sizes = std::iter::successors(Some(0), |chunks| Some(chunks + chunks / 4 + 1));
    let within = sizes.take_while(|&chunks| (chunks as f64) < reach);
    let points = within.map(|chunks| Point { chunks, misses: lost(chunks) });
    Mrc::new(points.chain([Point { chunks: reach.ceil() as u64, misses: 0.0 }]).collect())
}

#[cfg(test)]
mod tests {
    use super::{ClassKeys, Share};

    #[test]
    fn only_decaying_counts_are_scaled() {
        let mut keys = ClassKeys::default();
        let share = Share { total: 10.0, decaying: 8.0 };
        keys.hit(39, share);
        keys.hit(40, share);
        keys.miss(Some(100), share);
        keys.miss(None, share);
        keys.miss_time_us.record(5.0, 8.0);
        let before = keys.profile(1.0, 10.0);
        keys.scale(0.25);
        keys.miss_time_us.record(9.0, 2.0);
        let after = keys.profile(4.0, 10.0);
        assert_eq!(after.miss_time_us, 7.0);
        assert_eq!((before.curve, before.misses), (after.curve, after.misses));
        assert_eq!((after.misses, after.misses_by_eviction), (20.0, 10.0));
    }
}
