//! `-o cost=measured`: the costs of items whose clients supply none, measured as the time from a miss to its store.
//!
//! ```text
//!   a get misses, a store follows --sampled keys--> MissClock, under a lock --means--> MeanTable
//!   a store without a cost  <-------------------------- mean of its prefix, or of its class
//! ```
//!
//! A key outside the sample takes no lock, and a hit does nothing at all. The table publishes the clock's means to
//! readers without a lock: a word for each class, and one for each prefix in a class, found by hash. If two prefixes
//! share a slot, the one that was timed last has it; the other uses the mean of its class.
//!
//! Invariant: a mean in the table is the clock's mean when that prefix, or a key of that class, was last timed.

use slabwise_base::random::mix;
use slabwise_base::sampling::is_sampled;
use slabwise_base::sync::{Mutex, lock};
use slabwise_base::{ClassId, Cost, KeyHasher, LookupKey};
use slabwise_profile::{MissClock, MissClockCounts, MissClockOptions};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Slots for prefixes in the table: four for each prefix that the clock can hold.
const SLOTS: usize = 1 << 14;

#[derive(Debug)]
pub struct MeasuredCosts {
    hasher: KeyHasher,
    delimiter: u8,
    threshold: u64,
    clock: Mutex<MissClock>,
    means: MeanTable,
}

/// The state of the clock, for `stats cost`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredCounts {
    /// Misses that still wait for their stores.
    pub waiting: usize,
    /// The outcomes of the other misses.
    pub counts: MissClockCounts,
    /// The approximate memory of clock and table.
    pub size_bytes: usize,
}

impl MeasuredCosts {
    /// Starts without measurements. The delimiter is that of `-D`.
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

    pub fn record_miss<'k>(&self, key: impl LookupKey<'k>, at_nanos: impl FnOnce() -> u64) {
        if let Some(hash) = self.sampled(key) {
            lock(&self.clock).missed(hash, at_nanos());
        }
    }

    /// Cancels the measurement of this key, because a command made its item whose time is not that of a recomputation.
    pub fn cancel<'k>(&self, key: impl LookupKey<'k>) {
        if let Some(hash) = self.sampled(key) {
            lock(&self.clock).answered(hash);
        }
    }

    /// Ends the measurement of a key that is stored in this class without a cost. Returns its cost if there is a mean.
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
            if clock.stored(hash, class, prefix, at_nanos()).is_some() {
                self.means.publish(&clock, class, prefix);
            }
        }
        self.means.cost_of(class, prefix)
    }

    pub fn counts(&self) -> MeasuredCounts {
        let clock = lock(&self.clock);
        MeasuredCounts {
            waiting: clock.waiting(),
            counts: clock.counts(),
            size_bytes: clock.size_bytes() + size_of::<Self>() + SLOTS * size_of::<AtomicU64>(),
        }
    }

    /// Returns the hash of a key's prefix, or 0 for keys without one.
    fn prefix_of(&self, key: &[u8]) -> u64 {
        let prefix_len = key.iter().position(|&byte| byte == self.delimiter);
        prefix_len.map_or(0, |prefix_len| self.hasher.hash(&key[..prefix_len]))
    }
}

/// Means for readers without a lock.
#[derive(Debug)]
struct MeanTable {
    /// By class: [`KNOWN`] and a cost, or 0.
    classes: [AtomicU32; ClassId::NUMBERS],
    /// Per slot: the tag of a prefix and its cost, or 0.
    prefixes: Box<[AtomicU64]>,
}

/// The bit that is set if a class has a mean.
const KNOWN: u32 = 1 << 16;
/// The number of low bits of a prefix's word that hold its cost.
const COST_BITS: u32 = u16::BITS;

impl MeanTable {
    fn new() -> MeanTable {
        MeanTable {
            classes: std::array::from_fn(|_| AtomicU32::default()),
            prefixes: std::iter::repeat_with(AtomicU64::default).take(SLOTS).collect(),
        }
    }

    /// Publishes the clock's means of a class and of a prefix in it. The caller holds the clock's lock, so that the
    /// latest mean is also published last.
    fn publish(&self, clock: &MissClock, class: ClassId, prefix: u64) {
        if let Some(cost) = clock.cost_of_class(class) {
            self.classes[class.index()].store(KNOWN | u32::from(cost.to_bits()), Relaxed);
        }
        if let Some(cost) = clock.cost_of_prefix(class, prefix) {
            let (slot, tag) = slot_of(class, prefix);
            self.prefixes[slot].store(tag | u64::from(cost.to_bits()), Relaxed);
        }
    }

