//! Reuse times of references in bounded memory, and the miss-ratio curve that follows from their footprint.
//!
//! The *footprint* fp(w) is the mean number of different keys in windows of w references. The reference at position j
//! of a window (the first position is 0) is the window's first reference to its key if its reuse time is greater than
//! j. So
//!
//! `fp(w) = sum over all positions j < w: share of the references with a reuse time > j`
//!
//! Only a reference that has at least j references before it can be at position j. So the share for the position j is
//! a share of these references. A first reference to a key has no reuse time; it counts with its *first interval*: the
//! number of references up to and including itself. Without this rule, first references would count as infinite reuse
//! times, and the footprint of long windows would be too large.
//!
//! A reference with the reuse time t misses in a cache of fewer than fp(t) chunks. Sources: P. J. Denning, S. C.
//! Schwartz, "Properties of the working-set model", CACM 1972, for the sum; X. Xiang, B. Bao, C. Ding, Y. Gao,
//! "Linear-time modeling of program working set in shared cache", PACT 2011, for first intervals; X. Xiang, C. Ding, H.
//! Luo, B. Bao, "HOTL", ASPLOS 2013, for the misses. PACT 2011 also uses the intervals from the last reference to each
//! key to the end, because there the mean is over whole windows only. They are not needed here: a window that the end
//! cuts off counts with its existing positions.

use crate::mrc::{Hits, Mrc};
use crate::steps::{edges, place};
use std::ops::Range;

/// The number of steps in an octave of times. Their width is at most 6 % of the time; the error of the reuse times of
/// a sample is about as large. Each step has its smallest and its largest time, so a step with a single time is exact.
const STEPS: usize = 16;
/// The times of a step are stretched at this number of places within the step.
const PARTS_OF_STEP: f64 = 4.0;
/// The maximum rounding error of a footprint, which is a sum of shares.
const ROUNDING: f64 = 1e-4;
/// Up to this number of positions, shares are added one by one. The integral that replaces longer sums has an error.
const POSITIONS_ADDED_MAX: u64 = 32;

/// The weights of references by time.
#[derive(Clone, Debug, Default)]
pub struct ReuseTimes {
    /// The octaves of [`steps`](crate::steps); `None` if no time was recorded in the octave.
    octaves: Vec<Option<Box<Octave>>>,
}

#[derive(Clone, Debug, Default)]
struct Octave {
    weights: [f64; STEPS],
    /// The smallest and the largest time of each step. They are stored as offsets from the first time of the step, in
    /// units of 1 / 65,536 of its width, or of 1 if the width is smaller. `None` if all times of every step may occur, as
    /// in a sample.
    ends: Option<Box<[(u16, u16); STEPS]>>,
}

/// The times of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    smallest: u64,
    largest: u64,
    weight: f64,
}

impl Step {
    /// Returns the weight of each time, if the times are spread evenly.
    fn weight_per_time(&self) -> f64 {
        self.weight / (self.largest - self.smallest + 1) as f64
    }
}

/// Returns the unit of the offsets in an octave, as a power of two.
fn unit_log2(octave: usize) -> usize {
    // The width of the octave's steps is 2^(octave - 1).
    octave.saturating_sub(17)
}

/// Returns the largest offset in a step of this octave.
fn offset_max(octave: usize) -> u16 {
    let (from, to) = edges::<STEPS>(octave, 0);
    ((to - from - 1) >> unit_log2(octave)) as u16
}

impl ReuseTimes {
    /// Adds references with this time: `weight` references. If the weight is above 1, the time is that of a sample, and
    /// the references are spread over all times of its step. So the curves of samples have fewer points.
    pub fn record(&mut self, time: u64, weight: f64) {
        let (octave, step) = place::<STEPS>(time);
        let offset = ((time - edges::<STEPS>(octave, step).0) >> unit_log2(octave)) as u16;
        let ends = if weight > 1.0 { (0, offset_max(octave)) } else { (offset, offset) };
        self.add_step(octave, step, weight, ends);
    }

    /// Adds all references of `other`.
    pub fn add(&mut self, other: &ReuseTimes) {
        for (octave, more) in other.octaves.iter().enumerate() {
            let Some(more) = more else { continue };
            for (step, &weight) in more.weights.iter().enumerate() {
                if weight > 0.0 {
                    self.add_step(octave, step, weight, more.ends_of(octave, step));
                }
            }
        }
    }

    /// Adds a share of the references of `other`, with their times multiplied by `stretch`. `share` returns the share of
    /// the references with a time.
    pub fn add_stretched(&mut self, other: &ReuseTimes, share: impl Fn(f64) -> f64, stretch: f64) {
        if stretch == 1.0 && other.steps().all(|step| share(step.smallest as f64) == 1.0) {
            return self.add(other);
        }
        for step in other.steps() {
            let width = (step.largest - step.smallest + 1) as f64;
            let parts = PARTS_OF_STEP.min(width);
            for part in 0..parts as u64 {
                let within = width * (part as f64 + 0.5) / parts;
                let time = step.smallest as f64 + within;
                let (stretched, weight) =
                    ((time * stretch) as u64, step.weight * share(time) / parts);
                if weight > 0.0 {
                    self.record(stretched.max(1), weight);
                }
            }
        }
    }

