//! What the windows reveal about each class: distances, hits and misses. The counters of the server calibrate the curves.
//!
//! ```text
//!   windows --> distances of each class --> MeasuredCurve --.
//!           \-> misses of each class                        +--> ClassCurve
//!   counters of the server: hits of each class, misses -----'
//! ```
//!
//! *Calibration.* The server counts the hits of each class, and the misses of all classes together. The misses are
//! divided between the classes as the misses in the windows; those of keys that no store followed belong to no class. The
//! result is the miss ratio of the class with its present
//! chunks. The estimated curve is adjusted so that it has this miss ratio there: below the present size, all hits are
//! multiplied by one factor; above it, all misses by another. So the estimate determines the shape of the curve, and the
//! counters its height. The factors also correct for lines that the server dropped, and for the difference between
//! memcached's queues and an LRU.
//!
//! *Groups.* The hash of a key puts it into one of [`GROUPS`] groups of about equal size. The curves without the keys of one
//! group differ from those of all keys as much as chance explains, so a caller can compute the error of any quantity with
//! the delete-a-group jackknife (B. Efron, C. Stein, "The Jackknife Estimate of Variance", Annals of Statistics 9, 1981).
//!
//! *Ageing.* At the start of a window, all weights are multiplied by a factor, so the curves follow the traffic.
//!
//! Invariant: weights are not negative.

use super::recording::Recording;
use slabwise_base::size_histogram::SizeHistogram;
use slabwise_profile::{CensoredDistances, MeasuredCurve, Mrc, Point};
use std::collections::BTreeMap;

/// The smallest measured range whose last octave predicts the next one. A smaller octave has too few distances.
const CONTINUED_CHUNKS_MIN: u64 = 16;

/// The distance of a reference, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// The number of other keys of the class since the last reference to the key.
    Exact(u64),
    /// The key was not referenced in the window before, and the window had seen this number of keys of the class.
    AtLeast(u64),
    /// The reference misses at every size, because the item was deleted or had expired.
    Infinite,
}

/// The result of a get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Result {
    /// The get found an item.
    Hit,
    /// The get found no item.
    Miss,
}

/// A reference to a key by a get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The result of the get.
    pub result: Result,
    /// The distance in the class.
    pub distance: Distance,
}

/// The miss-ratio curve of a class.
#[derive(Clone, Debug)]
pub struct ClassCurve {
    /// The number of the class in memcached's commands.
    pub class_number: u8,
    /// The curve, in chunks. At 0 chunks its misses are the gets of the class that the server counted, of which those
    /// before a window count less. At `chunks` its misses are those that the server counted.
    pub curve: Mrc,
    /// The number of references whose distances determine the curve. Older ones count less.
    pub references: f64,
    /// The size up to which the curve was measured, in chunks. If it is below `chunks`, the curve is linear between the
    /// two. If it is from half to twice `chunks`, the curve continues for one octave as in the last measured octave.
    /// Beyond that it is level.
    pub range_chunks: u64,
    /// The present size: the number of items in the class.
    pub chunks: u64,
}

/// The hits and misses of a class, and its present size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Present {
    /// The number of items in the class.
    pub chunks: u64,
    /// The weight of hits that the server counted.
    pub hits: f64,
    /// The weight of misses that the server counted.
    pub misses: f64,
}

/// The number of groups of keys.
pub const GROUPS: usize = 8;

/// The estimates of all classes.
#[derive(Debug, Default)]
pub struct Estimates {
    groups: [Group; GROUPS],
    sizes: SizeHistogram,
    grain: u64,
    /// The accesses, if they are recorded.
    pub recording: Recording,
}

/// The estimates from the keys of one group.
#[derive(Debug, Default)]
struct Group {
    classes: BTreeMap<u8, ClassEstimate>,
    unknown_misses: f64,
}

#[derive(Clone, Debug, Default)]
struct ClassEstimate {
    distances: CensoredDistances,
    hits: f64,
    misses: f64,
}

impl ClassEstimate {
    fn add(&mut self, other: &ClassEstimate) {
        self.distances.add(&other.distances);
        self.hits += other.hits;
        self.misses += other.misses;
    }
}

