//! A recording of the accesses to a sample of the keys, for simulations of other caches.
//!
//! ```text
//!   windows --gets with results, stores, deletes--> Recording --longest_window--> RecordedAccess ...
//! ```
//!
//! Source of the sampling with a falling threshold: C. Waldspurger, N. Park, A. Garthwaite, I. Ahmad, "Efficient MRC
//! Construction with SHARDS", FAST 2015. If the recording is full, half of its keys are removed with all their accesses.
//!
//! Invariants: at most `accesses_max` accesses are recorded; all accesses of a window to the keys of the sample are
//! recorded, or none.

use slabwise_base::sampling::{is_sampled, rate_of, threshold_of};
use std::ops::Range;

/// A recorded access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedAccess {
    /// The hash of the key, which identifies it.
    pub key: u64,
    /// The size of the item in bytes, without the flags of the client; 0 if it is unknown, because there was no item.
    pub item_size_bytes: u32,
    /// The kind of the access.
    pub kind: RecordedKind,
}

/// The kind of a recorded access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedKind {
    /// A get that found the item.
    Hit,
    /// A get that found no item.
    Miss,
    /// A store.
    Store,
    /// A delete, or the expiry of the item.
    Delete,
}

/// The accesses to the keys of a sample.
#[derive(Clone, Debug)]
pub struct Recording {
    accesses: Vec<RecordedAccess>,
    accesses_max: usize,
    /// Keys are recorded if their hash passes this threshold.
    threshold: u64,
    /// The index of the first access of each window.
    windows: Vec<usize>,
}

impl Default for Recording {
    /// Returns a recording that records nothing.
    fn default() -> Recording {
        Recording::new(0)
    }
}

impl Recording {
    /// Returns an empty recording of at most this number of accesses. An access takes 16 bytes.
    pub fn new(accesses_max: usize) -> Recording {
        Recording { accesses: vec![], accesses_max, threshold: threshold_of(1.0), windows: vec![] }
    }

    /// Returns the share of the keys that are in the sample.
    pub fn sampling_rate(&self) -> f64 {
        rate_of(self.threshold)
    }

    /// Returns the accesses of the window with the most accesses.
    pub fn longest_window(&self) -> &[RecordedAccess] {
        let longest = self.window_ranges().max_by_key(ExactSizeIterator::len);
        longest.map_or(&[], |range| &self.accesses[range])
    }

    /// Starts a window, which reports the accesses to this share of the keys.
    pub(super) fn start_window(&mut self, sampling_rate: f64) {
        self.lower_threshold(threshold_of(sampling_rate));
        self.windows.push(self.accesses.len());
    }

    /// Records a get that found an item of this size.
    pub(super) fn hit(&mut self, key: u64, item_size_bytes: u32) {
        self.push(RecordedAccess { key, item_size_bytes, kind: RecordedKind::Hit });
    }

    /// Records a get that found no item.
    pub(super) fn miss(&mut self, key: u64) {
        self.push(RecordedAccess { key, item_size_bytes: 0, kind: RecordedKind::Miss });
    }

    /// Records a store.
    pub(super) fn store(&mut self, key: u64, item_size_bytes: u32) {
        self.push(RecordedAccess { key, item_size_bytes, kind: RecordedKind::Store });
    }

    /// Records that the item of a key is gone.
    pub(super) fn delete(&mut self, key: u64) {
        self.push(RecordedAccess { key, item_size_bytes: 0, kind: RecordedKind::Delete });
    }

    fn push(&mut self, access: RecordedAccess) {
        if !is_sampled(access.key, self.threshold) || self.accesses_max == 0 {
            return;
        }
        self.accesses.push(access);
        while self.accesses.len() > self.accesses_max && self.threshold > 0 {
            self.lower_threshold(self.threshold / 2);
        }
    }

    /// Removes all accesses to keys that do not pass the threshold. Does nothing if it is not below the present one.
    fn lower_threshold(&mut self, threshold: u64) {
        if threshold >= self.threshold {
            return;
        }
        self.threshold = threshold;
        let kept = |access: &RecordedAccess| is_sampled(access.key, threshold);
        let counts: Vec<usize> = self
            .window_ranges()
            .map(|range| self.accesses[range].iter().filter(|it| kept(it)).count())
            .collect();
        let mut first = 0;
        for (window, count) in self.windows.iter_mut().zip(counts) {
            *window = first;
            first += count;
        }
        self.accesses.retain(kept);
    }

    fn window_ranges(&self) -> impl Iterator<Item = Range<usize>> {
        let ends = self.windows.iter().skip(1).copied().chain([self.accesses.len()]);
        self.windows.iter().copied().zip(ends).map(|(from, to)| from..to)
    }
}

#[cfg(test)]
mod tests {
    use super::{RecordedKind, Recording};
    use slabwise_base::Random;
    use slabwise_base::sampling::{is_sampled, threshold_of};

    #[test]
    fn a_full_recording_keeps_all_accesses_to_fewer_keys() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let (mut recording, mut all) = (Recording::new(1_000), vec![]);
            for window in 1..=4 {
                recording.start_window(1.0);
                let mut keys: Vec<u64> = vec![];
                for _ in 0..500 * window {
                    keys.push(random.below(200).wrapping_mul(0x9e37_79b9_7f4a_7c15));
                    recording.hit(keys[keys.len() - 1], 100);
                    assert!(recording.accesses.len() <= 1_000, "seed {seed}");
                }
                all.push(keys);
            }
            let threshold = threshold_of(recording.sampling_rate().min(1.0));
            let expected = all.iter().map(|window| window.iter().copied());
            let expected = expected.map(|it| it.filter(|&key| is_sampled(key, threshold)));
            let expected: Vec<Vec<u64>> = expected.map(Iterator::collect).collect();
            let longest = expected.iter().map(Vec::len).max();
            let found: Vec<u64> = recording.longest_window().iter().map(|it| it.key).collect();
            assert_eq!(Some(found.len()), longest, "seed {seed}");
            assert!(expected.contains(&found), "seed {seed}");
        }
    }

    #[test]
    fn without_a_maximum_nothing_is_recorded() {
        let mut recording = Recording::default();
        recording.start_window(0.5);
        recording.store(0, 100);
        assert!(recording.longest_window().is_empty());
        let mut recording = Recording::new(10);
        recording.start_window(1.0);
        recording.delete(3);
        assert_eq!(recording.longest_window()[0].kind, RecordedKind::Delete);
    }
}
