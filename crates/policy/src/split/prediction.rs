//! What curves say of going from one split to another.

use super::ClassCurve;
use crate::{Prediction, Snapshot};

/// Misses before and after. Of the snapshot's gets those of keys never stored miss before and after.
pub(crate) fn predict(
    snapshot: &Snapshot,
    classes: &[ClassCurve],
    before: &[u64],
    after: &[u64],
) -> Prediction {
    let unstored = snapshot.unstored_share();
    let references: f64 = classes.iter().map(ClassCurve::references).sum();
    let misses = |split: &[u64]| -> f64 {
        let each = classes.iter().zip(split);
        each.map(|(class, &pages)| class.misses(pages)).sum()
    };
    let miss_ratio = |split| misses(split) / references.max(f64::MIN_POSITIVE);
    let per_thousand = |split| 1_000.0 * (unstored + (1.0 - unstored) * miss_ratio(split));
    Prediction { misses_before: per_thousand(before), misses_after: per_thousand(after) }
}
