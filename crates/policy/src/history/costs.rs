//! The costs of items and misses of each class.
//!
//! The *miss cost* of a class is the mean cost of items that were stored under new keys: in a look-aside cache such a
//! store follows a miss. The mean covers the last [`STORES`] to twice that many stores with a cost. Its error is about
//! two percent if some items cost twenty times as much as others. A class without stores keeps its last mean.
//!
//! Costs are relative to their mean over all classes, so that limits in misses hold for any unit. Items without a cost
//! count like the others of their class; a class with fewer than [`STORES_MIN`] costs counts as the mean of all.
//!
//! Invariants: relative costs are above 0; if all known costs are equal, or none is known, each is exactly 1.

use crate::history::per_class::PerClass;
use crate::{ClassSnapshot, Snapshot};

/// The number of stores after which a new mean starts; the previous mean counts until the next one.
const STORES: u64 = 10_000;

const STORES_MIN: u64 = 100;
/// The lowest relative cost, so that costs can be divided by.
const COST_MIN: f64 = 1e-6;

#[derive(Clone, Debug, Default)]
pub(crate) struct MissCosts {
    windows: PerClass<Window>,
}

/// Costs of some stores, as integers, so that the mean of equal costs does not depend on their number.
#[derive(Clone, Copy, Debug, Default)]
struct Stores {
    count: u64,
    cost: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    total: Stores,
    newer: Stores,
    older: Stores,
}

impl MissCosts {
    /// Updates the means with the stores since the last call; a new class has none.
    pub fn update(&mut self, snapshot: &Snapshot) {
        let begin =
            |class: &ClassSnapshot| Window { total: Stores::of(class), ..Window::default() };
        self.windows.follow(snapshot, begin);
        let each = snapshot.classes.iter().zip(self.windows.iter_mut());
        each.for_each(|(class, window)| window.update(class));
    }

    /// The mean miss cost of each class, in the order of the last snapshot, relative to the mean over all
    /// classes.
    pub fn relative(&self, snapshot: &Snapshot) -> Vec<f64> {
        let means: Vec<Option<f64>> = self.windows.iter().map(Window::mean).collect();
        let references = |index: usize| -> f64 {
            snapshot.profiles.get(index).map_or(1.0, |profile| profile.curve.references())
        };
        relative(&means, references)
    }
}

/// The mean cost of the contents of a chunk of each class, relative to the mean over all used chunks; 1 for classes
/// without known costs.
pub(crate) fn chunk_costs(snapshot: &Snapshot) -> Vec<f64> {
    let used = |class: &ClassSnapshot| class.used_chunks.max(1) as f64;
    let mean =
        |class: &ClassSnapshot| (class.cost_held > 0).then(|| class.cost_held as f64 / used(class));
    let means: Vec<Option<f64>> = snapshot.classes.iter().map(mean).collect();
    relative(&means, |index| used(&snapshot.classes[index]))
}

/// Divides these costs by their weighted mean; unknown costs become 1.
fn relative(costs: &[Option<f64>], weight: impl Fn(usize) -> f64) -> Vec<f64> {
    // Relative to the greatest cost equal ones are exactly 1, and so is their mean.
    let unit = costs.iter().flatten().fold(0.0, |most: f64, &cost| most.max(cost));
    if unit == 0.0 {
        return vec![1.0; costs.len()];
    }
    let known = || {
        let each = costs.iter().enumerate();
        each.filter_map(|(index, cost)| Some((weight(index), (*cost)? / unit)))
    };
    let weights: f64 = known().map(|(weight, _)| weight).sum();
    let sum: f64 = known().map(|(weight, cost)| weight * cost).sum();
    let mean = if sum > 0.0 { sum / weights } else { 1.0 };
    let relative = |cost: &Option<f64>| cost.map_or(1.0, |cost| (cost / unit / mean).max(COST_MIN));
    costs.iter().map(relative).collect()
}

impl Stores {
    fn of(class: &ClassSnapshot) -> Stores {
        Stores { count: class.costs_known, cost: class.cost_paid }
    }
}

impl Window {
    fn update(&mut self, class: &ClassSnapshot) {
        if self.newer.count >= STORES {
            self.older = std::mem::take(&mut self.newer);
        }
        let total = Stores::of(class);
        self.newer.count += total.count.saturating_sub(self.total.count);
        self.newer.cost += total.cost.saturating_sub(self.total.cost);
        self.total = total;
    }

