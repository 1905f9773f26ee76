//! Miss costs for caches whose clients supply none: the time from a miss to the store of the same key, smoothed by
//! class and key prefix.
//!
//! ```text
//!   miss --> waiting: the first miss of each key --store--> the means of its class and prefix
//!                 |--> answered: the item was created in another way, so no time is known
//!                 '--> late, or forgotten: the store came late, or not while newer misses waited
//! ```
//!
//! Invariants: keys outside the sample leave no trace; the options bound the memory; a recorded miss waits or has one
//! of the four outcomes; results depend only on the calls.
//!
//! Limitations, each with a test below:
//! - *Warmers.* A store of a key that was not missed is not counted, so a cache that is only filled in advance has no
//!   costs.
//! - *Batch fills.* If a client misses many keys, computes all values and then stores them, each key counts the time of
//!   the batch.
//! - *Concurrent misses.* If several clients miss a key before it is stored, the first miss and the first store count.
//! - *Late stores.* A store later than `wait_us_max` does not count, and the miss is forgotten.
//! - The time that a client waits between miss and store, for a queue or a lock, is included.

use crate::key_map::KeyMap;
use slabwise_base::random::mix;
use slabwise_base::sampling::{is_sampled, threshold_of};
use slabwise_base::{ClassId, Cost, counts};
use std::collections::VecDeque;

/// The number of times from which a prefix has its own mean; before that it has the mean of its class.
const TIMES_MIN: u64 = 8;

/// Limits of a [`MissClock`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MissClockOptions {
    /// The share of keys that are sampled, above 0 and at most 1.
    pub rate: f64,
    /// The maximum number of misses that wait for their stores, at least 1; a new one replaces the oldest.
    pub waiting_max: usize,
    /// The maximum number of prefixes in classes that have means, at least 1. A new one replaces one that was not timed
    /// recently (CLOCK: Corbato, A paging experiment with the Multics system, 1968).
    pub prefixes_max: usize,
    /// A store that follows its miss later than this is not counted, in microseconds.
    pub wait_us_max: u32,
    /// The number of times, at least 1, over which a mean is smoothed: a new one then counts one of this many.
    pub times_smoothed: u64,
}

impl Default for MissClockOptions {
    /// Takes less than a megabyte, and measures times of up to a minute.
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

#[derive(Clone, Copy, Debug, Default)]
struct Smoothed {
    times: u64,
    mean_us: f64,
}

impl Smoothed {
    fn record(&mut self, time_us: f64, times_smoothed: u64) {
        self.times += 1;
        self.mean_us += (time_us - self.mean_us) / self.times.min(times_smoothed) as f64;
    }

    /// No mean is above `wait_us_max`, so the cast does not truncate.
    fn cost(&self) -> Cost {
        Cost::from_units(self.mean_us.round() as u32)
    }
}

/// A miss that waits for its store.
#[derive(Clone, Copy, Debug)]
struct Miss {
    at_nanos: u64,
    /// The number of the miss; it distinguishes misses of the same key even if the clock is coarse.
    number: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Prefix {
    known: Smoothed,
    /// True if it was timed again since the hand passed.
    is_referenced: bool,
}

/// Measures miss costs. The unit of its costs is a microsecond.
#[derive(Debug)]
pub struct MissClock {
    options: MissClockOptions,
    threshold: u64,
    /// By hash.
    waiting: KeyMap<Miss>,
    /// Hash and number of each miss, oldest first; some of them no longer wait.
    order: VecDeque<(u64, u64)>,
    noted: u64,
    classes: [Smoothed; ClassId::NUMBERS],
    /// By [`place`].
    prefixes: KeyMap<Prefix>,
    /// The places in the order in which the CLOCK hand visits them.
    hand: VecDeque<u64>,
    counts: MissClockCounts,
}

counts! {
    /// The outcomes of misses of sampled keys, since the start.
    pub struct MissClockCounts {
        /// The store came in time.
        timed,
        /// The store came later than [`MissClockOptions::wait_us_max`].
        late,
        /// A newer miss replaced it, of another key or of the same after [`MissClockOptions::wait_us_max`].
        forgotten,
        /// The item was created without a known time: by a store with a client-supplied cost, or by arithmetic.
        answered,
    }
}

/// The key of a prefix within a class.
fn place(class: ClassId, prefix: u64) -> u64 {
    mix(prefix).wrapping_add(class.index() as u64)
}

/// True if this miss of the key waits, and not a later one.
fn waits(waiting: &KeyMap<Miss>, hash: u64, number: u64) -> bool {
    waiting.get(&hash).is_some_and(|miss| miss.number == number)
}

impl MissClock {
    /// A clock without any misses.
    ///
    /// # Panics
    /// If an option is out of its range.
    pub fn new(options: MissClockOptions) -> MissClock {
        assert!(options.waiting_max > 0, "waiting_max must be at least 1");
        assert!(options.prefixes_max > 0, "prefixes_max must be at least 1");
        assert!(options.times_smoothed > 0, "times_smoothed must be at least 1");
        MissClock {
            options,
            threshold: threshold_of(options.rate),
            waiting: KeyMap::default(),
            order: VecDeque::new(),
            noted: 0,
            classes: [Smoothed::default(); ClassId::NUMBERS],
            prefixes: KeyMap::default(),
            hand: VecDeque::new(),
            counts: MissClockCounts::default(),
        }
    }

