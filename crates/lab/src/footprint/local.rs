//! Footprints of windows nearby: the curve of an LRU for streams that come in bursts, from reuse times in one pass.
//!
//! A [`Footprint`](super::Footprint) takes all windows of one length for alike, wherever they lie. But a reuse in a
//! burst has other keys between than one outside: where some hundreds of keys are read twice in a row, each of these
//! reuses has all of them between, while a window as long has half as many in the mean. So here a reuse is
//! judged by the windows of its length that end nearby.
//!
//! ```text
//!            stretch 2  |  stretch 1  |  stretch 0        the windows of t references that end in stretch 0, and
//!              '-----------------------------'            the middle one of them
//!              0 .. a         a .. b       b .. t         which place j of the window lies where
//! ```
//!
//! A window holds a key more at its place j where the reference there has a gap of more than j: it is the
//! window's first to its key. So, of the middle window, with the share of a stretch's references for what is at its
//! place,
//!
//! `keys = sum over stretches, and places j in them, of the stretch's share of gaps > j`, first references being
//! endless gaps.
//!
//! The shorter the stretches, the nearer is this to the very window's keys, and the fewer references tell a
//! share: a window of a reuse crosses 4 to 8 of them. So there are stretches of every length, each twice
//! the next shorter one, and those of one length judge the gaps of one octave. Of one stretch as long as the stream
//! it would be the average footprint.
//!
//! Source: P. J. Denning, S. C. Schwartz, "Properties of the working-set model", CACM 1972, for the mean over
//! a whole stream: `fp(w + 1) - fp(w) = share of gaps > w`; X. Hu and others, "Fast miss ratio curve modeling for
//! storage cache", ACM TOS 2018 (AET, first at ATC 2016), for the curve from gaps alone.
//!
//! Gaps are told apart by [steps](slabwise_profile::steps) of less than 1 %. Memory is bounded but for the keys: a few ten
//! thousand steps at most, each time that the references have doubled.

use super::whole::{Gaps, index_of};
use slabwise_profile::{Hits, KeyMap, Mrc};
use std::collections::VecDeque;

/// References of the shortest stretches. A power of two, as all are: a step's gaps are of stretches of one length.
const LENGTH_FIRST: usize = 64;
/// The least gap that stretches of a length judge, in their lengths, unless they are the shortest; of twice that,
/// the next longer ones do.
const GAP_LENGTHS: u64 = 4;
/// As many stretches such a window crosses at most.
const STRETCHES_MAX: usize = 2 * GAP_LENGTHS as usize + 1;
/// What a sum of shares may be off by, as it is computed.
const ROUNDING: f64 = 1e-6;

#[derive(Clone, Debug, Default)]
pub struct LocalFootprint {
    /// By key, the time of its last reference.
    last: KeyMap<u64>,
    /// The time of the last reference: how many there were.
    time: u64,
    /// Of the references since the last stretch: the gap of each.
    gaps: Vec<Option<u64>>,
    /// The shortest stretches, and so on.
    levels: Vec<Level>,
    distances: Gaps,
}

#[derive(Clone, Debug, Default)]
struct Level {
    /// The last ones, the newest in front.
    stretches: VecDeque<Stretch>,
    /// Whether the newest one is not yet part of a longer one.
    is_unpaired: bool,
}

#[derive(Clone, Debug, Default)]
struct Stretch {
    references: f64,
    /// Those that reuse a key, the shortest gaps first.
    reuses: Vec<Reuses>,
}

#[derive(Clone, Copy, Debug)]
struct Reuses {
    gap: f64,
    count: f64,
    /// References with longer gaps, first ones included.
    longer: f64,
    /// The sum of the shares of gaps > j, for j up to `gap`.
    keys: f64,
}

impl LocalFootprint {
    pub fn reference(&mut self, key: u64) {
        self.time += 1;
        let last = self.last.insert(key, self.time);
        self.gaps.push(last.map(|last| self.time - last));
        if self.gaps.len() == LENGTH_FIRST {
            let gaps = std::mem::take(&mut self.gaps);
            self.end(0, Stretch::of(gaps));
        }
    }

    pub fn mrc(&self) -> Mrc {
        let mut ended = self.clone();
        ended.end_all();
        let hits = ended.distances.steps().map(|step| Hits {
            count: step.count as f64,
            chunks_first: step.least + 1,
            chunks_last: step.most + 1,
        });
        Mrc::of_hits(self.time as f64, hits)
    }

