//! Predictions of misses from curves: for another partition, and for more or less memory.

use super::{ClassCurve, class_curves, near_best_partition};
use crate::{Prediction, Snapshot};

/// Predicts the misses with the partition `before` and with the partition `after`. Gets of keys that were never stored
/// miss with both.
pub(crate) fn predict(
    snapshot: &Snapshot,
    classes: &[ClassCurve],
    before: &[u64],
    after: &[u64],
) -> Prediction {
    let unstored = snapshot.unstored_share();
    let references: f64 = classes.iter().map(ClassCurve::references).sum();
    let miss_ratio = |partition| misses(classes, partition) / references.max(f64::MIN_POSITIVE);
    let per_thousand = |partition| 1_000.0 * (unstored + (1.0 - unstored) * miss_ratio(partition));
    Prediction { misses_before: per_thousand(before), misses_after: per_thousand(after) }
}

fn misses(classes: &[ClassCurve], partition: &[u64]) -> f64 {
    classes.iter().zip(partition).map(|(class, &pages)| class.misses(pages)).sum()
}

/// A memory size and its predicted miss ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WhatIf {
    /// The memory size in percent of the current memory size.
    pub memory_percent: u64,
    /// The predicted miss ratio. For the current memory size, it is the recent miss ratio.
    pub miss_ratio: f64,
    /// The lower end of the error band, which contains the miss ratio in at least nine of ten cases.
    pub miss_ratio_low: f64,
    /// The upper end of the error band.
    pub miss_ratio_high: f64,
}

/// The memory sizes for which [`what_if`] predicts the miss ratio, in percent of the current memory size.
const MEMORY_PERCENTS: [u64; 11] = [25, 50, 75, 90, 100, 110, 125, 150, 200, 300, 400];
/// The index of the current memory size.
const CURRENT: usize = 4;
const _: () = assert!(MEMORY_PERCENTS[CURRENT] == 100);

/// Predicts the miss ratio of the whole cache with a quarter to four times its memory, from the curves of the snapshot.
/// Returns no predictions if there are no curves or no references.
///
/// The curves are those of an LRU with a nearly best partition, computed from a sample of the keys. They are corrected in
/// two steps, because the recent miss ratio is known both for the sample and for all keys:
///
/// 1. The sample may have too many or too few keys that miss often. All miss ratios of the curves are multiplied by the
///    miss ratio of all keys divided by that of the sample.
/// 2. The cache may evict better or worse than an LRU. The server multiplies the differences from the miss ratio at the
///    current size by a factor, so that the prediction for this size is the recent miss ratio. For more memory, the factor
///    compares the *capacity misses* of the cache and of the LRU: those that a cache without a limit does not have. For
///    less memory, it compares all misses: most of the hits that remain are of popular keys, which an LRU keeps too.
///
/// The experiment `what-if` of the lab measures the errors. Without recent gets, the curves are not corrected.
pub fn what_if(snapshot: &Snapshot) -> Vec<WhatIf> {
    let Some(lru) = LruCurve::of(snapshot) else { return Vec::new() };
    let ratios = MEMORY_PERCENTS.map(|memory_percent| lru.miss_ratio(memory_percent));
    let correction = Correction::of(&lru, ratios[CURRENT], snapshot);
    let point = |(memory_percent, of_lru)| {
        let miss_ratio = correction.miss_ratio(of_lru);
        let error = correction.error(miss_ratio);
        WhatIf {
            memory_percent,
            miss_ratio,
            miss_ratio_low: (miss_ratio - error).max(0.0),
            miss_ratio_high: (miss_ratio + error).min(1.0),
        }
    };
    MEMORY_PERCENTS.into_iter().zip(ratios).map(point).collect()
}

/// The miss ratio of an LRU by the memory of the whole cache.
struct LruCurve<'s> {
    classes: Vec<ClassCurve<'s>>,
    references: f64,
    /// The share of gets that miss with any memory, because their keys were never stored.
    unstored: f64,
    /// The pages of the current memory size.
    pages: u64,
}

