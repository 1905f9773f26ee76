//! The result of a policy's step.

use crate::Snapshot;
use slabwise_base::ClassId;

/// Page moves, to be carried out in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The moves; empty if the policy has nothing to change.
    pub moves: Vec<PageMove>,
    /// The effect of the partition that the moves lead to; `None` if the policy does not predict it.
    pub predicted: Option<Prediction>,
}

/// The effect of a partition of pages as miss-ratio curves predict it. If a plan has only the first moves towards a
/// partition, the prediction is for the whole partition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Misses per 1,000 gets with the current partition.
    pub misses_before: f64,
    /// Misses per 1,000 gets with the new partition.
    pub misses_after: f64,
}

/// The move of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageMove {
    /// The class that gives the page.
    pub victim: ClassId,
    /// The class that receives the page; `None` is the free pool.
    pub receiver: Option<ClassId>,
    /// Why the page moves, for the log of moves.
    pub reason: &'static str,
}

impl PageMove {
    /// A move between two classes, given by their indexes in the snapshot.
    pub(crate) fn between(
        snapshot: &Snapshot,
        victim: usize,
        receiver: usize,
        reason: &'static str,
    ) -> PageMove {
        let [victim, receiver] = [victim, receiver].map(|index| snapshot.classes[index].class);
        PageMove { victim, receiver: Some(receiver), reason }
    }
}

impl FromIterator<PageMove> for Plan {
    fn from_iter<I: IntoIterator<Item = PageMove>>(moves: I) -> Plan {
        Plan { moves: moves.into_iter().collect(), predicted: None }
    }
}