    /// Takes in a stretch that is over, and the longer ones that are over with it.
    fn end(&mut self, mut level: usize, mut stretch: Stretch) {
        while let Some(longer) = self.take_in(level, stretch) {
            (level, stretch) = (level + 1, longer);
        }
    }

    /// Takes in what is not over, as if it were. The longest stretches have no gaps: none is as long as the stream.
    fn end_all(&mut self) {
        let mut rest = Stretch::of(std::mem::take(&mut self.gaps));
        for level in 0..self.levels.len().max(1) {
            rest = self.take_in(level, rest.clone()).unwrap_or(rest);
        }
    }

    /// Notes the distances of a stretch's gaps. Returned is the next longer stretch, if it is over.
    fn take_in(&mut self, number: usize, stretch: Stretch) -> Option<Stretch> {
        if number == self.levels.len() {
            self.levels.push(Level::default());
        }
        let level = &mut self.levels[number];
        level.stretches.push_front(stretch);
        level.stretches.truncate(STRETCHES_MAX);
        let gap_min = GAP_LENGTHS * (LENGTH_FIRST << number) as u64;
        let gaps = if number == 0 { 1..2 * gap_min } else { gap_min..2 * gap_min };
        for &Reuses { gap, count, .. } in &level.stretches[0].reuses {
            if gaps.contains(&(gap as u64)) {
                // From a reference to the next of its key, it and those between.
                let keys = level.keys_of_window(gap);
                self.distances.record((keys - ROUNDING).ceil() as u64 - 1, count as u64);
            }
        }
        level.is_unpaired = !level.is_unpaired;
        (!level.is_unpaired).then(|| Stretch::joined(&level.stretches[1], &level.stretches[0]))
    }
}

impl Level {
    /// The keys of the middle window of so many references that ends in the newest stretch. What is before the
    /// oldest is taken to be as it was in that.
    fn keys_of_window(&self, window: f64) -> f64 {
        let (mut begin, mut keys) = (window, 0.0);
        for (age, stretch) in self.stretches.iter().enumerate() {
            let end = begin;
            begin -= if age == 0 { stretch.references / 2.0 } else { stretch.references };
            if begin <= 0.0 || age + 1 == self.stretches.len() {
                return keys + stretch.keys(end);
            }
            keys += stretch.keys(end) - stretch.keys(begin);
        }
        keys
    }
}

impl Stretch {
    /// References with these gaps; without one, the first ones to their keys.
    fn of(gaps: Vec<Option<u64>>) -> Stretch {
        let references = gaps.len();
        let mut gaps: Vec<u64> = gaps.into_iter().flatten().collect();
        gaps.sort_unstable();
        let steps = gaps.chunk_by(|a, b| index_of(*a) == index_of(*b));
        let sums = steps.map(|step| (step.iter().sum::<u64>() as f64, step.len() as f64));
        Stretch::new(references as f64, sums)
    }

    fn joined(one: &Stretch, other: &Stretch) -> Stretch {
        let mut reuses: Vec<Reuses> = [&one.reuses[..], &other.reuses[..]].concat();
        reuses.sort_by(|a, b| a.gap.total_cmp(&b.gap));
        let steps = reuses.chunk_by(|a, b| index_of(a.gap as u64) == index_of(b.gap as u64));
        let sum = |step: &[Reuses]| {
            let sum = step.iter().map(|reuses| reuses.gap * reuses.count).sum();
            (sum, step.iter().map(|reuses| reuses.count).sum())
        };
        Stretch::new(one.references + other.references, steps.map(sum))
    }

    /// References whose gaps have these sums and numbers, by step.
    fn new(references: f64, steps: impl Iterator<Item = (f64, f64)>) -> Stretch {
        let (mut window, mut keys, mut longer) = (0.0, 0.0, references);
        let reuses = steps.map(|(sum, count)| {
            let gap = sum / count;
            keys += (gap - window) * longer / references;
            (window, longer) = (gap, longer - count);
            Reuses { gap, count, longer, keys }
        });
        Stretch { references, reuses: reuses.collect() }
    }

    /// The sum of the shares of gaps > j, for j up to a window's length.
    fn keys(&self, window: f64) -> f64 {
        let behind = self.reuses.partition_point(|reuses| reuses.gap < window);
        let (from, keys, longer) = match behind.checked_sub(1).map(|last| self.reuses[last]) {
            Some(Reuses { gap, longer, keys, .. }) => (gap, keys, longer),
            None => (0.0, 0.0, self.references),
        };
        keys + (window - from) * longer / self.references
    }
}

