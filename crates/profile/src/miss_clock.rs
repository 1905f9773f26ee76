//! Miss costs for caches whose clients supply no costs. The cost is the time from a miss to the store of the same key,
//! smoothed over the keys of a class and of a key prefix.
//!
//! ```text
//!   miss --> waiting: the first miss of each key --store--> the means of its class and prefix
//!                 |--> answered: the item was created in another way, so no time is known
//!                 |--> late: the store followed after more than the maximum time
//!                 '--> forgotten: newer misses replaced the miss before a store followed
//! ```
//!
//! Invariants: keys outside the sample have no effect; the options bound the memory; a recorded miss waits or has one
//! of the four outcomes; results depend only on the calls.
//!
//! Limitations; `miss_clock_tests.rs` demonstrates the first four:
//!
//! - *Warmers.* A store does not count if no get of its key missed before. So a cache that is only filled in advance
//!   has no costs.
//! - *Batch fills.* If a client's gets of many keys miss, and the client computes all values before it stores the
//!   first, the cost of each key is the time of the whole batch.
//! - *Concurrent misses.* If the gets of several clients miss a key before it is stored, the first miss and the first
//!   store count.
//! - *Late stores.* A store does not count if it follows later than `wait_us_max`, and the miss no longer waits.
//! - *Waits of clients.* The time that a client spends in a queue or on a lock between miss and store is included.

use crate::key_map::KeyMap;
use slabwise_base::random::mix;
use slabwise_base::sampling::{is_sampled, threshold_of};
use slabwise_base::{ClassId, Cost, counts};
use std::collections::VecDeque;

/// The minimum number of measured times for a prefix to have its own mean. With fewer times, the mean of the class is
/// used.
const TIMES_MIN: u64 = 8;

/// Limits of a [`MissClock`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MissClockOptions {
    /// The share of keys that are sampled, above 0 and at most 1.
    pub rate: f64,
    /// The maximum number of misses that wait for their stores, at least 1. A further miss replaces the oldest.
    pub waiting_max: usize,
    /// The maximum number of means of prefixes, at least 1. Each class has its own means. A further prefix replaces a
    /// prefix that was not timed recently (CLOCK: Corbato, A paging experiment with the Multics system, 1968).
    pub prefixes_max: usize,
    /// The maximum time from a miss to its store, in microseconds. Later stores do not count.
    pub wait_us_max: u32,
    /// The number of measured times over which a mean is smoothed, at least 1. The weight of a new time in the mean is
    /// one divided by this number, or by the number of times so far if that is smaller.
    pub times_smoothed: u64,
}

impl Default for MissClockOptions {
    /// Returns options with which a clock takes less than a megabyte and measures times of up to a minute.
    fn default() -> Self {
        MissClockOptions {
            rate: 1.0 / 16.0,
            waiting_max: 4_096,
            prefixes_max: 4_096,
            wait_us_max: 60_000_000,
            times_smoothed: 64,
        }
    }
}

/// A smoothed mean of measured times.
#[derive(Clone, Copy, Debug, Default)]
struct Smoothed {
    /// The number of times measured since the start.
    times: u64,
    mean_us: f64,
}

impl Smoothed {
    fn record(&mut self, time_us: f64, times_smoothed: u64) {
        self.times += 1;
        self.mean_us += (time_us - self.mean_us) / self.times.min(times_smoothed) as f64;
    }

    /// Returns the mean as a cost. No mean is above `wait_us_max`, so the cast does not truncate.
    fn cost(&self) -> Cost {
        Cost::from_units(self.mean_us.round() as u32)
    }
}

