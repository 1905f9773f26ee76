//! Computes the miss-ratio curve of an LRU from the footprints of parts of the stream, in one pass. The curve is
//! accurate also for streams with bursts.
//!
//! A [`Footprint`](super::Footprint) assumes that all windows of one length have the same number of different keys. In
//! a burst they have more: if a few hundred keys are read twice in a row, the window between two references to one of
//! these keys contains all of the keys, while an average window of the same length contains half of this number. So a
//! [`LocalFootprint`] divides the stream into *segments*, and uses only windows that end near the repeated reference.
//!
//! ```text
//!            segment 2  |  segment 1  |  segment 0
//!              '-----------------------------'           a window of t references that ends in the middle of segment 0
//!              0 .. a         a .. b       b .. t         positions j of the window's references in each segment
//! ```
//!
//! The reference at position j of a window is the window's first reference to its key if the reuse time of the
//! reference is greater than j. The fraction of the segment's references with a reuse time greater than j estimates the
//! probability of this event. A first reference to a key has an infinite reuse time. So the window has about
//!
//! `keys = sum over all positions j of the window: fraction of reuse times > j in the segment of position j`
//!
//! different keys. Short segments describe the references near the window better, but their fractions are less precise.
//! So there are several levels of segments. Each level has segments of twice the length of the level below, and is used
//! for the reuse times of one octave. A window extends over 4 to 8 segments of its level. If there were only one
//! segment, as long as the stream, the estimate would be the footprint of the whole stream.
//!
//! Sources: P. J. Denning, S. C. Schwartz, "Properties of the working-set model", CACM 1972, which proves for a whole
//! stream that `fp(w + 1) - fp(w) = fraction of reuse times > w`; X. Hu and others, "Fast miss ratio curve modeling for
//! storage cache", ACM TOS 2018 (AET, first at ATC 2016), which computes a curve from reuse times only.
//!
//! Each segment counts reuse times in [steps](slabwise_profile::steps) whose width is less than 1 % of their numbers.
//! So the memory is bounded, except for the table of keys: if the number of references doubles, at most a few tens of
//! thousands of steps are added.

use super::whole::{Histogram, step_index};
use slabwise_profile::{Hits, KeyMap, Mrc};
use std::collections::VecDeque;

/// Number of references in a segment of the first level. The number is a power of two, so all reuse times of a step
/// belong to the same level.
const SEGMENT_REFERENCES: usize = 64;
/// A level is used for reuse times from this number of segments to twice this number. The first level is also used for
/// shorter reuse times.
const WINDOW_SEGMENTS_MIN: u64 = 4;
/// The largest number of segments, including partly covered segments, over which a window extends.
const SEGMENTS_MAX: usize = 2 * WINDOW_SEGMENTS_MIN as usize + 1;
/// Upper limit of the rounding error of a computed sum of fractions.
const ROUNDING_ERROR_MAX: f64 = 1e-6;

/// The segments of a stream, and the estimated stack distances of all complete segments.
#[derive(Clone, Debug, Default)]
pub struct LocalFootprint {
    /// The time of each key's last reference. The first reference of the stream has the time 1.
    last_references: KeyMap<u64>,
    /// The number of references so far.
    time: u64,
    /// The reuse times of the references since the last complete segment. `None` is a first reference to a key.
    reuse_times: Vec<Option<u64>>,
    /// The levels, from the shortest segments to the longest.
    levels: Vec<Level>,
    /// Estimated stack distances of the repeated references.
    distances: Histogram,
}

/// The segments of one length.
#[derive(Clone, Debug, Default)]
struct Level {
    /// The most recent segments, the newest first.
    segments: VecDeque<Segment>,
    /// True if the newest segment is not yet joined with a second segment to a segment of the next level.
    is_unpaired: bool,
}

/// The reuse times of consecutive references.
#[derive(Clone, Debug, Default)]
struct Segment {
    /// Number of references, including first references.
    references: f64,
    /// Repeated references by ascending reuse time, grouped by step.
    reuses: Vec<Reuses>,
}

/// The repeated references of a segment whose reuse times are in one step.
#[derive(Clone, Copy, Debug)]
struct Reuses {
    /// Mean of the reuse times.
    reuse_time: f64,
    /// Number of references.
    count: f64,
    /// The number of references of the segment with longer reuse times, including first references.
    longer: f64,
    /// Number of different keys in a window of `reuse_time` references, if all references of the window are distributed
    /// as in this segment.
    keys: f64,
}

impl LocalFootprint {
    pub fn reference(&mut self, key: u64) {
        self.time += 1;
        let last = self.last_references.insert(key, self.time);
        self.reuse_times.push(last.map(|last| self.time - last));
        if self.reuse_times.len() == SEGMENT_REFERENCES {
            let reuse_times = std::mem::take(&mut self.reuse_times);
            self.add_with_joined(0, Segment::of(reuse_times));
        }
    }

