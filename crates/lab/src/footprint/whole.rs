//! Computes the footprint, which is the mean number of different keys in a window of references, and a curve from it.
//!
//! ```text
//!   time       1  2  3  4  5  6       a window of w references misses a key if it is inside a gap of the key:
//!   key        a  b  a  c  c  a       a gap of t references contains t - w such windows, for t > w
//!   gaps of a  '-2-' '---3---'        (the first gap of a key starts at time 0; its last ends at time n + 1)
//! ```
//!
//! For n references to m keys, the mean number of different keys over all windows of w references is
//! `fp(w) = m - sum over all gaps t > w of (t - w) / (n - w + 1)`
//! (X. Xiang, B. Bao, C. Ding, Y. Gao, "Linear-time modeling of program working set in shared cache", PACT 2011).
//! An LRU of c chunks misses the reuses whose gap t has `fp(t) > c`, and first references (X. Xiang, C. Ding, H. Luo,
//! B. Bao, "HOTL: a higher order theory of locality", ASPLOS 2013). This is exact if all windows of one length have the
//! same number of keys, as in a loop. For other streams a [`LocalFootprint`](super::LocalFootprint) is more accurate.
//!
//! Gaps are counted in [steps](slabwise_profile::steps) of less than 1 %, with their sum. So memory is bounded except
//! for the keys, and fp is exact at the edges of a step and if all gaps of a step are equal.

use slabwise_profile::steps::{OCTAVE_STEPS, place};
use slabwise_profile::{Hits, KeyMap, Mrc};

#[derive(Clone, Debug, Default)]
pub struct Gaps(Vec<Step>);

#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
    pub count: u64,
    pub sum: u64,
    pub least: u64,
    pub most: u64,
}

impl Gaps {
    pub fn record(&mut self, number: u64, count: u64) {
        let sum = number * count;
        self.add_to(index_of(number), Step { count, sum, least: number, most: number });
    }

    pub fn add(&mut self, other: &Gaps) {
        let steps = other.0.iter().enumerate().filter(|(_, step)| step.count > 0);
        steps.for_each(|(index, step)| self.add_to(index, *step));
    }

    /// All steps up to that of the largest number, including empty ones.
    pub fn all_steps(&self) -> &[Step] {
        &self.0
    }

    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.0.iter().filter(|step| step.count > 0)
    }

    fn add_to(&mut self, index: usize, more: Step) {
        if index >= self.0.len() {
            self.0.resize(index + 1, Step::default());
        }
        let step = &mut self.0[index];
        let least = if step.count == 0 { more.least } else { step.least.min(more.least) };
        *step = Step {
            count: step.count + more.count,
            sum: step.sum + more.sum,
            least,
            most: step.most.max(more.most),
        };
    }
}

/// The index of a number's step in [`Gaps::all_steps`].
pub fn index_of(number: u64) -> usize {
    let (octave, step) = place::<OCTAVE_STEPS>(number);
    octave * OCTAVE_STEPS + step
}

#[derive(Clone, Debug, Default)]
pub struct Footprint {
    /// The time of each key's last reference.
    last: KeyMap<u64>,
    /// The number of references so far.
    time: u64,
    reuses: Gaps,
    /// Gaps from time 0 to the first reference of a key.
    firsts: Gaps,
}

impl Footprint {
    pub fn reference(&mut self, key: u64) {
        self.time += 1;
        match self.last.insert(key, self.time) {
            Some(last) => self.reuses.record(self.time - last, 1),
            None => self.firsts.record(self.time, 1),
        }
    }

    fn keys(&self) -> u64 {
        self.last.len() as u64
    }

    /// The mean number of different keys in a window of this length, in time proportional to the number of keys.
    #[cfg(test)]
    fn mean_keys(&self, window_references: u64) -> f64 {
        self.windows().mean_keys(window_references)
    }

    pub fn mrc(&self) -> Mrc {
        let windows = self.windows();
        let chunks_for = |gap| (windows.mean_keys(gap) - ROUNDING).ceil() as u64;
        // The reuses of a step are spread evenly over the sizes between those of its smallest and largest gap.
        let hits = self.reuses.steps().map(|step| Hits {
            count: step.count as f64,
            chunks_first: chunks_for(step.least),
            chunks_last: chunks_for(step.most),
        });
        Mrc::of_hits(self.time as f64, hits)
    }

