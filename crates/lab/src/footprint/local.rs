//! Computes the curve of an LRU from the footprints of nearby windows, in one pass, for streams with bursts.
//!
//! A [`Footprint`](super::Footprint) assumes that all windows of one length are alike. But a reuse in a burst spans more
//! keys than one outside. If a few hundred keys are read twice in a row, each of these reuses spans all of them, while
//! the mean window of this length has half as many keys. So this estimate uses the windows that end near the reuse.
//!
//! ```text
//!            segment 2  |  segment 1  |  segment 0        the windows of t references that end in segment 0, and
//!              '-----------------------------'            the middle one of them
//!              0 .. a         a .. b       b .. t         the positions j of the window in each segment
//! ```
//!
//! The reference at position j of a window adds a key if its gap is longer than j, because then it is the window's first
//! to its key. The probability of this is estimated by the segment's fraction of such references. For the middle window,
//!
//! `keys = sum over segments, and positions j in them, of the segment's fraction of gaps > j`, where the gap of a first
//! reference is infinite.
//!
//! Shorter segments are closer to the window, but have fewer references to estimate a fraction from. So there are
//! segments of every length, each length twice the next shorter one, and a window crosses 4 to 8 of the segments that
//! are used for it: those of one length are used for the gaps of one octave. With one segment as long as the stream,
//! this is the average footprint.
//!
//! Sources: P. J. Denning, S. C. Schwartz, "Properties of the working-set model", CACM 1972, for the mean over
//! a whole stream: `fp(w + 1) - fp(w) = fraction of gaps > w`; X. Hu and others, "Fast miss ratio curve modeling for
//! storage cache", ACM TOS 2018 (AET, first at ATC 2016), for a curve from gaps alone.
//!
//! Gaps are counted in [steps](slabwise_profile::steps) of less than 1 %. So memory is bounded except for the keys: each
//! doubling of the number of references adds at most a few tens of thousands of steps.

use super::whole::{Gaps, index_of};
use slabwise_profile::{Hits, KeyMap, Mrc};
use std::collections::VecDeque;

/// References of the shortest segments; a power of two, so that all gaps of a step use segments of one length.
const LENGTH_FIRST: usize = 64;
/// The smallest gap that uses segments of a length, in multiples of the length. Gaps of twice that use the next length;
/// the shortest segments are used for all smaller gaps.
const GAP_LENGTHS: u64 = 4;
/// The largest number of segments that a window crosses.
const SEGMENTS_MAX: usize = 2 * GAP_LENGTHS as usize + 1;
/// The largest rounding error of a computed sum of fractions.
const ROUNDING: f64 = 1e-6;

#[derive(Clone, Debug, Default)]
pub struct LocalFootprint {
    /// The time of each key's last reference.
    last: KeyMap<u64>,
    time: u64,
    /// The gaps of the references in the segment that is not yet complete.
    gaps: Vec<Option<u64>>,
    /// One level for each length of segments, the shortest first.
    levels: Vec<Level>,
    distances: Gaps,
}

#[derive(Clone, Debug, Default)]
struct Level {
    /// The most recent segments, the newest first.
    segments: VecDeque<Segment>,
    /// True if the newest segment is not yet part of a longer one.
    is_unpaired: bool,
}

#[derive(Clone, Debug, Default)]
struct Segment {
    references: f64,
    /// References that reuse a key, by ascending gap.
    reuses: Vec<Reuses>,
}

#[derive(Clone, Copy, Debug)]
struct Reuses {
    gap: f64,
    count: f64,
    /// The number of references with longer gaps, including first references.
    longer: f64,
    /// The sum of the fractions of gaps > j, for j up to `gap`.
    keys: f64,
}

impl LocalFootprint {
    pub fn reference(&mut self, key: u64) {
        self.time += 1;
        let last = self.last.insert(key, self.time);
        self.gaps.push(last.map(|last| self.time - last));
        if self.gaps.len() == LENGTH_FIRST {
            let gaps = std::mem::take(&mut self.gaps);
            self.complete(0, Segment::of(gaps));
        }
    }

    pub fn mrc(&self) -> Mrc {
        let mut ended = self.clone();
        ended.complete_all();
        let hits = ended.distances.steps().map(|step| Hits {
            count: step.count as f64,
            chunks_first: step.least + 1,
            chunks_last: step.most + 1,
        });
        Mrc::of_hits(self.time as f64, hits)
    }

    /// Adds a complete segment, and the longer segments that it completes.
    fn complete(&mut self, mut level: usize, mut segment: Segment) {
        while let Some(longer) = self.add(level, segment) {
            (level, segment) = (level + 1, longer);
        }
    }

    /// Adds the incomplete segments as if they were complete.
    fn complete_all(&mut self) {
        let mut rest = Segment::of(std::mem::take(&mut self.gaps));
        for level in 0..self.levels.len().max(1) {
            rest = self.add(level, rest.clone()).unwrap_or(rest);
        }
    }

