//! An exact LRU by weight, as a reference for tests: plain, and nothing like the engine.

use std::collections::{BTreeMap, HashMap};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Hit,
    Miss,
}

impl Access {
    pub(crate) fn is_miss(self) -> bool {
        self == Access::Miss
    }
}

/// Keys in the order of their last access, with the sum of their weights at most `capacity`.
pub(crate) struct ExactLru {
    capacity: u64,
    weight: u64,
    time: u64,
    entries: HashMap<u64, (u64, u64)>,
    order: BTreeMap<u64, u64>,
}

impl ExactLru {
    pub(crate) fn new(capacity: u64) -> ExactLru {
        ExactLru { capacity, weight: 0, time: 0, entries: HashMap::new(), order: BTreeMap::new() }
    }

    /// Looks `key` up and brings it in where it is not there; an item above the capacity stays out.
    pub(crate) fn access(&mut self, key: u64, weight: u64) -> Access {
        self.time += 1;
        if let Some((time, _)) = self.entries.get_mut(&key) {
            self.order.remove(time);
            *time = self.time;
            self.order.insert(self.time, key);
            return Access::Hit;
        }
        if weight > self.capacity {
            return Access::Miss;
        }
        while self.weight + weight > self.capacity {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            self.weight -= self.entries.remove(&oldest).map_or(0, |(_, weight)| weight);
        }
        self.entries.insert(key, (self.time, weight));
        self.order.insert(self.time, key);
        self.weight += weight;
        Access::Miss
    }
}
