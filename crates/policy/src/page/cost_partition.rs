//! Cost-based partitioning (D. Carra and P. Michiardi, "Cost-based Memory Partitioning and Management in Memcached",
//! IMDM 2015), the successor of [`psa`](super::psa).
//!
//! Only misses of evicted keys count, each with the mean miss cost of its class. For class i, counted over the last M
//! misses of the cache (M is the option `misses`):
//!
//! ```text
//!   m_i   stores of keys that had been stored before, times the mean miss cost
//!   r_i   requests
//!   s_i   pages
//!   risk  m_i / (r_i s_i)        0 for a class without requests
//! ```
//!
//! Every M misses one page moves to the class with the greatest m, from the class with the least risk among the others.
//! A miss of an evicted key is detected at the store that follows it: the key is in one of two Bloom filters, which have
//! the keys that were stored recently ([`ClassProfile::stored_before`](crate::ClassProfile::stored_before)). So a store
//! that replaces an item counts, too. Without profiles no page moves. If no client supplies costs, every miss costs 1.
//!
//! Differences here: the filters have only the sampled keys, and each of them counts for several keys. A store adds the
//! mean miss cost of its class instead of its own cost.
//!
//! Weaknesses: m also counts misses that another page would not save, so a loop that is larger than all memory receives
//! all pages. A large class has few misses per request and many pages, and both lower its risk, so the largest class
//! usually gives first.
//!
//! Invariants: at most one move a step, even if the step is late; a class keeps one page.

use super::psa::least_risk_to_most_misses;
use crate::history::changes::Changes;
use crate::history::costs::MissCosts;
use crate::options::options;
use crate::policy::Policy;
use crate::{Inputs, Plan, Snapshot, Trigger};
use slabwise_base::Random;

options! {
    /// The paper gives no value for M (the option `misses`). The default is that of `psa`.
    pub struct CostPartitionOptions of CostPartition {
        misses: u64 = 10_000, events, "number of get misses between two steps";
    }
}

#[derive(Clone, Debug, Default)]
pub struct CostPartition {
    options: CostPartitionOptions,
    changes: Changes,
    costs: MissCosts,
}

impl Policy for CostPartition {
    fn trigger(&self) -> Trigger {
        Trigger::EveryMisses(self.options.misses)
    }

    fn inputs(&self) -> Inputs {
        Inputs::FreshProfiles
    }

    fn detects_stored_before(&self) -> bool {
        true
    }

