//! `-o cost=measured`: what items cost, measured where clients do not tell it.
//!
//! ```text
//!   a get misses, a store comes --sampled keys--> MissClock, under a lock --means--> board
//!   a store that tells no cost  <-------------------- its prefix's mean, or its class's
//! ```
//!
//! A key outside the sample takes no lock, and a hit does nothing at all. The board holds what the clock knows, for
//! readers without a lock: a word for each class, and one for each prefix in a class, found by hash. Two prefixes
//! of one place take turns; the one that is not there has its class's mean meanwhile.
//!
//! Invariant: a mean on the board was the clock's when that prefix, or a key of that class, was last timed.

use slabwise_base::random::mix;
use slabwise_base::sampling::is_sampled;
use slabwise_base::sync::{Mutex, lock};
use slabwise_base::{ClassId, Cost, KeyHasher, LookupKey};
use slabwise_profile::{MissClock, MissClockCounts, MissClockOptions};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Places for prefixes on the board: four for each that the clock knows.
const PLACES: usize = 1 << 14;

#[derive(Debug)]
pub struct MeasuredCosts {
    hasher: KeyHasher,
    delimiter: u8,
    threshold: u64,
    clock: Mutex<MissClock>,
    board: Board,
}

/// The state of the clock, for `stats cost`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredCounts {
    /// Misses that wait for their stores.
    pub waiting: usize,
    /// What became of the others.
    pub counts: MissClockCounts,
    /// Bytes that clock and board take, about.
    pub size_bytes: usize,
}

impl MeasuredCosts {
    /// Knows nothing yet. The delimiter is `-D`'s.
    pub fn new(options: MissClockOptions, delimiter: char, seed: u64) -> MeasuredCosts {
        let clock = MissClock::new(options);
        MeasuredCosts {
            hasher: KeyHasher::new(seed),
            delimiter: delimiter.encode_utf8(&mut [0; 4]).as_bytes()[0],
            threshold: clock.threshold(),
            clock: Mutex::new(clock),
            board: Board::new(),
        }
    }

    /// The hash of a key in the sample.
    fn sampled<'k>(&self, key: impl LookupKey<'k>) -> Option<u64> {
        let hash = key.hashed_by(&self.hasher).hash();
        is_sampled(hash, self.threshold).then_some(hash)
    }

    /// A get missed this key.
    pub fn missed<'k>(&self, key: impl LookupKey<'k>, at_nanos: impl FnOnce() -> u64) {
        if let Some(hash) = self.sampled(key) {
            lock(&self.clock).missed(hash, at_nanos());
        }
    }

    /// This key's item was made by what tells no time.
    pub fn answered<'k>(&self, key: impl LookupKey<'k>) {
        if let Some(hash) = self.sampled(key) {
            lock(&self.clock).answered(hash);
        }
    }

    /// This key is stored in a class, and nobody told its cost: what it costs, if that is known.
    pub fn stored<'k>(
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
                self.board.show(&clock, class, prefix);
            }
        }
        self.board.cost_of(class, prefix)
    }

    pub fn counts(&self) -> MeasuredCounts {
        let clock = lock(&self.clock);
        MeasuredCounts {
            waiting: clock.waiting(),
            counts: clock.counts(),
            size_bytes: clock.size_bytes() + size_of::<Self>() + PLACES * size_of::<AtomicU64>(),
        }
    }

    /// What stands for a key's prefix; keys without one share one.
    fn prefix_of(&self, key: &[u8]) -> u64 {
        let prefix_len = key.iter().position(|&byte| byte == self.delimiter);
        prefix_len.map_or(0, |prefix_len| self.hasher.hash(&key[..prefix_len]))
    }
}

/// Means for readers without a lock.
#[derive(Debug)]
struct Board {
    /// [`KNOWN`] and a cost, or 0.
    classes: [AtomicU32; ClassId::NUMBERS],
    /// What is left of a prefix's hash, and a cost; 0 is nobody's.
    prefixes: Box<[AtomicU64]>,
}

/// Beside a class's cost: it has one.
const KNOWN: u32 = 1 << 16;
/// The bits of a prefix's word that hold its cost.
const COST_BITS: u32 = u16::BITS;

impl Board {
    fn new() -> Board {
        Board {
            classes: std::array::from_fn(|_| AtomicU32::default()),
            prefixes: std::iter::repeat_with(AtomicU64::default).take(PLACES).collect(),
        }
    }

    /// Shows what the clock knows of a class and a prefix in it. The caller holds the clock's lock, so that what
    /// is shown last is what is known last.
    fn show(&self, clock: &MissClock, class: ClassId, prefix: u64) {
        if let Some(cost) = clock.cost_of_class(class) {
            self.classes[class.index()].store(KNOWN | u32::from(cost.to_bits()), Relaxed);
        }
        if let Some(cost) = clock.cost_of_prefix(class, prefix) {
            let (place, tag) = place_of(class, prefix);
            self.prefixes[place].store(tag | u64::from(cost.to_bits()), Relaxed);
        }
    }

    fn cost_of(&self, class: ClassId, prefix: u64) -> Option<Cost> {
        let (place, tag) = place_of(class, prefix);
        let word = self.prefixes[place].load(Relaxed);
        if word >> COST_BITS == tag >> COST_BITS {
            return Some(Cost::from_bits(word as u16));
        }
        let word = self.classes[class.index()].load(Relaxed);
        (word & KNOWN != 0).then(|| Cost::from_bits(word as u16))
    }
}

/// Where a prefix in a class stands, and what tells it from others there: never 0.
fn place_of(class: ClassId, prefix: u64) -> (usize, u64) {
    let hash = mix(prefix ^ mix(class.index() as u64 + 1));
    let tag = (hash >> COST_BITS).max(1) << COST_BITS;
    (hash as usize % PLACES, tag)
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

    /// What a store of this key is said to cost, its miss so many milliseconds ago.
    fn units(costs: &MeasuredCosts, key: &str, class: ClassId, millis: u64) -> Option<u32> {
        costs.missed(key.as_bytes(), || 0);
        costs.stored(key.as_bytes(), class, || millis * MILLI).map(|cost| cost.units())
    }

    #[test]
    fn a_prefix_has_its_class_s_mean_until_it_was_timed_a_few_times() {
        let costs = all_keys();
        assert_eq!(costs.stored(b"slow:warmed", CLASS, || MILLI), None, "nobody missed it");
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
        assert_eq!(costs.stored(b"slow:x", ClassId(4), || 0), None, "another class");
    }

    #[test]
    fn keys_outside_the_sample_take_means_and_leave_nothing() {
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
            costs.stored(b"p:never missed", CLASS, || 0).map(|cost| cost.units()),
            Some(2_000)
        );
    }

    #[test]
    fn means_are_shown_while_others_are_timed() {
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