    /// Returns the miss-ratio curve of an LRU for all references so far.
    pub fn mrc(&self) -> Mrc {
        let mut ended = self.clone();
        ended.add_incomplete_segments();
        let hits = ended.distances.used_steps().map(|step| Hits {
            count: step.count as f64,
            chunks_first: step.smallest + 1,
            chunks_last: step.largest + 1,
        });
        Mrc::of_hits(self.time as f64, hits)
    }

    /// Adds a segment to a level, and also adds the joined segments that become complete in the levels above.
    fn add_with_joined(&mut self, mut level: usize, mut segment: Segment) {
        while let Some(joined) = self.add(level, segment) {
            (level, segment) = (level + 1, joined);
        }
    }

    /// Adds the incomplete segment of each level, at the end of the stream.
    fn add_incomplete_segments(&mut self) {
        let mut rest = Segment::of(std::mem::take(&mut self.reuse_times));
        for level in 0..self.levels.len().max(1) {
            rest = self.add(level, rest.clone()).unwrap_or(rest);
        }
    }

    /// Adds a segment to the level with this number, and records the stack distances of the reuse times for which the
    /// level is used. If two segments of the level form a segment of the next level, returns that segment.
    fn add(&mut self, number: usize, segment: Segment) -> Option<Segment> {
        if number == self.levels.len() {
            self.levels.push(Level::default());
        }
        let level = &mut self.levels[number];
        level.segments.push_front(segment);
        level.segments.truncate(SEGMENTS_MAX);
        let window_min = WINDOW_SEGMENTS_MIN * (SEGMENT_REFERENCES << number) as u64;
        let windows = if number == 0 { 1..2 * window_min } else { window_min..2 * window_min };
        for &Reuses { reuse_time, count, .. } in &level.segments[0].reuses {
            if windows.contains(&(reuse_time as u64)) {
                let keys = level.keys_of_window(reuse_time);
                // The stack distance does not count the referenced key, which is one of the keys of the window.
                let distance = (keys - ROUNDING_ERROR_MAX).ceil() as u64 - 1;
                self.distances.record(distance, count as u64);
            }
        }
        level.is_unpaired = !level.is_unpaired;
        (!level.is_unpaired).then(|| Segment::joined(&level.segments[1], &level.segments[0]))
    }
}

impl Level {
    /// Estimates the number of different keys in the window of `window` references that ends in the middle of the
    /// newest segment. The oldest stored segment also represents all references before it.
    fn keys_of_window(&self, window: f64) -> f64 {
        let (mut begin, mut keys) = (window, 0.0);
        for (age, segment) in self.segments.iter().enumerate() {
            let end = begin;
            begin -= if age == 0 { segment.references / 2.0 } else { segment.references };
            if begin <= 0.0 || age + 1 == self.segments.len() {
                return keys + segment.keys_before(end);
            }
            keys += segment.keys_before(end) - segment.keys_before(begin);
        }
        keys
    }
}

impl Segment {
    /// Creates a segment of references with these reuse times. `None` is a first reference to a key.
    fn of(reuse_times: Vec<Option<u64>>) -> Segment {
        let references = reuse_times.len();
        let mut reuse_times: Vec<u64> = reuse_times.into_iter().flatten().collect();
        reuse_times.sort_unstable();
        let steps = reuse_times.chunk_by(|a, b| step_index(*a) == step_index(*b));
        let sums = steps.map(|step| (step.iter().sum::<u64>() as f64, step.len() as f64));
        Segment::new(references as f64, sums)
    }

    /// Joins two consecutive segments.
    fn joined(first: &Segment, second: &Segment) -> Segment {
        let mut reuses: Vec<Reuses> = [&first.reuses[..], &second.reuses[..]].concat();
        reuses.sort_by(|a, b| a.reuse_time.total_cmp(&b.reuse_time));
        let step_of = |reuses: &Reuses| step_index(reuses.reuse_time as u64);
        let steps = reuses.chunk_by(|a, b| step_of(a) == step_of(b));
        let sum = |step: &[Reuses]| {
            let sum = step.iter().map(|reuses| reuses.reuse_time * reuses.count).sum();
            (sum, step.iter().map(|reuses| reuses.count).sum())
        };
        Segment::new(first.references + second.references, steps.map(sum))
    }

