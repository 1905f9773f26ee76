//! The stack distances of memcached's classes: each class is an LRU of its own.
//!
//! ```text
//! request --> the class with the smallest chunks that hold the item --> its StackDistances --> distance
//! ```
//!
//! Invariant: a key is in the stack of at most one class.
//!
//! `classes` and `split` call it.

use slabwise_profile::StackDistances;
use slabwise_replay::workload::{Op, Request};
use std::collections::HashMap;

/// The stack distance of a request in its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The index of the class, in ascending order of the chunk sizes.
    pub class: usize,
    /// The number of other keys of the class since the last reference; `None` for a first reference.
    pub distance: Option<u64>,
}

/// The stacks of all classes.
#[derive(Debug)]
pub struct ClassStacks {
    chunk_sizes_bytes: Vec<u64>,
    stacks: Vec<StackDistances>,
    /// The index of the class of each key.
    keys: HashMap<u64, usize>,
}

impl ClassStacks {
    /// Starts with classes of these chunk sizes, which must ascend.
    pub fn new(chunk_sizes_bytes: Vec<u64>) -> ClassStacks {
        assert!(chunk_sizes_bytes.is_sorted(), "the chunk sizes must ascend");
        let stacks = chunk_sizes_bytes.iter().map(|_| StackDistances::default()).collect();
        ClassStacks { chunk_sizes_bytes, stacks, keys: HashMap::new() }
    }

    /// Executes a request for an item of this size. Returns its distance; `None` after a delete, or if there are no
    /// classes. An item that is larger than all chunks is in the class with the largest ones.
    pub fn request(&mut self, request: &Request, size_bytes: u64) -> Option<Reference> {
        let class = self.chunk_sizes_bytes.partition_point(|&chunk| chunk < size_bytes);
        let class = class.min(self.stacks.len().checked_sub(1)?);
        let before = self.keys.insert(request.key, class).filter(|&before| before != class);
        if let Some(before) = before {
            self.stacks[before].forget(request.key);
        }
        let stack = &mut self.stacks[class];
        if request.op == Op::Delete {
            stack.forget(request.key);
            return None;
        }
        Some(Reference { class, distance: stack.reference(request.key) })
    }
}
