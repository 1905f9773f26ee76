//! The input of a profiler, and its result for one class.

use crate::mrc::Mrc;
use slabwise_base::{AccessKind, ClassId};

/// One access to one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The key's hash. It identifies the key and decides whether the key is sampled.
    pub hash: u64,
    /// The kind of the access.
    pub kind: AccessKind,
    /// The class of the key's item; `None` if there is no item.
    pub class: Option<ClassId>,
    /// The time in nanoseconds, by any one clock.
    pub at_nanos: u64,
}

/// The profile of one class's keys, including those that are not in the cache. Counts are estimates if keys are
/// sampled; counts *since the start* never decrease.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassProfile {
    /// The misses of recent references as a function of the class's chunks.
    pub curve: Mrc,
    /// The sample from which the curve was computed.
    pub sample: Sample,
    /// The curve by footprints of the last M gets; empty unless footprints are
    /// [kept](crate::Profiler::keep_footprints).
    pub footprint_curve: Mrc,
    /// Get misses since the start that are known to be of this class: a key belongs to the class in which its item
    /// was last stored.
    pub misses: f64,
    /// Get misses since the start of keys whose items had been evicted; part of `misses`.
    pub misses_by_eviction: f64,
    /// Get misses since the start that would have been hits if the class had one page more.
    pub shadow_hits: f64,
    /// The mean time to answer a hit, in microseconds; 0 if it is not measured.
    pub hit_time_us: f64,
    /// The mean time from a miss to the end of the store that follows it, in microseconds.
    pub miss_time_us: f64,
}

impl ClassProfile {
    /// The size of its curves in bytes. Copies share the curves.
    pub fn curves_size_bytes(&self) -> usize {
        self.curve.size_bytes() + self.footprint_curve.size_bytes()
    }
}

impl Default for ClassProfile {
    fn default() -> ClassProfile {
        ClassProfile {
            curve: Mrc::empty(),
            sample: Sample { rate: 1.0, keys: 0 },
            footprint_curve: Mrc::empty(),
            misses: 0.0,
            misses_by_eviction: 0.0,
            shadow_hits: 0.0,
            hit_time_us: 0.0,
            miss_time_us: 0.0,
        }
    }
}

/// The sample from which a curve was computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The share of keys in the sample, in (0, 1].
    pub rate: f64,
    /// The number of keys in the sample.
    pub keys: u64,
}

impl Sample {
    /// The standard deviation of a size on the sample's curve, in chunks. Of `c` keys, a spatial sample of rate `r` has
    /// about `c r`, with a variance of `c r (1 - r)`; a cliff may be off by that much.
    pub fn size_deviation(self, chunks: u64) -> f64 {
        (chunks as f64 * (1.0 - self.rate) / self.rate).sqrt()
    }
}
