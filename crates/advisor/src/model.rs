//! The classes of a server with their miss-ratio curves, in the form from which the gains are computed.
//!
//! ```text
//!   Observation --> Models: one Model from all keys, one without each group of keys
//!                      '--estimate(f)--> f of each model --> Estimate
//! ```
//!
//! Invariants: with the present pages, the misses of each class are those that the server counted. A class that evicts
//! nothing gains nothing from more pages.

use crate::estimate::Estimate;
use crate::observation::{ClassSeen, Observation};
use slabwise_observer::traffic::ClassCurve;
use slabwise_policy::partition::{self, near_best_partition};
use slabwise_profile::{Mrc, Point};

/// The error of the misses that a curve predicts for another size, as a share of the misses. It is mostly the difference
/// between memcached's queues and an LRU.
const MODEL_ERROR: f64 = 0.05;

/// The pages that each class keeps: memcached takes no page from a class that has only one.
pub const PAGES_MIN: u64 = 1;

/// A class and its curve.
#[derive(Clone, Debug)]
struct ClassModel {
    curve: Mrc,
    pages: u64,
    chunks_per_page: u64,
    /// The chunks of the present pages, divided by the present size of the curve.
    stretch: f64,
    /// The present size of the curve, in chunks.
    chunks: u64,
    /// The size up to which the curve was measured, in chunks.
    range_chunks: u64,
    /// False if the class evicted nothing, so that more pages save no misses.
    is_full: bool,
}

/// The classes of a server.
#[derive(Clone, Debug)]
pub struct Model {
    classes: Vec<ClassModel>,
    /// The misses that belong to no class, which no division of the memory changes.
    unknown_misses: f64,
    /// The counted miss ratio divided by that of the curves, which weigh the last window more.
    correction: f64,
}

impl Model {
    /// Returns the model of the classes with these curves.
    fn new(observation: &Observation, curves: &[ClassCurve]) -> Model {
        let classes: Vec<ClassModel> =
            observation.classes.iter().map(|class| ClassModel::new(class, curves)).collect();
        let known: f64 = classes.iter().map(|class| class.curve.misses(class.chunks)).sum();
        let unknown = observation.unknown_miss_share.min(0.999);
        let unknown_misses = known * unknown / (1.0 - unknown);
        let uncorrected = Model { classes, unknown_misses, correction: 1.0 };
        let found = uncorrected.miss_ratio_scaled(1.0);
        let correction = if found > 0.0 { observation.miss_ratio() / found } else { 1.0 };
        Model { correction, ..uncorrected }
    }

    /// Returns the pages of each class now.
    pub fn pages(&self) -> Vec<u64> {
        self.classes.iter().map(|class| class.pages).collect()
    }

    /// Returns the division of `pages` pages with the fewest misses in which each class keeps `pages_min` pages, or none if
    /// there are too few.
    pub fn best_division(&self, pages: u64, pages_min: u64) -> Vec<u64> {
        let has_enough = pages >= self.classes.len() as u64 * pages_min;
        let pages_min = if has_enough { pages_min } else { 0 };
        let classes: Vec<_> = self.classes.iter().map(|class| class.as_curve(pages_min)).collect();
        near_best_partition(&classes, pages)
    }

    /// Returns the miss ratio with this division of pages. If a class has more pages than now, but evicts nothing now, the
    /// additional pages save no misses.
    pub fn miss_ratio(&self, division: &[u64]) -> f64 {
        let classes: Vec<_> = self.classes.iter().map(|class| class.as_curve(0)).collect();
        self.ratio(partition::cost(&classes, division))
    }

    /// Returns the miss ratio if each class has this many times its present memory.
    pub fn miss_ratio_scaled(&self, factor: f64) -> f64 {
        let misses = |class: &ClassModel| class.curve.misses((class.chunks as f64 * factor) as u64);
        self.ratio(self.classes.iter().map(misses).sum())
    }

    /// Returns the share of the gets whose classes were measured up to this many times their present memory.
    pub fn measured_share(&self, factor: f64) -> f64 {
        let (mut measured, mut all) = (0.0, 0.0);
        for class in &self.classes {
            let references = class.curve.references();
            let is_measured = class.range_chunks as f64 >= class.chunks as f64 * factor;
            let is_known = is_measured || (!class.is_full && factor >= 1.0);
            measured += if is_known { references } else { 0.0 };
            all += references;
        }
        if all > 0.0 { measured / all } else { 0.0 }
    }

    fn ratio(&self, misses: f64) -> f64 {
        let references: f64 = self.classes.iter().map(|class| class.curve.references()).sum();
        let all = (references + self.unknown_misses).max(f64::MIN_POSITIVE);
        ((misses + self.unknown_misses) / all * self.correction).min(1.0)
    }
}

impl ClassModel {
    fn new(class: &ClassSeen, curves: &[ClassCurve]) -> ClassModel {
        let ClassSeen { counters, evicted } = class;
        let (shown, number) = (counters.shown, counters.shown.class.wire());
        let found = curves.iter().find(|curve| u32::from(curve.class_number) == number);
        let chunks = found.map_or(counters.items, |found| found.chunks);
        let chunks_all = (shown.pages * shown.chunks_per_page as u64) as f64;
        let (is_full, chunks_used) = (*evicted > 0, shown.used_chunks as f64);
        let curve = found.map_or_else(Mrc::empty, |found| found.curve.clone());
        ClassModel {
            curve: if is_full { curve } else { level_after(&curve, chunks) },
            pages: shown.pages,
            chunks_per_page: shown.chunks_per_page as u64,
            stretch: (if is_full { chunks_all } else { chunks_used }).max(1.0)
                / chunks.max(1) as f64,
            chunks,
            range_chunks: found.map_or(0, |found| found.range_chunks),
            is_full,
        }
    }

