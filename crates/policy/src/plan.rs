//! What a policy answers.

use crate::Snapshot;
use crate::split::ClassCurve;
use slabwise_base::ClassId;

/// Page moves, to be carried out in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Empty when all is well.
    pub moves: Vec<PageMove>,
    /// What the split that the moves lead to is to bring; `None` where a policy does not foresee it.
    pub predicted: Option<Prediction>,
}

/// What curves say of a split. Where a plan is only the first moves towards a split, it is the split that is
/// foreseen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Misses per 1,000 gets with the pages as they are.
    pub misses_before: f64,
    /// The same with the pages of the split.
    pub misses_after: f64,
}

impl Prediction {
    /// Of going from one split to another. Of the snapshot's gets those of keys never stored miss before and after.
    pub(crate) fn of(
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
}

/// One page's move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageMove {
    /// Gives the page.
    pub victim: ClassId,
    /// Takes it; `None` is the free pool.
    pub receiver: Option<ClassId>,
    /// Why, for the record of moves.
    pub reason: &'static str,
}
