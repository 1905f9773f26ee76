//! S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: FIFO queues are all you need for cache eviction, SOSP 2023), by bytes.
//!
//! A new key enters the small queue, which has a tenth of the bytes. If a key has at least two hits when it reaches the
//! tail of the small queue, the key moves to the main queue. Otherwise the key is evicted and enters the ghost queue,
//! which stores no items. A key that misses while it is in the ghost queue enters the main queue. A key at the tail of
//! the main queue is reinserted at the head once for each hit since it entered the queue, but at most three times.

use super::cache::Simulation;
use super::queues::Queues;

const SMALL: usize = 0;
const MAIN: usize = 1;
/// The queue of keys that the small queue evicted last. The sizes of its keys add up to at most the limit of the main
/// queue.
const GHOSTS: usize = 2;

const SMALL_DIVISOR: u64 = 10;
const FREQUENCY_MAX: u8 = 3;
/// A key with at least this number of hits moves from the small queue to the main queue.
const PROMOTION_FREQUENCY: u8 = 2;

#[derive(Debug)]
pub struct S3Fifo {
    queues: Queues<3>,
    /// Hits of each key since the key entered its queue, at most [`FREQUENCY_MAX`], by the number of the key.
    frequencies: Vec<u8>,
    /// The small queue evicts first while it has at least this number of bytes.
    small_limit_bytes: u64,
    limit_bytes: u64,
}

impl S3Fifo {
    pub fn new(key_count: usize, limit_bytes: u64) -> S3Fifo {
        S3Fifo {
            queues: Queues::new(key_count),
            frequencies: vec![0; key_count],
            small_limit_bytes: limit_bytes / SMALL_DIVISOR,
            limit_bytes,
        }
    }

    /// Evicts keys until an item of `size_bytes` fits into the limit.
    fn evict_for(&mut self, size_bytes: u32) {
        while self.held_bytes() + u64::from(size_bytes) > self.limit_bytes {
            let small_is_full = self.queues.bytes(SMALL) >= self.small_limit_bytes;
            if (small_is_full && self.queues.tail(SMALL).is_some())
                || self.queues.tail(MAIN).is_none()
            {
                self.evict_small();
            } else {
                self.evict_main();
            }
        }
    }

    /// Evicts one key from the small queue. Keys with enough hits that are nearer to the tail move to the main queue.
    fn evict_small(&mut self) {
        while let Some((key, size_bytes)) = self.queues.pop_tail(SMALL) {
            let frequency = &mut self.frequencies[key as usize];
            let is_promoted = *frequency >= PROMOTION_FREQUENCY;
            *frequency = 0;
            if is_promoted {
                self.queues.push_head(MAIN, key, size_bytes);
                continue;
            }
            self.queues.push_head(GHOSTS, key, size_bytes);
            while self.queues.bytes(GHOSTS) > self.limit_bytes - self.small_limit_bytes {
                self.queues.pop_tail(GHOSTS);
            }
            return;
        }
    }

    /// Searches the main queue from its tail for a key without remaining hits, and evicts this key. Reinserts the keys
    /// before it at the head.
    fn evict_main(&mut self) {
        while let Some((key, size_bytes)) = self.queues.pop_tail(MAIN) {
            match &mut self.frequencies[key as usize] {
                0 => return,
                frequency => *frequency -= 1,
            }
            self.queues.push_head(MAIN, key, size_bytes);
        }
    }
}

impl Simulation for S3Fifo {
    fn held_bytes(&self) -> u64 {
        self.queues.bytes(SMALL) + self.queues.bytes(MAIN)
    }

    fn get(&mut self, key: u32, size_bytes: u32, _number: usize) -> bool {
        let queue = self.queues.queue_of(key);
        if matches!(queue, Some(SMALL | MAIN)) {
            if u64::from(size_bytes) > self.limit_bytes {
                self.remove(key);
                return true;
            }
            self.queues.resize(key, size_bytes);
            self.evict_for(0);
            let frequency = &mut self.frequencies[key as usize];
            *frequency = (*frequency + 1).min(FREQUENCY_MAX);
            return true;
        }
        if u64::from(size_bytes) > self.limit_bytes {
            return false;
        }
        self.queues.remove(key);
        self.evict_for(size_bytes);
        self.frequencies[key as usize] = 0;
        let entered = if queue == Some(GHOSTS) { MAIN } else { SMALL };
        self.queues.push_head(entered, key, size_bytes);
        false
    }

    fn remove(&mut self, key: u32) {
        self.queues.remove(key);
    }
}
