//! Stack distances that are measured in short windows of a stream, and their miss-ratio curve.
//!
//! ```text
//!   a window of references:   a b c a d ...      2nd a: distance 2
//!                             ^ ^ ^   ^          the others: at least 0, 1, 2 and 3
//! ```
//!
//! The first reference of a key in a window is *censored*: its distance is at least the number of keys that the window
//! has seen. The Kaplan-Meier estimator uses both kinds of references. The *hazard* of a distance is the number of
//! references at this distance, divided by the number of references that are known to be at this distance or beyond.
//! An LRU of `c` chunks misses a reference if its distance is at least `c`, so the miss ratio of `c` chunks is the
//! product of `1 - hazard` over all distances below `c`. The estimate is unbiased if the traffic does not depend on
//! the time within a window.
//!
//! Sources: E. Kaplan, P. Meier, "Nonparametric Estimation from Incomplete Observations", Journal of the American
//! Statistical Association 53, 1958, section 2. Within a step of the histogram, half of the censored references count as
//! known to be beyond the step: the actuarial estimate, section 3.2 of the paper.
//!
//! Invariant: both histograms have the same grain, so their steps have the same edges.

use crate::histogram::Histogram;
use crate::mrc::{Mrc, Point};

/// The weight of references that a hazard needs. At larger distances, one reference would change the curve by more than
/// 2 % of its value.
const WEIGHT_MIN: f64 = 50.0;

/// The weights of references by distance, exact or censored.
#[derive(Clone, Debug, Default)]
pub struct CensoredDistances {
    exact: Histogram,
    censored: Histogram,
}

/// A curve, and the range of sizes in which it was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredCurve {
    /// The curve; the misses at 0 chunks are the weight of all references. The curve is level beyond the range.
    pub mrc: Mrc,
    /// The largest size, in chunks, at which the curve was measured.
    pub range_chunks: u64,
}

/// A step of both histograms: the weights of references whose distances are in it.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    from: u64,
    to: u64,
    exact: f64,
    censored: f64,
}

impl CensoredDistances {
    /// Adds a reference with a known distance. `None` is an infinite distance: the reference misses at every size.
    pub fn record(&mut self, distance: Option<u64>, weight: f64) {
        self.exact.record(distance, weight);
    }

    /// Adds a reference whose distance is at least `distance_min`.
    pub fn record_censored(&mut self, distance_min: u64, weight: f64) {
        self.censored.record(Some(distance_min), weight);
    }

    /// Raises the minimum width of a step to the largest power of two that is at most `grain`.
    pub fn set_grain(&mut self, grain: u64) {
        self.exact.set_grain(grain);
        self.censored.set_grain(grain);
    }

    /// Adds the references of another part of the stream.
    pub fn add(&mut self, other: &CensoredDistances) {
        self.exact.add(&other.exact);
        self.censored.add(&other.censored);
        // The steps of both histograms have the same edges.
        self.exact.set_grain(self.censored.grain());
        self.censored.set_grain(self.exact.grain());
    }

    /// Multiplies all weights by this factor.
    pub fn scale(&mut self, factor: f64) {
        self.exact.scale(factor);
        self.censored.scale(factor);
    }

    /// Returns the weight of all references.
    pub fn weight(&self) -> f64 {
        self.exact.weight() + self.censored.weight()
    }

    /// Returns the memory of the histograms in bytes.
    pub fn size_bytes(&self) -> usize {
        self.exact.size_bytes() + self.censored.size_bytes()
    }

    /// Returns the estimated miss-ratio curve of an LRU.
    pub fn curve(&self) -> MeasuredCurve {
        let weight = self.weight();
        let mut points = vec![Point { chunks: 0, misses: weight }];
        let (mut known, mut misses, mut range_chunks) = (weight, weight, 0);
        for step in self.steps() {
            let beyond = known - step.censored / 2.0;
            if beyond < WEIGHT_MIN {
                break;
            }
            if step.from > range_chunks {
                points.push(Point { chunks: step.from, misses });
            }
            misses *= (1.0 - step.exact / beyond).clamp(0.0, 1.0);
            points.push(Point { chunks: step.to, misses });
            known -= step.exact + step.censored;
            range_chunks = step.to;
        }
        MeasuredCurve { mrc: Mrc::new(points), range_chunks }
    }

    /// Returns the steps with a weight in ascending order.
    fn steps(&self) -> Vec<Step> {
        let exact =
            self.exact.steps().map(|(from, to, exact)| Step { from, to, exact, censored: 0.0 });
        let censored = self.censored.steps().map(|(from, to, censored)| Step {
            from,
            to,
            exact: 0.0,
            censored,
        });
        let mut all: Vec<Step> = exact.chain(censored).collect();
        all.sort_unstable_by_key(|step| step.from);
        all.dedup_by(|later, kept| {
            let is_same = later.from == kept.from;
            if is_same {
                kept.exact += later.exact;
                kept.censored += later.censored;
            }
            is_same
        });
        all
    }
}

