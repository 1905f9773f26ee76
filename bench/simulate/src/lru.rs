//! A cache of items with sizes, which evicts the least recently used items. It stores no values.
//!
//! ```text
//! index: key --> node        nodes: newest <-> ... <-> oldest, a list whose links are node numbers
//! ```
//!
//! Invariants:
//! - The list contains each node of the index once, and the index contains each node of the list once.
//! - `size_bytes` is the sum of the sizes of all items, and at most the capacity.
//!
//! The program's main module calls it for each request of a workload.

use slabwise_base::random::mix;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The result of a get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Hit,
    Miss,
}

/// The number of a node that does not exist: the end of the list.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    key: u64,
    size_bytes: u64,
    /// The next newer node.
    newer: u32,
    /// The next older node.
    older: u32,
}

/// The cache.
#[derive(Debug)]
pub struct Lru {
    capacity_bytes: u64,
    size_bytes: u64,
    index: HashMap<u64, u32, BuildHasherDefault<KeyHasher>>,
    nodes: Vec<Node>,
    /// The numbers of nodes without an item.
    unused: Vec<u32>,
    newest: u32,
    oldest: u32,
}

/// Hashes the key of an item, which is one 64-bit number. The default hasher takes longer than the rest of an access.
#[derive(Debug, Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0 ^ number);
    }
}

impl Lru {
    /// Returns an empty cache whose items may have `capacity_bytes` bytes together.
    pub fn new(capacity_bytes: u64) -> Lru {
        Lru {
            capacity_bytes,
            size_bytes: 0,
            index: HashMap::default(),
            nodes: vec![],
            unused: vec![],
            newest: NONE,
            oldest: NONE,
        }
    }

    /// Looks up a key, and makes its item the newest.
    pub fn get(&mut self, key: u64) -> Access {
        let Some(&node) = self.index.get(&key) else { return Access::Miss };
        self.unlink(node);
        self.link_as_newest(node);
        Access::Hit
    }

    /// Stores an item as the newest, and evicts the oldest items until the cache has room. Does not store an item that is
    /// larger than the capacity.
    pub fn set(&mut self, key: u64, size_bytes: u64) {
        self.delete(key);
        if size_bytes > self.capacity_bytes {
            return;
        }
        while self.size_bytes + size_bytes > self.capacity_bytes {
            self.delete(self.nodes[self.oldest as usize].key);
        }
        let node = Node { key, size_bytes, newer: NONE, older: NONE };
        let number = self.unused.pop().unwrap_or(self.nodes.len() as u32);
        match self.nodes.get_mut(number as usize) {
            Some(unused) => *unused = node,
            None => self.nodes.push(node),
        }
        self.index.insert(key, number);
        self.size_bytes += size_bytes;
        self.link_as_newest(number);
    }

    /// Deletes the item of a key, if there is one.
    pub fn delete(&mut self, key: u64) {
        let Some(node) = self.index.remove(&key) else { return };
        self.unlink(node);
        self.size_bytes -= self.nodes[node as usize].size_bytes;
        self.unused.push(node);
    }

    /// Removes a node from the list.
    fn unlink(&mut self, node: u32) {
        let Node { newer, older, .. } = self.nodes[node as usize];
        match self.nodes.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        match self.nodes.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
    }

    /// Adds a node that is not in the list at its newest end.
    fn link_as_newest(&mut self, node: u32) {
        let older = std::mem::replace(&mut self.newest, node);
        (self.nodes[node as usize].newer, self.nodes[node as usize].older) = (NONE, older);
        match self.nodes.get_mut(older as usize) {
            Some(older) => older.newer = node,
            None => self.oldest = node,
        }
    }

    /// Panics if an invariant is violated.
    #[cfg(test)]
    fn check(&self) {
        let (mut node, mut newer, mut count, mut size_bytes) = (self.newest, NONE, 0, 0);
        while node != NONE {
            let found = self.nodes[node as usize];
            assert_eq!(found.newer, newer, "node {node} has the wrong newer node");
            assert_eq!(self.index.get(&found.key), Some(&node), "key {}", found.key);
            (newer, node) = (node, found.older);
            count += 1;
            size_bytes += found.size_bytes;
        }
        assert_eq!((self.oldest, self.index.len()), (newer, count));
        assert_eq!(self.size_bytes, size_bytes);
        assert!(size_bytes <= self.capacity_bytes, "{size_bytes} bytes are above the capacity");
    }
}

#[cfg(test)]
mod tests {
    use super::{Access, Lru};
    use slabwise_base::Random;

    /// The model: keys and sizes, the oldest first.
    #[derive(Default)]
    struct Model(Vec<(u64, u64)>);

    impl Model {
        fn remove(&mut self, key: u64) -> Option<(u64, u64)> {
            let at = self.0.iter().position(|item| item.0 == key)?;
            Some(self.0.remove(at))
        }

        fn get(&mut self, key: u64) -> Access {
            match self.remove(key) {
                Some(item) => {
                    self.0.push(item);
                    Access::Hit
                }
                None => Access::Miss,
            }
        }

        fn set(&mut self, key: u64, size_bytes: u64, capacity_bytes: u64) {
            self.remove(key);
            if size_bytes > capacity_bytes {
                return;
            }
            self.0.push((key, size_bytes));
            while self.0.iter().map(|item| item.1).sum::<u64>() > capacity_bytes {
                self.0.remove(0);
            }
        }
    }

    #[test]
    fn random_requests_have_the_results_of_the_model() {
        const CAPACITY_BYTES: u64 = 100;
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let (mut lru, mut model) = (Lru::new(CAPACITY_BYTES), Model::default());
            for step in 0..400 {
                let (key, size_bytes) = (random.below(20), random.below(CAPACITY_BYTES / 4));
                match random.below(8) {
                    0 => {
                        lru.delete(key);
                        model.remove(key);
                    }
                    1 => {
                        let large_bytes = size_bytes + CAPACITY_BYTES - 5;
                        lru.set(key, large_bytes);
                        model.set(key, large_bytes, CAPACITY_BYTES);
                    }
                    2..5 => {
                        lru.set(key, size_bytes);
                        model.set(key, size_bytes, CAPACITY_BYTES);
                    }
                    _ => assert_eq!(lru.get(key), model.get(key), "seed {seed}, step {step}"),
                }
                lru.check();
            }
        }
    }
}
