//! The plan of page moves: the moves that a caller has requested in advance.

use slabwise_base::{ClassId, PageId, Ticks};

/// The reason why a requested move of a page is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReassignError {
    /// Another page is being moved. The mover moves one page at a time.
    #[error("a page is being moved: try again when the move has finished")]
    Running,
    /// The victim owns no page that can be moved.
    #[error("the victim owns no page that can be moved: choose another class")]
    NoMovablePage,
    /// Victim and receiver are the same class.
    #[error("victim and receiver are the same class")]
    SameClass,
    /// The victim is neither in the class table nor retired, or the receiver is not in the class table.
    #[error("there is no such class: stats slabs lists all classes")]
    BadClass,
}

/// A page move that a caller plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedMove {
    /// The class that gives the page.
    pub victim: ClassId,
    /// The page whose items are all evicted; `None`: the mover chooses a page of the victim, and keeps its items.
    pub page: Option<PageId>,
    /// The class that gets the page; `None`: the page pool. A move of a certain page needs a receiver.
    pub receiver: Option<ClassId>,
    /// The reason of the move, for its record.
    pub reason: &'static str,
}

/// A planned move, and if it has begun. A move does not begin if the cache has changed since the plan.
pub type BegunMove = (PlannedMove, Result<(), ReassignError>);

/// The help of stores with the current move.
#[derive(Debug, Default)]
pub struct Help {
    /// The number of chunks that stores have paid for but not visited, in units of 1/16.
    pub due_units: u32,
    /// The time at which all remaining chunks of the page were busy; `None`: there are others.
    pub busy_at: Option<Ticks>,
}
