//! The page policy of GD-Wheel (C. Li and A. L. Cox, "GD-Wheel: A Cost-Aware Replacement Policy for Key-Value Stores",
//! EuroSys 2015, the section on slab rebalancing).
//!
//! The worth of a class's bytes is the mean cost of an item over its size. A class that must evict takes a page of the
//! class whose bytes are worth least, if its own bytes are worth more.
//!
//! ```text
//!   cost per byte   class 0  #########  evicts: receives
//!                   class 1  ####       evicts: receives, too
//!                   class 2  ##         gives while it owns two pages or more
//! ```
//!
//! Where the published policy moves a page, the engine evicts an item. So one page is planned for each page's worth of
//! such stores. The size of an item is that of its chunks. If no client supplies costs, every chunk costs 1.
//!
//! Weaknesses: pages move as long as costly classes store anything; the cheapest class is emptied to its last page
//! before the next cheapest gives one, regardless of its hits; if costs are equal, small items take all pages.
//!
//! Invariants: a receiver's bytes are worth more than its victim's; a class keeps one page.

use super::draw::draw;
use crate::history::changes::{Changes, pages_needed};
use crate::history::costs::chunk_costs;
use crate::options::options;
use crate::policy::Policy;
use crate::{ClassSnapshot, PageMove, Plan, Snapshot, Trigger};
use slabwise_base::Random;

options! {
    /// A step at every eviction, as published. `moves_max` is this project's.
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

    fn step(&mut self, snapshot: &Snapshot, random: &mut Random) -> Plan {
        let changes = self.changes.since_last(snapshot);
        let mut plan = Plan::default();
        if !snapshot.is_divided() {
            return plan;
        }
        let worths = worths(snapshot);
        let spare = |class: &ClassSnapshot| class.pages.saturating_sub(1);
        let mut spare: Vec<u64> = snapshot.classes.iter().map(spare).collect();
        let mut needed = pages_needed(snapshot, &changes);
        while plan.moves.len() < self.options.moves_max {
            let Some(receiver) = draw(&mut needed, random) else { break };
            let with_pages = (0..spare.len()).filter(|&index| spare[index] > 0);
            let cheapest = with_pages.min_by(|&a, &b| worths[a].total_cmp(&worths[b]));
            let Some(victim) = cheapest.filter(|&index| worths[index] < worths[receiver]) else {
                needed[receiver] = 0;
                continue;
            };
            spare[victim] -= 1;
            let reason = "from the least cost per byte to a costlier class that evicts";
            plan.moves.push(PageMove::between(snapshot, victim, receiver, reason));
        }
        plan
    }
}

/// The worth of a byte of each class: the mean cost of the contents of its chunks over the chunk size.
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
        assert!(policy.step(&snapshot(3), &mut random).moves.is_empty(), "no new evictions");
        let moves = policy.step(&snapshot(4), &mut random).moves;
        let pair = |m: &PageMove| (m.victim.0, m.receiver.expect("never to the pool").0);
        let mut pairs: Vec<_> = moves.iter().map(pair).collect();
        pairs.sort();
        pairs
    }

    #[test]
    fn a_costlier_class_that_evicts_takes_a_page_of_the_cheapest() {
        let cheap = (200, 10, 5, 0);
        assert_eq!(step(&[cheap, (200, 40, 5, 1), (200, 20, 5, 1)]), [(0, 1), (0, 2)]);
        assert_eq!(step(&[cheap, (200, 40, 5, 25)]), [(0, 1); 3], "ten chunks a page");
    }

    #[test]
    fn a_step_moves_at_most_moves_max_pages() {
        let moves_max = CostPerByteOptions::default().moves_max;
        assert_eq!(step(&[(200, 10, 90, 0), (200, 40, 5, 900)]).len(), moves_max);
    }

    #[test]
    fn the_cheapest_class_receives_nothing_when_it_evicts() {
        assert_eq!(step(&[(200, 10, 5, 100), (200, 40, 5, 0)]), []);
    }

    #[test]
    fn costs_are_compared_per_byte() {
        assert_eq!(step(&[(100, 10, 5, 1), (1_000, 50, 5, 1)]), [(1, 0)]);
    }

    #[test]
    fn weakness_cheapest_classes_are_emptied_to_their_last_page() {
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
