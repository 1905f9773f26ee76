//! A nearly best partition, in time that does not grow with the number of pages.
//!
//! ```text
//!   sizes           the bends of each curve, and a grid: the curve is straight between the bends
//!     |
//!   hull_partition  segments of hulls in descending order of slopes; the next slope gives a lower bound of the cost
//!     |
//!   fill            classes that save most per page receive the other pages. If the cost is near the bound (the common
//!     |             case), the result is found
//!     |
//!   core            otherwise a cliff does not fit: dynamic programming over the sizes that can be part of a better
//!     |             partition, with a limited number of states
//!     '--> the partition with the lowest cost
//! ```
//!
//! The problem is the multiple-choice knapsack problem: to choose one size for each class. Its relaxation also allows
//! sizes between the corners of a hull, and gives the price λ of a page. The *excess* of a size is its cost plus λ for
//! each of its pages, minus the least such sum of its class. The cost of a partition is the bound plus the excesses of
//! its sizes plus λ for each unused page. The *gap* of a partition is its cost minus the bound. A size whose excess
//! exceeds the gap of a known partition is not part of a better partition. The other sizes are the *core*. Source: D.
//! Pisinger, "A minimal algorithm for the multiple-choice knapsack problem", European Journal of Operational Research
//! 83, 1995.

use super::exact::best_partition_at;
use super::hull::{Size, hull, hull_partition};
use super::{ClassCurve, least_move_cost};

/// The exact partition is computed if this takes at most this many steps.
const EXACT_STEPS_MAX: u64 = 1 << 19;
/// The number of sizes of the grid, which are evaluated in addition to the bends of a curve.
const GRID_STEPS: u64 = 128;
/// The maximum number of bends of a curve that are evaluated.
const BENDS_MAX: usize = 1 << 11;
/// The maximum number of sizes in the core, of all classes together.
const CORE_SIZES_MAX: usize = 1 << 12;
/// The maximum number of states ([`State`]) that the dynamic programming keeps after each class.
const CORE_STATES_MAX: usize = 256;
/// The maximum number of partitions that the core returns.
const CORE_PARTITIONS_MAX: usize = 8;
/// The maximum number of times that [`Near::fill`] gives pages to a class.
const FILL_ROUNDS_MAX: usize = 32;
/// A partition is accepted without the core if its cost exceeds the bound by at most this share of the bound.
const GAP_SHARE_MAX: f64 = 0.0005;

/// Returns a partition of at most `pages` pages whose cost is little above the least cost: the pages of each class, in
/// the order of the classes.
///
/// The number of evaluated sizes depends on the number of classes, but not on the number of pages: a few hundred
/// thousand for sixty classes, which takes some milliseconds.
///
/// # Panics
/// Panics if `pages` is less than the sum of all `pages_min`.
pub fn near_best_partition(classes: &[ClassCurve], pages: u64) -> Vec<u64> {
    near_best_partition_at(classes, pages, least_move_cost(classes))
}

/// Returns a nearly best partition if each page that a class gains or loses costs `move_cost`.
pub(crate) fn near_best_partition_at(
    classes: &[ClassCurve],
    pages: u64,
    move_cost: f64,
) -> Vec<u64> {
    let exact_steps = pages.saturating_mul(pages).saturating_mul(classes.len() as u64) / 2;
    if exact_steps <= EXACT_STEPS_MAX {
        return best_partition_at(classes, pages, move_cost);
    }
    Near::new(classes, pages, move_cost).partition()
}

/// The computation of a nearly best partition.
pub(crate) struct Near<'a> {
    classes: &'a [ClassCurve<'a>],
    /// The number of pages to partition.
    pages: u64,
    /// The cost of each page that a class gains or loses.
    move_cost: f64,
    /// The sizes that are tried for each class, in ascending order of pages.
    sizes: Vec<Vec<Size>>,
    /// The number of sizes and states evaluated so far, for tests.
    evaluations: u64,
}

/// A state of the core: one choice of a size for each of the classes that were added so far.
#[derive(Clone, Copy)]
struct State {
    /// The pages of all chosen sizes.
    pages: u64,
    /// The excesses of all chosen sizes.
    excess: f64,
    /// The index, in the previous layer, of the state to which the last class was added.
    before: usize,
    /// The pages of the last class.
    own: u64,
}

/// A size of a class that is larger than its current size in a partition.
#[derive(Clone, Copy)]
struct Gain {
    /// The pages of the class at the larger size.
    pages: u64,
    /// The cost that each additional page saves on average.
    per_page: f64,
}

impl Gain {
    /// Returns the gain of a class that has `own` pages at the cost `cost`.
    fn of(own: u64, cost: f64, size: Size) -> Gain {
        let more = size.pages - own;
        Gain { pages: size.pages, per_page: (cost - size.cost) / more as f64 }
    }
}