impl Estimates {
    /// Starts a window with this sampling rate: multiplies all weights by `factor`.
    pub fn start_window(&mut self, sampling_rate: f64, factor: f64) {
        // A sampled distance is precise to about the number of keys that a sampled key represents.
        self.grain = self.grain.max((1.0 / sampling_rate) as u64);
        for group in &mut self.groups {
            group.unknown_misses *= factor;
            for class in group.classes.values_mut() {
                class.distances.scale(factor);
                class.distances.set_grain(self.grain);
                class.hits *= factor;
                class.misses *= factor;
            }
        }
        self.recording.start_window(sampling_rate);
    }

    /// Records a reference to a key of a class.
    pub fn record(&mut self, class_number: u8, reference: Reference, key: u64) {
        let grain = self.grain;
        let class = self.group(key).classes.entry(class_number).or_insert_with(|| {
            let mut new = ClassEstimate::default();
            new.distances.set_grain(grain);
            new
        });
        match reference.distance {
            Distance::Exact(distance) => class.distances.record(Some(distance), 1.0),
            Distance::AtLeast(distance_min) => class.distances.record_censored(distance_min, 1.0),
            Distance::Infinite => class.distances.record(None, 1.0),
        }
        match reference.result {
            Result::Hit => class.hits += 1.0,
            Result::Miss => class.misses += 1.0,
        }
    }

    /// Records misses of a key that no store followed, so its class is unknown.
    pub fn record_unknown_misses(&mut self, key: u64, count: f64) {
        self.group(key).unknown_misses += count;
    }

    /// Returns the group of a key. The sampling of keys uses the high bits of a product of the hash.
    fn group(&mut self, key: u64) -> &mut Group {
        &mut self.groups[(key % GROUPS as u64) as usize]
    }

    /// Records the size of the item of a key that is new in the window, in bytes.
    pub fn record_size(&mut self, size_bytes: u32) {
        self.sizes.add(size_bytes as usize, 1);
    }

    /// Returns the sizes of the items of all keys of each window.
    pub fn sizes(&self) -> &SizeHistogram {
        &self.sizes
    }

    /// Returns the number of references that were recorded for each class, older ones with less weight.
    pub fn references(&self) -> impl Iterator<Item = (u8, f64)> {
        let mut references: BTreeMap<u8, f64> = BTreeMap::new();
        for (&number, class) in self.groups.iter().flat_map(|group| &group.classes) {
            *references.entry(number).or_default() += class.hits + class.misses;
        }
        references.into_iter()
    }

    /// Returns the misses of keys whose classes are unknown, as a share of all misses; 0 if there are no misses.
    pub fn unknown_miss_share(&self) -> f64 {
        let known: f64 =
            self.groups.iter().flat_map(|it| it.classes.values()).map(|it| it.misses).sum();
        let unknown: f64 = self.groups.iter().map(|group| group.unknown_misses).sum();
        if known + unknown == 0.0 { 0.0 } else { unknown / (known + unknown) }
    }

    /// Returns the curve of each class. `hits` are the hits and the items of each class, and `misses` those of all
    /// classes together, as the server counted them.
    pub fn curves(&self, counted: &BTreeMap<u8, Present>, misses: f64) -> Vec<ClassCurve> {
        self.curves_of(|_| true, counted, misses)
    }

    /// Returns the curves without the keys of this group. The number of the group is below [`GROUPS`].
    pub fn curves_without(
        &self,
        group: usize,
        counted: &BTreeMap<u8, Present>,
        misses: f64,
    ) -> Vec<ClassCurve> {
        self.curves_of(|number| number != group, counted, misses)
    }

    fn curves_of(
        &self,
        has: impl Fn(usize) -> bool,
        counted: &BTreeMap<u8, Present>,
        misses: f64,
    ) -> Vec<ClassCurve> {
        let (mut classes, mut unknown): (BTreeMap<u8, ClassEstimate>, f64) = Default::default();
        for (_, group) in self.groups.iter().enumerate().filter(|(number, _)| has(*number)) {
            unknown += group.unknown_misses;
            for (&number, class) in &group.classes {
                classes.entry(number).or_default().add(class);
            }
        }
        let known: f64 = classes.values().map(|class| class.misses).sum();
        let all = (known + unknown).max(1.0);
        let curve = |(&class_number, class): (&u8, &ClassEstimate)| {
            let counted = counted.get(&class_number).copied().unwrap_or_default();
            let present = Present { misses: misses * class.misses / all, ..counted };
            let measured = class.distances.curve();
            ClassCurve {
                class_number,
                curve: calibrated(&measured, present),
                references: class.hits + class.misses,
                range_chunks: measured.range_chunks,
                chunks: present.chunks,
            }
        };
        classes.iter().map(curve).collect()
    }
}

