//! What a step of the tuner comes to.

use slabwise_engine::ReassignError;
use slabwise_policy::PageMove;
use std::time::Duration;

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunerStep {
    /// There is more to do: call again soon.
    Working,
    /// There is more to do: call again soon. A planned move was asked for.
    Asked {
        /// The move.
        page_move: PageMove,
        /// Whether it began; if not, the cache has changed since it was planned.
        outcome: Result<(), ReassignError>,
    },
    /// There is more to do, after so long.
    Rest(Duration),
    /// Nothing to do for this many ticks, unless a move is asked for by hand.
    Idle {
        /// Ticks until the policy is due, or there may be something to look at; `None` if it never is.
        ticks: Option<u32>,
    },
}
