//! The page policy of GD-Wheel (C. Li and A. L. Cox, "GD-Wheel: A Cost-Aware Replacement Policy for Key-Value Stores",
//! EuroSys 2015, the section on slab rebalancing).
//!
//! The *cost per byte* of a class is the mean cost of its items divided by their size. A class that must evict takes a
//! page of the class with the lowest cost per byte, if its own cost per byte is higher.
//!
//! ```text
//!   cost per byte   class 0  #########  evicts: receives
//!                   class 1  ####       evicts: receives, too
//!                   class 2  ##         gives while it owns two pages or more
//! ```
//!
//! When the published policy would move a page, the engine has already evicted an item instead. So this policy plans as
//! many pages as the allocations without a free chunk have filled. The size of an item is the size of its chunks. If no
//! client supplies costs, every chunk costs 1.
//!
//! Weaknesses: pages move as long as a class with a high cost per byte stores items. The class with the lowest cost per
//! byte gives all pages except one, however many hits it has. If costs are equal, the class with the smallest chunks
//! takes all pages.
//!
//! Invariants: the cost per byte of a receiver is higher than the cost per byte of its victim; a class keeps one page.

use super::draw::draw;
use crate::history::changes::{Changes, pages_needed};
use crate::history::costs::chunk_costs;
use crate::options::options;
use crate::policy::Policy;
use crate::{ClassSnapshot, PageMove, Plan, Snapshot, Trigger};
use slabwise_base::Random;

options! {
    /// A step follows every eviction, as published. The limit `moves_max` is an addition of slabwise.
    pub struct CostPerByteOptions of CostPerByte {
        evictions: u64 = 1, events, "allocations that find no free chunk between two steps";
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

    fn step(&mut self, snapshot: &Snapshot, random: &mut Random) -> Plan {
        let changes = self.changes.since_last(snapshot);
        let mut plan = Plan::default();
        if !snapshot.is_divided() {
            return plan;
        }
        let costs_per_byte = costs_per_byte(snapshot);
        // Each class keeps its last page.
        let spare = |class: &ClassSnapshot| class.pages.saturating_sub(1);
        let mut spare: Vec<u64> = snapshot.classes.iter().map(spare).collect();
        let mut needed = pages_needed(snapshot, &changes);
        while plan.moves.len() < self.options.moves_max {
            let Some(receiver) = draw(&mut needed, random) else { break };
            let with_pages = (0..spare.len()).filter(|&index| spare[index] > 0);
            let cheapest =
                with_pages.min_by(|&a, &b| costs_per_byte[a].total_cmp(&costs_per_byte[b]));
            let Some(victim) =
                cheapest.filter(|&index| costs_per_byte[index] < costs_per_byte[receiver])
            else {
                needed[receiver] = 0;
                continue;
            };
            spare[victim] -= 1;
            let reason = "from the lowest cost per byte to a class with a higher one that evicts";
            plan.moves.push(PageMove::between(snapshot, victim, receiver, reason));
        }
        plan
    }
}

/// Returns the cost per byte of each class: the mean cost of the contents of its used chunks divided by the chunk size.
pub(crate) fn costs_per_byte(snapshot: &Snapshot) -> Vec<f64> {
    let each = snapshot.classes.iter().zip(chunk_costs(snapshot));
    each.map(|(class, cost)| cost / class.chunk_size_bytes as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::{CostPerByte, CostPerByteOptions};
    use crate::policy::Policy;
    use crate::{ClassSnapshot, PageMove, Snapshot, Trigger};
    use slabwise_base::{ClassId, Random};

    /// The chunk size of a class in bytes, its mean cost, its pages, and its evictions between two steps.
    type Class = (usize, u64, u64, u64);

    /// Returns the victim and the receiver of each move that a step plans after the evictions of `classes`, sorted.
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
        let plan = policy.step(&snapshot(3), &mut random);
        assert!(plan.moves.is_empty(), "evictions before the first step move no page");
        let moves = policy.step(&snapshot(4), &mut random).moves;
        let pair = |m: &PageMove| (m.victim.0, m.receiver.expect("a class receives the page").0);
        let mut pairs: Vec<_> = moves.iter().map(pair).collect();
        pairs.sort();
        pairs
    }

    #[test]
    fn a_class_that_evicts_takes_a_page_of_the_class_with_the_lowest_cost_per_byte() {
        let cheap = (200, 10, 5, 0);
        assert_eq!(step(&[cheap, (200, 40, 5, 1), (200, 20, 5, 1)]), [(0, 1), (0, 2)]);
        assert_eq!(
            step(&[cheap, (200, 40, 5, 25)]),
            [(0, 1); 3],
            "25 evictions fill three pages of ten chunks"
        );
    }

    #[test]
    fn a_step_moves_at_most_moves_max_pages() {
        let moves_max = CostPerByteOptions::default().moves_max;
        assert_eq!(step(&[(200, 10, 90, 0), (200, 40, 5, 900)]).len(), moves_max);
    }

    #[test]
    fn the_class_with_the_lowest_cost_per_byte_receives_no_page() {
        assert_eq!(step(&[(200, 10, 5, 100), (200, 40, 5, 0)]), []);
    }

    #[test]
    fn a_class_of_cheaper_but_smaller_items_receives_a_page() {
        assert_eq!(step(&[(100, 10, 5, 1), (1_000, 50, 5, 1)]), [(1, 0)]);
    }

    #[test]
    fn weakness_classes_with_a_low_cost_per_byte_keep_only_one_page() {
        let classes = [(200, 10, 3, 0), (200, 20, 3, 0), (200, 40, 5, 35)];
        assert_eq!(step(&classes), [(0, 2), (0, 2), (1, 2), (1, 2)]);
        let last = [(200, 10, 1, 0), (200, 20, 1, 5), (200, 40, 5, 35)];
        assert_eq!(step(&last), []);
    }

    #[test]
    fn weakness_without_costs_small_items_take_all_pages() {
        for cost in [0, 7] {
            assert_eq!(step(&[(100, cost, 5, 100), (1_000, cost, 4, 100)]), [(1, 0); 3]);
        }
    }
}
