//! The plan that a policy's step returns.

use crate::Snapshot;
use slabwise_base::{ClassId, PageId};

/// The page moves that a policy plans in one step. The caller carries them out in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The moves; empty if no page should move.
    pub moves: Vec<PageMove>,
    /// The division of the queues of classes, for an eviction kind that can divide them. A class that is not in this
    /// list keeps its present division.
    pub splits: Vec<QueueSplit>,
    /// The predicted effect of the partition that the moves lead to; `None` if the policy makes no prediction.
    pub predicted: Option<Prediction>,
}

/// The division of the queue of a class in a left and a right queue. Both shares are in [0, 1].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueSplit {
    /// The class.
    pub class: ClassId,
    /// The share of the keys whose items enter the left queue.
    pub left_key_share: f64,
    /// The share of the class's items that the left queue may have.
    pub left_item_share: f64,
}

/// The effect of a partition of pages, predicted from miss-ratio curves. If a plan has only some of the moves towards a
/// partition, the prediction is for the state after all of the moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The number of misses per 1,000 gets with the current partition.
    pub misses_before: f64,
    /// The number of misses per 1,000 gets with the new partition.
    pub misses_after: f64,
}

/// The move of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageMove {
    /// The class that gives the page.
    pub victim: ClassId,
    /// The page that moves. All its items are evicted, and the receiver may be the victim. `None`: the mover chooses a
    /// page of the victim, and treats its items by the rules of the kind of mover.
    pub page: Option<PageId>,
    /// The class that receives the page; `None` if the page pool receives it.
    pub receiver: Option<ClassId>,
    /// The reason for the move in words, for the log of moves.
    pub reason: &'static str,
}

impl PageMove {
    /// Returns a move between two classes. `victim` and `receiver` are indexes into the snapshot's classes.
    pub(crate) fn between(
        snapshot: &Snapshot,
        victim: usize,
        receiver: usize,
        reason: &'static str,
    ) -> PageMove {
        let [victim, receiver] = [victim, receiver].map(|index| snapshot.classes[index].class);
        PageMove { victim, page: None, receiver: Some(receiver), reason }
    }
}

impl FromIterator<PageMove> for Plan {
    fn from_iter<I: IntoIterator<Item = PageMove>>(moves: I) -> Plan {
        Plan { moves: moves.into_iter().collect(), ..Plan::default() }
    }
}
