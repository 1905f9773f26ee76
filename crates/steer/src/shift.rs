//! Detects a shift of the traffic: requests go to other classes than before, or miss more or less often.
//!
//! ```text
//!   readings --> windows of some seconds --> Shape --+--> distance to the window before: noise
//!                                                    '--> distance to the reference:     a shift, if it exceeds the noise
//! ```
//!
//! A shape has two features. The *mix* has the share of each class in the requests. It does not depend on the pages of the
//! classes, so it is compared across page moves. The distance of two mixes is the total variation distance, which is the
//! share of the requests that go to another class. The *misses* are the misses per request. Page moves change them, so the
//! reference of the misses begins again with the first whole window after a move. The distance of two numbers of misses is
//! their difference divided by their sum.
//!
//! The noise of a feature is the median of the distances of the last consecutive windows. It contains what a test for
//! independent requests would miss: bursts, and keys that are requested again and again. The median of normally distributed
//! distances is 0.67 standard deviations, so [`NOISE_FACTOR`] medians are four standard deviations. Few distances of shifts
//! do not change a median. A window that is farther from the reference is suspicious, and a shift needs
//! [`SUSPICIOUS_WINDOWS`] such windows in a row, so a burst of a window is none, wherever it begins. A distance below the
//! minimum of its feature is no shift either: what it could change is not worth a move. The reference is the mean of the
//! first [`REFERENCE_WINDOWS`] windows after the last shift, so a slow change is noticed when it has become large.
//!
//! Invariants: a shift is reported once; a window has at least [`WINDOW_REQUESTS_MIN`] requests, and lasts at least
//! [`WINDOW_NANOS_MIN`]; before the noise is known, there is no shift.

use slabwise_observer::counters::Counters;
use std::collections::{BTreeMap, VecDeque};

/// The shortest window.
const WINDOW_NANOS_MIN: u64 = 2_000_000_000;
/// The fewest requests of a window. With fewer, chance alone would move several percent of them.
const WINDOW_REQUESTS_MIN: u64 = 2_000;
/// A window this many times as far from the reference as consecutive windows are from each other is suspicious.
const NOISE_FACTOR: f64 = 6.0;
/// The number of suspicious windows in a row that are a shift.
const SUSPICIOUS_WINDOWS: u32 = 3;
/// The number of windows whose mean is the reference.
const REFERENCE_WINDOWS: u32 = 4;
/// The fewest and the most distances from which the noise is computed.
const NOISE_WINDOWS: (usize, usize) = (3, 31);
/// A mix that differs in fewer than this share of the requests is no shift.
const MIX_DISTANCE_MIN: f64 = 0.05;
/// Misses that differ by less than this share of their sum are no shift: by a fifth of their mean.
const MISSES_DISTANCE_MIN: f64 = 0.1;

/// What has shifted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shift {
    /// This share of the requests goes to other classes than before.
    Mix(f64),
    /// The misses per request, before and now.
    Misses(f64, f64),
}

/// The detector.
#[derive(Debug, Default)]
pub struct ShiftDetector {
    /// The reading at which the present window began.
    from: Option<(u64, Counters)>,
    mix: Feature<Mix>,
    misses: Feature<Misses>,
}

/// What is compared between two windows.
trait Shape {
    /// The distance below which there is no shift.
    const DISTANCE_MIN: f64;

    /// Returns the distance to another shape, from 0 to 1.
    fn distance(&self, other: &Self) -> f64;

    /// Changes this mean of `windows` shapes into the mean of these and `other`.
    fn add_to_mean(&mut self, other: &Self, windows: u32);
}

/// The share of the requests of each class, by its chunk size.
#[derive(Clone, Debug, Default, PartialEq)]
struct Mix(BTreeMap<usize, f64>);

/// The misses per request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Misses(f64);

/// One feature of the traffic.
#[derive(Debug)]
struct Feature<S> {
    /// The mean of the first windows, and their number.
    reference: Option<(S, u32)>,
    last: Option<S>,
    /// The last distances of consecutive windows.
    distances: VecDeque<f64>,
    suspicious: u32,
}

impl<S> Default for Feature<S> {
    fn default() -> Feature<S> {
        Feature { reference: None, last: None, distances: VecDeque::new(), suspicious: 0 }
    }
}

impl Shape for Mix {
    const DISTANCE_MIN: f64 = MIX_DISTANCE_MIN;

    fn distance(&self, other: &Mix) -> f64 {
        let share = |mix: &Mix, size| mix.0.get(size).copied().unwrap_or(0.0);
        let gone = other.0.iter().filter(|(size, _)| !self.0.contains_key(size));
        let gone: f64 = gone.map(|(_, share)| share).sum();
        let others: f64 = self.0.iter().map(|(size, now)| (now - share(other, size)).abs()).sum();
        (others + gone) / 2.0
    }

    fn add_to_mean(&mut self, other: &Mix, windows: u32) {
        other.0.keys().for_each(|&size| {
            self.0.entry(size).or_default();
        });
        for (size, mean) in &mut self.0 {
            *mean = mean_with(*mean, other.0.get(size).copied().unwrap_or(0.0), windows);
        }
    }
}

