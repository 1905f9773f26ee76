//! Computes the footprint of a stream, and from the footprint the miss-ratio curve of an LRU.
//!
//! The *footprint* fp(w) is the mean number of different keys in a window of w references. An *interval* of a key is
//! the distance between two consecutive references to the key, in references. The first interval of a key starts at
//! time 0, and its last interval ends at time n + 1, where n is the number of references.
//!
//! ```text
//!   time            1  2  3  4  5  6
//!   key             a  b  a  c  c  a
//!   intervals of a  '-2-' '---3---'
//! ```
//!
//! A window contains no reference to a key if the window is inside an interval of the key. An interval of t references
//! contains t - w windows of w references, if t > w. So for n references to m keys
//! `fp(w) = m - sum over all intervals t > w of (t - w) / (n - w + 1)`
//! (X. Xiang, B. Bao, C. Ding, Y. Gao, "Linear-time modeling of program working set in shared cache", PACT 2011).
//!
//! An LRU of c chunks misses all first references, and a repeated reference with reuse time t if `fp(t) > c` (X. Xiang,
//! C. Ding, H. Luo, B. Bao, "HOTL: a higher order theory of locality", ASPLOS 2013). The resulting curve is exact if
//! all windows of the same length contain the same number of keys, as in a loop. For other streams a
//! [`LocalFootprint`](super::LocalFootprint) is more accurate.
//!
//! A histogram counts the intervals in [steps](slabwise_profile::steps) whose width is less than 1 % of their numbers.
//! So the memory is bounded, except for the table of keys. The histogram stores the sum of the intervals of each step,
//! so fp(w) is exact if w is the first number of a step, or if all intervals in the step of w are equal.

use slabwise_profile::steps::{OCTAVE_STEPS, place};
use slabwise_profile::{Hits, KeyMap, Mrc};

/// Counts numbers by step. The element at the index [`step_index`] of a number is the step that contains the number.
#[derive(Clone, Debug, Default)]
pub struct Histogram(Vec<Step>);

/// The recorded numbers in one step of a histogram.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
    /// How many numbers were recorded.
    pub count: u64,
    /// Sum of the recorded numbers.
    pub sum: u64,
    /// Smallest recorded number; 0 if `count` is 0.
    pub smallest: u64,
    /// Largest recorded number; 0 if `count` is 0.
    pub largest: u64,
}

impl Histogram {
    /// Records `number` as if it had occurred `count` times.
    pub fn record(&mut self, number: u64, count: u64) {
        let sum = number * count;
        self.add_to(step_index(number), Step { count, sum, smallest: number, largest: number });
    }

    /// Adds all numbers that another histogram has recorded.
    pub fn add(&mut self, other: &Histogram) {
        let steps = other.0.iter().enumerate().filter(|(_, step)| step.count > 0);
        steps.for_each(|(index, step)| self.add_to(index, *step));
    }

    /// Returns all steps up to the step of the largest recorded number, including empty steps.
    pub fn all_steps(&self) -> &[Step] {
        &self.0
    }

    /// Returns the steps with at least one recorded number, in ascending order.
    pub fn used_steps(&self) -> impl Iterator<Item = &Step> {
        self.0.iter().filter(|step| step.count > 0)
    }

    fn add_to(&mut self, index: usize, more: Step) {
        if index >= self.0.len() {
            self.0.resize(index + 1, Step::default());
        }
        let step = &mut self.0[index];
        let smallest =
            if step.count == 0 { more.smallest } else { step.smallest.min(more.smallest) };
        *step = Step {
            count: step.count + more.count,
            sum: step.sum + more.sum,
            smallest,
            largest: step.largest.max(more.largest),
        };
    }
}

/// Returns the index in [`Histogram::all_steps`] of the step that contains `number`.
pub fn step_index(number: u64) -> usize {
    let (octave, step) = place::<OCTAVE_STEPS>(number);
    octave * OCTAVE_STEPS + step
}

/// The intervals of a stream of references, from which the footprint and the curve are computed.
#[derive(Clone, Debug, Default)]
pub struct Footprint {
    /// The time of each key's last reference. The first reference of the stream has the time 1.
    last_references: KeyMap<u64>,
    /// The number of references so far.
    time: u64,
    /// The reuse times, which are the intervals between two references to the same key.
    reuse_times: Histogram,
    /// The first interval of each key, from time 0 to the first reference.
    first_intervals: Histogram,
}

