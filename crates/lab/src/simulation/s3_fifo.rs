//! S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: FIFO queues are all you need for cache eviction, SOSP 2023), by bytes.
//!
//! What is new goes into a small queue of a tenth of the bytes; what was asked for again there, twice or more, or
//! comes back while its ghost is remembered, goes into the main queue, whose tail is spared once for each of up
//! to three hits.

use super::cache::Simulation;
use super::queues::Queues;

const SMALL: usize = 0;
const MAIN: usize = 1;
/// Keys whose items are gone, with the bytes that these took: as many as the main queue may hold.
const GHOSTS: usize = 2;

const SMALL_DIVISOR: u64 = 10;
const FREQUENCY_MAX: u8 = 3;
/// Hits in the small queue that lead into the main one.
const FREQUENCY_OF_MAIN: u8 = 2;

#[derive(Debug)]
pub struct S3Fifo {
    queues: Queues<3>,
    frequencies: Vec<u8>,
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

    fn make_room(&mut self, size_bytes: u32) {
        while self.held_bytes() + u64::from(size_bytes) > self.limit_bytes {
            let small_is_full = self.queues.bytes(SMALL) >= self.small_limit_bytes;
            if (small_is_full && self.queues.tail(SMALL).is_some())
                || self.queues.tail(MAIN).is_none()
            {
                self.shrink_small();
            } else {
                self.shrink_main();
            }
        }
    }

    /// Moves what proved itself into the main queue, until something went.
    fn shrink_small(&mut self) {
        while let Some((key, size_bytes)) = self.queues.pop_tail(SMALL) {
            let frequency = &mut self.frequencies[key as usize];
            let has_proved_itself = *frequency >= FREQUENCY_OF_MAIN;
            *frequency = 0;
            if has_proved_itself {
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

    fn shrink_main(&mut self) {
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
            self.make_room(0);
            let frequency = &mut self.frequencies[key as usize];
            *frequency = (*frequency + 1).min(FREQUENCY_MAX);
            return true;
        }
        if u64::from(size_bytes) > self.limit_bytes {
            return false;
        }
        self.queues.remove(key);
        self.make_room(size_bytes);
        self.frequencies[key as usize] = 0;
        let entered = if queue == Some(GHOSTS) { MAIN } else { SMALL };
        self.queues.push_head(entered, key, size_bytes);
        false
    }

    fn remove(&mut self, key: u32) {
        self.queues.remove(key);
    }
}
