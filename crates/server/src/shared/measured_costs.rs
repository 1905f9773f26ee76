//! `-o cost=measured`: the costs of items for which clients supply no costs. The server measures the time from the miss
//! of a key to the next store of the key, and uses the mean of these times as the cost.
//!
//! ```text
//!   a get misses, a store follows --sampled keys--> MissClock, with a lock --means--> MeanTable
//!   a store without a cost  <--------------- mean of the key's prefix in its class, or of the class
//! ```
//!
//! The server measures only sampled keys: a command on any other key takes no lock. A hit does no work at all. Workers
//! read the means from the [`MeanTable`] without a lock. The table has a word for each class, and slots for prefixes.
//! The hash of a class and a prefix selects the slot of the prefix in that class. If two prefixes have the same slot,
//! the slot contains the mean of the prefix that was measured last. Stores with the other prefix use the mean of their
//! class.
//!
//! Invariant: a word of a class contains the mean that the [`MissClock`] had after the last measurement in the class. A
//! slot contains the mean that the [`MissClock`] had after the last measurement of a key with the slot's prefix.

use slabwise_base::random::mix;
use slabwise_base::sampling::is_sampled;
use slabwise_base::sync::{Mutex, lock};
use slabwise_base::{ClassId, Cost, KeyHasher, LookupKey};
use slabwise_profile::{MissClock, MissClockCounts, MissClockOptions};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The number of slots for prefixes. It is four times the maximum number of prefixes in the clock, so that two prefixes
/// rarely have the same slot.
const PREFIX_SLOTS: usize = 1 << 14;

/// The measurement of costs: the [`MissClock`] that times misses, and the means that stores use.
#[derive(Debug)]
pub struct MeasuredCosts {
    hasher: KeyHasher,
    /// The byte that ends the prefix of a key (`-D`).
    delimiter: u8,
    /// The sampling threshold of the clock.
    threshold: u64,
    clock: Mutex<MissClock>,
    means: MeanTable,
}

/// The counts of the measurement, which `stats cost` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredCounts {
    /// The number of sampled misses that no store has followed yet.
    pub waiting: usize,
    /// The outcomes of all other sampled misses since the start of the server.
    pub counts: MissClockCounts,
    /// The approximate memory of the clock and the table, in bytes.
    pub size_bytes: usize,
}

impl MeasuredCosts {
    /// Makes the state without measurements. `delimiter` is the character of `-D`; only its first byte is used.
    pub fn new(options: MissClockOptions, delimiter: char, seed: u64) -> MeasuredCosts {
        let clock = MissClock::new(options);
        MeasuredCosts {
            hasher: KeyHasher::new(seed),
            delimiter: delimiter.encode_utf8(&mut [0; 4]).as_bytes()[0],
            threshold: clock.threshold(),
            clock: Mutex::new(clock),
            means: MeanTable::new(),
        }
    }

