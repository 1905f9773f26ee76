//! The accesses that a profiler counts, and the profile that it computes for each class.

use crate::cliff::Pointers;
use crate::mrc::Mrc;
use slabwise_base::{AccessKind, ClassId};

/// One access to one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The hash of the key. It identifies the key and decides whether the key is sampled.
    pub hash: u64,
    /// The kind of the access.
    pub kind: AccessKind,
    /// The class of the key's item; `None` if there is no item.
    pub class: Option<ClassId>,
    /// The size of the key's item in bytes, as the choice of its class counts it; 0 if it is unknown. If the size is
    /// known and sizes of classes were reported, it determines the class of the key, and `class` is not used.
    pub size_bytes: u32,
    /// The time of the access in nanoseconds. All accesses use the same clock.
    pub at_nanos: u64,
}

/// The profile of the keys of one class, including keys whose items are not in the cache. A key belongs to the class in
/// which its item was last stored. Counts are estimates if keys are sampled. Counts since the start never decrease.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassProfile {
    /// The misses of recent references as a function of the number of the class's chunks. References decay.
    pub curve: Mrc,
    /// The sample from which the curve was computed.
    pub sample: Sample,
    /// The misses as a function of the number of chunks, computed from the footprints of at least as many recent gets
    /// as [`Profiler::keep_footprints`](crate::Profiler::keep_footprints) requested; empty if it requested none.
    pub footprint_curve: Mrc,
    /// The number of gets since the start that hit an item of a retired class that the engine will carry to this class.
    pub hits_in_retired: f64,
    /// The number of gets since the start that missed a key of the class.
    pub misses: f64,
    /// The number of gets since the start that missed a key of the class whose item had been evicted. They are also
    /// counted in `misses`.
    pub misses_by_eviction: f64,
    /// The number of stores of keys that were stored before, counted by two Bloom filters while
    /// [`Profiler::detect_stored_before`](crate::Profiler::detect_stored_before) is on.
    pub stored_before: f64,
    /// The number of gets since the start that missed, but would have been hits if the class had one page more.
    pub shadow_hits: f64,
    /// The pointers of cliff scaling; both are at the size of the class if the class is on no cliff.
    pub pointers: Pointers,
    /// The number of gets since the start that would have been hits if the class had one page more and were divided
    /// into the two partitions of its pointers. If both pointers are at the size of the class, such gets are about those
    /// of `shadow_hits`.
    pub partition_shadow_hits: f64,
    /// The mean time in which the server answers a hit, in microseconds; 0 if the server has not measured it.
    pub hit_time_us: f64,
    /// The mean time from a miss to the end of the store that follows it, in microseconds; 0 if no time was measured.
    pub miss_time_us: f64,
}

impl ClassProfile {
    /// Returns the memory of the two curves, in bytes. Copies of a profile share this memory.
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
            hits_in_retired: 0.0,
            misses: 0.0,
            misses_by_eviction: 0.0,
            stored_before: 0.0,
            shadow_hits: 0.0,
            pointers: Pointers::default(),
            partition_shadow_hits: 0.0,
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
    /// Returns the standard deviation of a size of the curve, in chunks: a cliff at `chunks` chunks has about this
    /// error. The reason: of `c` keys, a spatial sample of rate `r` has about `c r` keys, with a variance of `c r (1 -
    /// r)`.
    pub fn size_deviation(self, chunks: u64) -> f64 {
        (chunks as f64 * (1.0 - self.rate) / self.rate).sqrt()
    }
}