#[cfg(test)]
mod tests {
    use super::CensoredDistances;
    use crate::{Distances, StackDistances};
    use slabwise_base::Random;

    /// Splits the keys into windows of `len` references, of which every `period`-th is measured, and records their
    /// distances.
    fn in_windows(keys: &[u64], len: usize, period: usize) -> CensoredDistances {
        let mut found = CensoredDistances::default();
        for window in keys.chunks(len).step_by(period) {
            let mut stack = StackDistances::default();
            for &key in window {
                let seen = stack.keys();
                match stack.reference(key) {
                    Some(distance) => found.record(Some(distance), 1.0),
                    None => found.record_censored(seen, 1.0),
                }
            }
        }
        found
    }

    fn exact(keys: &[u64]) -> Distances {
        let (mut stack, mut distances) = (StackDistances::default(), Distances::default());
        keys.iter().for_each(|&key| distances.record(stack.reference(key)));
        distances
    }

    /// Keys whose frequencies are proportional to 1 / rank, approximately.
    fn zipf(random: &mut Random, keys: u64) -> u64 {
        let exponent = random.below(1 << 30) as f64 / (1u64 << 30) as f64;
        (keys as f64).powf(exponent) as u64
    }

    #[test]
    fn a_fifth_of_a_zipf_stream_in_windows_gives_its_curve() {
        for seed in 0..5 {
            let mut random = Random::new(seed);
            let keys: Vec<u64> = (0..2_000_000).map(|_| zipf(&mut random, 20_000)).collect();
            let expected = exact(&keys).mrc(1);
            let found = in_windows(&keys, 20_000, 5).curve();
            assert!(
                found.range_chunks > 3_000,
                "seed {seed}: measured up to {}",
                found.range_chunks
            );
            for chunks in [10, 100, 500, 1_000, 2_000, 3_000] {
                let (found, expected) = (found.mrc.miss_ratio(chunks), expected.miss_ratio(chunks));
                let off = (found / expected - 1.0).abs();
                assert!(off < 0.03, "seed {seed}, {chunks} chunks: {found}, not {expected}");
            }
        }
    }

    #[test]
    fn windows_that_are_longer_than_a_loop_show_its_cliff() {
        let loop_keys = 1_000;
        let keys: Vec<u64> = (0..300_000).map(|at| at % loop_keys).collect();
        let found = in_windows(&keys, 1_500, 10).curve();
        assert_eq!(found.mrc.miss_ratio(900), 1.0);
        // The keys that end the first pass are censored in the step of the cliff.
        let after = found.mrc.miss_ratio(1_010);
        assert!(after < 0.02, "after the cliff, {after} of the references miss");
        let too_short = in_windows(&keys, 900, 10).curve();
        assert_eq!(too_short.mrc.miss_ratio(2_000), 1.0);
        assert!(too_short.range_chunks < 910, "measured up to {}", too_short.range_chunks);
    }

    #[test]
    fn without_censored_references_the_curve_is_exact() {
        let mut random = Random::new(1);
        let keys: Vec<u64> = (0..5_000).map(|_| random.below(100)).collect();
        let distances = exact(&keys);
        let mut found = CensoredDistances::default();
        let mut stack = StackDistances::default();
        keys.iter().for_each(|&key| found.record(stack.reference(key), 1.0));
        let (found, expected) = (found.curve(), distances.mrc(1));
        for chunks in 0..100 {
            let off = found.mrc.misses(chunks) - expected.misses(chunks);
            assert!(off.abs() < 1e-6, "{chunks} chunks: the curve is off by {off} misses");
        }
    }

    #[test]
    fn the_sum_of_parts_has_the_curve_of_all() {
        let mut random = Random::new(3);
        let keys: Vec<u64> = (0..40_000).map(|_| zipf(&mut random, 3_000)).collect();
        let whole = in_windows(&keys, 4_000, 1);
        let mut sum = CensoredDistances::default();
        keys.chunks(8_000).for_each(|part| sum.add(&in_windows(part, 4_000, 1)));
        assert_eq!(sum.curve(), whole.curve());
        let mut coarse = CensoredDistances::default();
        coarse.set_grain(64);
        sum.add(&coarse);
        let off = sum.curve().mrc.miss_ratio(640) - whole.curve().mrc.miss_ratio(640);
        assert!(off.abs() < 0.05, "a coarser grain changes the curve by {off}");
    }

    #[test]
    fn scaled_weights_keep_the_miss_ratios() {
        let mut random = Random::new(2);
        let keys: Vec<u64> = (0..50_000).map(|_| zipf(&mut random, 3_000)).collect();
        let one = in_windows(&keys, 5_000, 1);
        let mut half = one.clone();
        half.scale(0.5);
        assert_eq!(half.weight(), one.weight() / 2.0);
        for chunks in [1, 30, 300] {
            let off = half.curve().mrc.miss_ratio(chunks) - one.curve().mrc.miss_ratio(chunks);
            assert!(off.abs() < 1e-9, "{chunks} chunks: {off}");
        }
    }
}