    /// Returns the hash of a key if the key is sampled.
    fn sampled<'k>(&self, key: impl LookupKey<'k>) -> Option<u64> {
        let hash = key.hashed_by(&self.hasher).hash();
        is_sampled(hash, self.threshold).then_some(hash)
    }

    /// Starts the measurement of a key that a get missed, if the key is sampled.
    pub fn record_miss<'k>(&self, key: impl LookupKey<'k>, at_nanos: impl FnOnce() -> u64) {
        if let Some(hash) = self.sampled(key) {
            lock(&self.clock).note_miss(hash, at_nanos());
        }
    }

    /// Cancels the measurement of a key, because the time until the current command does not show how long the client
    /// recomputed the value. Examples are a store with a client-supplied cost, and an `incr` that creates a number.
    pub fn cancel<'k>(&self, key: impl LookupKey<'k>) {
        if let Some(hash) = self.sampled(key) {
            lock(&self.clock).note_creation(hash);
        }
    }

    /// Ends the measurement of a key whose item is stored in this class without a client-supplied cost. Returns the
    /// cost for the item: the mean of the key's prefix, or of the class, or `None` if neither has a mean.
    pub fn record_store<'k>(
        &self,
        key: impl LookupKey<'k>,
        class: ClassId,
        at_nanos: impl FnOnce() -> u64,
    ) -> Option<Cost> {
        let key = key.hashed_by(&self.hasher);
        let (hash, prefix) = (key.hash(), self.prefix_of(key.bytes()));
        if is_sampled(hash, self.threshold) {
            let mut clock = lock(&self.clock);
            if clock.note_store(hash, class, prefix, at_nanos()).is_some() {
                self.means.publish(&clock, class, prefix);
            }
        }
        self.means.cost_of(class, prefix)
    }

    /// Returns the current counts.
    pub fn counts(&self) -> MeasuredCounts {
        let clock = lock(&self.clock);
        MeasuredCounts {
            waiting: clock.waiting(),
            counts: clock.counts(),
            size_bytes: clock.size_bytes()
                + size_of::<Self>()
                + PREFIX_SLOTS * size_of::<AtomicU64>(),
        }
    }

    /// Returns the hash of the key's prefix, or 0 if the key has no prefix.
    fn prefix_of(&self, key: &[u8]) -> u64 {
        let prefix_len = key.iter().position(|&byte| byte == self.delimiter);
        prefix_len.map_or(0, |prefix_len| self.hasher.hash(&key[..prefix_len]))
    }
}

/// The mean times of classes and prefixes, as costs. Workers read the table without a lock.
#[derive(Debug)]
struct MeanTable {
    /// One word per class: the bit [`HAS_MEAN`] and the code of the mean, or 0 if the class has no mean.
    classes: [AtomicU32; ClassId::NUMBERS],
    /// One word per slot: the tag of a prefix in a class and the code of its mean, or 0 if the slot is empty.
    prefixes: Box<[AtomicU64]>,
}

/// The bit in the word of a class that is set if the class has a mean.
const HAS_MEAN: u32 = 1 << 16;
/// The number of low bits of a slot's word that hold the code of a cost. The other bits hold the tag.
const COST_BITS: u32 = u16::BITS;

impl MeanTable {
    fn new() -> MeanTable {
        MeanTable {
            classes: std::array::from_fn(|_| AtomicU32::default()),
            prefixes: std::iter::repeat_with(AtomicU64::default).take(PREFIX_SLOTS).collect(),
        }
    }

    /// Copies the clock's means of a class, and of a prefix in this class, to the table. The caller holds the clock's
    /// lock, so that two threads write their means in the order in which they measured them.
    fn publish(&self, clock: &MissClock, class: ClassId, prefix: u64) {
        if let Some(cost) = clock.cost_of_class(class) {
            self.classes[class.index()].store(HAS_MEAN | u32::from(cost.to_bits()), Relaxed);
        }
        if let Some(cost) = clock.cost_of_prefix(class, prefix) {
            let (slot, tag) = slot_of(class, prefix);
            self.prefixes[slot].store(tag | u64::from(cost.to_bits()), Relaxed);
        }
    }

    /// Returns the mean of a prefix in a class, or else the mean of the class, or `None` if neither has a mean.
    fn cost_of(&self, class: ClassId, prefix: u64) -> Option<Cost> {
        let (slot, tag) = slot_of(class, prefix);
        let word = self.prefixes[slot].load(Relaxed);
        if word >> COST_BITS == tag >> COST_BITS {
            return Some(Cost::from_bits(word as u16));
        }
        let word = self.classes[class.index()].load(Relaxed);
        (word & HAS_MEAN != 0).then(|| Cost::from_bits(word as u16))
    }
}

/// Returns the slot of a prefix in a class, and the tag that identifies this prefix among those with the same slot. The
/// tag is not 0, and its lowest [`COST_BITS`] bits are 0.
fn slot_of(class: ClassId, prefix: u64) -> (usize, u64) {
    let hash = mix(prefix ^ mix(class.index() as u64 + 1));
    let tag = (hash >> COST_BITS).max(1) << COST_BITS;
    (hash as usize % PREFIX_SLOTS, tag)
}

