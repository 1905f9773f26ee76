//! memcached's `slabs automove 2`: every class that evicts receives a page at once.
//!
//! The policy is meant for tests and demonstrations. In each tick it plans a page for every class that evicted since
//! the last tick, and does not compare the need of the victim with the need of the receiver. So pages never stop moving
//! while classes evict.

use crate::history::per_class::PerClass;
use crate::options::Adjustable;
use crate::policy::Policy;
use crate::{ClassSnapshot, PageMove, Plan, Snapshot, Trigger};
use slabwise_base::Random;

#[derive(Clone, Debug, Default)]
pub struct Eager {
    /// The evictions of each class since the start, at the last step.
    evicted: PerClass<u64>,
}

impl Adjustable for Eager {}

impl Policy for Eager {
    fn trigger(&self) -> Trigger {
        Trigger::EveryTicks(1)
    }

    /// Plans one page for each class that evicted since the last step. The victim is the class with the oldest tail
    /// among the other classes that own two pages or more.
    fn step(&mut self, snapshot: &Snapshot, _random: &mut Random) -> Plan {
        // Evictions of a class before its first snapshot do not count.
        self.evicted.follow(snapshot, |class| class.evicted);
        let mut pages: Vec<u64> = snapshot.classes.iter().map(|class| class.pages).collect();
        let mut plan = Plan::default();
        for (class, before) in snapshot.classes.iter().zip(self.evicted.iter_mut()) {
            let evicts = class.evicted > *before;
            *before = class.evicted;
            if !evicts {
                continue;
            }
            let can_give = |&(index, other): &(usize, &ClassSnapshot)| {
                other.class != class.class && pages[index] >= 2
            };
            let victims = snapshot.classes.iter().enumerate().filter(can_give);
            let oldest = victims.max_by_key(|(_, other)| other.tail_age_work);
            let Some((index, victim)) = oldest else { continue };
            let victim = victim.class;
            pages[index] -= 1;
            let reason = "the receiver evicts";
            plan.moves.push(PageMove { victim, page: None, receiver: Some(class.class), reason });
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::Eager;
    use crate::testing;
    use crate::{ClassSnapshot, Snapshot};
    use slabwise_base::ClassId;

    fn snapshot(evicted: [u64; 3], pages: [u64; 3]) -> Snapshot {
        let class = |index: usize| ClassSnapshot {
            pages: pages[index],
            evicted: evicted[index],
            tail_age_work: 100 * index as u32,
            ..ClassSnapshot::empty(ClassId(index as u8), 96, 100)
        };
        Snapshot { memory_full: true, classes: (0..3).map(class).collect(), ..Snapshot::default() }
    }

    #[test]
    fn each_evicting_class_receives_a_page_from_the_oldest_tail() {
        let mut eager = Eager::default();
        assert!(
            testing::step(&mut eager, &snapshot([5, 5, 5], [3, 3, 3])).moves.is_empty(),
            "no page moves before a class has evicted"
        );
        let moves = testing::step(&mut eager, &snapshot([6, 5, 6], [3, 3, 3])).moves;
        let pairs: Vec<_> = moves.iter().map(|m| (m.victim.0, m.receiver.map(|r| r.0))).collect();
        // A weakness: class 2 has the oldest tail and gives a page, but it also evicts, so it takes one from class 1.
        assert_eq!(pairs, [(2, Some(0)), (1, Some(2))]);
    }

    #[test]
    fn a_class_keeps_its_last_page() {
        let mut eager = Eager::default();
        testing::step(&mut eager, &snapshot([0, 0, 0], [1, 1, 1]));
        assert!(testing::step(&mut eager, &snapshot([9, 0, 0], [1, 1, 1])).moves.is_empty());
    }
}
