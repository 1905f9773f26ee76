//! Space-Saving: finds the most frequent keys of a stream with a fixed number of counters.
//!
//! ```text
//!   key --it has a counter-------> count + 1
//!       --a counter is free------> count 1, error 0
//!       --all count other keys---> replaces the key with the lowest count m: count m + 1, error m
//! ```
//!
//! Source: A. Metwally, D. Agrawal, A. El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams",
//! ICDT 2005. In addition, [`SpaceSaving::halve`] makes old occurrences count less. The paper keeps the counters in lists
//! of equal counts; here a search tree has them in the order of their counts.
//!
//! Invariants, where an occurrence before `n` calls of `halve` counts 1/2^n:
//! - BOUNDS: the occurrences of a key with a counter are at most its count, and at least its count minus its error.
//! - COMPLETE: a key without a counter has at most as many occurrences as the lowest count. With `c` counters, this is
//!   at most 1/c of all occurrences, and at most one more after `halve`, which rounds counts up.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The most frequent keys of a stream.
#[derive(Debug)]
pub struct SpaceSaving {
    counters: Vec<Counter>,
    counters_max: usize,
    /// The index of the counter of each key.
    indexes: HashMap<Arc<[u8]>, usize>,
    /// The count and the index of each counter.
    by_count: BTreeSet<(u64, usize)>,
}

#[derive(Debug)]
struct Counter {
    key: Arc<[u8]>,
    count: u64,
    error: u64,
}

/// A key with its estimated number of occurrences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frequency<'a> {
    /// The bytes of the key.
    pub key: &'a [u8],
    /// The maximum number of occurrences.
    pub count: u64,
    /// The difference between the maximum and the minimum number of occurrences.
    pub error: u64,
}

impl SpaceSaving {
    /// The maximum memory of a counter for a key of 250 bytes, in bytes. A key is in the heap once, and its address in two
    /// tables, of which the hash table may have twice the necessary size.
    pub const COUNTER_SIZE_BYTES_MAX: usize = 512;

    /// Starts without keys.
    ///
    /// # Panics
    /// Panics if `counters_max` is 0.
    pub fn new(counters_max: usize) -> SpaceSaving {
        assert!(counters_max > 0, "the maximum number of counters must be at least 1, not 0");
        SpaceSaving {
            counters: Vec::new(),
            counters_max,
            indexes: HashMap::new(),
            by_count: BTreeSet::new(),
        }
    }

    /// Counts an occurrence of a key.
    pub fn record(&mut self, key: &[u8]) {
        let index = match self.indexes.get(key) {
            Some(&index) => index,
            None => self.begin(key),
        };
        let counter = &mut self.counters[index];
        self.by_count.remove(&(counter.count, index));
        counter.count += 1;
        self.by_count.insert((counter.count, index));
    }

    /// Gives a key a counter, and returns the index of this counter. The occurrence of the key is not counted yet.
    fn begin(&mut self, key: &[u8]) -> usize {
        let key: Arc<[u8]> = key.into();
        let index = if self.counters.len() < self.counters_max {
            self.counters.push(Counter { key: Arc::clone(&key), count: 0, error: 0 });
            self.counters.len() - 1
        } else {
            let &(lowest, index) = self.by_count.first().expect("there is at least one counter");
            let replaced = Counter { key: Arc::clone(&key), count: lowest, error: lowest };
            let Counter { key: old, .. } = std::mem::replace(&mut self.counters[index], replaced);
            self.indexes.remove(&old);
            index
        };
        self.indexes.insert(key, index);
        index
    }

    /// Halves the occurrences of all keys. The maximum of each key is rounded up, and its minimum down.
    pub fn halve(&mut self) {
        self.by_count.clear();
        for (index, counter) in self.counters.iter_mut().enumerate() {
            let minimum = (counter.count - counter.error) / 2;
            counter.count = counter.count.div_ceil(2);
            counter.error = counter.count - minimum;
            self.by_count.insert((counter.count, index));
        }
    }

