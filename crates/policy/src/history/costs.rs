//! The mean costs of the items and of the misses of each class.
//!
//! The *miss cost* of a class is the mean cost of items that were stored under new keys: in a look-aside cache such a
//! store follows a miss. The mean is over the last stores with a known cost: at least [`STORES`] of them and at most
//! twice that number. The error of the mean is about two percent if some items cost twenty times as much as others. A
//! class without new stores keeps its last mean.
//!
//! Each class's mean is divided by the mean over all classes. So options that are in misses do not depend on the unit
//! of the costs. Stores without a cost do not change the mean of their class. A class with fewer than [`STORES_MIN`]
//! known costs has the relative cost 1.
//!
//! Invariants: relative costs are above 0; if all known costs are equal, or no cost is known, each relative cost is
//! exactly 1.

use crate::history::per_class::PerClass;
use crate::{ClassSnapshot, Snapshot};

/// The number of stores with a known cost that a window covers. The mean is over the last full window and the current
/// window.
const STORES: u64 = 10_000;
/// The minimum number of stores with a known cost for a mean.
const STORES_MIN: u64 = 100;
/// The minimum relative cost. It is above 0, because policies divide by relative costs.
const COST_MIN: f64 = 1e-6;

/// The recent costs of stores of each class.
#[derive(Clone, Debug, Default)]
pub(crate) struct MissCosts {
    windows: PerClass<Window>,
}

/// A number of stores with a known cost, and the sum of their costs. The sum is an integer, so the mean of equal costs
/// has no rounding error.
#[derive(Clone, Copy, Debug, Default)]
struct Stores {
    count: u64,
    cost: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    /// The stores since the start of the cache, at the last update.
    total: Stores,
    /// The stores of the current window. An update that finds [`STORES`] or more of them starts a new window.
    newer: Stores,
    /// The stores of the last full window.
    older: Stores,
}

impl MissCosts {
    /// Updates the windows with the stores since the last call. Earlier stores of a new class do not count.
    pub fn update(&mut self, snapshot: &Snapshot) {
        let new_window =
            |class: &ClassSnapshot| Window { total: Stores::of(class), ..Window::default() };
        self.windows.follow(snapshot, new_window);
        let each = snapshot.classes.iter().zip(self.windows.iter_mut());
        each.for_each(|(class, window)| window.update(class));
    }

    /// Returns the miss cost of each class divided by the mean over all classes, in the order of the snapshot's
    /// classes. The mean is weighted by the references of the classes' curves, or all classes weigh the same if there
    /// are no profiles.
    pub fn relative(&self, snapshot: &Snapshot) -> Vec<f64> {
        let means: Vec<Option<f64>> = self.windows.iter().map(Window::mean).collect();
        let references = |index: usize| -> f64 {
            snapshot.profiles.get(index).map_or(1.0, |profile| profile.curve.references())
        };
        relative(&means, references)
    }
}

/// Returns the mean cost of the contents of a used chunk of each class, divided by the mean over the used chunks of
/// all classes with known costs. Classes without known costs have the value 1.
pub(crate) fn chunk_costs(snapshot: &Snapshot) -> Vec<f64> {
    let used = |class: &ClassSnapshot| class.used_chunks.max(1) as f64;
    let mean =
        |class: &ClassSnapshot| (class.cost_held > 0).then(|| class.cost_held as f64 / used(class));
    let means: Vec<Option<f64>> = snapshot.classes.iter().map(mean).collect();
    relative(&means, |index| used(&snapshot.classes[index]))
}

/// Divides these costs by their weighted mean; unknown costs become 1. `weight` receives the index of a cost.
fn relative(costs: &[Option<f64>], weight: impl Fn(usize) -> f64) -> Vec<f64> {
    // If all costs are equal, each divided by the greatest is exactly 1, and the mean of these quotients is exactly 1.
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

    /// Returns a cache whose classes have these numbers of references.
    fn cache(references: &[f64]) -> Snapshot {
        snapshot(10, references.iter().map(|&references| (10, scan(references))).collect())
    }

    /// Adds `count` stores to a class, each with the cost `cost`.
    fn store(cache: &mut Snapshot, class: usize, count: u64, cost: u64) {
        cache.classes[class].costs_known += count;
        cache.classes[class].cost_paid += count * cost;
    }

    #[test]
    fn a_mean_covers_the_last_stores_and_does_not_change_without_stores() {
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
            "the mean of the first class covers at most the last 20,000 stores"
        );
    }

    #[test]
    fn costs_are_divided_by_their_mean_weighted_by_references() {
        let mut cache = cache(&[300.0, 100.0, 5_000.0]);
        let mut costs = MissCosts::default();
        costs.update(&cache);
        store(&mut cache, 0, 100, 20);
        store(&mut cache, 1, 200, 100);
        // 99 stores are too few for a mean.
        store(&mut cache, 2, 99, 1_000);
        costs.update(&cache);
        assert_eq!(costs.relative(&cache), [0.5, 2.5, 1.0]);
        cache.profiles.clear();
        let [first, second, third] = costs.relative(&cache)[..] else {
            panic!("the cache has three classes")
        };
        assert!((first - 1.0 / 3.0).abs() < 1e-9 && (second - 5.0 / 3.0).abs() < 1e-9);
        assert_eq!(third, 1.0);
    }

    #[test]
    fn costs_of_zero_count_and_costs_before_the_first_update_do_not() {
        let mut cache = cache(&[100.0, 100.0]);
        store(&mut cache, 0, 1_000_000, 50);
        let mut costs = MissCosts::default();
        costs.update(&cache);
        assert_eq!(costs.relative(&cache), [1.0; 2]);
        store(&mut cache, 0, 100, 0);
        costs.update(&cache);
        assert_eq!(costs.relative(&cache), [1.0; 2], "all known costs are 0, so they are equal");
        store(&mut cache, 1, 100, 7);
        costs.update(&cache);
        assert_eq!(costs.relative(&cache), [COST_MIN, 2.0]);
    }

    #[test]
    fn chunk_costs_are_the_costs_of_the_items_in_the_chunks() {
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
                assert_eq!(
                    costs.relative(&cache),
                    [1.0; 5],
                    "seed {seed}, cost {cost}: relative costs are 1"
                );
            }
        }
    }
}