impl LruCurve<'_> {
    /// Returns `None` if there are no references.
    fn of(snapshot: &Snapshot) -> Option<LruCurve<'_>> {
        let classes: Vec<ClassCurve> = class_curves(snapshot)
            .into_iter()
            .map(|class| ClassCurve { pages_min: 0, ..class })
            .collect();
        let references: f64 = classes.iter().map(ClassCurve::references).sum();
        let pages = snapshot.pages_free + classes.iter().map(|class| class.pages).sum::<u64>();
        let unstored = snapshot.unstored_share();
        (references > 0.0).then_some(LruCurve { classes, references, unstored, pages })
    }

    /// Returns the miss ratio with a nearly best partition of this share of the memory.
    fn miss_ratio(&self, memory_percent: u64) -> f64 {
        let partition = near_best_partition(&self.classes, self.pages * memory_percent / 100);
        self.ratio(misses(&self.classes, &partition))
    }

    /// Returns the miss ratio of a cache without a limit.
    fn miss_ratio_min(&self) -> f64 {
        self.ratio(self.classes.iter().map(|class| class.misses(u64::MAX)).sum())
    }

    fn ratio(&self, misses: f64) -> f64 {
        self.unstored + (1.0 - self.unstored) * misses / self.references
    }
}

/// The relation between the miss ratios of an LRU's curve and those of the cache.
#[derive(Clone, Copy, Debug)]
struct Correction {
    /// The factor on all miss ratios of the curve.
    sample_factor: f64,
    /// The factors on a difference from the current miss ratio, after the first factor: with more misses, and with fewer
    /// misses.
    more_factor: f64,
    fewer_factor: f64,
    /// The LRU's miss ratio at the current memory size, after the first factor.
    lru: f64,
    /// The recent miss ratio.
    measured: f64,
    sampled_keys: f64,
}

impl Correction {
    /// The limits of each factor. A few misses of sampled keys, or few capacity misses, determine no factor.
    const FACTOR_MIN: f64 = 0.5;
    const FACTOR_MAX: f64 = 2.0;
    /// The part of the error band that is due to the sample, in standard deviations.
    const DEVIATIONS: f64 = 3.0;
    /// The part of the error band that is due to the corrections, as a share of the difference from the recent miss
    /// ratio.
    const MODEL_ERROR: f64 = 0.1;

    /// `current` is the miss ratio of the curve at the current memory size.
    fn of(curve: &LruCurve<'_>, current: f64, snapshot: &Snapshot) -> Correction {
        let factor = |to: f64, from: f64| match from > 0.0 {
            true => (to / from).clamp(Self::FACTOR_MIN, Self::FACTOR_MAX),
            false => 1.0,
        };
        let recent = &snapshot.recent;
        let (measured, sample_factor) = if recent.all > 0.0 {
            let measured = recent.all_misses / recent.all;
            (measured, factor(measured, recent.sampled_misses / snapshot.profiled_gets()))
        } else {
            (current, 1.0)
        };
        let (lru, compulsory) = (sample_factor * current, sample_factor * curve.miss_ratio_min());
        Correction {
            sample_factor,
            more_factor: factor(measured, lru),
            fewer_factor: factor(measured - compulsory, lru - compulsory),
            lru,
            measured,
            sampled_keys: recent.sampled_keys.max(1) as f64,
        }
    }

    /// Returns the miss ratio of the cache for a miss ratio of the curve.
    fn miss_ratio(&self, of_curve: f64) -> f64 {
        let difference = self.sample_factor * of_curve - self.lru;
        let factor = if difference > 0.0 { self.more_factor } else { self.fewer_factor };
        (self.measured + factor * difference).clamp(0.0, 1.0)
    }

    /// Returns the half of the width of the error band of a miss ratio.
    ///
    /// The prediction depends on the gets that hit with one of the two memory sizes only. If each sampled key has the
    /// same number of gets, their share has a binomial distribution.
    fn error(&self, miss_ratio: f64) -> f64 {
        let share = (miss_ratio - self.measured).abs();
        let deviation = (share * (1.0 - share) / self.sampled_keys).sqrt();
        Self::DEVIATIONS * deviation + Self::MODEL_ERROR * share
    }
}

#[cfg(test)]
mod tests {
    use super::{WhatIf, what_if};
    use crate::Snapshot;
    use crate::testing::curves::{any, cliff, scan, snapshot};
    use slabwise_base::Random;
    use slabwise_profile::{Mrc, Point, RecentGets};

    #[test]
    fn a_loop_has_hits_only_in_memory_that_holds_it() {
        // The cache has 100 chunks; the loop needs 150.
        let cache = snapshot(10, vec![(4, cliff(150, 300.0)), (6, scan(100.0))]);
        let found: Vec<_> =
            what_if(&cache).iter().map(|it| (it.memory_percent, it.miss_ratio)).collect();
        let miss = [25, 50, 75, 90, 100, 110, 125].map(|percent| (percent, 1.0));
        let hit = [150, 200, 300, 400].map(|percent| (percent, 0.25));
        let expected = [miss.as_slice(), &hit].concat();
        assert_eq!(found, expected);
    }