    /// Returns the keys that have counters, in descending order of their counts.
    pub fn most_frequent(&self) -> impl Iterator<Item = Frequency<'_>> {
        self.by_count.iter().rev().map(|&(_, index)| {
            let Counter { key, count, error } = &self.counters[index];
            Frequency { key, count: *count, error: *error }
        })
    }

    /// Checks that the tables agree with the counters.
    ///
    /// # Panics
    /// Panics if an invariant is violated.
    pub fn check(&self) {
        let count = self.counters.len();
        assert!(count <= self.counters_max, "{count} counters, at most {}", self.counters_max);
        assert_eq!((self.indexes.len(), self.by_count.len()), (count, count));
        for (index, counter) in self.counters.iter().enumerate() {
            assert_eq!(self.indexes.get(&counter.key), Some(&index), "{counter:?}");
            assert!(self.by_count.contains(&(counter.count, index)), "{counter:?}");
            assert!(counter.error <= counter.count, "{counter:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Frequency, SpaceSaving};
    use slabwise_base::random::Random;
    use std::collections::HashMap;

    #[test]
    fn the_example_of_the_definition_gives_the_counts_and_errors() {
        let mut summary = SpaceSaving::new(2);
        for key in [b"a", b"b", b"a", b"c", b"a"] {
            summary.record(key);
        }
        let found: Vec<Frequency<'_>> = summary.most_frequent().collect();
        let expected = [(b"a", 3, 0), (b"c", 2, 1)];
        assert_eq!(found, expected.map(|(key, count, error)| Frequency { key, count, error }));
    }

    #[test]
    fn halving_rounds_the_maximum_up_and_the_minimum_down() {
        let mut summary = SpaceSaving::new(1);
        (0..3).for_each(|_| summary.record(b"a"));
        summary.record(b"b");
        summary.halve();
        let found: Vec<Frequency<'_>> = summary.most_frequent().collect();
        assert_eq!(found, [Frequency { key: b"b", count: 2, error: 2 }]);
    }

    /// Records keys of a skewed distribution that changes, and halves the counts every `period` keys. Checks the
    /// invariants against exact numbers of occurrences.
    fn check_against_exact_counts(seed: u64, counters_max: usize, period: usize) {
        let mut random = Random::new(seed);
        let mut summary = SpaceSaving::new(counters_max);
        // Halves of these numbers are exact for some 50 calls of `halve`.
        let mut exact: HashMap<Vec<u8>, f64> = HashMap::new();
        let mut total = 0.0;
        let keys = 1 + random.below(500) as usize;
        let skew = 1.0 + 4.0 * random.unit();
        for number in 1..=20 * period.min(1_000) {
            let rank = (random.unit().powf(skew) * keys as f64) as usize;
            let key = format!("key{}", (rank + number / 700) % keys).into_bytes();
            summary.record(&key);
            *exact.entry(key).or_default() += 1.0;
            total += 1.0;
            if number % period == 0 {
                summary.halve();
                exact.values_mut().for_each(|count| *count /= 2.0);
                total /= 2.0;
            }
        }
        summary.check();
        let found: HashMap<&[u8], (u64, u64)> =
            summary.most_frequent().map(|it| (it.key, (it.count, it.error))).collect();
        let lowest = found.values().map(|&(count, _)| count).min().unwrap_or(0) as f64;
        let is_full = found.len() == counters_max;
        assert!(!is_full || lowest <= total / counters_max as f64 + 1.0, "seed {seed}: {lowest}");
        for (key, &occurrences) in &exact {
            match found.get(key.as_slice()) {
                Some(&(count, error)) => {
                    let range = (count - error) as f64..=count as f64;
                    assert!(
                        range.contains(&occurrences),
                        "seed {seed}: {occurrences} in {range:?}"
                    );
                    assert!(error as f64 <= lowest + 1.0, "seed {seed}: {error} above {lowest}");
                }
                None => assert!(is_full && occurrences <= lowest, "seed {seed}: {occurrences}"),
            }
        }
    }

    #[test]
    fn counts_are_within_their_bounds_and_no_frequent_key_is_missing() {
        for seed in 0..150 {
            let counters_max = [1, 2, 7, 50, 1_000][seed as usize % 5];
            check_against_exact_counts(seed, counters_max, usize::MAX);
            check_against_exact_counts(seed, counters_max, 900);
        }
    }

    #[test]
    fn a_key_that_is_new_and_frequent_overtakes_the_old_ones() {
        let mut summary = SpaceSaving::new(10);
        (0..10_000).for_each(|_| summary.record(b"old"));
        for _ in 0..10 {
            (0..100).for_each(|_| summary.record(b"new"));
            summary.halve();
        }
        let first = summary.most_frequent().next();
        assert_eq!(first.map(|it| it.key), Some(&b"new"[..]));
    }
}
