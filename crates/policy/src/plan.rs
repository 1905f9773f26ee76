//! What a policy answers.

use crate::Snapshot;
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

impl PageMove {
    /// A move between two classes, by their places in the snapshot.
    pub(crate) fn between(
        snapshot: &Snapshot,
        victim: usize,
        receiver: usize,
        reason: &'static str,
    ) -> PageMove {
        let [victim, receiver] = [victim, receiver].map(|place| snapshot.classes[place].class);
        PageMove { victim, receiver: Some(receiver), reason }
    }
}

impl FromIterator<PageMove> for Plan {
    fn from_iter<I: IntoIterator<Item = PageMove>>(moves: I) -> Plan {
        Plan { moves: moves.into_iter().collect(), predicted: None }
    }
}