#[cfg(test)]
mod tests {
    use super::MeasuredCosts;
    use slabwise_base::ClassId;
    use slabwise_profile::MissClockOptions;

    const MILLISECOND_NANOS: u64 = 1_000_000;
    const CLASS: ClassId = ClassId(3);

    /// Returns a measurement in which every key is sampled.
    fn with_all_keys_sampled() -> MeasuredCosts {
        let options = MissClockOptions { rate: 1.0, ..MissClockOptions::default() };
        MeasuredCosts::new(options, ':', 1)
    }

    /// Records a miss of the key and, `millis` milliseconds later, a store in this class. Returns the cost of the
    /// stored item in microseconds.
    fn miss_and_store(
        costs: &MeasuredCosts,
        key: &str,
        class: ClassId,
        millis: u64,
    ) -> Option<u32> {
        costs.record_miss(key.as_bytes(), || 0);
        costs
            .record_store(key.as_bytes(), class, || millis * MILLISECOND_NANOS)
            .map(|cost| cost.units())
    }

    #[test]
    fn stores_use_the_mean_of_their_class_until_their_prefix_has_a_mean() {
        let costs = with_all_keys_sampled();
        assert_eq!(
            costs.record_store(b"slow:warmed", CLASS, || MILLISECOND_NANOS),
            None,
            "there was no miss"
        );
        for n in 0..100 {
            miss_and_store(&costs, &format!("fast:{n}"), CLASS, 1);
        }
        let first = miss_and_store(&costs, "slow:0", CLASS, 4).expect("the class has a mean");
        assert!((1_001..1_100).contains(&first), "the cost is {first} us");
        for n in 0..100 {
            miss_and_store(&costs, &format!("slow:{n}"), CLASS, 4);
        }
        assert_eq!(miss_and_store(&costs, "slow:x", CLASS, 4), Some(4_000));
        assert_eq!(miss_and_store(&costs, "fast:x", CLASS, 1), Some(1_000));
        let in_other_class = costs.record_store(b"slow:x", ClassId(4), || 0);
        assert_eq!(in_other_class, None, "a class without measurements has no mean");
    }

    #[test]
    fn stores_of_keys_outside_the_sample_use_means_and_are_not_timed() {
        let costs = MeasuredCosts::new(MissClockOptions::default(), ':', 1);
        let keys: Vec<String> = (0..10_000).map(|n| format!("p:{n}")).collect();
        for key in &keys {
            miss_and_store(&costs, key, CLASS, 2);
        }
        let counted = costs.counts();
        assert!(
            (400..900).contains(&counted.counts.timed),
            "about a sixteenth of 10,000 misses must be timed: {counted:?}"
        );
        assert_eq!((counted.waiting, counted.counts.late), (0, 0));
        assert!(
            counted.size_bytes < 1 << 20,
            "the measurement must need less than 1 MiB: {counted:?}"
        );
        assert_eq!(
            costs.record_store(b"p:never missed", CLASS, || 0).map(|cost| cost.units()),
            Some(2_000)
        );
    }

    #[test]
    fn stores_read_correct_means_while_other_threads_measure() {
        let costs = with_all_keys_sampled();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let costs = &costs;
                scope.spawn(move || {
                    for n in 0..2_000_u64 {
                        let millis = 1 + thread;
                        let key = format!("{thread}:{n}");
                        let cost_us = miss_and_store(costs, &key, CLASS, millis)
                            .expect("the class has a mean");
                        assert!((1_000..=4_000).contains(&cost_us), "{cost_us} us");
                        if n >= 8 {
                            assert_eq!(
                                cost_us,
                                (millis * 1_000) as u32,
                                "after 8 measurements the prefix has its own mean"
                            );
                        }
                    }
                });
            }
        });
        assert_eq!(costs.counts().counts.timed, 8_000);
    }
}
