//! The trait of all simulations, and a catalog of requests whose keys are numbered.

use slabwise_replay::workload::{Op, Request};
use std::collections::HashMap;

pub trait Simulation {
    fn held_bytes(&self) -> u64;
    /// Requests a key, and returns true on a hit. A miss inserts the key; a hit updates its size. `number` is the index of
    /// the request in the catalog.
    fn get(&mut self, key: u32, size_bytes: u32, number: usize) -> bool;
    fn remove(&mut self, key: u32);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The key's number, from 0 in the order of first requests.
    pub key: u32,
    pub size_bytes: u32,
    pub op: Op,
}

#[derive(Debug, Default)]
pub struct Catalog {
    numbers: HashMap<u64, u32>,
    references: Vec<Reference>,
    sizes_bytes: Vec<u32>,
}

impl Catalog {
    pub fn add(&mut self, request: &Request, size_bytes: u32) {
        let next = self.numbers.len() as u32;
        let key = *self.numbers.entry(request.key).or_insert(next);
        if key == next {
            self.sizes_bytes.push(size_bytes);
        }
        // A delete does not change the size.
        if request.op != Op::Delete {
            self.sizes_bytes[key as usize] = size_bytes;
        }
        self.references.push(Reference { key, size_bytes, op: request.op });
    }

    pub fn references(&self) -> &[Reference] {
        &self.references
    }

    pub fn key_count(&self) -> usize {
        self.sizes_bytes.len()
    }

    pub fn distinct_bytes(&self) -> u64 {
        self.sizes_bytes.iter().map(|&size| u64::from(size)).sum()
    }
}
