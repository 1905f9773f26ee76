//! A nearly best partition, in time that does not grow with the number of pages.
//!
//! ```text
//!   sizes        the bends of each curve, and a grid: the curve is straight between the bends
//!     |
//!   hull_split   steepest segments first; the slope at the end gives a lower bound of the cost
//!     |
//!   filled       the other pages go where they save most. Near the bound? Done: the common case
//!     |
//!   core         otherwise a cliff does not fit: dynamic programming over the sizes that can still be part of a
//!     |          better partition, with states thinned to a fixed number
//!     '--> the better of the two
//! ```
//!
//! The problem is the multiple-choice knapsack: one size for each class. Its relaxation allows sizes between a hull's
//! corners and gives the price λ of a page. The *loss* of a size is its cost above that of its class's best size at λ.
//! The cost of a partition is the bound plus its losses plus λ for each unused page. So a size whose loss exceeds the
//! gap of a known partition is not part of a better one; the few remaining sizes are the core. Source: D. Pisinger, "A
//! minimal algorithm for the multiple-choice knapsack problem", European Journal of Operational Research 83, 1995.

use super::exact::best_split_at;
use super::hull::{Size, hull, hull_split};
use super::{ClassCurve, least_move_cost};

/// The exact partition is used if it takes at most this many steps.
const EXACT_STEPS_MAX: u64 = 1 << 19;
/// The number of grid sizes evaluated between the bends of a curve.
const GRID_STEPS: u64 = 128;
/// The maximum number of bends of a curve that are evaluated.
const BENDS_MAX: usize = 1 << 11;
/// The maximum number of sizes in the core, of all classes together.
const CORE_SIZES_MAX: usize = 1 << 12;
/// The maximum number of states of the core.
const CORE_STATES_MAX: usize = 256;
/// The number of the core's last states that become partitions.
const CORE_SPLITS_MAX: usize = 8;
/// The maximum number of rounds that assign left-over pages.
const FILL_ROUNDS_MAX: usize = 32;
/// A partition is accepted if its cost exceeds the bound by at most this share.
const GAP_MAX: f64 = 0.0005;

/// Returns a partition of at most `pages` pages that costs little more than the best partition's, in the order of the
/// classes.
///
/// The number of evaluated sizes is bounded by the number of classes: a few hundred thousand for sixty, which takes
/// some milliseconds.
///
/// # Panics
/// If there are fewer pages than the classes keep.
pub fn near_best_split(classes: &[ClassCurve], pages: u64) -> Vec<u64> {
    near_best_split_at(classes, pages, least_move_cost(classes))
}

/// A nearly best partition if each page that a class gains or loses costs `move_cost`.
pub(crate) fn near_best_split_at(classes: &[ClassCurve], pages: u64, move_cost: f64) -> Vec<u64> {
    let exact_steps = pages.saturating_mul(pages).saturating_mul(classes.len() as u64) / 2;
    if exact_steps <= EXACT_STEPS_MAX {
        return best_split_at(classes, pages, move_cost);
    }
    Near::new(classes, pages, move_cost).split()
}

pub(crate) struct Near<'a> {
    classes: &'a [ClassCurve<'a>],
    pages: u64,
    move_cost: f64,
    /// Sizes of each class, in ascending order of pages.
    sizes: Vec<Vec<Size>>,
    evaluations: u64,
}

/// A state of the core: one choice of a size for each of the first classes.
#[derive(Clone, Copy)]
struct State {
    pages: u64,
    loss: f64,
    /// The index of the state before the last class was added.
    before: usize,
    own: u64,
}

#[derive(Clone, Copy)]
struct Gain {
    pages: u64,
    per_page: f64,
}

impl Gain {
    fn of(own: u64, cost: f64, size: Size) -> Gain {
        let more = size.pages - own;
        Gain { pages: size.pages, per_page: (cost - size.cost) / more as f64 }
    }
}