impl Footprint {
    pub fn reference(&mut self, key: u64) {
        self.time += 1;
        match self.last_references.insert(key, self.time) {
            Some(last) => self.reuse_times.record(self.time - last, 1),
            None => self.first_intervals.record(self.time, 1),
        }
    }

    /// Returns the number of different keys so far.
    fn keys(&self) -> u64 {
        self.last_references.len() as u64
    }

    /// Returns the mean number of different keys in a window of this length. The time of this call is proportional to
    /// the number of keys.
    #[cfg(test)]
    fn mean_keys(&self, window_references: u64) -> f64 {
        self.intervals().mean_keys(window_references)
    }

    /// Returns the miss-ratio curve of an LRU for all references so far.
    pub fn mrc(&self) -> Mrc {
        let intervals = self.intervals();
        let chunks_for =
            |reuse_time| (intervals.mean_keys(reuse_time) - ROUNDING_ERROR_MAX).ceil() as u64;
        // The curve spreads the hits of a step evenly from the size for the smallest to the size for the largest reuse
        // time of the step.
        let hits = self.reuse_times.used_steps().map(|step| Hits {
            count: step.count as f64,
            chunks_first: chunks_for(step.smallest),
            chunks_last: chunks_for(step.largest),
        });
        Mrc::of_hits(self.time as f64, hits)
    }

    /// Returns all intervals, including those that end after the last reference of the stream.
    fn intervals(&self) -> Intervals {
        let mut intervals = self.reuse_times.clone();
        intervals.add(&self.first_intervals);
        self.last_references.values().for_each(|last| intervals.record(self.time + 1 - last, 1));
        let (mut longer_count, mut longer_sum) = (0, 0);
        let mut steps: Vec<IntervalStep> = Vec::with_capacity(intervals.all_steps().len());
        for step in intervals.all_steps().iter().rev() {
            steps.push(IntervalStep { step: *step, longer_count, longer_sum });
            longer_count += step.count;
            longer_sum += u128::from(step.sum);
        }
        steps.reverse();
        Intervals { references: self.time, keys: self.keys(), steps }
    }
}

/// Upper limit of the rounding error of a computed footprint. An exact footprint of n references is a multiple of
/// `1 / n`.
const ROUNDING_ERROR_MAX: f64 = 1e-9;

/// All intervals of a stream.
struct Intervals {
    /// Number of references of the stream.
    references: u64,
    /// Number of different keys of the stream.
    keys: u64,
    /// The element at the index [`step_index`] of a length is the step of that length.
    steps: Vec<IntervalStep>,
}

/// The intervals of one step, and the count and the sum of the intervals of all later steps.
struct IntervalStep {
    step: Step,
    longer_count: u64,
    longer_sum: u128,
}

impl Intervals {
    /// Returns the footprint: the mean number of different keys in a window of `window` references.
    fn mean_keys(&self, window: u64) -> f64 {
        if window == 0 || window > self.references {
            return if window == 0 { 0.0 } else { self.keys as f64 };
        }
        let Some(of_window) = self.steps.get(step_index(window)) else {
            return self.keys as f64;
        };
        let IntervalStep { step, longer_count, longer_sum } = of_window;
        // The intervals in the window's own step differ by less than 1 %. They are treated as intervals of equal
        // length.
        let own = u128::from(step.sum).saturating_sub(u128::from(window) * u128::from(step.count));
        // Number of pairs of a key and a window that has no reference to the key.
        let absent = longer_sum - u128::from(window) * u128::from(*longer_count) + own;
        let windows = self.references - window + 1;
        let present = u128::from(self.keys) * u128::from(windows) - absent;
        present as f64 / windows as f64
    }
}

#[cfg(test)]
mod tests {
    use super::{Footprint, Histogram, step_index};
    use slabwise_base::Random;
    use slabwise_profile::steps::{OCTAVE_STEPS, edges};
    use slabwise_profile::{Distances, Mrc, StackDistances};

    #[test]
    fn a_step_has_the_count_the_sum_and_the_range_of_its_numbers() {
        for seed in 0..10 {
            let mut random = Random::new(seed);
            let mut numbers = Vec::new();
            // The numbers are recorded in two histograms, which are then added.
            let (mut first, mut second) = (Histogram::default(), Histogram::default());
            for _ in 0..2_000 {
                let bound = 1 << random.below(20);
                let number = random.below(bound);
                let histogram = if random.below(2) == 0 { &mut first } else { &mut second };
                histogram.record(number, 2);
                numbers.push(number);
            }
            first.add(&second);
            numbers.sort_unstable();
            for group in numbers.chunk_by(|a, b| step_index(*a) == step_index(*b)) {
                let step = first.all_steps()[step_index(group[0])];
                let (smallest, largest) = (group[0], group[group.len() - 1]);
                assert_eq!((step.smallest, step.largest), (smallest, largest), "seed {seed}");
                assert_eq!(step.count, 2 * group.len() as u64, "seed {seed}");
                assert_eq!(step.sum, 2 * group.iter().sum::<u64>(), "seed {seed}");
            }
            let count: u64 = first.used_steps().map(|step| step.count).sum();
            assert_eq!(count, 4_000, "seed {seed}");
        }
    }