    /// Adds a segment and records the distances of its gaps. Returns the longer segment that it completes, if any.
    fn add(&mut self, number: usize, segment: Segment) -> Option<Segment> {
        if number == self.levels.len() {
            self.levels.push(Level::default());
        }
        let level = &mut self.levels[number];
        level.segments.push_front(segment);
        level.segments.truncate(SEGMENTS_MAX);
        let gap_min = GAP_LENGTHS * (LENGTH_FIRST << number) as u64;
        let gaps = if number == 0 { 1..2 * gap_min } else { gap_min..2 * gap_min };
        for &Reuses { gap, count, .. } in &level.segments[0].reuses {
            if gaps.contains(&(gap as u64)) {
                // The window includes the reused key.
                let keys = level.keys_of_window(gap);
                self.distances.record((keys - ROUNDING).ceil() as u64 - 1, count as u64);
            }
        }
        level.is_unpaired = !level.is_unpaired;
        (!level.is_unpaired).then(|| Segment::joined(&level.segments[1], &level.segments[0]))
    }
}

impl Level {
    /// The keys of the middle window of this length that ends in the newest segment. References before the oldest
    /// segment are assumed to be like those in it.
    fn keys_of_window(&self, window: f64) -> f64 {
        let (mut begin, mut keys) = (window, 0.0);
        for (age, segment) in self.segments.iter().enumerate() {
            let end = begin;
            begin -= if age == 0 { segment.references / 2.0 } else { segment.references };
            if begin <= 0.0 || age + 1 == self.segments.len() {
                return keys + segment.keys(end);
            }
            keys += segment.keys(end) - segment.keys(begin);
        }
        keys
    }
}

impl Segment {
    /// A segment of references with these gaps; `None` is a first reference.
    fn of(gaps: Vec<Option<u64>>) -> Segment {
        let references = gaps.len();
        let mut gaps: Vec<u64> = gaps.into_iter().flatten().collect();
        gaps.sort_unstable();
        let steps = gaps.chunk_by(|a, b| index_of(*a) == index_of(*b));
        let sums = steps.map(|step| (step.iter().sum::<u64>() as f64, step.len() as f64));
        Segment::new(references as f64, sums)
    }

    fn joined(one: &Segment, other: &Segment) -> Segment {
        let mut reuses: Vec<Reuses> = [&one.reuses[..], &other.reuses[..]].concat();
        reuses.sort_by(|a, b| a.gap.total_cmp(&b.gap));
        let steps = reuses.chunk_by(|a, b| index_of(a.gap as u64) == index_of(b.gap as u64));
        let sum = |step: &[Reuses]| {
            let sum = step.iter().map(|reuses| reuses.gap * reuses.count).sum();
            (sum, step.iter().map(|reuses| reuses.count).sum())
        };
        Segment::new(one.references + other.references, steps.map(sum))
    }

    /// A segment from the sum and the count of the gaps in each step.
    fn new(references: f64, steps: impl Iterator<Item = (f64, f64)>) -> Segment {
        let (mut window, mut keys, mut longer) = (0.0, 0.0, references);
        let reuses = steps.map(|(sum, count)| {
            let gap = sum / count;
            keys += (gap - window) * longer / references;
            (window, longer) = (gap, longer - count);
            Reuses { gap, count, longer, keys }
        });
        Segment { references, reuses: reuses.collect() }
    }

    /// The sum of the fractions of gaps > j, for j up to the length of the window.
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
    use super::{LocalFootprint, SEGMENTS_MAX};
    use crate::footprint::Footprint;
    use slabwise_base::Random;
    use slabwise_profile::{Distances, Mrc, StackDistances};

    /// The exact curve, and those of the footprint and the local footprint.
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

    /// The largest and the mean error over all sizes up to `chunks_max`, in percentage points.
    fn errors(found: &Mrc, exact: &Mrc, chunks_max: u64) -> (f64, f64) {
        let off = |chunks| (found.miss_ratio(chunks) - exact.miss_ratio(chunks)).abs() * 100.0;
        let errors: Vec<f64> = (0..=chunks_max).map(off).collect();
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        (errors.into_iter().fold(0.0, f64::max), mean)
    }

    #[test]
    fn random_keys_have_a_small_error() {
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
    fn bursts_have_a_smaller_error_than_by_the_footprint() {
        for seed in 0..5 {
            let mut random = Random::new(seed);
            let mut keys = Vec::new();
            // A group of keys is read two or three times; then a few keys are requested repeatedly.
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
    fn first_references_always_miss() {
        let [_, _, local] = curves(0..1_000);
        assert!([0, 1, 500, 5_000].iter().all(|&chunks| local.miss_ratio(chunks) == 1.0));
        assert_eq!(LocalFootprint::default().mrc(), Mrc::empty());
    }

    #[test]
    fn memory_does_not_grow_with_the_references() {
        let mut local = LocalFootprint::default();
        let mut random = Random::new(1);
        let steps = |local: &LocalFootprint| {
            let segments = local.levels.iter().flat_map(|level| &level.segments);
            segments.map(|segment| segment.reuses.len()).sum::<usize>()
        };
        (0..100_000).for_each(|_| local.reference(random.below(1_000)));
        let before = steps(&local);
        (0..700_000).for_each(|_| local.reference(random.below(1_000)));
        // The number of references has doubled three times.
        let most = before + 3 * SEGMENTS_MAX * 1_500;
        assert!(steps(&local) < most, "{before} steps, then {}", steps(&local));
        assert!(local.distances.all_steps().len() < 1_500);
    }
}