    #[test]
    fn more_memory_never_causes_more_misses() {
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let classes =
                (0..1 + random.below(6)).map(|_| (random.below(40), any(&mut random, 200)));
            let found = what_if(&snapshot(1, classes.collect()));
            let falls = found.is_sorted_by(|a, b| a.miss_ratio >= b.miss_ratio - 0.001);
            assert!(falls, "seed {seed}: miss ratios do not rise with memory: {found:?}");
            assert!(
                found.iter().all(|it| (0.0..=1.0).contains(&it.miss_ratio)),
                "seed {seed}: miss ratios are from 0 to 1"
            );
        }
    }

    #[test]
    fn gets_of_keys_that_were_never_stored_miss_with_any_memory() {
        let mut cache = snapshot(10, vec![(4, cliff(150, 300.0)), (6, scan(100.0))]);
        cache.recent.unstored = 600.0;
        let found: Vec<f64> = what_if(&cache).iter().map(|it| it.miss_ratio).collect();
        assert_eq!(found, [vec![1.0; 7], vec![0.7; 4]].concat());
    }

    /// Returns a cache whose curve has 20 % capacity misses at the current memory and 10 % compulsory misses. Half and
    /// twice the memory have 30 % and 10 % capacity misses.
    fn cache(recent: RecentGets) -> Snapshot {
        let points = [(0, 1_000.0), (100, 400.0), (200, 300.0), (400, 200.0), (800, 100.0)];
        let points = points.map(|(chunks, misses)| Point { chunks, misses });
        Snapshot { recent, ..snapshot(10, vec![(20, Mrc::new(points.into()))]) }
    }

    fn predicted(cache: &Snapshot, percent: u64) -> WhatIf {
        let found = what_if(cache);
        *found.iter().find(|it| it.memory_percent == percent).expect("the size is predicted")
    }

    #[track_caller]
    fn assert_ratios(cache: &Snapshot, expected: [(u64, f64); 4]) {
        for (percent, ratio) in expected {
            let found = predicted(cache, percent).miss_ratio;
            assert!((found - ratio).abs() < 1e-9, "{percent} %: {found}, expected {ratio}");
        }
    }

    #[test]
    fn a_cache_that_evicts_better_than_an_lru_has_fewer_misses_at_every_size() {
        let recent = RecentGets {
            all: 1_000.0,
            all_misses: 200.0,
            sampled_misses: 200.0,
            ..RecentGets::default()
        };
        assert_ratios(&cache(recent), [(50, 0.8 / 3.0), (100, 0.2), (200, 0.15), (400, 0.1)]);
    }

    #[test]
    fn a_sample_with_too_few_misses_is_corrected_at_every_size() {
        let recent = RecentGets {
            all: 1_000.0,
            all_misses: 375.0,
            sampled_misses: 300.0,
            ..RecentGets::default()
        };
        assert_ratios(&cache(recent), [(50, 0.5), (100, 0.375), (200, 0.25), (400, 0.125)]);
    }

    #[test]
    fn no_correction_exceeds_a_factor_of_two() {
        let recent = RecentGets {
            all: 1_000.0,
            all_misses: 900.0,
            sampled_misses: 1.0,
            ..RecentGets::default()
        };
        assert_ratios(&cache(recent), [(50, 1.0), (100, 0.9), (200, 0.55), (400, 0.2)]);
        let recent = RecentGets { all: 1_000.0, all_misses: 0.0, ..RecentGets::default() };
        assert_ratios(&cache(recent), [(50, 0.05), (100, 0.0), (200, 0.0), (400, 0.0)]);
    }

    #[test]
    fn the_error_band_grows_with_the_difference_and_shrinks_with_the_sample() {
        let recent = |sampled_keys| RecentGets {
            all: 1_000.0,
            all_misses: 300.0,
            sampled_misses: 300.0,
            sampled_keys,
            ..RecentGets::default()
        };
        let width = |sampled_keys, percent| {
            let it = predicted(&cache(recent(sampled_keys)), percent);
            assert!((it.miss_ratio_low..=it.miss_ratio_high).contains(&it.miss_ratio), "{it:?}");
            it.miss_ratio_high - it.miss_ratio_low
        };
        assert_eq!(width(10_000, 100), 0.0, "the recent miss ratio is known");
        assert!(width(10_000, 110) < width(10_000, 200) && width(10_000, 200) < width(10_000, 400));
        assert!(width(10_000, 200) < width(1_000, 200));
    }

    #[test]
    fn no_references_give_no_predictions() {
        assert_eq!(what_if(&snapshot(1, vec![(3, scan(0.0))])), []);
    }
}
