//! One class of a [`Profiler`](crate::Profiler): its sampled keys in the order of their use, and its counts.

use crate::class_profile::{ClassProfile, Sample};
use crate::fading::FadingMean;
use crate::histogram::Histogram;
use crate::mrc::{Mrc, Point};
use crate::stack::Stack;
use slabwise_base::ClassId;

/// A distance is small if there are fewer sampled keys between: beyond it hot keys in the sample and those that
/// are not make up for each other.
const NEAR_SAMPLED_KEYS: f64 = 4.0;

/// What a class has at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassSize {
    /// Which class.
    pub class: ClassId,
    /// Chunks on its pages.
    pub chunks: u64,
    /// Chunks a page; at least 1.
    pub chunks_per_page: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Of what is counted ever: 1 / rate.
    pub ever: f64,
    /// Of what fades: the same times the weight of the moment.
    pub fading: f64,
}

#[derive(Debug, Default)]
pub struct ClassKeys {
    /// Sampled keys, stored last in this class and not deleted.
    pub stack: Stack,
    /// `None` until somebody tells.
    pub size: Option<ClassSize>,
    pub keys_max: usize,
    /// Mean time from a miss to the store behind it, in microseconds.
    pub miss_time_us: FadingMean,
    /// Hits since the last were told, by the sample, scaled.
    pub hits_sampled: f64,
    hits_told: Option<u64>,
    /// What the sample lacks of all hits: a weight that fades.
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

    /// Counts a get that missed; without a distance, one that misses at every size.
    pub fn miss(&mut self, distance: Option<u64>, share: Share) {
        self.record(distance, share);
        self.misses += share.ever;
        let Some(distance) = distance else { return };
        self.misses_by_eviction += share.ever;
        let is_shadow =
            |size: ClassSize| (size.chunks..size.chunks + size.chunks_per_page).contains(&distance);
        if self.size.is_some_and(is_shadow) {
            self.shadow_hits += share.ever;
        }
    }

    /// Takes in how many hits there ever were; what the sample lacks since the last call has this weight, 0 where it
    /// is known to lack hits for another reason than that their keys are not in it.
    pub fn note_hits(&mut self, ever: u64, weight: f64) {
        if let Some(told) = self.hits_told.replace(ever) {
            let since = ever.saturating_sub(told) as f64;
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
        // A sampled distance stands for as many as the key it is counted for.
        self.histogram.set_grain(share.ever as u64);
        self.histogram.record(distance, share.fading);
    }

    /// What is known; weights are multiplied by `factor`, and a sampled key stands for `scale` keys.
    ///
    /// Of the hits that the sample lacks, or has too many of, as many as one standard deviation of the number of
    /// its keys explains are taken to be at all distances alike; the others are those of hot keys, and near.
    pub fn profile(&self, factor: f64, scale: f64) -> ClassProfile {
        let lacking = self.hits_missing * factor;
        let sampled = self.histogram.finite() * factor;
        let chance = sampled / (self.stack.count().max(1) as f64).sqrt();
        let by_chance = lacking.clamp(-chance, chance);
        let finite = if sampled > 0.0 { 1.0 + by_chance / sampled } else { 1.0 };
        let hidden = lacking - by_chance;
        let known = self.histogram.mrc(factor, finite, (-hidden).max(0.0));
        let curve = match hidden > 0.0 {
            true => known.plus(&hidden_hits(hidden, NEAR_SAMPLED_KEYS * scale)),
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

/// The curve of so many hits at distances below `reach` chunks, of which nothing else is known: as under a Zipf
/// law, as many from one chunk to two as from two to four.
fn hidden_hits(hits: f64, reach: f64) -> Mrc {
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
    fn what_fades_is_scaled_and_what_is_ever_is_not() {
        let mut keys = ClassKeys::default();
        let share = Share { ever: 10.0, fading: 8.0 };
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
