//! A split to which pages move until it is reached or given up: to undo a trial, or to continue after a restart of the
//! server.
//!
//! ```text
//!   Steerer sets a goal --> at each reading: orders from the present split --> the driver --> accepted or refused
//!                                 |                                                              |
//!                                 '-- none left, or no page moved for [`STALL_NANOS_MAX`]: end   '-- refused: a pause
//! ```
//!
//! Invariants: a goal that moves pages is not given up; time in which the limits allow no move does not count as an attempt.

use crate::split::{Order, Split};
use crate::trials::SECOND_NANOS;
use slabwise_observer::counters::Counters;

/// A goal is given up after this time without a move. A class may never give the page that it should.
const STALL_NANOS_MAX: u64 = 120 * SECOND_NANOS;
/// A longer time between two attempts counts as this time: the server was not reached.
const GAP_NANOS_MAX: u64 = 15 * SECOND_NANOS;
/// The pause after a round of which the server accepted no order.
const REFUSED_PAUSE_NANOS: u64 = 10 * SECOND_NANOS;

/// The purpose of a round of moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// The policy planned the moves.
    Policy,
    /// The moves undo a trial that hurt.
    Undo,
    /// The moves lead to the split that the steerer had chosen before the server restarted.
    Reapply,
}

impl Purpose {
    /// Returns the word for logs and metrics.
    pub fn word(self) -> &'static str {
        match self {
            Purpose::Policy => "policy",
            Purpose::Undo => "undo",
            Purpose::Reapply => "reapply",
        }
    }
}

/// A split to reach.
#[derive(Debug)]
pub struct Goal {
    /// Why the pages move.
    pub purpose: Purpose,
    /// The split.
    pub split: Split,
    /// The time of the last attempt; `None` if no move was possible since.
    tried_at_nanos: Option<u64>,
    /// The time of attempts since the last move.
    stalled_nanos: u64,
    paused_until_nanos: u64,
}

/// How a goal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoalEnd {
    /// The split is reached.
    Reached,
    /// The classes that should give pages have none to give.
    NoPages,
    /// No page moved for too long, although this number of moves was left.
    Stalled(usize),
}

/// The next step towards a goal.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Order these moves; there may be none now.
    Moves(Vec<Order>),
    /// The goal has ended.
    End(GoalEnd),
}

impl Goal {
    /// Creates a goal.
    pub fn new(purpose: Purpose, split: Split) -> Goal {
        Goal { purpose, split, tried_at_nanos: None, stalled_nanos: 0, paused_until_nanos: 0 }
    }

    /// Returns true if pages have moved towards the goal, or could have.
    pub fn has_begun(&self) -> bool {
        self.tried_at_nanos.is_some()
    }

    /// Records that no page can move now, for a reason that will pass.
    pub fn wait(&mut self) {
        (self.tried_at_nanos, self.stalled_nanos) = (None, 0);
    }

    /// Returns the next orders. `allowed` is the number of moves that the rate limit allows.
    pub fn step(
        &mut self,
        counters: &Counters,
        pages_min: u64,
        nanos: u64,
        allowed: usize,
    ) -> Step {
        let mut orders = self.split.orders_from(counters, pages_min);
        if orders.is_empty() {
            let is_reached = Split::of(counters) == self.split;
            return Step::End(if is_reached { GoalEnd::Reached } else { GoalEnd::NoPages });
        }
        if allowed == 0 {
            self.wait();
        }
        let before = self.tried_at_nanos.replace(nanos).unwrap_or(nanos);
        self.stalled_nanos += nanos.saturating_sub(before).min(GAP_NANOS_MAX);
        if self.stalled_nanos >= STALL_NANOS_MAX {
            return Step::End(GoalEnd::Stalled(orders.len()));
        }
        orders.truncate(if nanos < self.paused_until_nanos { 0 } else { allowed });
        Step::Moves(orders)
    }

    /// Receives the numbers of orders that the server has accepted and refused.
    pub fn report(&mut self, accepted: usize, refused: usize, nanos: u64) {
        if accepted > 0 {
            self.stalled_nanos = 0;
        } else if refused > 0 {
            self.paused_until_nanos = nanos + REFUSED_PAUSE_NANOS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Goal, GoalEnd, Purpose, SECOND_NANOS, Step};
    use crate::split::Split;
    use crate::testing::{counters, move_page};

    fn goal(pages: &[(usize, u64)]) -> Goal {
        Goal::new(Purpose::Undo, Split::of(&counters(pages)))
    }

    fn moves(step: &Step) -> usize {
        match step {
            Step::Moves(orders) => orders.len(),
            Step::End(end) => panic!("{end:?}"),
        }
    }

    #[test]
    fn a_goal_that_moves_a_page_in_each_two_minutes_is_reached() {
        let (mut goal, mut now) = (goal(&[(100, 4), (200, 16)]), counters(&[(100, 16), (200, 4)]));
        for second in 0..12 * 110 {
            let nanos = second * SECOND_NANOS;
            assert_eq!(moves(&goal.step(&now, 1, nanos, 1)), 1);
            if second % 110 == 109 {
                move_page(&mut now, 0, 1);
                goal.report(1, 0, nanos);
            }
        }
        assert_eq!(goal.step(&now, 1, 0, 1), Step::End(GoalEnd::Reached));
    }

    #[test]
    fn a_goal_whose_orders_are_refused_is_given_up() {
        let (mut goal, now) = (goal(&[(100, 1), (200, 3)]), counters(&[(100, 3), (200, 1)]));
        let mut orders = 0;
        for second in 0..120 {
            let nanos = second * SECOND_NANOS;
            let refused = moves(&goal.step(&now, 1, nanos, 9));
            goal.report(0, refused, nanos);
            orders += refused;
        }
        assert_eq!(orders, 12 * 2, "ten seconds are between the attempts");
        let end = goal.step(&now, 1, 120 * SECOND_NANOS, 9);
        assert_eq!(end, Step::End(GoalEnd::Stalled(2)));
    }

    #[test]
    fn time_in_which_no_move_is_possible_does_not_count() {
        let (mut goal, now) = (goal(&[(100, 1), (200, 3)]), counters(&[(100, 3), (200, 1)]));
        for second in 0..1_000 {
            assert_eq!(moves(&goal.step(&now, 1, second * SECOND_NANOS, 0)), 0);
        }
        assert_eq!(moves(&goal.step(&now, 1, 1_000 * SECOND_NANOS, 9)), 2);
        assert_eq!(moves(&goal.step(&now, 1, 9_000 * SECOND_NANOS, 9)), 2, "not reached for long");
    }

    #[test]
    fn a_split_that_needs_more_pages_than_classes_can_give_is_approached() {
        let (mut goal, now) = (goal(&[(100, 1), (200, 9)]), counters(&[(100, 1), (200, 3)]));
        assert_eq!(goal.step(&now, 1, 0, 9), Step::End(GoalEnd::NoPages));
    }
}