impl<'a> Near<'a> {
    pub fn new(classes: &'a [ClassCurve<'a>], pages: u64, move_cost: f64) -> Near<'a> {
        let pages_min: u64 = classes.iter().map(|class| class.pages_min).sum();
        assert!(pages_min <= pages, "classes keep {pages_min} pages and there are only {pages}");
        let sizes: Vec<_> = classes.iter().map(|class| sizes_of(class, pages, move_cost)).collect();
        let evaluations = sizes.iter().map(|sizes| sizes.len() as u64).sum();
        Near { classes, pages, move_cost, sizes, evaluations }
    }

    pub fn split(&mut self) -> Vec<u64> {
        let hulls: Vec<_> = self.sizes.iter().map(|sizes| hull(sizes)).collect();
        let mut relaxed = hull_split(&hulls, self.pages);
        let Some((_, price)) = relaxed.next else { return relaxed.split };
        let bound = self.cost(&relaxed.split) - price * relaxed.pages_left as f64;
        self.fill(&mut relaxed.split, relaxed.pages_left);
        let mut best = relaxed.split;
        let mut best_cost = self.cost(&best);
        let gap = best_cost - bound;
        if gap > GAP_MAX * bound.max(0.0) {
            for mut split in self.core(price, gap) {
                let left = self.pages - split.iter().sum::<u64>();
                self.fill(&mut split, left);
                let cost = self.cost(&split);
                if cost < best_cost {
                    (best, best_cost) = (split, cost);
                }
            }
        }
        best
    }

    /// The cost of a partition, including the moves from the current one.
    fn cost(&self, split: &[u64]) -> f64 {
        let each = self.classes.iter().zip(split);
        each.map(|(class, &pages)| priced(class, pages, self.move_cost)).sum()
    }

    /// Assigns left-over pages, each time to the class and size that save most per page.
    fn fill(&mut self, split: &mut [u64], mut left: u64) {
        let indexes = 0..split.len();
        let mut gains: Vec<Option<Gain>> =
            indexes.clone().map(|index| self.best_size(index, split[index], left)).collect();
        for _ in 0..FILL_ROUNDS_MAX {
            let mut best: Option<(usize, Gain)> = None;
            for index in indexes.clone() {
                let own = split[index];
                // The best size stays the best while it fits.
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
            left -= gain.pages - split[index];
            split[index] = gain.pages;
            gains[index] = self.best_size(index, gain.pages, left);
        }
    }

    /// The class's size above its own, by at most `left` pages, that saves most per page.
    fn best_size(&mut self, index: usize, own: u64, left: u64) -> Option<Gain> {
        let now = priced(&self.classes[index], own, self.move_cost);
        let sizes = &self.sizes[index];
        let above = &sizes[sizes.partition_point(|size| size.pages <= own)..];
        let within = &above[..above.partition_point(|size| size.pages <= own + left)];
        self.evaluations += within.len() as u64 + 1;
        let gains = within.iter().map(|size| Gain::of(own, now, *size));
        gains.reduce(|best, gain| if gain.per_page > best.per_page { gain } else { best })
    }

    /// The class's gain from all left-over pages.
    fn gain_of_all(&mut self, index: usize, own: u64, left: u64) -> Option<Gain> {
        self.evaluations += 1;
        let class = &self.classes[index];
        let at = |pages| Size { pages, cost: priced(class, pages, self.move_cost) };
        (left > 0).then(|| Gain::of(own, at(own).cost, at(own + left)))
    }

    /// Partitions of sizes whose losses together stay within the gap, the most promising first.
    fn core(&mut self, price: f64, gap: f64) -> Vec<Vec<u64>> {
        let sizes_max = CORE_SIZES_MAX.div_ceil(self.sizes.len());
        let core = |sizes: &Vec<Size>| core_sizes(sizes, sizes_max, price, gap);
        let cores: Vec<_> = self.sizes.iter().map(core).collect();
        let least = |core: &Vec<Size>| core.iter().map(|size| size.pages).min().unwrap_or(0);
        let mut least_of_rest: u64 = cores.iter().map(least).sum();
        let mut layers = vec![vec![State { pages: 0, loss: 0.0, before: 0, own: 0 }]];
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
        let worth = |&end: &usize| layers[last][end].loss + unused(&layers[last][end]);
        ends.sort_by(|a, b| worth(a).total_cmp(&worth(b)));
        ends.truncate(CORE_SPLITS_MAX);
        ends.into_iter().map(|end| split_of(&layers, end)).collect()
    }
}