/// A miss that waits for its store.
#[derive(Clone, Copy, Debug)]
struct Miss {
    at_nanos: u64,
    /// The serial number of the miss. It distinguishes misses of the same key even at the same time.
    number: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Prefix {
    known: Smoothed,
    /// True if a time of the prefix was measured since the CLOCK hand last passed it.
    is_referenced: bool,
}

/// Measures miss costs. The unit of the costs is a microsecond.
#[derive(Debug)]
pub struct MissClock {
    options: MissClockOptions,
    /// A key is sampled if its hash is below this value.
    threshold: u64,
    /// The waiting misses, by the hash of the key.
    waiting: KeyMap<Miss>,
    /// The hash and the serial number of misses, oldest first. Some of these misses no longer wait.
    order: VecDeque<(u64, u64)>,
    /// The number of misses recorded since the start.
    misses_noted: u64,
    /// The mean of each class, by the number of the class.
    classes: [Smoothed; ClassId::NUMBERS],
    /// The mean of each prefix, by its [`prefix_key`].
    prefixes: KeyMap<Prefix>,
    /// The keys of `prefixes` in the order in which the CLOCK hand visits them.
    hand: VecDeque<u64>,
    counts: MissClockCounts,
}

counts! {
    /// The outcomes of misses of sampled keys, since the start.
    pub struct MissClockCounts {
        /// Misses whose store followed in time.
        timed,
        /// Misses whose store followed later than [`MissClockOptions::wait_us_max`].
        late,
        /// Misses that were replaced: by a miss of another key because too many misses waited, or by a miss of the same
        /// key after [`MissClockOptions::wait_us_max`].
        forgotten,
        /// Misses whose item was created without a known time: by a store with a client-supplied cost, or by
        /// arithmetic.
        answered,
    }
}

/// Returns a number that identifies a prefix within a class.
fn prefix_key(class: ClassId, prefix: u64) -> u64 {
    mix(prefix).wrapping_add(class.index() as u64)
}

/// Returns true if the miss with this serial number waits. A later miss of the same key does not count.
fn is_waiting(waiting: &KeyMap<Miss>, hash: u64, number: u64) -> bool {
    waiting.get(&hash).is_some_and(|miss| miss.number == number)
}

impl MissClock {
    /// Creates a clock without any misses.
    ///
    /// # Panics
    /// Panics if an option is out of its range.
    pub fn new(options: MissClockOptions) -> MissClock {
        assert!(options.waiting_max > 0, "waiting_max must be at least 1");
        assert!(options.prefixes_max > 0, "prefixes_max must be at least 1");
        assert!(options.times_smoothed > 0, "times_smoothed must be at least 1");
        MissClock {
            options,
            threshold: threshold_of(options.rate),
            waiting: KeyMap::default(),
            order: VecDeque::new(),
            misses_noted: 0,
            classes: [Smoothed::default(); ClassId::NUMBERS],
            prefixes: KeyMap::default(),
            hand: VecDeque::new(),
            counts: MissClockCounts::default(),
        }
    }

    /// Returns the sampling threshold: a key is sampled if its hash is below it ([`is_sampled`]).
    pub fn threshold(&self) -> u64 {
        self.threshold
    }

    /// Returns the number of misses with each outcome since the start.
    pub fn counts(&self) -> MissClockCounts {
        self.counts
    }

    /// Records that a get missed the key with this hash.
    pub fn note_miss(&mut self, hash: u64, at_nanos: u64) {
        if !is_sampled(hash, self.threshold) {
            return;
        }
        match self.waiting.get(&hash) {
            // An earlier get has missed the key, and its client is still computing the value.
            Some(first) if self.waited_us(first, at_nanos).is_some() => return,
            Some(_) => self.counts.forgotten += 1,
            None if self.waiting.len() == self.options.waiting_max => self.forget_oldest(),
            None => {}
        }
        let number = self.misses_noted;
        self.misses_noted += 1;
        self.waiting.insert(hash, Miss { at_nanos, number });
        self.order.push_back((hash, number));
        if self.order.len() > 2 * self.options.waiting_max {
            let waiting = &self.waiting;
            self.order.retain(|&(hash, number)| is_waiting(waiting, hash, number));
        }
    }