    fn footprint(keys: &[u64]) -> Footprint {
        let mut footprint = Footprint::default();
        keys.iter().for_each(|&key| footprint.reference(key));
        footprint
    }

    /// Returns the curve of exact stack distances.
    fn exact(keys: &[u64]) -> Mrc {
        let (mut stack, mut distances) = (StackDistances::default(), Distances::default());
        keys.iter().for_each(|&key| distances.record(stack.reference(key)));
        distances.mrc(1)
    }

    /// Computes the footprint by its definition: counts the different keys of every window of this length. All keys are
    /// below 256.
    fn mean_of_all_windows(keys: &[u64], window: u64) -> f64 {
        let (window, mut counts, mut different, mut sum) = (window as usize, [0; 256], 0, 0);
        for (at, &key) in keys.iter().enumerate() {
            different += u64::from(counts[key as usize] == 0);
            counts[key as usize] += 1;
            if at + 1 >= window {
                sum += different;
                let removed = keys[at + 1 - window] as usize;
                counts[removed] -= 1;
                different -= u64::from(counts[removed] == 0);
            }
        }
        sum as f64 / (keys.len() - window + 1) as f64
    }

    #[test]
    fn the_footprint_is_the_mean_over_all_windows() {
        for seed in 0..10 {
            let mut random = Random::new(seed);
            let bound = 2 + random.below(200);
            let keys: Vec<u64> =
                (0..700).map(|_| random.below(bound).min(random.below(bound))).collect();
            let footprint = footprint(&keys);
            let edges = (0..128).map(|step| edges::<OCTAVE_STEPS>(2, step).0);
            for window in (1..257).chain(edges).chain([699, 700]) {
                let found = footprint.mean_keys(window);
                let expected = mean_of_all_windows(&keys, window);
                assert!(
                    (found - expected).abs() < 1e-9,
                    "seed {seed}, {window} references: {found} keys, expected {expected}"
                );
            }
            assert_eq!(footprint.mean_keys(0), 0.0);
            assert_eq!(footprint.mean_keys(701), footprint.keys() as f64);
        }
    }

    #[test]
    fn the_footprint_does_not_fall_with_the_length_of_the_window() {
        let mut random = Random::new(1);
        let keys: Vec<u64> =
            (0..50_000).map(|_| random.below(3_000).min(random.below(3_000))).collect();
        let intervals = footprint(&keys).intervals();
        let mut previous = 0.0;
        for window in 1..=50_000 {
            let mean = intervals.mean_keys(window);
            let context = format!("{window} references: {mean} keys; one less: {previous} keys");
            assert!(mean >= previous * 0.999, "{context}");
            previous = mean;
        }
    }

    #[test]
    fn the_curve_of_a_loop_is_exact_around_its_cliff() {
        for keys in [1, 2, 63, 100, 1_000, 12_345] {
            let looped: Vec<u64> = (0..keys * 4).map(|at| at % keys).collect();
            let (found, exact) = (footprint(&looped).mrc(), exact(&looped));
            for chunks in [0, 1, keys / 2, keys - 1, keys, keys + 1, 2 * keys] {
                let (found, expected) = (found.misses(chunks), exact.misses(chunks));
                assert_eq!(found, expected, "{keys} keys, {chunks} chunks");
            }
        }
    }

    #[test]
    fn first_references_always_miss() {
        let scan: Vec<u64> = (0..1_000).collect();
        let curve = footprint(&scan).mrc();
        assert!([0, 1, 500, 5_000].iter().all(|&chunks| curve.miss_ratio(chunks) == 1.0));
        assert_eq!(Footprint::default().mrc(), Mrc::empty());
    }

    #[test]
    fn one_chunk_is_enough_for_one_key() {
        let curve = footprint(&[7; 10]).mrc();
        assert_eq!((curve.misses(0), curve.misses(1)), (10.0, 1.0));
    }
}