/// The cost of a size, including the moves from the current one.
fn priced(class: &ClassCurve, pages: u64, move_cost: f64) -> f64 {
    class.cost(pages) + move_cost * pages.abs_diff(class.pages) as f64
}

/// The sizes to evaluate: the bends of the class's cost, a grid, and the current size.
fn sizes_of(class: &ClassCurve, pages: u64, move_cost: f64) -> Vec<Size> {
    let range = class.pages_min..=class.pages_max(pages);
    let points = class.curve.points();
    let points = points.iter().step_by(points.len().div_ceil(BENDS_MAX));
    let mut sizes: Vec<u64> = Vec::with_capacity(2 * points.len() + GRID_STEPS as usize);
    for point in points {
        let fits = class.pages_at(point.chunks);
        // Several points may be within a page.
        let known = sizes.last().copied();
        sizes.extend([fits, fits + 1].into_iter().filter(|&size| known.is_none_or(|it| size > it)));
    }
    sizes.extend(range.clone().step_by((pages / GRID_STEPS).max(1) as usize));
    sizes.extend([*range.start(), *range.end(), class.pages, class.pages_usable]);
    sizes.retain(|size| range.contains(size));
    // The stable sort is fast on the ordered bends and grid.
    sizes.sort();
    sizes.dedup();
    let costs = class.costs(sizes.iter().copied(), move_cost);
    sizes.iter().zip(costs).map(|(&pages, cost)| Size { pages, cost }).collect()
}

/// The sizes whose loss is within the gap, in ascending order of their losses, which are set as costs. If there are too
/// many, only the one with the least loss of each few neighbours.
fn core_sizes(sizes: &[Size], sizes_max: usize, price: f64, gap: f64) -> Vec<Size> {
    let priced = |size: &Size| size.cost + price * size.pages as f64;
    let least = sizes.iter().map(priced).fold(f64::INFINITY, f64::min);
    let losses = sizes.iter().map(|size| Size { pages: size.pages, cost: priced(size) - least });
    let core: Vec<Size> = losses.filter(|size| size.cost <= gap).collect();
    let neighbours = core.chunks(core.len().div_ceil(sizes_max).max(1));
    let by_loss = |a: &&Size, b: &&Size| a.cost.total_cmp(&b.cost);
    let best = neighbours.filter_map(|few| few.iter().min_by(by_loss));
    let mut best: Vec<Size> = best.copied().collect();
    best.sort_by(|a, b| by_loss(&a, &b));
    best
}

/// All states with one class more; of those with nearly the same pages only the one with the least loss. Counts the
/// states evaluated.
fn next_layer(
    states: &[State],
    core: &[Size],
    pages_max: u64,
    gap: f64,
    evaluations: &mut u64,
) -> Vec<State> {
    let with_it = || {
        let ways = states.iter().enumerate().flat_map(|(before, state)| {
            // The sizes are in ascending order of their losses.
            let within = core.iter().take_while(move |size| state.loss + size.cost <= gap);
            within.map(move |size| State {
                pages: state.pages + size.pages,
                loss: state.loss + size.cost,
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
        if slot.is_none_or(|kept| state.loss < kept.loss) {
            *slot = Some(state);
        }
    }
    kept.into_iter().flatten().collect()
}

fn split_of(layers: &[Vec<State>], end: usize) -> Vec<u64> {
    let mut split = Vec::with_capacity(layers.len() - 1);
    let mut at = end;
    for layer in layers[1..].iter().rev() {
        split.push(layer[at].own);
        at = layer[at].before;
    }
    split.reverse();
    split
}

#[cfg(test)]
#[path = "near_tests.rs"]
mod tests;
