//! A split nearly as good as the best, in time that does not grow with the pages.
//!
//! ```text
//!   sizes        where a curve bends, and a grid: outside these it is straight
//!     |
//!   hull_split   steepest segments first; its slope at the end gives a bound that no split beats
//!     |
//!   filled       what is left goes where it saves most. Near the bound? Done: the common case
//!     |
//!   core         else a cliff does not fit: dynamic programming over the sizes that could still be part of a
//!     |          better split, with states thinned to a fixed number
//!     '--> the better of the two
//! ```
//!
//! The problem is the multiple-choice knapsack: of each class one size. Its relaxation, where sizes between
//! a hull's corners may be had, gives the price λ of a page; a size's *loss* is what it costs more than
//! its class's best size at that price. A split costs the bound, its losses and λ for each page that it
//! leaves unused. So no size with a loss above the gap of a split already known is part of a better
//! one: few are left, the core. Source: D. Pisinger, "A minimal algorithm for the multiple-choice
//! knapsack problem", European Journal of Operational Research 83, 1995.

use super::exact::best_split_at;
use super::hull::{Size, hull, hull_split};
use super::{ClassCurve, least_move_price};

/// Up to so many steps of [`best_split`] it is asked instead.
const EXACT_STEPS_MAX: u64 = 1 << 19;
/// Sizes that are looked at between the bends of a curve.
const GRID_STEPS: u64 = 128;
/// Bends of a curve that are looked at.
const BENDS_MAX: usize = 1 << 11;
/// Sizes in the core, of all classes together.
const CORE_SIZES_MAX: usize = 1 << 12;
/// States of the core.
const CORE_STATES_MAX: usize = 256;
/// How many of the core's last states are made into splits.
const CORE_SPLITS_MAX: usize = 8;
/// How often what is left is handed out, a part each time.
const FILL_ROUNDS_MAX: usize = 32;
/// A split that costs so much more than the bound, as a part of it, is near enough.
const GAP_MAX: f64 = 0.0005;

/// A split of at most `pages` pages that costs little more than [`best_split`]'s; an element a class.
///
/// The number of sizes looked at is bounded by the classes alone: a few hundred thousand for sixty.
///
/// # Panics
/// If there are fewer pages than the classes keep.
pub fn near_best_split(classes: &[ClassCurve], pages: u64) -> Vec<u64> {
    near_best_split_at(classes, pages, least_move_price(classes))
}

/// The same where every page that a class has more or less than at present costs `move_price`.
pub(crate) fn near_best_split_at(classes: &[ClassCurve], pages: u64, move_price: f64) -> Vec<u64> {
    let exact_steps = pages.saturating_mul(pages).saturating_mul(classes.len() as u64) / 2;
    if exact_steps <= EXACT_STEPS_MAX {
        return best_split_at(classes, pages, move_price);
    }
    Near::new(classes, pages, move_price).split()
}

/// The problem, and how much has been looked at.
pub(crate) struct Near<'a> {
    classes: &'a [ClassCurve<'a>],
    pages: u64,
    move_price: f64,
    /// By class, rising in pages.
    sizes: Vec<Vec<Size>>,
    /// How many sizes or states have been looked at so far.
    looks: u64,
}

/// A state of the core: one way to give some first classes a size each.
#[derive(Clone, Copy)]
struct State {
    pages: u64,
    loss: f64,
    /// Where it came from: a state of the classes but the last, and the last one's size.
    before: usize,
    own: u64,
}