    fn add_step(&mut self, number: usize, step: usize, weight: f64, (from, to): (u16, u16)) {
        if number >= self.octaves.len() {
            self.octaves.reserve_exact(number + 1 - self.octaves.len());
            self.octaves.resize_with(number + 1, || None);
        }
        let octave = self.octaves[number].get_or_insert_default();
        let all = (0, offset_max(number));
        if octave.ends.is_some() || (from, to) != all {
            let ends = octave.ends.get_or_insert_with(|| Box::new([all; STEPS]));
            let ends = &mut ends[step];
            let is_first = octave.weights[step] == 0.0;
            *ends = if is_first { (from, to) } else { (ends.0.min(from), ends.1.max(to)) };
        }
        octave.weights[step] += weight;
    }

    /// Returns the first time of each step in ascending order, and the share of all references that have a smaller time
    /// or a time in the first half of the step.
    pub fn ranks(&self) -> Vec<(u64, f64)> {
        let (all, mut before) = (self.weight(), 0.0);
        let rank = |step: Step| {
            before += step.weight;
            (step.smallest, (before - step.weight / 2.0) / all)
        };
        self.steps().map(rank).collect()
    }

    /// Returns the weight of all references.
    fn weight(&self) -> f64 {
        self.octaves.iter().flatten().flat_map(|octave| &octave.weights).sum()
    }

    /// Returns all steps with references, in ascending order.
    fn steps(&self) -> impl Iterator<Item = Step> {
        let octaves = self.octaves.iter().enumerate();
        let octaves = octaves.filter_map(|(number, octave)| Some((number, octave.as_ref()?)));
        let steps = octaves.flat_map(|(number, octave)| {
            octave.weights.iter().enumerate().map(move |(index, &weight)| {
                let (from, to) = octave.ends_of(number, index);
                let first = edges::<STEPS>(number, index).0;
                let time = |offset| first + (offset << unit_log2(number));
                // The unit of the largest time is included, so that there is no gap between full steps.
                let (smallest, largest) = (time(u64::from(from)), time(u64::from(to) + 1) - 1);
                Step { smallest, largest, weight }
            })
        });
        steps.filter(|step| step.weight > 0.0)
    }

    pub fn size_bytes(&self) -> usize {
        let of_octave = |octave: &Octave| {
            size_of::<Octave>() + octave.ends.as_ref().map_or(0, |ends| size_of_val(&**ends))
        };
        let octaves: usize = self.octaves.iter().flatten().map(|octave| of_octave(octave)).sum();
        self.octaves.capacity() * size_of::<Option<Box<Octave>>>() + octaves
    }
}

impl Octave {
    /// Returns the ends of a step. `number` is the number of the octave.
    fn ends_of(&self, number: usize, step: usize) -> (u16, u16) {
        self.ends.as_ref().map_or((0, offset_max(number)), |ends| ends[step])
    }
}

/// Returns the curve of references with these reuse times and first intervals. `clock` has the number of references
/// before the first of them, and the number up to the last.
pub fn curve(reuses: &ReuseTimes, firsts: &ReuseTimes, clock: Range<f64>) -> Mrc {
    let footprint = Footprint::of(reuses, firsts, clock);
    let chunks_for = |time| ((footprint.keys(time) - ROUNDING).ceil() as u64).max(1);
    let hits = reuses.steps().map(|Step { smallest, largest, weight }| Hits {
        count: weight,
        chunks_first: chunks_for(smallest),
        chunks_last: chunks_for(largest),
    });
    Mrc::of_hits(reuses.weight() + firsts.weight(), hits)
}

/// The footprint at the ends of all steps of reuse times.
struct Footprint {
    /// Lengths of windows in ascending order, each with its footprint.
    points: Vec<(u64, f64)>,
}

impl Footprint {
    fn of(reuses: &ReuseTimes, firsts: &ReuseTimes, clock: Range<f64>) -> Footprint {
        // At each of these times, the number of references per time changes by the second value.
        let mut changes = vec![(clock.start as u64, 0.0)];
        for step in reuses.steps().chain(firsts.steps()) {
            let weight = step.weight_per_time();
            let after = step.largest + 1;
            changes.extend([(step.smallest, weight), (step.largest, 0.0), (after, -weight)]);
        }
        changes.sort_unstable_by_key(|&(time, _)| time);
        let (mut position, mut keys, mut per_time) = (0, 0.0, 0.0f64);
        let mut longer = reuses.weight() + firsts.weight();
        let mut points = Vec::with_capacity(changes.len());
        for (time, change) in changes {
            if time > position {
                let positions = Positions { first: position, longer, per_time, clock: &clock };
                keys += positions.keys(time - position);
                longer = (longer - per_time * (time - position) as f64).max(0.0);
                position = time;
                points.push((time, keys));
            }
            per_time = (per_time + change).max(0.0);
        }
        Footprint { points }
    }

