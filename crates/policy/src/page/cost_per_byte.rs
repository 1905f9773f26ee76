//! The page policy of GD-Wheel (C. Li and A. L. Cox, "GD-Wheel: A Cost-Aware Replacement Policy for Key-Value Stores",
//! EuroSys 2015, the section on slab rebalancing).
//!
//! A byte of a class is worth the mean cost of an item over its bytes. A class that must evict takes a page of the
//! class whose bytes are worth least, if its own are worth more.
//!
//! ```text
//!   cost a byte   class 0  #########  evicts: receives
//!                 class 1  ####       evicts: receives, too
//!                 class 2  ##         gives while it owns two pages or more
//! ```
//!
//! The engine evicts an item where the published policy moves a page, so a page is planned for each page's worth of
//! such stores. Bytes of an item are those of its chunks. Where no client gives costs, a chunk costs 1.
//!
//! Weaknesses: pages move as long as costly classes store anything; the cheapest class is emptied to its last page
//! before the next cheapest gives one, whatever its hits; where costs are equal small items take all.
//!
//! Invariants: a receiver's bytes are worth more than its victim's; a class keeps one page.

use super::draw::draw;
use crate::history::changes::{Changes, pages_asked};
use crate::history::costs::chunk_costs;
use crate::options::options;
use crate::policy::Policy;
use crate::{ClassSnapshot, PageMove, Plan, Snapshot, Trigger};
use slabwise_base::Random;

options! {
    /// A step at every eviction, as published. The other limit is ours.
    pub struct CostPerByteOptions of CostPerByte {
        evictions: u64 = 1, events, "allocations without a free chunk between two steps";
        moves_max: usize = 32, moves_max;
    }
}

#[derive(Clone, Debug, Default)]
pub struct CostPerByte {
    options: CostPerByteOptions,
    changes: Changes,
}

impl Policy for CostPerByte {
    fn trigger(&self) -> Trigger {
        Trigger::EveryEvictions(self.options.evictions)
    }

    /// Pages of the class of least cost per byte for the costlier ones that evicted since the last step, these
    /// in any order.
    fn step(&mut self, snapshot: &Snapshot, random: &mut Random) -> Plan {
        let changes = self.changes.since_last(snapshot);
        let mut plan = Plan::default();
        if !snapshot.is_divided() {
            return plan;
        }
        let worths = worths(snapshot);
        let spare = |class: &ClassSnapshot| class.pages.saturating_sub(1);
        let mut spare: Vec<u64> = snapshot.classes.iter().map(spare).collect();
        let mut asked = pages_asked(snapshot, &changes);
        while plan.moves.len() < self.options.moves_max {
            let Some(receiver) = draw(&mut asked, random) else { break };
            let with_pages = (0..spare.len()).filter(|&index| spare[index] > 0);
            let cheapest = with_pages.min_by(|&a, &b| worths[a].total_cmp(&worths[b]));
            let Some(victim) = cheapest.filter(|&index| worths[index] < worths[receiver]) else {
                asked[receiver] = 0;
                continue;
            };
            spare[victim] -= 1;
            let reason = "least cost a byte, to a costlier one that evicts";
            plan.moves.push(PageMove::between(snapshot, victim, receiver, reason));
        }
        plan
    }
}

/// What a byte of each class is worth: the mean cost of what its chunks hold over their bytes.
pub(crate) fn worths(snapshot: &Snapshot) -> Vec<f64> {
    let each = snapshot.classes.iter().zip(chunk_costs(snapshot));
    each.map(|(class, cost)| cost / class.chunk_size_bytes as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::{CostPerByte, CostPerByteOptions};
    use crate::policy::Policy;
    use crate::{ClassSnapshot, PageMove, Snapshot, Trigger};
    use slabwise_base::{ClassId, Random};

    /// Chunk size, mean cost, pages, and evictions between two steps.
    type Class = (usize, u64, u64, u64);

    fn step(classes: &[Class]) -> Vec<(u8, u8)> {
        let snapshot = |times: u64| {
            let class = |(index, &(size, cost, pages, evicted)): (usize, &Class)| ClassSnapshot {
                pages,
                used_chunks: pages * 10,
                cost_held: pages * 10 * cost,
                evicted: times * evicted,
                ..ClassSnapshot::empty(ClassId(index as u8), size, 10)
            };
            Snapshot {
                memory_full: true,
                classes: classes.iter().enumerate().map(class).collect(),
                ..Snapshot::default()
            }
        };
        let mut policy = CostPerByte::default();
        assert_eq!(policy.trigger(), Trigger::EveryEvictions(1));
        let mut random = Random::new(1);
        assert!(policy.step(&snapshot(3), &mut random).moves.is_empty(), "nothing is new");
        let moves = policy.step(&snapshot(4), &mut random).moves;
        let pair = |m: &PageMove| (m.victim.0, m.receiver.expect("never to the pool").0);
        let mut pairs: Vec<_> = moves.iter().map(pair).collect();
        pairs.sort();
        pairs
    }

    #[test]
    fn an_eviction_of_a_costlier_class_takes_a_page_of_the_cheapest() {
        let cheap = (200, 10, 5, 0);
        assert_eq!(step(&[cheap, (200, 40, 5, 1), (200, 20, 5, 1)]), [(0, 1), (0, 2)]);
        assert_eq!(step(&[cheap, (200, 40, 5, 25)]), [(0, 1); 3], "ten chunks a page");
    }

    #[test]
    fn a_step_moves_so_many_pages_and_no_more() {
        let moves_max = CostPerByteOptions::default().moves_max;
        assert_eq!(step(&[(200, 10, 90, 0), (200, 40, 5, 900)]).len(), moves_max);
    }

    #[test]
    fn the_cheapest_class_evicts_and_receives_nothing() {
        assert_eq!(step(&[(200, 10, 5, 100), (200, 40, 5, 0)]), []);
    }

    #[test]
    fn cost_is_by_the_byte() {
        assert_eq!(step(&[(100, 10, 5, 1), (1_000, 50, 5, 1)]), [(1, 0)]);
    }

    #[test]
    fn its_weakness_the_cheapest_is_emptied_to_its_last_page_then_the_next() {
        let classes = [(200, 10, 3, 0), (200, 20, 3, 0), (200, 40, 5, 35)];
        assert_eq!(step(&classes), [(0, 2), (0, 2), (1, 2), (1, 2)]);
        let last = [(200, 10, 1, 0), (200, 20, 1, 5), (200, 40, 5, 35)];
        assert_eq!(step(&last), []);
    }

    #[test]
    fn its_weakness_at_equal_costs_or_none_the_small_take_all_from_the_large() {
        for cost in [0, 7] {
            assert_eq!(step(&[(100, cost, 5, 100), (1_000, cost, 4, 100)]), [(1, 0); 3]);
        }
    }
}
