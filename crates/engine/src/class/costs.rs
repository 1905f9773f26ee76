//! What the items of a class cost, under its lock.

use slabwise_base::Cost;

/// Sums over the items in the queues of a class whose cost is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemCosts {
    /// Items.
    pub count: u64,
    /// Units.
    pub units: u64,
}

impl ItemCosts {
    /// The mean of the known costs, in units; at least 1.
    pub fn mean(&self) -> u64 {
        (self.units / self.count.max(1)).max(1)
    }

    /// Counts an item that enters.
    #[inline]
    pub fn add(&mut self, cost: Option<Cost>) {
        if let Some(cost) = cost {
            self.count += 1;
            self.units += u64::from(cost.units());
        }
    }

    /// Counts an item that leaves.
    #[inline]
    pub fn remove(&mut self, cost: Option<Cost>) {
        if let Some(cost) = cost {
            self.count -= 1;
            self.units -= u64::from(cost.units());
        }
    }
}
