//! One class of a [`Profiler`](crate::Profiler): its sampled keys in the order of their use, and its counts.

use crate::class_profile::ClassProfile;
use crate::fading::FadingMean;
use crate::histogram::Histogram;
use crate::mrc::Mrc;
use crate::stack::Stack;
use slabwise_base::ClassId;

/// A distance is small if there are fewer sampled keys between.
const NEAR_SAMPLED_KEYS: f64 = 4.0;
/// What a reference at another distance counts among those.
const FAR_SHARE: f64 = 0.01;

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

/// What one sampled reference counts.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Of what is counted ever: 1 / rate.
    pub ever: f64,
    /// Of what fades: the same times the weight of the moment.
    pub fading: f64,
}

/// Keys and counts of one class.
#[derive(Debug)]
pub struct ClassKeys {
    /// Sampled keys, stored last in this class and not deleted.
    pub stack: Stack,
    /// `None` until somebody tells.
    pub size: Option<ClassSize>,
    /// Keys beyond these need not be remembered.
    pub keys_max: usize,
    /// Mean time from a miss to the store behind it, in microseconds.
    pub miss_time_us: FadingMean,
    /// Told from outside.
    pub hit_time_us: f64,
    /// Told from outside.
    pub cost: f64,
    histogram: Histogram,
    near: f64,
    misses: f64,
    misses_by_eviction: f64,
    shadow_hits: f64,
    tail_hits: f64,
}

impl Default for ClassKeys {
    fn default() -> ClassKeys {
        let nothing = ClassProfile::default();
        ClassKeys {
            stack: Stack::default(),
            size: None,
            keys_max: usize::MAX,
            miss_time_us: FadingMean::default(),
            hit_time_us: nothing.hit_time_us,
            cost: nothing.cost,
            histogram: Histogram::default(),
            near: 0.0,
            misses: 0.0,
            misses_by_eviction: 0.0,
            shadow_hits: 0.0,
            tail_hits: 0.0,
        }
    }
}

impl ClassKeys {
    /// Counts a get that hit, of a key at this distance.
    pub fn hit(&mut self, distance: u64, share: Share) {
        self.record(Some(distance), share);
        let is_tail = |size: ClassSize| {
            (size.chunks.saturating_sub(size.chunks_per_page)..size.chunks).contains(&distance)
        };
        if self.size.is_some_and(is_tail) {
            self.tail_hits += share.ever;
        }
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

    /// The fading weight of its references at small distances, and a little of the others': where no class has
    /// such, each has its part.
    pub fn near(&self) -> f64 {
        self.near
    }

    /// The fading weight of its sampled references.
    pub fn references(&self) -> f64 {
        self.histogram.weight()
    }

    /// See [`ClassProfile::shadow_hits`].
    pub fn shadow_hits(&self) -> f64 {
        self.shadow_hits
    }

    /// Multiplies every weight that fades.
    pub fn scale(&mut self, factor: f64) {
        self.histogram.scale(factor);
        self.near *= factor;
        self.miss_time_us.scale(factor);
    }

    fn record(&mut self, distance: Option<u64>, share: Share) {
        self.histogram.record(distance, share.fading);
        let near =
            distance.is_some_and(|distance| (distance as f64) < NEAR_SAMPLED_KEYS * share.ever);
        self.near += if near { share.fading } else { FAR_SHARE * share.fading };
    }

    /// What is known; weights are multiplied by `factor`, once `extra` is added at distance 0.
    pub fn profile(&self, factor: f64, extra: f64) -> ClassProfile {
        ClassProfile {
            curve: self.histogram.mrc(factor, extra),
            footprint_curve: Mrc::empty(),
            misses: self.misses,
            misses_by_eviction: self.misses_by_eviction,
            shadow_hits: self.shadow_hits,
            tail_hits: self.tail_hits,
            hit_time_us: self.hit_time_us,
            miss_time_us: self.miss_time_us.mean(),
            cost: self.cost,
        }
    }

    /// What it takes, in bytes.
    pub fn size_bytes(&self) -> usize {
        size_of::<ClassKeys>() + self.stack.size_bytes() + self.histogram.size_bytes()
    }
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
        assert!((keys.near() - 8.24).abs() < 1e-9);
        let before = keys.profile(1.0, 0.0);
        keys.scale(0.25);
        keys.miss_time_us.record(9.0, 2.0);
        let after = keys.profile(4.0, 0.0);
        assert!((keys.near() - 2.06).abs() < 1e-9);
        assert_eq!(after.miss_time_us, 7.0);
        assert_eq!((before.curve, before.misses), (after.curve, after.misses));
        assert_eq!((after.misses, after.misses_by_eviction), (20.0, 10.0));
    }
}
