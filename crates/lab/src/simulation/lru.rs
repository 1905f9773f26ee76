//! Least recently used.

use super::cache::Simulation;
use super::list::List;

/// The cache.
#[derive(Debug)]
pub struct Lru {
    list: List,
    limit_bytes: u64,
}

impl Lru {
    /// An empty one.
    pub fn new(key_count: usize, limit_bytes: u64) -> Lru {
        Lru { list: List::new(key_count), limit_bytes }
    }
}

impl Simulation for Lru {
    fn held_bytes(&self) -> u64 {
        self.list.bytes()
    }

    fn get(&mut self, key: u32, size_bytes: u32, _number: usize) -> bool {
        let is_hit = self.list.has(key);
        if is_hit {
            self.list.remove(key);
        }
        if u64::from(size_bytes) > self.limit_bytes {
            return is_hit;
        }
        while self.list.bytes() + u64::from(size_bytes) > self.limit_bytes {
            self.list.pop_tail();
        }
        self.list.push_head(key, size_bytes);
        is_hit
    }

    fn remove(&mut self, key: u32) {
        if self.list.has(key) {
            self.list.remove(key);
        }
    }
}