/// Returns the measured curve, adjusted so that it has the present hits and misses at the present size.
fn calibrated(measured: &MeasuredCurve, present: Present) -> Mrc {
    let gets = present.hits + present.misses;
    if gets == 0.0 {
        return Mrc::empty();
    }
    let ratio = |chunks| measured.mrc.miss_ratio(chunks);
    let at_present = ratio(present.chunks);
    let is_measured = measured.range_chunks >= present.chunks && at_present > 0.0;
    let below = |chunks: u64| match at_present < 1.0 {
        _ if !is_measured => (ratio(chunks) * gets).max(present.misses),
        true => gets - (1.0 - ratio(chunks)) / (1.0 - at_present) * present.hits,
        false => gets,
    };
    let mut points = vec![Point { chunks: 0, misses: gets }];
    let mut add = |chunks: u64, misses: f64| {
        let last = points[points.len() - 1];
        if chunks > last.chunks {
            points.push(Point { chunks, misses: misses.clamp(0.0, last.misses) });
        }
    };
    let sizes = measured.mrc.points().iter().map(|point| point.chunks);
    let smaller = sizes.clone().take_while(|&chunks| chunks < present.chunks);
    smaller.for_each(|chunks| add(chunks, below(chunks)));
    add(present.chunks, present.misses);
    if is_measured {
        let larger = sizes.filter(|&chunks| chunks > present.chunks);
        larger.for_each(|chunks| add(chunks, present.misses * ratio(chunks) / at_present));
    }
    let range_chunks = measured.range_chunks;
    let is_near = (present.chunks.div_ceil(2)..2 * present.chunks).contains(&range_chunks);
    if is_near && range_chunks >= CONTINUED_CHUNKS_MIN {
        let last = points[points.len() - 1];
        let half = last_octave_factor(measured);
        for quarter in 1..=4 {
            let growth = 1.0 + f64::from(quarter) / 4.0;
            let chunks = (last.chunks as f64 * growth) as u64;
            points.push(Point { chunks, misses: last.misses * half.powf(growth.log2()) });
        }
        points.dedup_by_key(|point| point.chunks);
    }
    Mrc::new(points)
}