    fn windows(&self) -> Windows {
        let mut gaps = self.reuses.clone();
        gaps.add(&self.firsts);
        self.last.values().for_each(|last| gaps.record(self.time + 1 - last, 1));
        let (mut count, mut sum) = (0, 0);
        let mut steps: Vec<LongerGaps> = Vec::with_capacity(gaps.all_steps().len());
        for step in gaps.all_steps().iter().rev() {
            steps.push(LongerGaps { step: *step, count, sum });
            count += step.count;
            sum += u128::from(step.sum);
        }
        steps.reverse();
        Windows { references: self.time, keys: self.keys(), steps }
    }
}

/// The largest rounding error of a computed mean. Exact means are multiples of 1 / n for n references.
const ROUNDING: f64 = 1e-9;

struct Windows {
    references: u64,
    keys: u64,
    steps: Vec<LongerGaps>,
}

/// The number and sum of all gaps that are longer than those of `step`.
struct LongerGaps {
    step: Step,
    count: u64,
    sum: u128,
}

impl Windows {
    fn mean_keys(&self, window: u64) -> f64 {
        if window == 0 || window > self.references {
            return if window == 0 { 0.0 } else { self.keys as f64 };
        }
        let Some(LongerGaps { step, count, sum }) = self.steps.get(index_of(window)) else {
            return self.keys as f64;
        };
        // In the window's own step some gaps may be longer by less than 1 %. They are treated as one gap.
        let own = u128::from(step.sum).saturating_sub(u128::from(window) * u128::from(step.count));
        let without = sum - u128::from(window) * u128::from(*count) + own;
        let windows = self.references - window + 1;
        let with = u128::from(self.keys) * u128::from(windows) - without;
        with as f64 / windows as f64
    }
}

#[cfg(test)]
mod tests {
    use super::{Footprint, Gaps, index_of};
    use slabwise_base::Random;
    use slabwise_profile::steps::{OCTAVE_STEPS, edges};
    use slabwise_profile::{Distances, Mrc, StackDistances};

    #[test]
    fn steps_have_the_count_sum_and_limits_of_their_numbers() {
        for seed in 0..10 {
            let mut random = Random::new(seed);
            let (mut one, mut other, mut numbers) = (Gaps::default(), Gaps::default(), Vec::new());
            for _ in 0..2_000 {
                let bound = 1 << random.below(20);
                let number = random.below(bound);
                let half = if random.below(2) == 0 { &mut one } else { &mut other };
                half.record(number, 2);
                numbers.push(number);
            }
            one.add(&other);
            numbers.sort_unstable();
            for group in numbers.chunk_by(|a, b| index_of(*a) == index_of(*b)) {
                let step = one.all_steps()[index_of(group[0])];
                let (least, most) = (group[0], group[group.len() - 1]);
                assert_eq!((step.least, step.most), (least, most), "seed {seed}");
                assert_eq!(step.count, 2 * group.len() as u64, "seed {seed}");
                assert_eq!(step.sum, 2 * group.iter().sum::<u64>(), "seed {seed}");
            }
            let count: u64 = one.steps().map(|step| step.count).sum();
            assert_eq!(count, 4_000, "seed {seed}");
        }
    }

    fn footprint(keys: &[u64]) -> Footprint {
        let mut footprint = Footprint::default();
        keys.iter().for_each(|&key| footprint.reference(key));
        footprint
    }

    fn exact(keys: &[u64]) -> Mrc {
        let (mut stack, mut distances) = (StackDistances::default(), Distances::default());
        keys.iter().for_each(|&key| distances.record(stack.reference(key)));
        distances.mrc(1)
    }

    /// Slides a window over the keys, which are below 256, as the definition says.
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
                    "seed {seed}, {window}: {found}, {expected}"
                );
            }
            assert_eq!(footprint.mean_keys(0), 0.0);
            assert_eq!(footprint.mean_keys(701), footprint.keys() as f64);
        }
    }

    #[test]
    fn longer_windows_have_at_least_as_many_keys() {
        let mut random = Random::new(1);
        let keys: Vec<u64> =
            (0..50_000).map(|_| random.below(3_000).min(random.below(3_000))).collect();
        let windows = footprint(&keys).windows();
        let mut last = 0.0;
        for window in 1..=50_000 {
            let mean = windows.mean_keys(window);
            assert!(mean >= last * 0.999, "window {window}: {mean} keys after {last}");
            last = mean;
        }
    }

    #[test]
    fn the_cliff_of_a_loop_is_exact() {
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
    fn one_key_needs_one_chunk() {
        let curve = footprint(&[7; 10]).mrc();
        assert_eq!((curve.misses(0), curve.misses(1)), (10.0, 1.0));
    }
}