    /// Records that a key with this hash was stored in a class. `prefix` identifies the first bytes of the key. Returns
    /// the measured time in microseconds; `None` if no time was measured.
    pub fn note_store(
        &mut self,
        hash: u64,
        class: ClassId,
        prefix: u64,
        at_nanos: u64,
    ) -> Option<u64> {
        let first = self.waiting.remove(&hash)?;
        let Some(time_us) = self.waited_us(&first, at_nanos) else {
            self.counts.late += 1;
            return None;
        };
        self.counts.timed += 1;
        let times_smoothed = self.options.times_smoothed;
        self.classes[class.index()].record(time_us as f64, times_smoothed);
        self.prefix_at(prefix_key(class, prefix)).record(time_us as f64, times_smoothed);
        Some(time_us)
    }

    /// Records that the item of the key with this hash was created without a known time. The miss of the key, if there
    /// is one, no longer waits.
    pub fn note_creation(&mut self, hash: u64) {
        self.counts.answered += u64::from(self.waiting.remove(&hash).is_some());
    }

    /// Returns the cost of an item of this class and prefix: the mean of the prefix, or the mean of the class if the
    /// prefix has too few times. Returns `None` if no time was measured in the class.
    pub fn cost_of(&self, class: ClassId, prefix: u64) -> Option<Cost> {
        self.cost_of_prefix(class, prefix).or_else(|| self.cost_of_class(class))
    }

    /// Returns the mean of a prefix in a class; `None` if the prefix has too few times.
    pub fn cost_of_prefix(&self, class: ClassId, prefix: u64) -> Option<Cost> {
        let known = &self.prefixes.get(&prefix_key(class, prefix))?.known;
        (known.times >= TIMES_MIN).then(|| known.cost())
    }

    /// Returns the mean of a class; `None` if no time was measured in the class.
    pub fn cost_of_class(&self, class: ClassId) -> Option<Cost> {
        let known = &self.classes[class.index()];
        (known.times > 0).then(|| known.cost())
    }

    /// Returns the number of misses that wait for their stores.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the approximate memory of the clock, in bytes.
    pub fn size_bytes(&self) -> usize {
        let waiting = self.waiting.capacity() * size_of::<(u64, Miss)>();
        let order = self.order.capacity() * size_of::<(u64, u64)>();
        let prefixes = self.prefixes.capacity() * size_of::<(u64, Prefix)>();
        let hand = self.hand.capacity() * size_of::<u64>();
        waiting + order + prefixes + hand + size_of::<Self>()
    }

    /// Returns the time since a miss, in microseconds; `None` if it exceeds `wait_us_max`.
    fn waited_us(&self, first: &Miss, at_nanos: u64) -> Option<u64> {
        let time_us = at_nanos.saturating_sub(first.at_nanos) / 1_000;
        (time_us <= u64::from(self.options.wait_us_max)).then_some(time_us)
    }

    fn forget_oldest(&mut self) {
        while let Some((hash, number)) = self.order.pop_front() {
            if is_waiting(&self.waiting, hash, number) {
                self.waiting.remove(&hash);
                self.counts.forgotten += 1;
                return;
            }
        }
    }

    /// Returns the mean of the prefix with this [`prefix_key`]. If the prefix is new, another prefix may be removed.
    fn prefix_at(&mut self, key: u64) -> &mut Smoothed {
        let is_known = self.prefixes.contains_key(&key);
        if !is_known {
            if self.prefixes.len() == self.options.prefixes_max {
                self.forget_prefix();
            }
            self.hand.push_back(key);
        }
        let prefix = self.prefixes.entry(key).or_default();
        prefix.is_referenced = is_known;
        &mut prefix.known
    }

    /// Removes the first prefix that the CLOCK hand finds without a reference. The hand clears the reference of each
    /// prefix that it passes, so it finds such a prefix after one round at most.
    fn forget_prefix(&mut self) {
        while let Some(key) = self.hand.pop_front() {
            let prefix = self.prefixes.get_mut(&key).expect("the hand visits known prefixes");
            if !std::mem::take(&mut prefix.is_referenced) {
                self.prefixes.remove(&key);
                return;
            }
            self.hand.push_back(key);
        }
    }
}

#[cfg(test)]
#[path = "miss_clock_tests.rs"]
mod tests;