    fn step(&mut self, snapshot: &Snapshot, _random: &mut Random) -> Plan {
        self.costs.update(snapshot);
        let (changes, costs) = (self.changes.since_last(snapshot), self.costs.relative(snapshot));
        // Without a profile, no misses of evicted keys are known.
        let cost_of_misses = |index: usize| {
            let profiled = changes[index].profiled.unwrap_or_default();
            profiled.stored_before * costs[index]
        };
        least_risk_to_most_misses(
            snapshot,
            &changes,
            cost_of_misses,
            |index| match changes[index].gets() {
                0.0 => 0.0,
                gets => cost_of_misses(index) / (gets * snapshot.classes[index].pages as f64),
            },
            "to the highest cost of evictions, from the lowest per request and page",
        )
        .into_iter()
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{CostPartition, CostPartitionOptions};
    use crate::policy::Policy;
    use crate::testing;
    use crate::{ClassProfile, ClassSnapshot, Snapshot, Trigger};
    use slabwise_base::ClassId;

    /// The pages of a class, its events between two steps, and the cost of each stored item.
    #[derive(Clone, Copy)]
    struct Class {
        pages: u64,
        hits: u64,
        misses: f64,
        misses_by_eviction: f64,
        cost: u64,
    }

    /// Returns the victim and the receiver of the move that a step plans after the events of `classes`.
    fn step(classes: &[Class]) -> Option<(u8, u8)> {
        let snapshot = |times: f64| {
            let class = |(index, class): (usize, &Class)| ClassSnapshot {
                pages: class.pages,
                used_chunks: class.pages * 10,
                hits: (times * class.hits as f64) as u64,
                costs_known: (times * 100.0) as u64,
                cost_paid: (times * 100.0) as u64 * class.cost,
                ..ClassSnapshot::empty(ClassId(index as u8), 96, 10)
            };
            let profile = |class: &Class| ClassProfile {
                misses: times * class.misses,
                stored_before: times * class.misses_by_eviction,
                ..ClassProfile::default()
            };
            Snapshot {
                memory_full: true,
                classes: classes.iter().enumerate().map(class).collect(),
                profiles: classes.iter().map(profile).collect(),
                ..Snapshot::default()
            }
        };
        let mut policy = CostPartition::default();
        let plan = testing::step(&mut policy, &snapshot(3.0));
        assert!(plan.moves.is_empty(), "events before the first step move no page");
        let moves = testing::step(&mut policy, &snapshot(4.0)).moves;
        moves.first().map(|m| (m.victim.0, m.receiver.expect("a class receives the page").0))
    }

    /// A class of ten pages with a miss ratio of a tenth. Half of its misses are gets of evicted keys.
    const PLAIN: Class =
        Class { pages: 10, hits: 900, misses: 100.0, misses_by_eviction: 50.0, cost: 1 };

    #[test]
    fn keys_used_once_receive_no_page() {
        let scan = Class { hits: 0, misses: 5_000.0, misses_by_eviction: 0.0, ..PLAIN };
        assert_eq!(
            step(&[PLAIN, scan]),
            Some((1, 0)),
            "the scan gives the page; under psa it would receive it"
        );
    }

    #[test]
    fn a_class_with_fewer_but_costlier_misses_receives_the_page() {
        let more = Class { misses_by_eviction: 80.0, ..PLAIN };
        assert_eq!(step(&[PLAIN, more]), Some((0, 1)));
        let costlier = Class { cost: 2, ..PLAIN };
        assert_eq!(step(&[costlier, more]), Some((1, 0)));
    }

    #[test]
    fn requests_and_pages_lower_the_risk_and_a_class_keeps_its_last_page() {
        let needy = Class { misses_by_eviction: 100.0, ..PLAIN };
        let more_requests = Class { hits: 1_900, ..PLAIN };
        let found = step(&[needy, PLAIN, more_requests]);
        assert_eq!(found, Some((2, 0)), "class 2 has the least risk: 50 misses of 2,000 requests");
        let larger = Class { pages: 30, ..PLAIN };
        assert_eq!(step(&[needy, PLAIN, more_requests, larger]), Some((3, 0)));
        let idle = Class { hits: 0, misses: 0.0, misses_by_eviction: 0.0, ..PLAIN };
        assert_eq!(
            step(&[needy, idle, larger]),
            Some((1, 0)),
            "a class without requests has no risk"
        );
        assert_eq!(step(&[needy, Class { pages: 1, ..idle }, larger]), Some((2, 0)));
        assert_eq!(step(&[idle, idle]), None);
    }

    #[test]
    fn weakness_a_loop_larger_than_memory_receives_all_pages() {
        let mut loops = Class { hits: 0, misses: 500.0, misses_by_eviction: 500.0, ..PLAIN };
        let mut useful = PLAIN;
        while step(&[useful, loops]) == Some((0, 1)) {
            useful.pages -= 1;
            loops.pages += 1;
        }
        assert_eq!(
            (useful.pages, loops.pages),
            (1, 19),
            "the loop has all pages but one and no hits"
        );
    }

    #[test]
    fn no_page_moves_without_profiles() {
        let options = CostPartitionOptions { misses: 9 };
        let mut policy = CostPartition { options, ..Default::default() };
        assert_eq!(policy.trigger(), Trigger::EveryMisses(9));
        let class = |index, sets| ClassSnapshot {
            pages: 9,
            sets,
            ..ClassSnapshot::empty(ClassId(index), 96, 10)
        };
        for sets in [0, 1_000, 2_000] {
            let classes = vec![class(0, 0), class(1, sets)];
            let snapshot = Snapshot { memory_full: true, classes, ..Snapshot::default() };
            assert!(testing::step(&mut policy, &snapshot).moves.is_empty());
        }
    }

    #[test]
    fn the_profile_counts_stores_of_keys_that_were_stored_before() {
        assert!(CostPartition::default().detects_stored_before());
    }
}
