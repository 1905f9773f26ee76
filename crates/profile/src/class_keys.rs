//! The data of one class in a [`Profiler`](crate::Profiler): its sampled keys in order of use, and its counts.

use crate::class_profile::{ClassProfile, Sample};
use crate::class_size::ClassSize;
use crate::cliff::{CliffSearch, Reference};
use crate::decay::DecayingMean;
use crate::histogram::Histogram;
use crate::mrc::{Mrc, Point};
use crate::stack::Stack;

/// A distance is small if it is below this number of sampled keys. Hits that the sample lacks or has in excess are
/// corrected at small distances. At larger distances, the errors of hot keys in the sample and outside it cancel out.
const NEAR_SAMPLED_KEYS: f64 = 4.0;

/// The weights with which a reference of a sampled key is counted.
#[derive(Clone, Copy, Debug)]
pub struct Weights {
    /// The weight for counts since the start: 1 / sampling rate.
    pub total: f64,
    /// The weight for decaying counts: 1 / sampling rate times the current weight of [`Decay`](crate::decay::Decay).
    pub decaying: f64,
}

#[derive(Debug, Default)]
pub struct ClassKeys {
    /// The sampled keys that were last stored in this class and are not deleted.
    pub stack: Stack,
    /// The current size of the class; `None` if it was not reported.
    pub size: Option<ClassSize>,
    /// The maximum number of keys in the stack.
    pub keys_max: usize,
    /// The mean time from a miss to the store that follows it, in microseconds.
    pub miss_time_us: DecayingMean,
    /// The hits of sampled keys since the last report of hits, times 1 / sampling rate.
    pub hits_sampled: f64,
    /// See [`ClassProfile::hits_in_retired`].
    pub hits_in_retired: f64,
    /// The hits of all keys since the start, at the last report; `None` before the first report.
    hits_reported: Option<u64>,
    /// The hits of all keys minus the scaled hits of sampled keys, as a decaying weight.
    hits_missing: f64,
    /// The decaying weights of references by distance.
    histogram: Histogram,
    /// See [`ClassProfile::misses`].
    misses: f64,
    /// See [`ClassProfile::misses_by_eviction`].
    misses_by_eviction: f64,
    /// See [`ClassProfile::stored_before`].
    pub stored_before: f64,
    /// See [`ClassProfile::shadow_hits`].
    pub shadow_hits: f64,
    /// The pointers to the ends of a cliff, and the hits in the shadow queues of the two partitions.
    cliff: CliffSearch,
    /// The number of gets since the start that hit the shadow queue of the class or of a partition.
    pub shadow_hits_with_partitions: f64,
}

impl ClassKeys {
    /// Creates a class whose number of keys is not limited.
    pub fn unlimited() -> ClassKeys {
        ClassKeys { keys_max: usize::MAX, ..ClassKeys::default() }
    }

    /// Counts a get that hit a key at this distance. `position` is a number in [0, 1) that depends only on the key.
    pub fn hit(&mut self, distance: u64, position: f64, weights: Weights) {
        self.record(Some(distance), weights);
        self.note_shadows(distance, position, weights, false);
    }

    /// Counts a get that missed a key at this distance. `position` is a number in [0, 1) that depends only on the key.
    pub fn miss_at(&mut self, distance: u64, position: f64, weights: Weights) {
        self.record(Some(distance), weights);
        self.misses += weights.total;
        self.misses_by_eviction += weights.total;
        self.note_shadows(distance, position, weights, true);
    }

    /// Counts a get that misses at every size.
    pub fn miss_always(&mut self, weights: Weights) {
        self.record(None, weights);
        self.misses += weights.total;
    }

    /// Counts a get that hit a shadow queue: that of the class, if the get missed, or that of a partition.
    fn note_shadows(&mut self, distance: u64, position: f64, weights: Weights, has_missed: bool) {
        let Some(size) = self.size else { return };
        let shadow = size.chunks..size.chunks + size.chunks_per_page;
        let of_class = has_missed && shadow.contains(&distance);
        if of_class {
            self.shadow_hits += weights.total;
        }
        let get = Reference { distance, position, weight: weights.total };
        let of_partition = self.cliff.note(get, size);
        if of_class || of_partition {
            self.shadow_hits_with_partitions += weights.total;
        }
    }

    /// Reports the hits of all keys since the start. The hits since the last call minus the scaled hits of sampled keys
    /// are added to `hits_missing` with this weight. The weight is 0 if accesses were lost, so that the difference is
    /// not due to sampling.
    pub fn note_hits(&mut self, hits: u64, weight: f64) {
        if let Some(before) = self.hits_reported.replace(hits) {
            let since = hits.saturating_sub(before) as f64;
            self.hits_missing += (since - self.hits_sampled) * weight;
        }
        self.hits_sampled = 0.0;
    }

    /// Returns the decaying weight of all references.
    pub fn references(&self) -> f64 {
        self.histogram.weight()
    }

    /// Multiplies all decaying weights by this factor.
    pub fn scale(&mut self, factor: f64) {
        self.histogram.scale(factor);
        self.hits_missing *= factor;
        self.miss_time_us.scale(factor);
    }

