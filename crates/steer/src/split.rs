//! A split: the number of pages of each class.
//!
//! Invariants: a class is identified by its chunk size, because the numbers of classes can differ after a restart of the
//! server with other options. A split has no class without pages.

use slabwise_base::ClassId;
use slabwise_observer::counters::Counters;
use std::collections::BTreeMap;

/// The maximum number of orders of one reading. Further ones follow after the next reading.
pub const ORDERS_MAX: usize = 1 << 10;

/// The number of pages of each class.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Split {
    /// From the chunk size in bytes to the number of pages.
    pages: BTreeMap<usize, u64>,
}

/// A page move to order from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    /// The class that gives the page.
    pub victim: ClassId,
    /// The class that receives the page.
    pub receiver: ClassId,
}

impl Split {
    /// Returns the present split.
    pub fn of(counters: &Counters) -> Split {
        let owned = |class: &&slabwise_observer::counters::ClassCounters| class.shown.pages > 0;
        let entry = |class: &slabwise_observer::counters::ClassCounters| {
            (class.shown.chunk_size_bytes, class.shown.pages)
        };
        Split { pages: counters.classes.iter().filter(owned).map(entry).collect() }
    }

    /// Returns true if no class has pages.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Returns the chunk size in bytes and the number of pages of each class.
    pub fn iter(&self) -> impl Iterator<Item = (usize, u64)> {
        self.pages.iter().map(|(&size, &pages)| (size, pages))
    }

    /// Returns the number of pages of the class with this chunk size.
    pub fn pages(&self, chunk_size_bytes: usize) -> u64 {
        self.pages.get(&chunk_size_bytes).copied().unwrap_or(0)
    }

    /// Moves a page as ordered, between two classes of these counters.
    pub fn move_page(&mut self, order: Order, counters: &Counters) {
        for (class, change) in [(order.victim, -1), (order.receiver, 1)] {
            let Some(class) = counters.class(class) else { continue };
            let pages = self.pages.entry(class.shown.chunk_size_bytes).or_default();
            *pages = pages.saturating_add_signed(change);
        }
        self.pages.retain(|_, pages| *pages > 0);
    }

    /// Returns the orders that lead from the present split to this one, as far as classes can give pages: a class keeps
    /// `pages_min` pages, and a class that is not in this split keeps its pages. The largest differences are first, and there
    /// are at most `ORDERS_MAX` orders.
    pub fn orders_from(&self, counters: &Counters, pages_min: u64) -> Vec<Order> {
        let known = counters.classes.iter().filter(|it| self.pages(it.shown.chunk_size_bytes) > 0);
        let mut surplus = Vec::new();
        let mut deficit = Vec::new();
        for class in known {
            let (now, target) = (class.shown.pages, self.pages(class.shown.chunk_size_bytes));
            let given = now.saturating_sub(target.max(pages_min));
            surplus.push((given, class.shown.class));
            deficit.push((target.saturating_sub(now), class.shown.class));
        }
        let mut orders = Vec::new();
        while orders.len() < ORDERS_MAX {
            let victim = surplus.iter_mut().max_by_key(|(pages, _)| *pages);
            let receiver = deficit.iter_mut().max_by_key(|(pages, _)| *pages);
            let (Some(victim), Some(receiver)) = (victim, receiver) else { break };
            if victim.0 == 0 || receiver.0 == 0 {
                break;
            }
            (victim.0, receiver.0) = (victim.0 - 1, receiver.0 - 1);
            orders.push(Order { victim: victim.1, receiver: receiver.1 });
        }
        orders
    }
}

#[cfg(test)]
mod tests {
    use super::{Order, Split};
    use crate::testing::counters;
    use slabwise_base::ClassId;

    #[test]
    fn orders_lead_to_the_split() {
        let target = Split::of(&counters(&[(100, 2), (200, 6), (300, 1)]));
        let now = counters(&[(100, 5), (200, 2), (300, 2)]);
        let order =
            |victim, receiver| Order { victim: ClassId(victim), receiver: ClassId(receiver) };
        assert_eq!(
            target.orders_from(&now, 1),
            [order(0, 1), order(0, 1), order(2, 1), order(0, 1)]
        );
        assert_eq!(target.orders_from(&now, 4), [order(0, 1)], "a class keeps four pages");
    }

    #[test]
    fn a_class_that_the_split_does_not_know_keeps_its_pages() {
        let target = Split::of(&counters(&[(100, 2), (200, 6)]));
        assert!(target.orders_from(&counters(&[(100, 2), (150, 9), (200, 2)]), 1).is_empty());
        assert!(Split::of(&counters(&[(100, 0)])).is_empty());
    }
}
