//! What a cache does with keys when it is full, without the items: kinds of eviction to be simulated.

use crate::key_map::KeyMap;
use crate::lists::{List, Nodes};

/// A cache of keys whose items take one chunk each.
pub trait Eviction {
    /// A cache of `chunks` chunks, at least 1.
    fn with_chunks(chunks: usize) -> Self;

    /// Looks a key up, and marks it as used; whether it was there.
    fn get(&mut self, key: u64) -> bool;

    /// Stores a key, over what it stands for if it is there; another one leaves if there is no chunk.
    fn store(&mut self, key: u64);

    /// Takes a key out if it is there.
    fn delete(&mut self, key: u64);
}

/// One queue in exact order of use.
#[derive(Clone, Debug)]
pub struct Lru {
    chunks: usize,
    numbers: KeyMap<u32>,
    nodes: Nodes<()>,
    queue: List,
}

impl Eviction for Lru {
    fn with_chunks(chunks: usize) -> Lru {
        assert!(chunks > 0, "a cache has at least one chunk");
        Lru { chunks, numbers: KeyMap::default(), nodes: Nodes::default(), queue: List::default() }
    }

    fn get(&mut self, key: u64) -> bool {
        let Some(&number) = self.numbers.get(&key) else { return false };
        self.queue.remove(&mut self.nodes, number);
        self.queue.push_head(&mut self.nodes, number);
        true
    }

    fn store(&mut self, key: u64) {
        if self.get(key) {
            return;
        }
        if self.queue.count() == self.chunks {
            let oldest = self.queue.tail().expect("a full queue has an oldest key");
            self.queue.remove(&mut self.nodes, oldest);
            self.numbers.remove(&self.nodes.free(oldest));
        }
        let number = self.nodes.add(key, ());
        self.queue.push_head(&mut self.nodes, number);
        self.numbers.insert(key, number);
    }

    fn delete(&mut self, key: u64) {
        if let Some(number) = self.numbers.remove(&key) {
            self.queue.remove(&mut self.nodes, number);
            self.nodes.free(number);
        }
    }
}
