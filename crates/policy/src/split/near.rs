//! A split nearly as good as the best, in time that does not grow with the pages.
//!
//! ```text
//!   sizes        where a curve bends, and a grid: outside these it is straight
//!     |
//!   hull_split   steepest segments first; its slope at the end gives a bound that no split beats
//!     |
//!   filled       the rest of the pages goes where it saves most. Near the bound? Done: the common case
//!     |
//!   core         else a cliff does not fit: dynamic programming over the sizes that could still be part of a
//!     |          better split, with states thinned to a fixed number
//!     '--> the better of the two
//! ```
//!
//! The problem is the multiple-choice knapsack: of each class one size. Its relaxation allows sizes between a hull's
//! corners and gives the price λ of a page. A size's *loss* is its cost above that of its class's best size at λ. A
//! split costs the bound, its losses, and λ for each unused page. So a size with a loss above the gap of a known split
//! is part of no better one: few are left, the core. Source: D. Pisinger, "A minimal algorithm for the multiple-choice
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
/// The number of sizes looked at is bounded by the classes alone: a few hundred thousand for sixty, some
/// milliseconds' work.
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

pub(crate) struct Near<'a> {
    classes: &'a [ClassCurve<'a>],
    pages: u64,
    move_price: f64,
    /// By class, rising in pages.
    sizes: Vec<Vec<Size>>,
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

/// What a class gains by another size.
#[derive(Clone, Copy)]
struct Gain {
    pages: u64,
    /// For each page more.
    a_page: f64,
}

impl Gain {
    fn of(own: u64, cost: f64, size: Size) -> Gain {
        let more = size.pages - own;
        Gain { pages: size.pages, a_page: (cost - size.cost) / more as f64 }
    }
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
        let places = 0..split.len();
        let mut gains: Vec<Option<Gain>> =
            places.clone().map(|index| self.best_size(index, split[index], left)).collect();
        for _ in 0..FILL_ROUNDS_MAX {
            let mut best: Option<(usize, Gain)> = None;
            for index in places.clone() {
                let own = split[index];
                // What fitted best is still best while it fits.
                if gains[index].is_some_and(|gain| gain.pages > own + left) {
                    gains[index] = self.best_size(index, own, left);
                }
                for gain in [gains[index], self.gain_of_all(index, own, left)].into_iter().flatten()
                {
                    if gain.a_page > best.map_or(0.0, |(_, best)| best.a_page) {
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

    /// Of the class's sizes above its own, by at most `left` pages, the one that saves most a page.
    fn best_size(&mut self, index: usize, own: u64, left: u64) -> Option<Gain> {
        let now = priced(&self.classes[index], own, self.move_price);
        let sizes = &self.sizes[index];
        let above = &sizes[sizes.partition_point(|size| size.pages <= own)..];
        let within = &above[..above.partition_point(|size| size.pages <= own + left)];
        self.looks += within.len() as u64 + 1;
        let gains = within.iter().map(|size| Gain::of(own, now, *size));
        gains.reduce(|best, gain| if gain.a_page > best.a_page { gain } else { best })
    }

    /// What the class gains by all pages that are left.
    fn gain_of_all(&mut self, index: usize, own: u64, left: u64) -> Option<Gain> {
        self.looks += 1;
        let class = &self.classes[index];
        let at = |pages| Size { pages, cost: priced(class, pages, self.move_price) };
        (left > 0).then(|| Gain::of(own, at(own).cost, at(own + left)))
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
            let pages_max = self.pages.saturating_sub(least_behind);
            let layer = next_layer(states, core, pages_max, gap, &mut self.looks);
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
    let mut sizes: Vec<u64> = Vec::with_capacity(2 * points.len() + GRID_STEPS as usize);
    for point in points {
        let fits = class.pages_at(point.chunks);
        // Many points may lie within a page.
        let known = sizes.last().copied();
        sizes.extend([fits, fits + 1].into_iter().filter(|&size| known.is_none_or(|it| size > it)));
    }
    sizes.extend(range.clone().step_by((pages / GRID_STEPS).max(1) as usize));
    sizes.extend([*range.start(), *range.end(), class.pages, class.pages_usable]);
    sizes.retain(|size| range.contains(size));
    // Stable: it finds the bends in order, and the grid.
    sizes.sort();
    sizes.dedup();
    let costs = class.costs(sizes.iter().copied(), move_price);
    sizes.iter().zip(costs).map(|(&pages, cost)| Size { pages, cost }).collect()
}

/// The sizes with a loss within the gap, with their losses for costs, the least first; where there are too many,
/// of each few neighbours the one of least loss.
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

/// All states with one class more, but of those of nearly the same pages only the one of least loss. Counts the
/// states looked at.
fn next_layer(
    states: &[State],
    core: &[Size],
    pages_max: u64,
    gap: f64,
    looks: &mut u64,
) -> Vec<State> {
    let with_it = || {
        let ways = states.iter().enumerate().flat_map(|(before, state)| {
            // Sizes come with rising losses.
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
        *looks += 2;
        let place = &mut kept[((state.pages - fewest) / width) as usize];
        if place.is_none_or(|kept| state.loss < kept.loss) {
            *place = Some(state);
        }
    }
    kept.into_iter().flatten().collect()
}

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
