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
    /// The miss ratio with the best partition of that memory.
    pub miss_ratio: f64,
}

/// The memory sizes for which [`what_if`] predicts the miss ratio, in percent of the current memory size.
const MEMORY_PERCENTS: [u64; 11] = [25, 50, 75, 90, 100, 110, 125, 150, 200, 300, 400];

/// Predicts the miss ratio of the whole cache with a quarter to four times its memory, each time with a nearly best partition,
/// from the curves of the snapshot. Gets of keys that were never stored miss with any memory. Returns no predictions if
/// there are no curves or no references.
pub fn what_if(snapshot: &Snapshot) -> Vec<WhatIf> {
    let classes: Vec<ClassCurve> = class_curves(snapshot)
        .into_iter()
        .map(|class| ClassCurve { pages_min: 0, ..class })
        .collect();
    let references: f64 = classes.iter().map(ClassCurve::references).sum();
    if references == 0.0 {
        return Vec::new();
    }
    let unstored = snapshot.unstored_share();
    let pages = snapshot.pages_free + classes.iter().map(|class| class.pages).sum::<u64>();
    let at = |memory_percent: u64| {
        let partition = near_best_partition(&classes, pages * memory_percent / 100);
        let miss_ratio = unstored + (1.0 - unstored) * misses(&classes, &partition) / references;
        WhatIf { memory_percent, miss_ratio }
    };
    MEMORY_PERCENTS.map(at).to_vec()
}

#[cfg(test)]
mod tests {
    use super::what_if;
    use crate::testing::curves::{any, cliff, scan, snapshot};
    use slabwise_base::Random;

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
        cache.unstored_gets = 600.0;
        let found: Vec<f64> = what_if(&cache).iter().map(|it| it.miss_ratio).collect();
        assert_eq!(found, [vec![1.0; 7], vec![0.7; 4]].concat());
    }

    #[test]
    fn no_references_give_no_predictions() {
        assert_eq!(what_if(&snapshot(1, vec![(3, scan(0.0))])), []);
    }
}