    /// The threshold below which a key's hash is sampled ([`is_sampled`]).
    pub fn threshold(&self) -> u64 {
        self.threshold
    }

    /// The outcomes of misses.
    pub fn counts(&self) -> MissClockCounts {
        self.counts
    }

    /// Records that a get missed the key with this hash.
    pub fn missed(&mut self, hash: u64, at_nanos: u64) {
        if !is_sampled(hash, self.threshold) {
            return;
        }
        match self.waiting.get(&hash) {
            // Another client has missed it before and is still computing the value.
            Some(first) if self.waited_us(first, at_nanos).is_some() => return,
            Some(_) => self.counts.forgotten += 1,
            None if self.waiting.len() == self.options.waiting_max => self.forget_oldest(),
            None => {}
        }
        let number = self.noted;
        self.noted += 1;
        self.waiting.insert(hash, Miss { at_nanos, number });
        self.order.push_back((hash, number));
        if self.order.len() > 2 * self.options.waiting_max {
            let waiting = &self.waiting;
            self.order.retain(|&(hash, number)| waits(waiting, hash, number));
        }
    }

    /// Records a store of the key with this hash in a class; `prefix` identifies the start of the key. Returns the time
    /// that was counted, in microseconds.
    pub fn stored(&mut self, hash: u64, class: ClassId, prefix: u64, at_nanos: u64) -> Option<u64> {
        let first = self.waiting.remove(&hash)?;
        let Some(time_us) = self.waited_us(&first, at_nanos) else {
            self.counts.late += 1;
            return None;
        };
        self.counts.timed += 1;
        let times_smoothed = self.options.times_smoothed;
        self.classes[class.index()].record(time_us as f64, times_smoothed);
        self.prefix_at(place(class, prefix)).record(time_us as f64, times_smoothed);
        Some(time_us)
    }

    /// Records that the item of the key with this hash was created without a known time: its miss no longer waits.
    pub fn answered(&mut self, hash: u64) {
        self.counts.answered += u64::from(self.waiting.remove(&hash).is_some());
    }

    /// The cost of an item of this class and prefix: the mean of the prefix, or of the class if there are too few
    /// times. `None` if no miss of the class has led to a store yet.
    pub fn cost_of(&self, class: ClassId, prefix: u64) -> Option<Cost> {
        self.cost_of_prefix(class, prefix).or_else(|| self.cost_of_class(class))
    }

    /// The mean of a prefix in a class; `None` if it has too few times.
    pub fn cost_of_prefix(&self, class: ClassId, prefix: u64) -> Option<Cost> {
        let known = &self.prefixes.get(&place(class, prefix))?.known;
        (known.times >= TIMES_MIN).then(|| known.cost())
    }

    /// The mean of a class; `None` if it has no times.
    pub fn cost_of_class(&self, class: ClassId) -> Option<Cost> {
        let known = &self.classes[class.index()];
        (known.times > 0).then(|| known.cost())
    }

    /// The number of misses that wait for their stores.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The approximate size in bytes.
    pub fn size_bytes(&self) -> usize {
        let waiting = self.waiting.capacity() * size_of::<(u64, Miss)>();
        let order = self.order.capacity() * size_of::<(u64, u64)>();
        let prefixes = self.prefixes.capacity() * size_of::<(u64, Prefix)>();
        let hand = self.hand.capacity() * size_of::<u64>();
        waiting + order + prefixes + hand + size_of::<Self>()
    }

    /// The time since a miss, in microseconds; `None` if it is above the limit.
    fn waited_us(&self, first: &Miss, at_nanos: u64) -> Option<u64> {
        let time_us = at_nanos.saturating_sub(first.at_nanos) / 1_000;
        (time_us <= u64::from(self.options.wait_us_max)).then_some(time_us)
    }

    fn forget_oldest(&mut self) {
        while let Some((hash, number)) = self.order.pop_front() {
            if waits(&self.waiting, hash, number) {
                self.waiting.remove(&hash);
                self.counts.forgotten += 1;
                return;
            }
        }
    }

    /// The mean of the prefix in a place; a new one may replace another.
    fn prefix_at(&mut self, place: u64) -> &mut Smoothed {
        let is_known = self.prefixes.contains_key(&place);
        if !is_known {
            if self.prefixes.len() == self.options.prefixes_max {
                self.forget_prefix();
            }
            self.hand.push_back(place);
        }
        let prefix = self.prefixes.entry(place).or_default();
        prefix.is_referenced = is_known;
        &mut prefix.known
    }

    /// Removes the first prefix that the hand finds unreferenced; the hand clears each reference that it passes, so
    /// this ends.
    fn forget_prefix(&mut self) {
        while let Some(place) = self.hand.pop_front() {
            let prefix = self.prefixes.get_mut(&place).expect("the hand visits known prefixes");
            if !std::mem::take(&mut prefix.is_referenced) {
                self.prefixes.remove(&place);
                return;
            }
            self.hand.push_back(place);
        }
    }
}

#[cfg(test)]
#[path = "miss_clock_tests.rs"]
mod tests;
