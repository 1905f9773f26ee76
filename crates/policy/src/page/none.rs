//! No policy: first come, first served, and pages never move.
//!
//! The control of every comparison: a workload that changes its sizes finds all pages where the old
//! sizes left them (calcification).

use crate::options::Adjustable;
use crate::policy::Policy;
use crate::{Plan, Snapshot, Trigger};
use slabwise_base::Random;

/// The policy; it remembers nothing.
#[derive(Clone, Debug)]
pub struct NoMoves;

impl Adjustable for NoMoves {}

impl Policy for NoMoves {
    fn trigger(&self) -> Trigger {
        Trigger::Never
    }

    fn step(&mut self, _snapshot: &Snapshot, _random: &mut Random) -> Plan {
        Plan::default()
    }
}

#[cfg(test)]
mod tests {
    use crate::{ClassSnapshot, PagePolicy, Plan, Snapshot, Trigger};
    use slabwise_base::{ClassId, Random};

    #[test]
    fn nothing_moves_however_great_the_need() {
        let class = |index, pages, evicted, tail_age_ticks| ClassSnapshot {
            pages,
            evicted,
            tail_age_ticks,
            ..ClassSnapshot::empty(ClassId(index), 96, 10)
        };
        let mut policy = PagePolicy::none();
        for evicted in [0, 1_000, 2_000] {
            let classes = vec![class(0, 100, 0, 1 << 20), class(1, 1, evicted, 1)];
            let snapshot = Snapshot { memory_full: true, classes, ..Snapshot::default() };
            assert_eq!(policy.step(&snapshot, &mut Random::new(1)), Plan::default());
        }
        assert_eq!(policy.trigger(), Trigger::Never);
    }
}
