//! What a profile tells of one class.

use crate::deviation::Sample;
use crate::mrc::Mrc;

/// What is known of one class's keys, whether they are in the cache or not. Counts are estimates where keys
/// are sampled; those called *ever* only rise.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassProfile {
    /// Misses of the references lately as a function of the class's chunks.
    pub curve: Mrc,
    /// What the curve was made from.
    pub sample: Sample,
    /// The same by footprints of the last M gets; empty unless they are
    /// [kept](crate::Profiler::keep_footprints).
    pub footprint_curve: Mrc,
    /// Gets that missed, ever, and are known to be of this class: a key is of the class that its item was
    /// last stored in.
    pub misses: f64,
    /// Of these, gets of keys that had been there and were evicted, ever.
    pub misses_by_eviction: f64,
    /// Gets, ever, that missed and would have hit had the class one page more.
    pub shadow_hits: f64,
    /// Mean time to answer a hit, in microseconds; 0 unless whoever measures it tells.
    pub hit_time_us: f64,
    /// Mean time from a miss to the end of the store that follows it, in microseconds.
    pub miss_time_us: f64,
    /// Mean cost of recomputing an item, in the unit of whoever gives it; 1 where nobody does.
    pub cost: f64,
}

impl ClassProfile {
    /// What its curves take, in bytes, however many copies there are.
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
            cost: 1.0,
        }
    }
}