impl<'a> Near<'a> {
    pub fn new(classes: &'a [ClassCurve<'a>], pages: u64, move_price: f64) -> Near<'a> {
        let pages_min: u64 = classes.iter().map(|class| class.pages_min).sum();
        assert!(pages_min <= pages, "classes keep {pages_min} pages and there are only {pages}");
        let sizes: Vec<_> =
            classes.iter().map(|class| sizes_of(class, pages, move_price)).collect();
        let looks = sizes.iter().map(|sizes| sizes.len() as u64).sum();
        Near { classes, pages, move_price, sizes, looks }
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

    /// The cost of a split, the way there from the present included.
    fn cost(&self, split: &[u64]) -> f64 {
        let each = self.classes.iter().zip(split);
        each.map(|(class, &pages)| priced(class, pages, self.move_price)).sum()
    }

    /// Hands out what is left, each time to the class and size that save most a page.
    fn fill(&mut self, split: &mut [u64], mut left: u64) {
        for _ in 0..FILL_ROUNDS_MAX {
            let mut best: Option<(usize, u64, f64)> = None;
            for (index, class) in self.classes.iter().enumerate() {
                let own = split[index];
                let now = priced(class, own, self.move_price);
                let sizes = &self.sizes[index];
                let within = &sizes[sizes.partition_point(|size| size.pages <= own)..];
                let within = &within[..within.partition_point(|size| size.pages <= own + left)];
                self.looks += within.len() as u64 + 1;
                let all = Size { pages: own + left, cost: f64::NAN };
                for &size in within.iter().chain(Some(&all).filter(|_| left > 0)) {
                    let own_cost = match size.cost.is_nan() {
                        true => priced(class, size.pages, self.move_price),
                        false => size.cost,
                    };
                    let saved = (now - own_cost) / (size.pages - own) as f64;
                    if saved > best.map_or(0.0, |best| best.2) {
                        best = Some((index, size.pages, saved));
                    }
                }
            }
            let Some((index, size, _)) = best else { return };
            left -= size - split[index];
            split[index] = size;
        }
    }

    /// Splits made of sizes whose losses together stay within the gap, the most promising first.
    fn core(&mut self, price: f64, gap: f64) -> Vec<Vec<u64>> {
        let sizes_max = CORE_SIZES_MAX.div_ceil(self.sizes.len());
        let core = |sizes: &Vec<Size>| core_sizes(sizes, sizes_max, price, gap);
        let cores: Vec<_> = self.sizes.iter().map(core).collect();
        let least = |core: &Vec<Size>| core.iter().map(|size| size.pages).min().unwrap_or(0);
        let mut least_behind: u64 = cores.iter().map(least).sum();
        let mut layers = vec![vec![State { pages: 0, loss: 0.0, before: 0, own: 0 }]];
        for core in &cores {
            least_behind -= least(core);
            let states = &layers[layers.len() - 1];
            self.looks += (states.len() * core.len()) as u64;
            let layer = next_layer(states, core, self.pages.saturating_sub(least_behind), gap);
            layers.push(layer);
        }
        let last = layers.len() - 1;
        let mut ends: Vec<usize> = (0..layers[last].len()).collect();
        let unused = |state: &State| price * (self.pages - state.pages) as f64;
        let worth = |&end: &usize| layers[last][end].loss + unused(&layers[last][end]);
        ends.sort_by(|a, b| worth(a).total_cmp(&worth(b)));
        ends.truncate(CORE_SPLITS_MAX);
        ends.into_iter().map(|end| way_to(&layers, end)).collect()
    }
}

/// The cost of a size, the way there from the present included.
fn priced(class: &ClassCurve, pages: u64, move_price: f64) -> f64 {
    class.cost(pages) + move_price * pages.abs_diff(class.pages) as f64
}

/// Where the class's cost bends, a grid, and the present.
fn sizes_of(class: &ClassCurve, pages: u64, move_price: f64) -> Vec<Size> {
    let range = class.pages_min..=class.pages_max(pages);
    let points = class.curve.points();
    let points = points.iter().step_by(points.len().div_ceil(BENDS_MAX));
    let bends = points.flat_map(|point| {
        let fits = class.pages_at(point.chunks);
        [fits, fits + 1]
    });
    let grid = range.clone().step_by((pages / GRID_STEPS).max(1) as usize);
    let ends = [*range.start(), *range.end(), class.pages, class.pages_usable];
    let mut sizes: Vec<u64> = bends.chain(grid).chain(ends).collect();
    sizes.retain(|size| range.contains(size));
    sizes.sort_unstable();
    sizes.dedup();
    let size = |pages| Size { pages, cost: priced(class, pages, move_price) };
    sizes.into_iter().map(size).collect()
}

/// The sizes with a loss within the gap, with their losses for costs; where there are too many, of each few
/// neighbours the one of least loss.
fn core_sizes(sizes: &[Size], sizes_max: usize, price: f64, gap: f64) -> Vec<Size> {
    let priced = |size: &Size| size.cost + price * size.pages as f64;
    let least = sizes.iter().map(priced).fold(f64::INFINITY, f64::min);
    let losses = sizes.iter().map(|size| Size { pages: size.pages, cost: priced(size) - least });
    let core: Vec<Size> = losses.filter(|size| size.cost <= gap).collect();
    let neighbours = core.chunks(core.len().div_ceil(sizes_max).max(1));
    let best = neighbours.filter_map(|few| few.iter().min_by(|a, b| a.cost.total_cmp(&b.cost)));
    best.copied().collect()
}

/// All states with one class more, but of those of nearly the same pages only the one of least loss.
fn next_layer(states: &[State], core: &[Size], pages_max: u64, gap: f64) -> Vec<State> {
    let with_it = || {
        let ways = states.iter().enumerate().flat_map(|(before, state)| {
            core.iter().map(move |size| State {
                pages: state.pages + size.pages,
                loss: state.loss + size.cost,
                before,
                own: size.pages,
            })
        });
        ways.filter(|state| state.pages <= pages_max && state.loss <= gap)
    };
    let (fewest, most) = with_it().fold((u64::MAX, 0), |(fewest, most), state| {
        (state.pages.min(fewest), state.pages.max(most))
    });
    let width = (most.saturating_sub(fewest) / CORE_STATES_MAX as u64) + 1;
    let mut kept: Vec<Option<State>> = vec![None; CORE_STATES_MAX];
    for state in with_it() {
        let place = &mut kept[((state.pages - fewest) / width) as usize];
        if place.is_none_or(|kept| state.loss < kept.loss) {
            *place = Some(state);
        }
    }
    kept.into_iter().flatten().collect()
}

/// The sizes that led to a state of the last layer.
fn way_to(layers: &[Vec<State>], end: usize) -> Vec<u64> {
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
