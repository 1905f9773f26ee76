//! What a profiler takes in, and what it knows of one class.

use crate::mrc::Mrc;
use slabwise_base::{AccessKind, ClassId};

/// One access to one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The key's hash: which keys are looked at is decided by it, and it stands for the key.
    pub hash: u64,
    /// What happened.
    pub kind: AccessKind,
    /// The class of the key's item; `None` where there is none.
    pub class: Option<ClassId>,
    /// When, in nanoseconds of any one clock.
    pub at_nanos: u64,
}

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
        }
    }
}

/// The sample that a curve was made from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The share of keys that are in it, in (0, 1].
    pub rate: f64,
    /// How many keys that was.
    pub keys: u64,
}

impl Sample {
    /// The standard deviation of a size of a curve of this sample, in chunks. Among `c` keys a spatial sample of rate
    /// `r` has about `c r`, with a variance of `c r (1 - r)`; so a cliff may be as far away.
    pub fn size_deviation(self, chunks: u64) -> f64 {
        (chunks as f64 * (1.0 - self.rate) / self.rate).sqrt()
    }
}
