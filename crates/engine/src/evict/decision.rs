//! What an order answers, for its class to apply.

use super::lanes::{Lane, Place};
use crate::mem::QueueKind;

/// A move of the last item of one queue to the head of another, or of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The queue that loses its last item.
    pub from: Place,
    /// The queue that gets it.
    pub to: Place,
    /// Whether the class counts the move in its statistics.
    pub is_counted: bool,
}

impl Move {
    /// A counted move within a lane.
    pub fn within(lane: Lane, from: QueueKind, to: QueueKind) -> Move {
        Move { from: Place { lane, queue: from }, to: Place { lane, queue: to }, is_counted: true }
    }
}

/// Where an item enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The queue that it becomes the newest of.
    pub place: Place,
    /// The rank that it is to store.
    pub rank: Option<u32>,
    /// A move that makes room first.
    pub displaced: Option<Move>,
}

/// What a hit does to its item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    /// Nothing.
    Stay,
    /// It stays where it is, with another rank.
    Rank(u32),
    /// It enters a queue anew. Whether the class counts the move.
    Enter(Entry, bool),
}

/// One step of the search for the item to evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The last item of this queue leaves, unless it is pinned.
    Evict(Place),
    /// This move comes first; then the search goes on.
    Move(Move),
    /// The search goes on after the class's lock was released for a moment.
    Further,
    /// The order has no candidate, or a pinned one: any unpinned item may leave.
    Nothing,
}