    fn cost_of(&self, class: ClassId, prefix: u64) -> Option<Cost> {
        let (slot, tag) = slot_of(class, prefix);
        let word = self.prefixes[slot].load(Relaxed);
        if word >> COST_BITS == tag >> COST_BITS {
            return Some(Cost::from_bits(word as u16));
        }
        let word = self.classes[class.index()].load(Relaxed);
        (word & KNOWN != 0).then(|| Cost::from_bits(word as u16))
    }
}

/// Returns the slot of a prefix in a class, and the nonzero tag that distinguishes it from others in that slot.
fn slot_of(class: ClassId, prefix: u64) -> (usize, u64) {
    let hash = mix(prefix ^ mix(class.index() as u64 + 1));
    let tag = (hash >> COST_BITS).max(1) << COST_BITS;
    (hash as usize % SLOTS, tag)
}

#[cfg(test)]
mod tests {
    use super::MeasuredCosts;
    use slabwise_base::ClassId;
    use slabwise_profile::MissClockOptions;

    const MILLI: u64 = 1_000_000;
    const CLASS: ClassId = ClassId(3);

    fn all_keys() -> MeasuredCosts {
        let options = MissClockOptions { rate: 1.0, ..MissClockOptions::default() };
        MeasuredCosts::new(options, ':', 1)
    }

    /// Returns the measured cost of a store of this key, which follows its miss after `millis` milliseconds.
    fn units(costs: &MeasuredCosts, key: &str, class: ClassId, millis: u64) -> Option<u32> {
        costs.record_miss(key.as_bytes(), || 0);
        costs.record_store(key.as_bytes(), class, || millis * MILLI).map(|cost| cost.units())
    }

    #[test]
    fn a_prefix_uses_the_mean_of_its_class_until_it_has_its_own() {
        let costs = all_keys();
        assert_eq!(costs.record_store(b"slow:warmed", CLASS, || MILLI), None, "there was no miss");
        for n in 0..100 {
            units(&costs, &format!("fast:{n}"), CLASS, 1);
        }
        let first = units(&costs, "slow:0", CLASS, 4).expect("its class is known");
        assert!((1_001..1_100).contains(&first), "{first}");
        for n in 0..100 {
            units(&costs, &format!("slow:{n}"), CLASS, 4);
        }
        assert_eq!(units(&costs, "slow:x", CLASS, 4), Some(4_000));
        assert_eq!(units(&costs, "fast:x", CLASS, 1), Some(1_000));
        assert_eq!(costs.record_store(b"slow:x", ClassId(4), || 0), None, "another class");
    }

    #[test]
    fn unsampled_keys_use_means_and_are_not_timed() {
        let costs = MeasuredCosts::new(MissClockOptions::default(), ':', 1);
        let keys: Vec<String> = (0..10_000).map(|n| format!("p:{n}")).collect();
        for key in &keys {
            units(&costs, key, CLASS, 2);
        }
        let counted = costs.counts();
        assert!((400..900).contains(&counted.counts.timed), "a sixteenth: {counted:?}");
        assert_eq!((counted.waiting, counted.counts.late), (0, 0));
        assert!(counted.size_bytes < 1 << 20, "{counted:?}");
        assert_eq!(
            costs.record_store(b"p:never missed", CLASS, || 0).map(|cost| cost.units()),
            Some(2_000)
        );
    }

    #[test]
    fn means_can_be_read_while_other_threads_time_misses() {
        let costs = all_keys();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let costs = &costs;
                scope.spawn(move || {
                    for n in 0..2_000_u64 {
                        let millis = 1 + thread;
                        let key = format!("{thread}:{n}");
                        let shown = units(costs, &key, CLASS, millis).expect("its class is known");
                        assert!((1_000..=4_000).contains(&shown), "{shown}");
                        if n >= 8 {
                            assert_eq!(shown, (millis * 1_000) as u32, "a prefix's own");
                        }
                    }
                });
            }
        });
        assert_eq!(costs.counts().counts.timed, 8_000);
    }
}