impl Shape for Misses {
    const DISTANCE_MIN: f64 = MISSES_DISTANCE_MIN;

    fn distance(&self, other: &Misses) -> f64 {
        let sum = self.0 + other.0;
        if sum > 0.0 { (self.0 - other.0).abs() / sum } else { 0.0 }
    }

    fn add_to_mean(&mut self, other: &Misses, windows: u32) {
        self.0 = mean_with(self.0, other.0, windows);
    }
}

/// Returns the mean of `count` numbers, whose mean is `mean`, and another one.
fn mean_with(mean: f64, other: f64, count: u32) -> f64 {
    mean + (other - mean) / f64::from(count + 1)
}

impl<S: Shape + Clone> Feature<S> {
    /// Receives the shape of a window. If it completes a shift, returns the shape before the shift.
    fn observe(&mut self, shape: S) -> Option<S> {
        if let Some(last) = self.last.replace(shape.clone()) {
            self.distances.push_back(shape.distance(&last));
            let more = self.distances.len().saturating_sub(NOISE_WINDOWS.1);
            self.distances.drain(..more);
        }
        let noise = self.noise();
        let (reference, windows) = self.reference.get_or_insert_with(|| (shape.clone(), 0));
        let distance = shape.distance(reference);
        let is_suspicious =
            noise.is_some_and(|noise| distance > (NOISE_FACTOR * noise).max(S::DISTANCE_MIN));
        if !is_suspicious && *windows < REFERENCE_WINDOWS {
            reference.add_to_mean(&shape, *windows);
            *windows += 1;
        }
        self.suspicious = if is_suspicious { self.suspicious + 1 } else { 0 };
        (self.suspicious >= SUSPICIOUS_WINDOWS).then(|| reference.clone())
    }

    /// Returns the median of the distances of consecutive windows; `None` if there are too few.
    fn noise(&self) -> Option<f64> {
        let mut sorted: Vec<f64> = self.distances.iter().copied().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        (sorted.len() >= NOISE_WINDOWS.0).then(|| sorted[sorted.len() / 2])
    }

    /// Takes the next shape as the reference. The noise remains.
    fn begin_again(&mut self) {
        (self.reference, self.last, self.suspicious) = (None, None, 0);
    }
}

impl ShiftDetector {
    /// Receives one reading. Returns the shift that it completes.
    pub fn observe(&mut self, counters: &Counters, nanos: u64) -> Option<Shift> {
        let (from_nanos, from) = self.from.get_or_insert_with(|| (nanos, counters.clone()));
        let (mix, requests) = mix(from, counters);
        if nanos - *from_nanos < WINDOW_NANOS_MIN || requests < WINDOW_REQUESTS_MIN {
            return None;
        }
        let has_moved = from.pages_moved != counters.pages_moved;
        let missed = counters.misses.saturating_sub(from.misses);
        let gets = counters.gets.saturating_sub(from.gets);
        self.from = Some((nanos, counters.clone()));
        if has_moved {
            self.misses.begin_again();
        }
        let misses = (!has_moved && gets > 0).then(|| Misses(missed as f64 / gets as f64));
        let of_mix = self.mix.observe(mix.clone()).map(|before| Shift::Mix(mix.distance(&before)));
        let of_misses = misses
            .and_then(|now| self.misses.observe(now).map(|before| Shift::Misses(before.0, now.0)));
        let shift = of_mix.or(of_misses)?;
        self.mix.begin_again();
        self.misses.begin_again();
        Some(shift)
    }

    /// Forgets the present window, because the counts were reset.
    pub fn forget_window(&mut self) {
        self.from = None;
    }
}

/// Returns the share of each class in the requests between two readings, and their number.
fn mix(from: &Counters, to: &Counters) -> (Mix, u64) {
    let count = |counters: &Counters, size: usize| {
        let mut classes = counters.classes.iter().map(|class| class.shown);
        classes.find(|it| it.chunk_size_bytes == size).map_or(0, |it| it.hits + it.sets)
    };
    let sizes = to.classes.iter().map(|class| class.shown.chunk_size_bytes);
    let requests = |size| count(to, size).saturating_sub(count(from, size));
    let counts: Vec<(usize, u64)> = sizes.map(|size| (size, requests(size))).collect();
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    let share = |(size, count): (usize, u64)| (size, count as f64 / all.max(1) as f64);
    (Mix(counts.into_iter().map(share).collect()), all)
}

#[cfg(test)]
mod tests {
    use super::{Shift, ShiftDetector};
    use crate::testing::{counters, move_page, request};
    use slabwise_base::Random;
    use slabwise_observer::counters::Counters;

    const SECOND: u64 = 1_000_000_000;

    /// A server of two classes, to which requests are sent for some seconds.
    struct World {
        server: Counters,
        detector: ShiftDetector,
        random: Random,
        second: u64,
    }

