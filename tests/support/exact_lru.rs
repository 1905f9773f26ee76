//! An LRU cache of weighted keys, as a reference for tests. It shares no code and no data structure with the engine.

use std::collections::{BTreeMap, HashMap};

/// The result of an access.
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

/// The cache: keys in the order of their last access. The sum of their weights is at most `capacity`.
pub(crate) struct ExactLru {
    capacity: u64,
    /// The sum of the weights of all keys in the cache.
    weight: u64,
    /// The number of accesses since the cache was made.
    time: u64,
    /// The time of the last access and the weight of each key.
    entries: HashMap<u64, (u64, u64)>,
    /// The key that was last accessed at each time, oldest first.
    order: BTreeMap<u64, u64>,
}

impl ExactLru {
    pub(crate) fn new(capacity: u64) -> ExactLru {
        ExactLru { capacity, weight: 0, time: 0, entries: HashMap::new(), order: BTreeMap::new() }
    }

    /// Looks up a key, and inserts the key on a miss. Does not insert a key whose weight exceeds the capacity.
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
