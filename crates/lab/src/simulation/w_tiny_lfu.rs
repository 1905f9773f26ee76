//! W-TinyLFU (Einziger, Friedman, Manes: TinyLFU, a highly efficient cache admission policy, ACM TOS 2017), by bytes.
//!
//! A new key enters the window, which is an LRU of a hundredth of the bytes. A key that is removed from the window is
//! admitted to the main part only if its frequency is higher than the frequency of every key that it would evict there.
//! The main part has two LRU segments: a key enters the probation segment, and a hit moves the key to the protected
//! segment, which has four fifths of the main part. A frequency is the number of gets and sets of a key, at most 15.
//! Frequencies are halved after ten gets or sets per cached key. This simulation counts exactly, because the errors of
//! a sketch would change the result.

use super::cache::Simulation;
use super::queues::Queues;

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;

const WINDOW_DIVISOR: u64 = 100;
const FREQUENCY_MAX: u8 = 15;
/// Frequencies are halved after this number of gets per cached key.
const SAMPLE_FACTOR: u64 = 10;

#[derive(Debug)]
pub struct WTinyLfu {
    queues: Queues<3>,
    /// Gets of each key, at most [`FREQUENCY_MAX`] and halved regularly, by the number of the key.
    frequencies: Vec<u8>,
    /// Gets since the start, halved together with the frequencies.
    gets: u64,
    /// Number of cached keys.
    held: u64,
    window_limit_bytes: u64,
    main_limit_bytes: u64,
}

impl WTinyLfu {
    pub fn new(key_count: usize, limit_bytes: u64) -> WTinyLfu {
        let window_limit_bytes = limit_bytes / WINDOW_DIVISOR;
        WTinyLfu {
            queues: Queues::new(key_count),
            frequencies: vec![0; key_count],
            gets: 0,
            held: 0,
            window_limit_bytes,
            main_limit_bytes: limit_bytes - window_limit_bytes,
        }
    }

    /// Counts a get of a key, and halves all frequencies if this is due.
    fn count(&mut self, key: u32) {
        let frequency = &mut self.frequencies[key as usize];
        *frequency = (*frequency + 1).min(FREQUENCY_MAX);
        self.gets += 1;
        if self.gets >= SAMPLE_FACTOR * self.held.max(1) && self.gets > SAMPLE_FACTOR {
            self.frequencies.iter_mut().for_each(|frequency| *frequency /= 2);
            self.gets /= 2;
        }
    }

    fn main_bytes(&self) -> u64 {
        self.queues.bytes(PROBATION) + self.queues.bytes(PROTECTED)
    }

    /// Admits a key from the window to the main part if the frequency of the key is higher than the frequency of every
    /// victim. Victims are evicted one after the other. If the key is refused because of a later victim, the earlier
    /// victims remain evicted.
    fn admit(&mut self, key: u32, size_bytes: u32) {
        if u64::from(size_bytes) > self.main_limit_bytes {
            self.held -= 1;
            return;
        }
        while self.main_bytes() + u64::from(size_bytes) > self.main_limit_bytes {
            let victim = self.queues.tail(PROBATION).or(self.queues.tail(PROTECTED));
            let Some(victim) = victim else { break };
            self.held -= 1;
            if self.frequencies[key as usize] <= self.frequencies[victim as usize] {
                return;
            }
            self.queues.remove(victim);
        }
        self.queues.push_head(PROBATION, key, size_bytes);
    }

    /// Inserts a key at the head of the window. The key is in no queue, but `held` already includes it.
    fn enter(&mut self, key: u32, size_bytes: u32) {
        if u64::from(size_bytes) > self.window_limit_bytes {
            self.admit(key, size_bytes);
            return;
        }
        self.queues.push_head(WINDOW, key, size_bytes);
        while self.queues.bytes(WINDOW) > self.window_limit_bytes {
            let Some((key, size_bytes)) = self.queues.pop_tail(WINDOW) else { break };
            self.admit(key, size_bytes);
        }
    }

    /// Moves a key of the main part to the head of the protected segment.
    fn protect(&mut self, key: u32, size_bytes: u32) {
        self.queues.remove(key);
        self.queues.push_head(PROTECTED, key, size_bytes);
        while self.queues.bytes(PROTECTED) > self.main_limit_bytes / 5 * 4 {
            let Some((key, size_bytes)) = self.queues.pop_tail(PROTECTED) else { break };
            self.queues.push_head(PROBATION, key, size_bytes);
        }
        // If the item has grown, the main part may exceed its limit.
        while self.main_bytes() > self.main_limit_bytes {
            self.queues.pop_tail(PROBATION).or_else(|| self.queues.pop_tail(PROTECTED));
            self.held -= 1;
        }
    }
}

impl Simulation for WTinyLfu {
    fn held_bytes(&self) -> u64 {
        self.queues.bytes(WINDOW) + self.main_bytes()
    }

    fn get(&mut self, key: u32, size_bytes: u32, _number: usize) -> bool {
        self.count(key);
        match self.queues.queue_of(key) {
            Some(WINDOW) => {
                self.queues.remove(key);
                self.enter(key, size_bytes);
                true
            }
            Some(_) => {
                self.protect(key, size_bytes);
                true
            }
            None => {
                self.held += 1;
                self.enter(key, size_bytes);
                false
            }
        }
    }

    fn remove(&mut self, key: u32) {
        if self.queues.remove(key).is_some() {
            self.held -= 1;
        }
    }
}