impl<'a> Near<'a> {
    pub fn new(classes: &'a [ClassCurve<'a>], pages: u64, move_cost: f64) -> Near<'a> {
        let pages_min: u64 = classes.iter().map(|class| class.pages_min).sum();
        assert!(pages_min <= pages, "classes keep {pages_min} pages, but there are only {pages}");
        let sizes: Vec<_> = classes.iter().map(|class| sizes_of(class, pages, move_cost)).collect();
        let evaluations = sizes.iter().map(|sizes| sizes.len() as u64).sum();
        Near { classes, pages, move_cost, sizes, evaluations }
    }

    pub fn partition(&mut self) -> Vec<u64> {
        let hulls: Vec<_> = self.sizes.iter().map(|sizes| hull(sizes)).collect();
        let mut relaxed = hull_partition(&hulls, self.pages);
        let Some((_, price)) = relaxed.next else { return relaxed.partition };
        let bound = self.cost(&relaxed.partition) - price * relaxed.pages_left as f64;
        self.fill(&mut relaxed.partition, relaxed.pages_left);
        let mut best = relaxed.partition;
        let mut best_cost = self.cost(&best);
        let gap = best_cost - bound;
        if gap > GAP_SHARE_MAX * bound.max(0.0) {
            for mut partition in self.core(price, gap) {
                let left = self.pages - partition.iter().sum::<u64>();
                self.fill(&mut partition, left);
                let cost = self.cost(&partition);
                if cost < best_cost {
                    (best, best_cost) = (partition, cost);
                }
            }
        }
        best
    }

    /// Returns the cost of a partition, including the moves from the current partition.
    fn cost(&self, partition: &[u64]) -> f64 {
        let each = self.classes.iter().zip(partition);
        each.map(|(class, &pages)| cost_with_moves(class, pages, self.move_cost)).sum()
    }

    /// Gives the last `left` pages, which no class has yet, to classes. Each round enlarges the class that saves most
    /// per page, to the size at which it saves most per page.
    fn fill(&mut self, partition: &mut [u64], mut left: u64) {
        let indexes = 0..partition.len();
        let mut gains: Vec<Option<Gain>> =
            indexes.clone().map(|index| self.best_size(index, partition[index], left)).collect();
        for _ in 0..FILL_ROUNDS_MAX {
            let mut best: Option<(usize, Gain)> = None;
            for index in indexes.clone() {
                let own = partition[index];
                // The best size of a class changes only if it now needs more pages than are left.
                if gains[index].is_some_and(|gain| gain.pages > own + left) {
                    gains[index] = self.best_size(index, own, left);
                }
                for gain in [gains[index], self.gain_of_all(index, own, left)].into_iter().flatten()
                {
                    if gain.per_page > best.map_or(0.0, |(_, best)| best.per_page) {
                        best = Some((index, gain));
                    }
                }
            }
            let Some((index, gain)) = best else { return };
            left -= gain.pages - partition[index];
            partition[index] = gain.pages;
            gains[index] = self.best_size(index, gain.pages, left);
        }
    }

    /// Returns the larger size of a class that saves most per page, among the sizes with at most `left` more pages.
    fn best_size(&mut self, index: usize, own: u64, left: u64) -> Option<Gain> {
        let now = cost_with_moves(&self.classes[index], own, self.move_cost);
        let sizes = &self.sizes[index];
        let above = &sizes[sizes.partition_point(|size| size.pages <= own)..];
        let within = &above[..above.partition_point(|size| size.pages <= own + left)];
        self.evaluations += within.len() as u64 + 1;
        let gains = within.iter().map(|size| Gain::of(own, now, *size));
        gains.reduce(|best, gain| if gain.per_page > best.per_page { gain } else { best })
    }

    /// Returns the gain of a class that receives all `left` pages.
    fn gain_of_all(&mut self, index: usize, own: u64, left: u64) -> Option<Gain> {
        self.evaluations += 1;
        let class = &self.classes[index];
        let at = |pages| Size { pages, cost: cost_with_moves(class, pages, self.move_cost) };
        (left > 0).then(|| Gain::of(own, at(own).cost, at(own + left)))
    }

    /// Returns partitions whose excesses are together at most the gap, in ascending order of their excesses plus the
    /// price of unused pages.
    fn core(&mut self, price: f64, gap: f64) -> Vec<Vec<u64>> {
        let sizes_max = CORE_SIZES_MAX.div_ceil(self.sizes.len());
        let core = |sizes: &Vec<Size>| core_sizes(sizes, sizes_max, price, gap);
        let cores: Vec<_> = self.sizes.iter().map(core).collect();
        let least = |core: &Vec<Size>| core.iter().map(|size| size.pages).min().unwrap_or(0);
        let mut least_of_rest: u64 = cores.iter().map(least).sum();
        let mut layers = vec![vec![State { pages: 0, excess: 0.0, before: 0, own: 0 }]];
        for core in &cores {
            least_of_rest -= least(core);
            let states = &layers[layers.len() - 1];
            let pages_max = self.pages.saturating_sub(least_of_rest);
            let layer = next_layer(states, core, pages_max, gap, &mut self.evaluations);
            layers.push(layer);
        }
        let last = layers.len() - 1;
        let mut ends: Vec<usize> = (0..layers[last].len()).collect();
        let unused = |state: &State| price * (self.pages - state.pages) as f64;
        let total_excess = |&end: &usize| layers[last][end].excess + unused(&layers[last][end]);
        ends.sort_by(|a, b| total_excess(a).total_cmp(&total_excess(b)));
        ends.truncate(CORE_PARTITIONS_MAX);
        ends.into_iter().map(|end| partition_of(&layers, end)).collect()
    }
}

