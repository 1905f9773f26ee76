//! W-TinyLFU (Einziger, Friedman, Manes: TinyLFU, a highly efficient cache admission policy, ACM TOS 2017), by bytes.
//!
//! A new key enters the window, which is an LRU of a hundredth of the bytes. A key that is removed from the window is
//! admitted to the main part only if its frequency is higher than the frequency of every key that it would evict there.
//! The main part has two LRU segments: a key enters the probation segment, and a hit moves the key to the protected
//! segment, which has four fifths of the main part. A frequency is the number of gets and sets of a key, at most 15.
//! Frequencies are halved after ten gets or sets per cached key. This simulation counts exactly, because the errors of
//! a sketch would change the result.
//!
//! `sized_w_tiny_lfu` is the variant AV (aggregated victims) of Einziger, Eytan, Friedman and Manes: Lightweight Robust
//! Size Aware Cache Management, ACM TOS 18(3), 2022. A key is admitted only if its frequency is higher than the sum of
//! the frequencies of all keys that it would evict. So a large item needs a higher frequency than a small one. If the
//! key is refused, no key of the main part is evicted.

use super::cache::Simulation;
use super::queues::Queues;

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;

const WINDOW_DIVISOR: u64 = 100;
const FREQUENCY_MAX: u8 = 15;
/// Frequencies are halved after this number of gets per cached key.
const SAMPLE_FACTOR: u64 = 10;

/// What the frequency of a new key is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The frequency of each victim, one after the other. If the key is refused because of a later victim, the earlier
    /// victims remain evicted.
    EachVictim,
    /// The sum of the frequencies of all victims.
    SumOfVictims,
}

#[derive(Debug)]
pub struct WTinyLfu {
    admission: Admission,
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
    pub fn new(key_count: usize, limit_bytes: u64, admission: Admission) -> WTinyLfu {
        let window_limit_bytes = limit_bytes / WINDOW_DIVISOR;
        WTinyLfu {
            admission,
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

    /// Admits a key from the window to the main part, or removes the key from the cache.
    fn admit(&mut self, key: u32, size_bytes: u32) {
        let is_admitted = u64::from(size_bytes) <= self.main_limit_bytes
            && match self.admission {
                Admission::EachVictim => self.wins_against_each(key, size_bytes),
                Admission::SumOfVictims => self.wins_against_sum(key, size_bytes),
            };
        if is_admitted {
            self.queues.push_head(PROBATION, key, size_bytes);
        } else {
            self.held -= 1;
        }
    }

    /// Evicts keys from the main part until a new key fits. Stops if a victim has at least the frequency of the new
    /// key. Returns true if the new key fits.
    fn wins_against_each(&mut self, key: u32, size_bytes: u32) -> bool {
        while self.main_bytes() + u64::from(size_bytes) > self.main_limit_bytes {
            let victim = self.queues.tail(PROBATION).or(self.queues.tail(PROTECTED));
            let Some(victim) = victim else { break };
            if self.frequencies[key as usize] <= self.frequencies[victim as usize] {
                return false;
            }
            self.queues.remove(victim);
            self.held -= 1;
        }
        true
    }

    /// Evicts keys from the main part until a new key fits, or evicts no key if the frequencies of the victims together
    /// are at least the frequency of the new key. Returns true if the new key fits.
    fn wins_against_sum(&mut self, key: u32, size_bytes: u32) -> bool {
        let mut missing =
            (self.main_bytes() + u64::from(size_bytes)).saturating_sub(self.main_limit_bytes);
        let (mut victims, mut sum) = (Vec::new(), 0);
        let mut next = self.queues.tail(PROBATION).or(self.queues.tail(PROTECTED));
        while missing > 0 {
            let Some(victim) = next else { break };
            sum += u32::from(self.frequencies[victim as usize]);
            if u32::from(self.frequencies[key as usize]) <= sum {
                return false;
            }
            missing = missing.saturating_sub(u64::from(self.queues.size_bytes(victim)));
            victims.push(victim);
            let is_probation = self.queues.queue_of(victim) == Some(PROBATION);
            let protected = if is_probation { self.queues.tail(PROTECTED) } else { None };
            next = self.queues.towards_head(victim).or(protected);
        }
        self.held -= victims.len() as u64;
        for victim in victims {
            self.queues.remove(victim);
        }
        true
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

#[cfg(test)]
mod tests {
    use super::{Admission, WTinyLfu};
    use crate::cache::Simulation;

    /// Requests keys 0 and 1, which fill the main part, twice each, and then key 2 three times. All sizes are larger
    /// than the window, so all keys compete for the main part. Returns which of the keys are cached, in their order.
    fn cached(admission: Admission, size_bytes: u32) -> [bool; 3] {
        let mut cache = WTinyLfu::new(3, 100, admission);
        for (key, size_bytes) in [(0, 49), (0, 49), (1, 49), (1, 49)] {
            cache.get(key, size_bytes, 0);
        }
        for _ in 0..3 {
            cache.get(2, size_bytes, 0);
        }
        assert!(cache.held_bytes() <= 100 && cache.held <= 3, "{cache:?}");
        [0, 1, 2].map(|key| cache.queues.queue_of(key).is_some())
    }

    #[test]
    fn a_key_is_compared_with_each_victim_or_with_all_together() {
        // Key 2 evicts one key: 3 is more than 2.
        assert_eq!(cached(Admission::EachVictim, 40), [false, true, true]);
        assert_eq!(cached(Admission::SumOfVictims, 40), [false, true, true]);
        // Key 2 would have to evict both keys: 3 is more than each 2, but less than 4.
        assert_eq!(cached(Admission::EachVictim, 90), [false, false, true]);
        assert_eq!(cached(Admission::SumOfVictims, 90), [true, true, false]);
    }
}