    /// Returns the footprint of a window of this length, which is an end of a step.
    fn keys(&self, window: u64) -> f64 {
        let index = self.points.partition_point(|&(time, _)| time < window);
        self.points.get(index).or(self.points.last()).map_or(0.0, |&(_, keys)| keys)
    }
}

/// Consecutive positions of a window. From each position to the next, the same number of reuse times ends.
struct Positions<'c> {
    first: u64,
    /// The number of references whose time is at least `first`.
    longer: f64,
    /// The number of references with each time.
    per_time: f64,
    clock: &'c Range<f64>,
}

impl Positions<'_> {
    /// Returns the sum of the shares of the next `count` positions. If some of the references can be at the first of
    /// these positions, but not at the last, the first is not below `clock.start`.
    fn keys(&self, count: u64) -> f64 {
        let Positions { first, longer, per_time, clock } = self;
        let (first, length) = (*first as f64, count as f64);
        let longer_at = |index: f64| (longer - per_time * (index + 1.0)).max(0.0);
        if first + length <= clock.start {
            // All references can be at these positions.
            let all = clock.end - clock.start;
            return (length * longer - per_time * length * (length + 1.0) / 2.0) / all;
        }
        // The references with at least j references before them, for the position j.
        let possible = |index: f64| clock.end - first - index;
        // No reference can be at a later position.
        let count = count.min(possible(0.0).max(0.0) as u64);
        let length = count as f64;
        if count <= POSITIONS_ADDED_MAX {
            let indexes = (0..count).map(|index| index as f64);
            return indexes.map(|index| longer_at(index) / possible(index)).sum();
        }
        // The integral of (a - per_time x) / (b - x), from x = 0 to the number of positions. Each position is the
        // middle of an interval of length 1.
        let (a, b) = (longer - per_time / 2.0, possible(-0.5));
        per_time * length + (a - per_time * b) * (b / (b - length)).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::{ReuseTimes, curve};
    use crate::key_map::KeyMap;
    use crate::{Distances, Mrc, StackDistances};
    use slabwise_base::Random;

    /// Returns the curve of all references of a stream, and the exact curve.
    fn curves(keys: &[u64]) -> [Mrc; 2] {
        let (mut reuses, mut firsts) = (ReuseTimes::default(), ReuseTimes::default());
        let (mut stack, mut distances) = (StackDistances::default(), Distances::default());
        let mut used_at: KeyMap<u64> = KeyMap::default();
        for (time, &key) in (1..).zip(keys) {
            match used_at.insert(key, time) {
                Some(last) => reuses.record(time - last, 1.0),
                None => firsts.record(time, 1.0),
            }
            distances.record(stack.reference(key));
        }
        [curve(&reuses, &firsts, 0.0..keys.len() as f64), distances.mrc(1)]
    }

    #[test]
    fn the_curve_of_a_short_stream_of_random_keys_is_nearly_exact() {
        for seed in 0..10 {
            let mut random = Random::new(seed);
            // Half of all keys occur only once or twice, so first intervals have a large effect.
            let keys: Vec<u64> =
                (0..40_000).map(|_| random.below(40_000).min(random.below(40_000))).collect();
            let [found, exact] = curves(&keys);
            let off = |chunks| (found.miss_ratio(chunks) - exact.miss_ratio(chunks)).abs();
            let off = (0..40_000).step_by(50).map(off).fold(0.0, f64::max);
            assert!(off < 0.001, "seed {seed}: the miss ratio is wrong by up to {off}");
        }
    }

    #[test]
    fn the_curve_of_a_loop_is_exact() {
        for length in [1, 2, 3, 31, 100, 5_000, 77_777] {
            let keys: Vec<u64> = (0..3 * length + length / 2).map(|at| at % length).collect();
            let [found, exact] = curves(&keys);
            for chunks in [0, 1, length / 2, length - 1, length, length + 1] {
                let (found, exact) = (found.misses(chunks), exact.misses(chunks));
                assert_eq!(found, exact, "a loop of {length} keys, {chunks} chunks");
            }
        }
    }

    #[test]
    fn added_steps_have_the_sum_of_the_weights_and_the_ends_of_both() {
        for seed in 0..10 {
            let mut random = Random::new(seed);
            let (mut one, mut other) = (ReuseTimes::default(), ReuseTimes::default());
            let mut all = ReuseTimes::default();
            for _ in 0..1_000 {
                let bound = 2 << random.below(40);
                let time = 1 + random.below(bound);
                // A weight above 1 is that of a sample.
                let weight = [0.5, 2.0][random.below(2) as usize];
                if random.below(2) == 0 { &mut one } else { &mut other }.record(time, weight);
                all.record(time, weight);
            }
            one.add(&other);
            assert!(one.steps().eq(all.steps()), "seed {seed}: {one:?}, not {all:?}");
            assert_eq!(one.weight(), all.weight(), "seed {seed}");
            let is_ordered = |step: super::Step| step.smallest <= step.largest;
            assert!(one.steps().all(is_ordered), "seed {seed}: {one:?}");
        }
    }
}