    /// Returns the class without its keys and its decaying weights. Its counts since the start remain.
    pub fn without_references(&self) -> ClassKeys {
        ClassKeys {
            stack: Stack::default(),
            size: self.size,
            keys_max: usize::MAX,
            miss_time_us: DecayingMean::default(),
            hits_sampled: self.hits_sampled,
            hits_in_retired: self.hits_in_retired,
            hits_reported: self.hits_reported,
            hits_missing: 0.0,
            histogram: Histogram::default(),
            misses: self.misses,
            misses_by_eviction: self.misses_by_eviction,
            stored_before: self.stored_before,
            shadow_hits: self.shadow_hits,
            cliff: self.cliff,
            shadow_hits_with_partitions: self.shadow_hits_with_partitions,
        }
    }

    /// Returns the references by distance: the first distance of a step, the first distance of the next step, and the
    /// decaying weight.
    pub fn reference_steps(&self) -> impl Iterator<Item = (u64, u64, f64)> {
        self.histogram.steps()
    }

    /// Returns the decaying weight of references with an infinite distance.
    pub fn infinite_weight(&self) -> f64 {
        self.histogram.weight() - self.histogram.finite_weight()
    }

    /// Adds references of another class with this decaying weight. A sampled key represents `scale` keys.
    pub fn add_references(&mut self, distance: Option<u64>, weight: f64, scale: f64) {
        self.histogram.set_grain(scale as u64);
        self.histogram.record(distance, weight);
    }

    /// Adds a share of another class's missing hits and of its times from misses to stores.
    pub fn add_share(&mut self, other: &ClassKeys, share: f64) {
        self.hits_missing += other.hits_missing * share;
        self.miss_time_us.add(&other.miss_time_us, share);
    }

    fn record(&mut self, distance: Option<u64>, weights: Weights) {
        // The error of a sampled distance is about the number of keys that a sampled key represents.
        self.histogram.set_grain(weights.total as u64);
        self.histogram.record(distance, weights.decaying);
    }

    /// Returns the profile of the class. Decaying weights are multiplied by `factor`; a sampled key represents `scale`
    /// keys.
    ///
    /// The scaled hits of the sample may be fewer or more than all hits. A difference of up to one standard deviation,
    /// which follows from the number of sampled keys, is spread over all distances. The rest of the difference is
    /// caused by hot keys, so it is corrected at small distances.
    pub fn profile(&self, factor: f64, scale: f64) -> ClassProfile {
        let missing = self.hits_missing * factor;
        let sampled = self.histogram.finite_weight() * factor;
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
            hits_in_retired: self.hits_in_retired,
            misses: self.misses,
            misses_by_eviction: self.misses_by_eviction,
            stored_before: self.stored_before,
            shadow_hits: self.shadow_hits,
            pointers: self.size.map(|size| self.cliff.pointers(size)).unwrap_or_default(),
            partition_shadow_hits: self.cliff.shadow_hits,
            miss_time_us: self.miss_time_us.mean(),
            ..ClassProfile::default()
        }
    }

    pub fn size_bytes(&self) -> usize {
        size_of::<ClassKeys>() + self.stack.size_bytes() + self.histogram.size_bytes()
    }
}

/// Returns the curve of this many hits at unknown distances below `reach` chunks. The distances are spread as for a
/// Zipf distribution: the number of hits between one chunk and two equals the number between two chunks and four.
fn unsampled_hits(hits: f64, reach: f64) -> Mrc {
    let lost = |chunks: u64| hits * (1.0 - (chunks as f64).ln_1p() / reach.ln_1p());
    let sizes = std::iter::successors(Some(0), |chunks| Some(chunks + chunks / 4 + 1));
    let within = sizes.take_while(|&chunks| (chunks as f64) < reach);
    let points = within.map(|chunks| Point { chunks, misses: lost(chunks) });
    Mrc::new(points.chain([Point { chunks: reach.ceil() as u64, misses: 0.0 }]).collect())
}

#[cfg(test)]
mod tests {
    use super::{ClassKeys, Weights};
    use crate::class_size::ClassSize;
    use slabwise_base::ClassId;

    #[test]
    fn a_hit_in_the_shadow_queue_of_a_partition_is_no_shadow_hit_of_the_class() {
        let class = ClassId(0);
        let size = ClassSize { class, chunks: 50, chunks_per_page: 10, chunk_size_bytes: 64 };
        let mut keys = ClassKeys { size: Some(size), ..ClassKeys::default() };
        let weights = Weights { total: 10.0, decaying: 8.0 };
        // The key is in the shadow queue of its partition, but the class still has its item.
        keys.hit(55, 0.0, weights);
        assert_eq!([keys.shadow_hits, keys.shadow_hits_with_partitions], [0.0, 10.0]);
        keys.miss_at(55, 0.0, weights);
        assert_eq!([keys.shadow_hits, keys.shadow_hits_with_partitions], [10.0, 20.0]);
    }

    #[test]
    fn only_decaying_counts_are_scaled() {
        let mut keys = ClassKeys::default();
        let weights = Weights { total: 10.0, decaying: 8.0 };
        keys.hit(39, 0.0, weights);
        keys.hit(40, 0.0, weights);
        keys.miss_at(100, 0.0, weights);
        keys.miss_always(weights);
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