#[cfg(test)]
mod tests {
    use super::{LocalFootprint, STRETCHES_MAX};
    use crate::footprint::Footprint;
    use slabwise_base::Random;
    use slabwise_profile::{Distances, Mrc, StackDistances};

    /// The exact curve, that of the whole stream's footprint, and that of its stretches'.
    fn curves(keys: impl Iterator<Item = u64>) -> [Mrc; 3] {
        let (mut stack, mut distances) = (StackDistances::default(), Distances::default());
        let (mut whole, mut local) = (Footprint::default(), LocalFootprint::default());
        for key in keys {
            distances.record(stack.reference(key));
            whole.reference(key);
            local.reference(key);
        }
        [distances.mrc(1), whole.mrc(), local.mrc()]
    }

    /// The largest and the mean error of all sizes up to `chunks_max`, in points.
    fn errors(found: &Mrc, exact: &Mrc, chunks_max: u64) -> (f64, f64) {
        let off = |chunks| (found.miss_ratio(chunks) - exact.miss_ratio(chunks)).abs() * 100.0;
        let errors: Vec<f64> = (0..=chunks_max).map(off).collect();
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        (errors.into_iter().fold(0.0, f64::max), mean)
    }

    #[test]
    fn drawn_keys() {
        for seed in 0..5 {
            let mut random = Random::new(seed);
            let keys = (0..200_000).map(|_| random.below(5_000).min(random.below(5_000)));
            let [exact, _, local] = curves(keys);
            let (largest, mean) = errors(&local, &exact, 5_100);
            assert!(largest < 1.0 && mean < 0.3, "seed {seed}: {largest}, {mean} in the mean");
        }
    }

    #[test]
    fn the_cliff_of_a_loop_is_exact() {
        for keys in [1, 2, 63, 100, 1_000, 12_345] {
            let [exact, _, local] = curves((0..keys * 4).map(|at| at % keys));
            for chunks in [0, 1, keys / 2, keys - 1, keys, keys + 1, 2 * keys] {
                let (found, expected) = (local.misses(chunks), exact.misses(chunks));
                assert_eq!(found, expected, "{keys} keys, {chunks} chunks");
            }
        }
    }

    #[test]
    fn bursts_are_told_from_what_comes_between() {
        for seed in 0..5 {
            let mut random = Random::new(seed);
            let mut keys = Vec::new();
            // A group of keys is read twice or three times; then a few keys are asked for again and again.
            while keys.len() < 300_000 {
                let (group, size) = (1_000 * (1 + random.below(50)), 400 + random.below(400));
                for _ in 0..2 + random.below(2) {
                    keys.extend((0..size).map(|at| group + at));
                }
                keys.extend((0..random.below(4_000)).map(|_| random.below(100)));
            }
            let [exact, whole, local] = curves(keys.into_iter());
            let (largest, mean) = errors(&local, &exact, 30_000);
            let (largest_of_whole, mean_of_whole) = errors(&whole, &exact, 30_000);
            let found = format!(
                "seed {seed}: {largest}, {mean} in the mean; by the whole stream \
                 {largest_of_whole}, {mean_of_whole}"
            );
            eprintln!("{found}");
            assert!(largest < 1.5 && mean < 0.5, "{found}");
            assert!(largest_of_whole > 5.0, "{found}");
        }
    }

    #[test]
    fn nothing_but_first_references_always_misses() {
        let [_, _, local] = curves(0..1_000);
        assert!([0, 1, 500, 5_000].iter().all(|&chunks| local.miss_ratio(chunks) == 1.0));
        assert_eq!(LocalFootprint::default().mrc(), Mrc::empty());
    }

    #[test]
    fn memory_does_not_follow_the_references() {
        let mut local = LocalFootprint::default();
        let mut random = Random::new(1);
        let steps = |local: &LocalFootprint| {
            let stretches = local.levels.iter().flat_map(|level| &level.stretches);
            stretches.map(|stretch| stretch.reuses.len()).sum::<usize>()
        };
        (0..100_000).for_each(|_| local.reference(random.below(1_000)));
        let before = steps(&local);
        (0..700_000).for_each(|_| local.reference(random.below(1_000)));
        // Three times twice as many.
        let most = before + 3 * STRETCHES_MAX * 1_500;
        assert!(steps(&local) < most, "{before} steps, then {}", steps(&local));
        assert!(local.distances.all_steps().len() < 1_500);
    }
}
