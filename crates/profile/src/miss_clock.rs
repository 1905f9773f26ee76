//! What misses cost, measured where no client gives costs: the time from a miss to the store of the same key, smoothed
//! by class and key prefix.
//!
//! ```text
//!   miss --> waiting: when each key was missed first --store--> its class's mean, and its prefix's
//!                 |--> answered: something else made the item, which gives no time
//!                 '--> late, or forgotten: the store came late, or never while newer ones waited
//! ```
//!
//! Invariants: keys outside the sample leave no trace; memory is bounded by the options; a noted miss waits, or became
//! one of the four; results follow from the calls.
//!
//! Its limits, each with a test below:
//! - *Warmers.* A store of a key that was not missed is not counted: a cache that is only filled ahead has no costs.
//! - *Batch fills.* For a client that misses many keys, makes all values and then stores them, each key takes the time
//!   of the batch.
//! - *Concurrent misses.* If several clients miss a key before it is stored, the first miss and the first store count.
//! - *Late stores.* A store later than `wait_us_max` does not count; the miss is forgotten.
//! - A client that waits between a miss and the store, for a queue or a lock, counts that, too.

use crate::key_map::KeyMap;
use slabwise_base::random::mix;
use slabwise_base::sampling::{is_sampled, threshold_of};
use slabwise_base::{ClassId, Cost, counts};
use std::collections::VecDeque;

/// Times of a prefix from which on it has a mean of its own; before, its class's stands for it.
const TIMES_MIN: u64 = 8;

/// Limits of a [`MissClock`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MissClockOptions {
    /// The share of keys that are looked at, above 0 and at most 1.
    pub rate: f64,
    /// Misses that may wait for their stores, at least 1; the oldest is forgotten for a new one.
    pub waiting_max: usize,
    /// Prefixes in classes that have means, at least 1. For a new one, one leaves that was not timed for longest,
    /// about (CLOCK: Corbato, A paging experiment with the Multics system, 1968).
    pub prefixes_max: usize,
    /// A store that comes later after its miss says nothing, in microseconds.
    pub wait_us_max: u32,
    /// A time counts one of so many, at least 1, once there are as many: older ones fade.
    pub times_smoothed: u64,
}

impl Default for MissClockOptions {
    /// Less than a megabyte; recomputations of up to a minute.
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

/// A mean whose older values count less.
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

    /// No mean is above `wait_us_max`, so the cast cuts nothing.
    fn cost(&self) -> Cost {
        Cost::from_units(self.mean_us.round() as u32)
    }
}

/// A miss whose store is yet to come.
#[derive(Clone, Copy, Debug)]
struct Miss {
    at_nanos: u64,
    /// Of all noted misses, the how manieth: tells it from an older one of the same key, however coarse the time is.
    number: u64,
}

/// What is known of a prefix in a class.
#[derive(Clone, Copy, Debug, Default)]
struct Prefix {
    known: Smoothed,
    /// Timed again since the hand passed.
    is_referenced: bool,
}

/// Measures what misses cost. A unit of its costs is a microsecond.
#[derive(Debug)]
pub struct MissClock {
    options: MissClockOptions,
    threshold: u64,
    /// By hash.
    waiting: KeyMap<Miss>,
    /// Hash and number of each, oldest first, with some that wait no more.
    order: VecDeque<(u64, u64)>,
    noted: u64,
    classes: [Smoothed; ClassId::NUMBERS],
    /// By [`place`].
    prefixes: KeyMap<Prefix>,
    /// The places in the order in which the hand comes to them.
    hand: VecDeque<u64>,
    counts: MissClockCounts,
}

counts! {
    /// What became of misses of sampled keys, since the start.
    pub struct MissClockCounts {
        /// Their stores came in time.
        timed,
        /// Their stores came later than [`MissClockOptions::wait_us_max`].
        late,
        /// They were forgotten for newer ones, of other keys or of the same after [`MissClockOptions::wait_us_max`].
        forgotten,
        /// Their items were made by what tells no time: a store that told its cost, or arithmetic.
        answered,
    }
}

/// What stands for a prefix within a class.
fn place(class: ClassId, prefix: u64) -> u64 {
    mix(prefix).wrapping_add(class.index() as u64)
}

/// Whether it is this miss of the key that waits, and not a later one.
fn waits(waiting: &KeyMap<Miss>, hash: u64, number: u64) -> bool {
    waiting.get(&hash).is_some_and(|miss| miss.number == number)
}

impl MissClock {
    /// Has seen nothing.
    ///
    /// # Panics
    /// If an option is out of its range.
    pub fn new(options: MissClockOptions) -> MissClock {
        assert!(options.waiting_max > 0, "a miss must be able to wait");
        assert!(options.prefixes_max > 0, "a prefix must be able to have a mean");
        assert!(options.times_smoothed > 0, "a mean is of one time at least");
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

    /// A key whose hash has this property is looked at ([`is_sampled`]).
    pub fn threshold(&self) -> u64 {
        self.threshold
    }

    /// What became of misses.
    pub fn counts(&self) -> MissClockCounts {
        self.counts
    }

    /// A get missed the key with this hash.
    pub fn missed(&mut self, hash: u64, at_nanos: u64) {
        if !is_sampled(hash, self.threshold) {
            return;
        }
        match self.waiting.get(&hash) {
            // Another client has missed it before, and is still at work.
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

    /// The key with this hash was stored in a class; `prefix` stands for what its key begins with. Returns the time
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

    /// The item of the key with this hash was made by what tells no time: its miss waits no more.
    pub fn answered(&mut self, hash: u64) {
        self.counts.answered += u64::from(self.waiting.remove(&hash).is_some());
    }

    /// What an item of this class and prefix costs: its prefix's mean, or its class's while that has seen little.
    /// `None`: no miss of the class has led to a store yet.
    pub fn cost_of(&self, class: ClassId, prefix: u64) -> Option<Cost> {
        self.cost_of_prefix(class, prefix).or_else(|| self.cost_of_class(class))
    }

    /// The mean of a prefix in a class; `None` while it has seen little.
    pub fn cost_of_prefix(&self, class: ClassId, prefix: u64) -> Option<Cost> {
        let known = &self.prefixes.get(&place(class, prefix))?.known;
        (known.times >= TIMES_MIN).then(|| known.cost())
    }

    /// The mean of a class; `None` while it has seen nothing.
    pub fn cost_of_class(&self, class: ClassId) -> Option<Cost> {
        let known = &self.classes[class.index()];
        (known.times > 0).then(|| known.cost())
    }

    /// How many misses wait for their stores.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Bytes that it takes, about.
    pub fn size_bytes(&self) -> usize {
        let waiting = self.waiting.capacity() * size_of::<(u64, Miss)>();
        let order = self.order.capacity() * size_of::<(u64, u64)>();
        let prefixes = self.prefixes.capacity() * size_of::<(u64, Prefix)>();
        let hand = self.hand.capacity() * size_of::<u64>();
        waiting + order + prefixes + hand + size_of::<Self>()
    }

    /// The time since a miss, in microseconds; `None` if that is too long ago.
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

    /// What is known of the prefix in a place, or of a new one in whose favour another is forgotten.
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

    /// Ends: the hand takes away every reference that it passes.
    fn forget_prefix(&mut self) {
        while let Some(place) = self.hand.pop_front() {
            let prefix = self.prefixes.get_mut(&place).expect("the hand comes to known prefixes");
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