    impl World {
        fn new(seed: u64) -> World {
            World {
                server: counters(&[(100, 5), (200, 5)]),
                detector: ShiftDetector::default(),
                random: Random::new(seed),
                second: 0,
            }
        }

        /// Sends about 10,000 requests a second, of which the class 0 receives the share `of_first`, and of which the
        /// share `missed` misses. The numbers vary by the share `noise`. Returns the shifts, with their seconds.
        fn pass(
            &mut self,
            seconds: u64,
            of_first: f64,
            missed: f64,
            noise: f64,
        ) -> Vec<(u64, Shift)> {
            let mut shifts = Vec::new();
            for _ in 0..seconds {
                self.second += 1;
                for (class, share) in [of_first, 1.0 - of_first].into_iter().enumerate() {
                    let mut varied = |number: f64| {
                        let unit = self.random.below(1_000_001) as f64 / 1_000_000.0;
                        (number * (1.0 + noise * (2.0 * unit - 1.0))).round() as u64
                    };
                    let requests = varied(10_000.0 * share);
                    let misses = varied(requests as f64 * missed).min(requests);
                    request(&mut self.server, class, requests - misses, misses, 0);
                }
                let shift = self.detector.observe(&self.server, self.second * SECOND);
                shifts.extend(shift.map(|shift| (self.second, shift)));
            }
            shifts
        }
    }

    #[test]
    fn another_mix_is_a_shift_that_is_reported_once_and_soon() {
        let mut world = World::new(1);
        assert_eq!(world.pass(60, 0.9, 0.1, 0.05), []);
        let shifts = world.pass(60, 0.6, 0.1, 0.05);
        let [(second, Shift::Mix(share))] = shifts[..] else { panic!("{shifts:?}") };
        assert!((65..=69).contains(&second), "{second} s");
        assert!((share - 0.3).abs() < 0.05, "{share}");
        assert_eq!(world.pass(60, 0.9, 0.1, 0.05).len(), 1, "and back");
    }

    #[test]
    fn more_misses_are_a_shift_unless_pages_have_moved() {
        let mut world = World::new(2);
        assert_eq!(world.pass(60, 0.5, 0.1, 0.05), []);
        let shifts = world.pass(30, 0.5, 0.2, 0.05);
        let [(_, Shift::Misses(before, now))] = shifts[..] else { panic!("{shifts:?}") };
        assert!((before - 0.1).abs() < 0.01 && (now - 0.2).abs() < 0.01, "{before} {now}");
        move_page(&mut world.server, 0, 1);
        assert_eq!(world.pass(60, 0.5, 0.1, 0.05), [], "the moves may be the reason");
        assert_eq!(world.pass(60, 0.5, 0.2, 0.05).len(), 1, "the misses after the moves are known");
    }

    #[test]
    fn noise_is_no_shift() {
        for seed in 0..20 {
            let mut world = World::new(seed);
            assert_eq!(world.pass(3_600, 0.5, 0.1, 0.4), [], "seed {seed}");
        }
    }

    #[test]
    fn neither_a_burst_nor_a_small_change_is_a_shift() {
        let mut world = World::new(3);
        assert_eq!(world.pass(60, 0.5, 0.1, 0.01), []);
        assert_eq!(world.pass(2, 0.9, 0.1, 0.01), []);
        assert_eq!(world.pass(60, 0.5, 0.1, 0.01), []);
        assert_eq!(world.pass(600, 0.53, 0.11, 0.01), []);
    }

    #[test]
    fn a_slow_change_becomes_a_shift() {
        let mut world = World::new(4);
        let mut shifts = world.pass(60, 0.2, 0.1, 0.02);
        (0..300).for_each(|step| {
            shifts.extend(world.pass(1, 0.2 + f64::from(step) / 500.0, 0.1, 0.02))
        });
        assert!((2..=12).contains(&shifts.len()), "{shifts:?}");
    }

    #[test]
    fn few_requests_make_long_windows() {
        let mut world = World::new(5);
        for second in 0..1_000 {
            // Five requests a second, of which chance sends many to one class.
            (0..5).for_each(|_| {
                let class = world.random.below(2) as usize;
                request(&mut world.server, class, 1, 0, 0);
            });
            assert_eq!(world.detector.observe(&world.server, second * SECOND), None);
        }
        world.second = 1_000;
        assert_eq!(world.pass(60, 0.5, 0.0, 0.1), []);
    }

    #[test]
    fn classes_may_appear_and_vanish() {
        let mut world = World::new(6);
        assert_eq!(world.pass(60, 0.5, 0.1, 0.01), []);
        let first = world.server.classes.remove(0);
        (0..30).for_each(|_| {
            world.second += 1;
            request(&mut world.server, 0, 5_000, 0, 0);
            world.detector.observe(&world.server, world.second * SECOND);
        });
        world.server.classes.insert(0, first);
        world.pass(60, 0.5, 0.1, 0.01);
        world.detector.forget_window();
        world.server = counters(&[(100, 5), (200, 5)]);
        assert_eq!(world.pass(60, 0.5, 0.1, 0.01), [], "the counts were reset");
    }
}
