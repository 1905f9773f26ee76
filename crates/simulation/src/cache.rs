//! The trait of all simulated caches, and the requests that a simulation reads.

use slabwise_replay::workload::{Op, Request};
use std::collections::HashMap;

/// A simulated look-aside cache.
pub trait Simulation {
    /// Returns the sum of the sizes of all cached items.
    fn held_bytes(&self) -> u64;
    /// Gets a key. Returns true if the get hits. After a miss, the cache stores the item. After a hit, the item has the
    /// size `size_bytes`. `number` is the index of the request in the catalog.
    fn get(&mut self, key: u32, size_bytes: u32, number: usize) -> bool;
    /// Removes the item of a key, if the cache holds it.
    fn remove(&mut self, key: u32);
}

/// A request of the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Number of the key. Keys are numbered from 0 in the order of their first requests.
    pub key: u32,
    /// Size of the item with its overhead.
    pub size_bytes: u32,
    /// What the request does.
    pub op: Op,
}

/// All requests of a workload, with numbers instead of keys.
#[derive(Debug, Default)]
pub struct Catalog {
    /// The number of each key.
    numbers: HashMap<u64, u32>,
    /// The requests in the order of time.
    references: Vec<Reference>,
    /// The size of each key's item, by the number of the key.
    sizes_bytes: Vec<u32>,
}

impl Catalog {
    /// Adds a request for an item of `size_bytes`, including the item's overhead.
    pub fn add(&mut self, request: &Request, size_bytes: u32) {
        self.add_access(request.key, request.op, size_bytes);
    }

    /// Adds an access to the key with this hash, to an item of `size_bytes`, including the item's overhead.
    pub fn add_access(&mut self, key: u64, op: Op, size_bytes: u32) {
        let next = self.numbers.len() as u32;
        let key = *self.numbers.entry(key).or_insert(next);
        if key == next {
            self.sizes_bytes.push(size_bytes);
        }
        // A delete has no value, so its size is not the size of the item.
        if op != Op::Delete {
            self.sizes_bytes[key as usize] = size_bytes;
        }
        self.references.push(Reference { key, size_bytes, op });
    }

    /// Returns all requests in the order of time.
    pub fn references(&self) -> &[Reference] {
        &self.references
    }

    /// Returns the number of different keys.
    pub fn key_count(&self) -> usize {
        self.sizes_bytes.len()
    }

    /// Returns the sum of the sizes of the items of all keys. An item has the size of the last get or set of its key.
    pub fn distinct_bytes(&self) -> u64 {
        self.sizes_bytes.iter().map(|&size| u64::from(size)).sum()
    }
}
