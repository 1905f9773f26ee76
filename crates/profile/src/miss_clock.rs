//! What misses cost, measured where nobody tells it: the time from a miss to the store of the same key, smoothed
//! by class and key prefix.
//!
//! ```text
//!   miss --> waiting: when each key was missed first --store--> its class's mean, and its prefix's
//!                 '--> forgotten: the store came late, or others wait
//! ```
//!
//! Laws: keys outside the sample leave nothing behind; memory is bounded by the options; all follows from the calls.
//!
//! What it cannot know, each with a test below:
//! - *Warmers.* A store of a key that nobody missed says nothing: a cache that is only ever filled ahead has no
//!   costs.
//! - *Batch fills.* A client that misses many keys, makes all values and then stores them took the whole batch's time
//!   for each, as far as this can tell: its keys seem dearer than one by one.
//! - *Concurrent misses.* Of several clients that miss a key before it is stored the first miss counts, and the first
//!   store: the others' stores say nothing.
//! - *Who gives up.* A store that comes later than `wait_us_max` is taken for another's; the miss is forgotten.
//! - A client that waits for something else between a miss and the store, a queue or a lock, waits for it here too.

use crate::key_map::KeyMap;
use slabwise_base::random::mix;
use slabwise_base::sampling::{is_sampled, threshold_of};
use slabwise_base::{ClassId, Cost};
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
    /// Prefixes in classes that have means; those that come later share their class's.
    pub prefixes_max: usize,
    /// A store that comes later after its miss says nothing, in microseconds.
    pub wait_us_max: u32,
    /// A time counts one of so many, at least 1, once there are as many: older ones fade.
    pub times_smoothed: u64,
}

impl Default for MissClockOptions {
    /// Half a megabyte at most; recomputations of up to a minute.
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

/// Measures what misses cost. A unit of its costs is a microsecond.
#[derive(Debug)]
pub struct MissClock {
    options: MissClockOptions,
    threshold: u64,
    /// By hash, when a key was missed first, in nanoseconds.
    waiting: KeyMap<u64>,
    /// The same in order of time, with those that wait no more.
    order: VecDeque<(u64, u64)>,
    classes: [Smoothed; ClassId::NUMBERS],
    /// By [`place`].
    prefixes: KeyMap<Smoothed>,
    counts: MissClockCounts,
}

/// What became of misses of sampled keys, ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissClockCounts {
    /// Their stores came in time.
    pub timed: u64,
    /// Their stores came later than [`MissClockOptions::wait_us_max`].
    pub late: u64,
    /// They were forgotten for newer ones.
    pub forgotten: u64,
}

/// What stands for a prefix within a class.
fn place(class: ClassId, prefix: u64) -> u64 {
    mix(prefix).wrapping_add(class.index() as u64)
}

impl MissClock {
    /// Has seen nothing.
    ///
    /// # Panics
    /// If an option is out of its range.
    pub fn new(options: MissClockOptions) -> MissClock {
        assert!(options.waiting_max > 0, "a miss must be able to wait");
        assert!(options.times_smoothed > 0, "a mean is of one time at least");
        MissClock {
            options,
            threshold: threshold_of(options.rate),
            waiting: KeyMap::default(),
            order: VecDeque::new(),
            classes: [Smoothed::default(); ClassId::NUMBERS],
            prefixes: KeyMap::default(),
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
            Some(&first) if self.waited_us(first, at_nanos).is_some() => return,
            Some(_) => {}
            None if self.waiting.len() == self.options.waiting_max => self.forget_oldest(),
            None => {}
        }
        self.waiting.insert(hash, at_nanos);
        self.order.push_back((hash, at_nanos));
        if self.order.len() > 2 * self.options.waiting_max {
            let waiting = &self.waiting;
            self.order.retain(|(hash, at)| waiting.get(hash) == Some(at));
        }
    }

    /// The key with this hash was stored in a class; `prefix` stands for what its key begins with. Returns the time
    /// that was counted, in microseconds.
    pub fn stored(&mut self, hash: u64, class: ClassId, prefix: u64, at_nanos: u64) -> Option<u64> {
        let first = self.waiting.remove(&hash)?;
        let Some(time_us) = self.waited_us(first, at_nanos) else {
            self.counts.late += 1;
            return None;
        };
        self.counts.timed += 1;
        let times_smoothed = self.options.times_smoothed;
        self.classes[class.index()].record(time_us as f64, times_smoothed);
        let is_full = self.prefixes.len() >= self.options.prefixes_max;
        match self.prefixes.get_mut(&place(class, prefix)) {
            Some(known) => known.record(time_us as f64, times_smoothed),
            None if is_full => {}
            None => {
                let known = self.prefixes.entry(place(class, prefix)).or_default();
                known.record(time_us as f64, times_smoothed);
            }
        }
        Some(time_us)
    }

    /// What an item of this class and prefix costs: its prefix's mean, or its class's while that has seen little.
    /// `None`: no miss of the class has led to a store yet.
    pub fn cost_of(&self, class: ClassId, prefix: u64) -> Option<Cost> {
        self.cost_of_prefix(class, prefix).or_else(|| self.cost_of_class(class))
    }

    /// The mean of a prefix in a class; `None` while it has seen little.
    pub fn cost_of_prefix(&self, class: ClassId, prefix: u64) -> Option<Cost> {
        let known = self.prefixes.get(&place(class, prefix))?;
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
        let waiting = self.waiting.capacity() * size_of::<(u64, u64)>();
        let prefixes = self.prefixes.capacity() * size_of::<(u64, Smoothed)>();
        waiting + prefixes + self.order.capacity() * size_of::<(u64, u64)>() + size_of::<Self>()
    }

    /// The time since a miss, in microseconds; `None` if that is too long ago.
    fn waited_us(&self, first_nanos: u64, at_nanos: u64) -> Option<u64> {
        let time_us = at_nanos.saturating_sub(first_nanos) / 1_000;
        (time_us <= u64::from(self.options.wait_us_max)).then_some(time_us)
    }

    fn forget_oldest(&mut self) {
        while let Some((hash, at)) = self.order.pop_front() {
            if self.waiting.get(&hash) == Some(&at) {
                self.waiting.remove(&hash);
                self.counts.forgotten += 1;
                return;
            }
        }
    }
}

#[cfg(test)]
#[path = "miss_clock_tests.rs"]
mod tests;