/// Returns the factor by which the misses decrease when the size doubles to the end of the measured range.
fn last_octave_factor(measured: &MeasuredCurve) -> f64 {
    let ratio = |chunks| measured.mrc.miss_ratio(chunks);
    let half = ratio(measured.range_chunks / 2);
    if half > 0.0 { ratio(measured.range_chunks) / half } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::{Distance, Estimates, GROUPS, Present, Reference, Result};
    use slabwise_base::Random;
    use std::collections::BTreeMap;

    /// Records references of class 3 with uniform distances below 1,000, of which a cache of `chunks` chunks hits those
    /// below, and a window of `seen` keys shows those below.
    fn uniform(chunks: u64, seen: u64) -> Estimates {
        let (mut random, mut estimates) = (Random::new(1), Estimates::default());
        estimates.start_window(1.0, 1.0);
        for _ in 0..100_000 {
            let distance = random.below(1_000);
            let result = if distance < chunks { Result::Hit } else { Result::Miss };
            let distance = match distance < seen {
                true => Distance::Exact(distance),
                false => Distance::AtLeast(seen),
            };
            estimates.record(3, Reference { result, distance }, random.next_u64());
        }
        estimates
    }

    fn counted(chunks: u64, hits: f64) -> BTreeMap<u8, Present> {
        BTreeMap::from([(3, Present { chunks, hits, misses: 0.0 })])
    }

    #[test]
    fn the_curve_has_the_counted_misses_at_the_present_size() {
        let found = uniform(400, 1_000).curves(&counted(400, 5_000.0), 10_000.0);
        let curve = &found[0].curve;
        assert_eq!((found[0].class_number, found[0].chunks), (3, 400));
        assert!(found[0].range_chunks > 980, "measured up to {}", found[0].range_chunks);
        assert_eq!((curve.references(), curve.misses(400)), (15_000.0, 10_000.0));
        // Half of the distances below 400 are below 200, and a third of those above are above 800.
        let off = [curve.misses(200) - 12_500.0, curve.misses(800) - 10_000.0 / 3.0];
        assert!(off.iter().all(|off| off.abs() < 150.0), "off by {off:?} misses");
    }

    #[test]
    fn a_curve_continues_for_an_octave_beyond_a_short_range() {
        let found = uniform(400, 300).curves(&counted(400, 40_000.0), 60_000.0);
        let curve = &found[0].curve;
        assert!(found[0].range_chunks < 305, "measured up to {}", found[0].range_chunks);
        assert_eq!(curve.misses(400), 60_000.0);
        assert!((curve.misses(200) / 80_000.0 - 1.0).abs() < 0.02, "{}", curve.misses(200));
        // From 150 to 300 chunks, the misses decrease by the factor 700 / 850.
        assert!((curve.misses(800) / (60_000.0 * 700.0 / 850.0) - 1.0).abs() < 0.02);
        assert_eq!(curve.misses(800), curve.misses(5_000));
        // Up to 500 chunks the curve is measured; from 250 to 500 chunks, the misses decrease by the factor 500 / 750.
        let found = uniform(400, 500).curves(&counted(400, 40_000.0), 60_000.0);
        let expected = 50_000.0 * (500.0f64 / 750.0).powf(1.6f64.log2());
        let found = found[0].curve.misses(800);
        assert!((found / expected - 1.0).abs() < 0.03, "{found}, not {expected}");
        let level = uniform(400, 100).curves(&counted(400, 40_000.0), 60_000.0);
        assert_eq!(level[0].curve.misses(800), 60_000.0, "a quarter of the size says nothing");
    }

    #[test]
    fn misses_are_divided_as_in_the_windows() {
        let mut estimates = Estimates::default();
        estimates.start_window(1.0, 1.0);
        let miss = Reference { result: Result::Miss, distance: Distance::AtLeast(0) };
        for class_number in [1, 1, 1, 2] {
            estimates.record(class_number, miss, 0);
        }
        estimates.record_unknown_misses(1, 4.0);
        assert_eq!(estimates.unknown_miss_share(), 0.5);
        let present = Present { chunks: 10, hits: 100.0, misses: 0.0 };
        let counted = BTreeMap::from([(1, present), (2, present)]);
        let misses = estimates.curves(&counted, 80.0);
        let misses: Vec<f64> = misses.iter().map(|class| class.curve.misses(10)).collect();
        assert_eq!(misses, [30.0, 10.0]);
    }

    #[test]
    fn a_class_without_counted_gets_has_an_empty_curve() {
        let found = uniform(400, 300).curves(&BTreeMap::new(), 0.0);
        assert_eq!(found[0].curve.references(), 0.0);
    }

    #[test]
    fn older_windows_weigh_less() {
        let mut estimates = uniform(400, 300);
        estimates.start_window(1.0, 0.25);
        assert_eq!(estimates.references().collect::<Vec<_>>(), [(3, 25_000.0)]);
    }

    #[test]
    fn the_curves_without_a_group_differ_as_chance_explains() {
        let (estimates, counted) = (uniform(400, 1_000), counted(400, 40_000.0));
        let without = |group| {
            let curves = estimates.curves_without(group, &counted, 60_000.0);
            assert_eq!(curves[0].curve.misses(400), 60_000.0, "the counters are of all keys");
            curves[0].curve.misses(200)
        };
        let found: Vec<f64> = (0..GROUPS).map(without).collect();
        let mean = found.iter().sum::<f64>() / GROUPS as f64;
        let squares: f64 = found.iter().map(|misses| (misses - mean).powi(2)).sum();
        let deviation = (squares * (GROUPS - 1) as f64 / GROUPS as f64).sqrt();
        // About 20,000 of 40,000 hits are below 200 chunks: a standard deviation of about 100 hits.
        assert!((30.0..300.0).contains(&deviation), "{deviation}: {found:?}");
        assert!((mean - 80_000.0).abs() < 300.0, "{mean}");
    }
}
