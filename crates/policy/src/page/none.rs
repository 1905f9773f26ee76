//! The policy that never moves a page: classes keep the pages that they took first.
//!
//! This policy is the control of every comparison. If item sizes change, all pages stay with the classes of the old
//! sizes (calcification).

use crate::options::Adjustable;
use crate::policy::Policy;
use crate::{Plan, Snapshot, Trigger};
use slabwise_base::Random;

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
    fn the_policy_none_never_moves_a_page() {
        let class = |index, pages, evicted, tail_age_work| ClassSnapshot {
            pages,
            evicted,
            tail_age_work,
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