    fn as_curve(&self, pages_min: u64) -> partition::ClassCurve<'_> {
        let curve = partition::ClassCurve::new(&self.curve, self.chunks_per_page, self.pages);
        partition::ClassCurve { stretch: self.stretch, pages_min, ..curve }
    }
}

/// Returns the division with the pages added that it leaves unused, because they save nothing. They stay where they are: in
/// classes that have fewer pages than `now`.
pub fn with_unused(now: &[u64], mut division: Vec<u64>) -> Vec<u64> {
    let mut unused = now.iter().sum::<u64>().saturating_sub(division.iter().sum());
    for (pages, &now) in division.iter_mut().zip(now) {
        let more = now.saturating_sub(*pages).min(unused);
        *pages += more;
        unused -= more;
    }
    division
}

/// Returns the curve, level after this size.
fn level_after(curve: &Mrc, chunks: u64) -> Mrc {
    let smaller = curve.points().iter().take_while(|point| point.chunks < chunks.max(1));
    let end = Point { chunks: chunks.max(1), misses: curve.misses(chunks.max(1)) };
    Mrc::new(smaller.copied().chain([end]).collect())
}

/// The models of a server: from all keys, and without each group of keys.
#[derive(Clone, Debug)]
pub struct Models {
    /// The model from all keys.
    pub all: Model,
    without: Vec<Model>,
}

impl Models {
    /// Returns the models of an observed server.
    pub fn new(observation: &Observation) -> Models {
        let without = observation.curves_without.iter();
        Models {
            all: Model::new(observation, &observation.curves),
            without: without.map(|curves| Model::new(observation, curves)).collect(),
        }
    }

    /// Returns a number that the curves predict, with its error.
    pub fn estimate(&self, number: impl Fn(&Model) -> f64) -> Estimate {
        let without: Vec<f64> = self.without.iter().map(&number).collect();
        Estimate::new(number(&self.all), &without, MODEL_ERROR).at_most(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Models, with_unused};
    use crate::testing::{Class, observation};

    /// Two classes with ten pages each: the first would lose half of its misses with twice the pages, and the second loses
    /// none from two pages on.
    fn classes(second_evicts: u64) -> [Class<'static>; 2] {
        let first = Class {
            chunk_size_bytes: 1_024,
            pages: 10,
            evicted: 1,
            curve: &[(0, 1_000.0), (10, 600.0), (20, 300.0)],
        };
        let second = Class {
            chunk_size_bytes: 2_048,
            pages: 10,
            evicted: second_evicts,
            curve: &[(0, 1_000.0), (2, 400.0), (40, 400.0)],
        };
        [first, second]
    }

    #[test]
    fn the_present_misses_are_those_that_were_counted() {
        let models = Models::new(&observation("a", &classes(1)));
        assert_eq!(models.all.miss_ratio(&[10, 10]), 0.5);
        assert_eq!(models.all.miss_ratio_scaled(1.0), 0.5);
        assert_eq!(models.all.miss_ratio_scaled(2.0), 0.35);
    }

    #[test]
    fn pages_move_to_the_class_where_they_save_misses() {
        let models = Models::new(&observation("a", &classes(1)));
        let best = models.all.best_division(20, 1);
        assert_eq!(best, [18, 2]);
        assert!((models.all.miss_ratio(&best) - 0.38).abs() < 1e-9);
    }

    #[test]
    fn a_class_that_evicts_nothing_gains_nothing() {
        let mut classes = classes(0);
        classes[1].curve = &[(0, 1_000.0), (10, 400.0), (20, 0.0)];
        let models = Models::new(&observation("a", &classes));
        assert_eq!(models.all.miss_ratio(&[10, 20]), 0.5);
        assert_eq!(models.all.miss_ratio_scaled(2.0), 0.35);
        assert_eq!(models.all.measured_share(2.0), 1.0);
        assert_eq!(
            models.all.measured_share(3.0),
            0.5,
            "the first class was measured up to 20 pages"
        );
    }

    #[test]
    fn misses_of_unknown_classes_stay() {
        let mut seen = observation("a", &classes(1));
        // 1,000 of 2,000 misses.
        (seen.unknown_miss_share, seen.gets, seen.misses) = (0.5, 3_000, 2_000);
        let models = Models::new(&seen);
        assert!((models.all.miss_ratio(&[10, 10]) - 2.0 / 3.0).abs() < 1e-9);
        assert!((models.all.miss_ratio(&[18, 2]) - 1_760.0 / 3_000.0).abs() < 1e-9);
    }

    #[test]
    fn unused_pages_stay_where_they_are() {
        assert_eq!(with_unused(&[5, 5, 2], vec![2, 7, 1]), [4, 7, 1]);
        assert_eq!(with_unused(&[5, 5], vec![1, 9]), [1, 9]);
        assert_eq!(with_unused(&[4, 4, 4], vec![2, 6, 1]), [4, 6, 2]);
    }
}