    fn mean(&self) -> Option<f64> {
        let (count, cost) =
            (self.newer.count + self.older.count, self.newer.cost + self.older.cost);
        (count >= STORES_MIN).then(|| cost as f64 / count as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::{COST_MIN, MissCosts, STORES, chunk_costs};
    use crate::Snapshot;
    use crate::testing::curves::{scan, snapshot};
    use slabwise_base::Random;

    /// Classes with these references.
    fn cache(references: &[f64]) -> Snapshot {
        snapshot(10, references.iter().map(|&references| (10, scan(references))).collect())
    }

    /// Adds this many stores of a class, of this cost each.
    fn store(cache: &mut Snapshot, class: usize, count: u64, cost: u64) {
        cache.classes[class].costs_known += count;
        cache.classes[class].cost_paid += count * cost;
    }

    #[test]
    fn a_mean_covers_the_last_stores_and_stays_without_stores() {
        let mut cache = cache(&[1.0, 1.0]);
        let mut costs = MissCosts::default();
        costs.update(&cache);
        store(&mut cache, 0, 100, 30);
        store(&mut cache, 1, 100, 10);
        costs.update(&cache);
        assert_eq!(costs.relative(&cache), [1.5, 0.5]);
        for _ in 0..20 {
            store(&mut cache, 0, STORES / 4, 70);
            costs.update(&cache);
        }
        assert_eq!(
            costs.relative(&cache),
            [1.75, 0.25],
            "the mean of the first class covers the last 20,000"
        );
    }

    #[test]
    fn costs_are_relative_to_their_mean_by_references() {
        let mut cache = cache(&[300.0, 100.0, 5_000.0]);
        let mut costs = MissCosts::default();
        costs.update(&cache);
        store(&mut cache, 0, 100, 20);
        store(&mut cache, 1, 200, 100);
        // These are too few for a mean.
        store(&mut cache, 2, 99, 1_000);
        costs.update(&cache);
        assert_eq!(costs.relative(&cache), [0.5, 2.5, 1.0]);
        cache.profiles.clear();
        let [first, second, third] = costs.relative(&cache)[..] else { panic!("three classes") };
        assert!((first - 1.0 / 3.0).abs() < 1e-9 && (second - 5.0 / 3.0).abs() < 1e-9);
        assert_eq!(third, 1.0);
    }

    #[test]
    fn costs_of_zero_count_and_earlier_costs_do_not() {
        let mut cache = cache(&[100.0, 100.0]);
        store(&mut cache, 0, 1_000_000, 50);
        let mut costs = MissCosts::default();
        costs.update(&cache);
        assert_eq!(costs.relative(&cache), [1.0; 2]);
        store(&mut cache, 0, 100, 0);
        costs.update(&cache);
        assert_eq!(costs.relative(&cache), [1.0; 2], "all known costs are equal");
        store(&mut cache, 1, 100, 7);
        costs.update(&cache);
        assert_eq!(costs.relative(&cache), [COST_MIN, 2.0]);
    }

    #[test]
    fn chunk_costs_are_those_of_the_contents() {
        let mut cache = cache(&[1.0, 1.0, 1.0]);
        assert_eq!(chunk_costs(&cache), [1.0; 3]);
        let held = [(100, 300), (50, 300), (7, 0)];
        for (class, (used_chunks, cost_held)) in cache.classes.iter_mut().zip(held) {
            (class.used_chunks, class.cost_held) = (used_chunks, cost_held);
        }
        assert_eq!(chunk_costs(&cache), [0.75, 1.5, 1.0]);
    }

    #[test]
    fn equal_or_unknown_costs_are_exactly_one() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let cost = random.below(1 << 32);
            let mut cache = cache(&[0; 5].map(|_| 1e6 * random.unit()));
            let mut costs = MissCosts::default();
            costs.update(&cache);
            for _ in 0..100 {
                for class in 0..5 {
                    let count = random.below(2) * random.below(3_000);
                    store(&mut cache, class, count, cost);
                }
                costs.update(&cache);
                assert_eq!(costs.relative(&cache), [1.0; 5], "seed {seed}, cost {cost}");
            }
        }
    }
}
