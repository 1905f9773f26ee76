//! Least recently used.

use super::cache::Simulation;
use super::queues::Queues;

const QUEUE: usize = 0;

#[derive(Debug)]
pub struct Lru {
    queue: Queues<1>,
    limit_bytes: u64,
}

impl Lru {
    pub fn new(key_count: usize, limit_bytes: u64) -> Lru {
        Lru { queue: Queues::new(key_count), limit_bytes }
    }
}

impl Simulation for Lru {
    fn held_bytes(&self) -> u64 {
        self.queue.bytes(QUEUE)
    }

    fn get(&mut self, key: u32, size_bytes: u32, _number: usize) -> bool {
        let is_hit = self.queue.remove(key).is_some();
        if u64::from(size_bytes) > self.limit_bytes {
            return is_hit;
        }
        while self.held_bytes() + u64::from(size_bytes) > self.limit_bytes {
            self.queue.pop_tail(QUEUE);
        }
        self.queue.push_head(QUEUE, key, size_bytes);
        is_hit
    }

    fn remove(&mut self, key: u32) {
        self.queue.remove(key);
    }
}
