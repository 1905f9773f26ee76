//! W-TinyLFU (Einziger, Friedman, Manes: TinyLFU, a highly efficient cache admission policy, ACM TOS 2017), by bytes.
//!
//! What is new goes into a window of one hundredth, an LRU. What leaves it enters the main part only if it was asked for more
//! often than what would have to go there. The main part is segmented: a hit leads from probation into the
//! protected four fifths. Frequencies are counted exactly here and halved after ten times as many gets as there are keys
//! held: a sketch would add its errors.

use super::cache::Simulation;
use super::list::List;

const WINDOW_DIVISOR: u64 = 100;
const FREQUENCY_MAX: u8 = 15;
/// Gets, for each key held, after which frequencies are halved.
const SAMPLE_FACTOR: u64 = 10;

/// The cache.
#[derive(Debug)]
pub struct WTinyLfu {
    window: List,
    probation: List,
    protected: List,
    frequencies: Vec<u8>,
    gets: u64,
    held: u64,
    window_limit_bytes: u64,
    main_limit_bytes: u64,
}

impl WTinyLfu {
    /// An empty one.
    pub fn new(key_count: usize, limit_bytes: u64) -> WTinyLfu {
        let window_limit_bytes = limit_bytes / WINDOW_DIVISOR;
        WTinyLfu {
            window: List::new(key_count),
            probation: List::new(key_count),
            protected: List::new(key_count),
            frequencies: vec![0; key_count],
            gets: 0,
            held: 0,
            window_limit_bytes,
            main_limit_bytes: limit_bytes - window_limit_bytes,
        }
    }

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
        self.probation.bytes() + self.protected.bytes()
    }

    /// Lets in what left the window, where all that has to go was asked for less often. One goes after the other, so that what
    /// a larger newcomer beat stays gone when it loses to the next.
    fn admit(&mut self, key: u32, size_bytes: u32) {
        if u64::from(size_bytes) > self.main_limit_bytes {
            self.held -= 1;
            return;
        }
        while self.main_bytes() + u64::from(size_bytes) > self.main_limit_bytes {
            let victim = self.probation.tail().or(self.protected.tail());
            let Some(victim) = victim else { break };
            self.held -= 1;
            if self.frequencies[key as usize] <= self.frequencies[victim as usize] {
                return;
            }
            self.take_from_main(victim);
        }
        self.probation.push_head(key, size_bytes);
    }

    /// Puts what is counted as held, and in no list, where the newest is.
    fn enter(&mut self, key: u32, size_bytes: u32) {
        if u64::from(size_bytes) > self.window_limit_bytes {
            self.admit(key, size_bytes);
            return;
        }
        self.window.push_head(key, size_bytes);
        while self.window.bytes() > self.window_limit_bytes {
            let Some((key, size_bytes)) = self.window.pop_tail() else { break };
            self.admit(key, size_bytes);
        }
    }

    fn take_from_main(&mut self, key: u32) {
        let list = if self.probation.has(key) { &mut self.probation } else { &mut self.protected };
        list.remove(key);
    }

    fn protect(&mut self, key: u32, size_bytes: u32) {
        self.take_from_main(key);
        self.protected.push_head(key, size_bytes);
        while self.protected.bytes() > self.main_limit_bytes / 5 * 4 {
            let Some((key, size_bytes)) = self.protected.pop_tail() else { break };
            self.probation.push_head(key, size_bytes);
        }
        // Only where its item has grown.
        while self.main_bytes() > self.main_limit_bytes {
            self.probation.pop_tail().or_else(|| self.protected.pop_tail());
            self.held -= 1;
        }
    }
}

impl Simulation for WTinyLfu {
    fn held_bytes(&self) -> u64 {
        self.window.bytes() + self.main_bytes()
    }

    fn get(&mut self, key: u32, size_bytes: u32, _number: usize) -> bool {
        self.count(key);
        if self.window.has(key) {
            self.window.remove(key);
            self.enter(key, size_bytes);
            return true;
        }
        if self.probation.has(key) || self.protected.has(key) {
            self.protect(key, size_bytes);
            return true;
        }
        self.held += 1;
        self.enter(key, size_bytes);
        false
    }

    fn remove(&mut self, key: u32) {
        for list in [&mut self.window, &mut self.probation, &mut self.protected] {
            if list.has(key) {
                list.remove(key);
                self.held -= 1;
            }
        }
    }
}