    /// Creates a segment of `references` references. `steps` has the sum and the number of the reuse times in each
    /// step.
    fn new(references: f64, steps: impl Iterator<Item = (f64, f64)>) -> Segment {
        let (mut position, mut keys, mut longer) = (0.0, 0.0, references);
        let reuses = steps.map(|(sum, count)| {
            let reuse_time = sum / count;
            keys += (reuse_time - position) * longer / references;
            (position, longer) = (reuse_time, longer - count);
            Reuses { reuse_time, count, longer, keys }
        });
        Segment { references, reuses: reuses.collect() }
    }

    /// Returns the sum of the fractions of reuse times > j over all positions j below `end`. This is the number of
    /// different keys in a window of `end` references, if all references of the window are distributed as in this
    /// segment.
    fn keys_before(&self, end: f64) -> f64 {
        let shorter = self.reuses.partition_point(|reuses| reuses.reuse_time < end);
        let (from, keys, longer) = match shorter.checked_sub(1).map(|last| self.reuses[last]) {
            Some(Reuses { reuse_time, longer, keys, .. }) => (reuse_time, keys, longer),
            None => (0.0, 0.0, self.references),
        };
        keys + (end - from) * longer / self.references
    }
}

#[cfg(test)]
mod tests {
    use super::{LocalFootprint, SEGMENTS_MAX};
    use crate::footprint::Footprint;
    use slabwise_base::Random;
    use slabwise_profile::{Distances, Mrc, StackDistances};

    /// Returns the exact curve, the curve of the footprint, and the curve of the local footprint, in this order.
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

    /// Returns the largest and the mean error of the miss ratio over all sizes up to `chunks_max`, in percentage
    /// points.
    fn errors(found: &Mrc, exact: &Mrc, chunks_max: u64) -> (f64, f64) {
        let error = |chunks| (found.miss_ratio(chunks) - exact.miss_ratio(chunks)).abs() * 100.0;
        let errors: Vec<f64> = (0..=chunks_max).map(error).collect();
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        (errors.into_iter().fold(0.0, f64::max), mean)
    }

    #[test]
    fn the_error_is_small_for_random_keys() {
        for seed in 0..5 {
            let mut random = Random::new(seed);
            let keys = (0..200_000).map(|_| random.below(5_000).min(random.below(5_000)));
            let [exact, _, local] = curves(keys);
            let (largest, mean) = errors(&local, &exact, 5_100);
            let errors = format!("largest error {largest}, mean error {mean} percentage points");
            assert!(largest < 1.0 && mean < 0.3, "seed {seed}: {errors}");
        }
    }

    #[test]
    fn the_curve_of_a_loop_is_exact_around_its_cliff() {
        for keys in [1, 2, 63, 100, 1_000, 12_345] {
            let [exact, _, local] = curves((0..keys * 4).map(|at| at % keys));
            for chunks in [0, 1, keys / 2, keys - 1, keys, keys + 1, 2 * keys] {
                let (found, expected) = (local.misses(chunks), exact.misses(chunks));
                assert_eq!(found, expected, "{keys} keys, {chunks} chunks");
            }
        }
    }

    #[test]
    fn for_bursts_the_error_is_smaller_than_the_error_of_the_footprint() {
        for seed in 0..5 {
            let mut random = Random::new(seed);
            let mut keys = Vec::new();
            // A burst reads a group of keys two or three times. Between bursts 100 keys are requested in random order.
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
            let errors = format!(
                "seed {seed}, errors in percentage points: local footprint: largest {largest}, mean {mean}; \
                 footprint: largest {largest_of_whole}, mean {mean_of_whole}"
            );
            eprintln!("{errors}");
            assert!(largest < 1.5 && mean < 0.5, "{errors}");
            assert!(largest_of_whole > 5.0, "{errors}");
        }
    }

    #[test]
    fn first_references_always_miss() {
        let [_, _, local] = curves(0..1_000);
        assert!([0, 1, 500, 5_000].iter().all(|&chunks| local.miss_ratio(chunks) == 1.0));
        assert_eq!(LocalFootprint::default().mrc(), Mrc::empty());
    }

    #[test]
    fn the_number_of_steps_is_bounded() {
        let mut local = LocalFootprint::default();
        let mut random = Random::new(1);
        let steps = |local: &LocalFootprint| {
            let segments = local.levels.iter().flat_map(|level| &level.segments);
            segments.map(|segment| segment.reuses.len()).sum::<usize>()
        };
        (0..100_000).for_each(|_| local.reference(random.below(1_000)));
        let before = steps(&local);
        (0..700_000).for_each(|_| local.reference(random.below(1_000)));
        // The number of references has doubled three times, so there are at most three more levels. A segment has at
        // most 1,500 steps.
        let limit = before + 3 * SEGMENTS_MAX * 1_500;
        let after = steps(&local);
        assert!(after < limit, "{before} steps before, {after} steps now, below {limit}");
        assert!(local.distances.all_steps().len() < 1_500);
    }
}