/// Returns the cost of a class with this number of pages, including the moves from the current number.
fn cost_with_moves(class: &ClassCurve, pages: u64, move_cost: f64) -> f64 {
    class.cost(pages) + move_cost * pages.abs_diff(class.pages) as f64
}

/// Returns the sizes to try for a class: the bends of its curve, a grid, its limits and its current size.
fn sizes_of(class: &ClassCurve, pages: u64, move_cost: f64) -> Vec<Size> {
    let range = class.pages_min..=class.pages_max(pages);
    let points = class.curve.points();
    let points = points.iter().step_by(points.len().div_ceil(BENDS_MAX));
    let mut sizes: Vec<u64> = Vec::with_capacity(2 * points.len() + GRID_STEPS as usize);
    for point in points {
        let fits = class.pages_at(point.chunks);
        // Several points of the curve may round to the same page.
        let known = sizes.last().copied();
        sizes.extend([fits, fits + 1].into_iter().filter(|&size| known.is_none_or(|it| size > it)));
    }
    sizes.extend(range.clone().step_by((pages / GRID_STEPS).max(1) as usize));
    sizes.extend([*range.start(), *range.end(), class.pages, class.pages_usable]);
    sizes.retain(|size| range.contains(size));
    // The stable sort is fast, because the bends and the grid are sorted sequences.
    sizes.sort();
    sizes.dedup();
    let costs = class.costs(sizes.iter().copied(), move_cost);
    sizes.iter().zip(costs).map(|(&pages, cost)| Size { pages, cost }).collect()
}

/// Returns the sizes of a class whose excess is at most the gap, in ascending order of their excesses; the field `cost`
/// is the excess. If there are more than `sizes_max` of them, they are divided into groups of neighbours, and only the
/// size with the least excess of each group is returned.
fn core_sizes(sizes: &[Size], sizes_max: usize, price: f64, gap: f64) -> Vec<Size> {
    let priced = |size: &Size| size.cost + price * size.pages as f64;
    let least = sizes.iter().map(priced).fold(f64::INFINITY, f64::min);
    let excesses = sizes.iter().map(|size| Size { pages: size.pages, cost: priced(size) - least });
    let core: Vec<Size> = excesses.filter(|size| size.cost <= gap).collect();
    let neighbours = core.chunks(core.len().div_ceil(sizes_max).max(1));
    let by_excess = |a: &&Size, b: &&Size| a.cost.total_cmp(&b.cost);
    let best = neighbours.filter_map(|few| few.iter().min_by(by_excess));
    let mut best: Vec<Size> = best.copied().collect();
    best.sort_by(|a, b| by_excess(&a, &b));
    best
}

/// Adds a class to all states. Of the new states with about the same number of pages, only the state with the least
/// excess is returned. States with more than `pages_max` pages or an excess above the gap are dropped. The function
/// adds the number of evaluated states to `evaluations`.
fn next_layer(
    states: &[State],
    core: &[Size],
    pages_max: u64,
    gap: f64,
    evaluations: &mut u64,
) -> Vec<State> {
    let with_it = || {
        let ways = states.iter().enumerate().flat_map(|(before, state)| {
            // The sizes are in ascending order of their excesses.
            let within = core.iter().take_while(move |size| state.excess + size.cost <= gap);
            within.map(move |size| State {
                pages: state.pages + size.pages,
                excess: state.excess + size.cost,
                before,
                own: size.pages,
            })
        });
        ways.filter(|state| state.pages <= pages_max)
    };
    let (fewest, most) = with_it().fold((u64::MAX, 0), |(fewest, most), state| {
        (state.pages.min(fewest), state.pages.max(most))
    });
    let width = (most.saturating_sub(fewest) / CORE_STATES_MAX as u64) + 1;
    let mut kept: Vec<Option<State>> = vec![None; CORE_STATES_MAX];
    for state in with_it() {
        *evaluations += 2;
        let slot = &mut kept[((state.pages - fewest) / width) as usize];
        if slot.is_none_or(|kept| state.excess < kept.excess) {
            *slot = Some(state);
        }
    }
    kept.into_iter().flatten().collect()
}

/// Returns the partition of the state with the index `end` in the last layer.
fn partition_of(layers: &[Vec<State>], end: usize) -> Vec<u64> {
    let mut partition = Vec::with_capacity(layers.len() - 1);
    let mut at = end;
    for layer in layers[1..].iter().rev() {
        partition.push(layer[at].own);
        at = layer[at].before;
    }
    partition.reverse();
    partition
}

#[cfg(test)]
#[path = "near_tests.rs"]
mod tests;
