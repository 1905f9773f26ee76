//! The best class table for a cache that already holds items.
//!
//! A change of the table must reduce the [loss](Loss), that is, the wasted bytes, by more than the change costs. The
//! cost has two parts:
//!
//! - Each class costs memory, because it leaves about half a page unused. So the best table has no empty classes;
//!   [`fill_gaps`](super::fill_gaps) later adds sizes for items that are not yet known.
//! - Each byte of an item whose chunk size changes must be copied or evicted.
//!
//! The dynamic programming is the same as in [`exact`](super::exact()), except that the current sizes are candidates in
//! addition to the rounded sizes of all parts. B(j) is the bytes of all parts up to candidate j, m the price of a byte
//! that moves, and p(j) the greatest current size below j. If the parts between i and j are stored in chunks of size j,
//! their cost is the bytes that the chunks take plus
//!
//! ```text
//!   m * (B(j) - B(i))               if j is new
//!   m * (B(p(j)) - B(i))            if j is current and i is below p(j): the parts in smaller chunks move
//!   0                               if j is current and i is not below p(j)
//! ```
//!
//! So three sets of lines are needed. L(i) is the least cost of the parts up to candidate i, W(i) is the weight of
//! these parts (their number times the value of a byte), and x is the bytes that a chunk of size j takes. In the first
//! two cases the lines are `L(i) - m * B(i) - W(i) * x`: for all i in the first case, for i below p(j) in the second.
//! In the third case the lines are `L(i) - W(i) * x` for the other i. In each set slopes decrease and positions
//! increase, so the computation takes O(k n) for k classes and n candidates.

use super::error::{BadArgument, SizesError};
use super::hill_climb::{HillClimbOptions, hill_climb};
use super::layers::{Candidates, Layers, Lines};
use super::layout::{ChunkLayout, check_class_count};
use super::parts::{Demand, Loss, Parts};
use slabwise_base::Random;

/// The prices that decide whether a change of the table pays. A price is a number of lost bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePrices {
    /// The price of each byte of an item whose chunk size changes. It is multiplied by the byte's value.
    pub moved_byte_price: f64,
    /// The price of each class of a table.
    pub class_price_bytes: f64,
}

/// A new table, compared with the current table.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The chunk sizes of the new table in bytes, ascending. They are the current sizes if no other table is better.
    pub table: Vec<usize>,
    /// The bytes that the current table wastes.
    pub current_loss: Loss,
    /// The bytes that the new table wastes.
    pub new_loss: Loss,
    /// The bytes of all items whose chunk sizes change.
    pub moved_bytes: f64,
    /// The number of classes of the current table that hold items.
    pub current_classes: usize,
    /// The number of classes of the new table that hold items.
    pub new_classes: usize,
}

impl Change {
    /// Returns the reduction of the loss minus the price of additional classes that hold items. The price of moved
    /// bytes is not subtracted.
    pub fn gain_bytes(&self, prices: &ChangePrices) -> f64 {
        let classes = self.new_classes as f64 - self.current_classes as f64;
        let lost = self.current_loss.total_bytes() - self.new_loss.total_bytes();
        lost - prices.class_price_bytes * classes
    }
}

/// A gain is a rounding error if it is below this share of the bytes of all parts.
const GAIN_MIN: f64 = 1e-9;

/// Finds the table of at most `class_count_max` classes with the least sum of its loss and the price of the change.
/// `current` has the current chunk sizes; the result has them too if no other table is better.
pub fn exact_change(
    demands: &[Demand],
    layout: &ChunkLayout,
    class_count_max: usize,
    current: &[usize],
    prices: &ChangePrices,
) -> Result<Change, SizesError> {
    let parts = Parts::of(demands, layout)?;
    check_class_count(class_count_max)?;
    layout.check_table(current)?;
    for price in [prices.moved_byte_price, prices.class_price_bytes] {
        if !(price >= 0.0 && price.is_finite()) {
            return Err(BadArgument::Price { price }.into());
        }
    }
    let candidates = Candidates::new(&parts, parts.sizes.iter().copied(), current, layout);
    let layers = Layers::of(&candidates, class_count_max, |last| layer(&candidates, prices, last));
    let by_cost = |&a: &usize, &b: &usize| layers.costs[a].total_cmp(&layers.costs[b]);
    let class_count = (0..layers.costs.len()).min_by(by_cost).unwrap_or(0);
    let mut table = layers.table(&candidates, class_count);
    raise_new_sizes(&mut table, current, &parts, layout);
    Ok(change_to(table, current, &parts, layout, prices))
}

/// Finds a table by hill climbing from the current table, as published by Jai and Das (2020). The number of classes
/// stays. The result has the current chunk sizes if the climb does not save more than the change costs. The random steps
/// depend only on `seed`.
pub fn climbed_change(
    demands: &[Demand],
    layout: &ChunkLayout,
    current: &[usize],
    prices: &ChangePrices,
    seed: u64,
) -> Result<Change, SizesError> {
    let parts = Parts::of(demands, layout)?;
    let (options, mut random) = (HillClimbOptions::default(), Random::new(seed));
    let climb = hill_climb(demands, current, layout, &options, &mut random)?;
    Ok(change_to(climb.table, current, &parts, layout, prices))
}

/// Compares a table with the current table. The result has the current chunk sizes if the table does not save more than
/// the change costs.
fn change_to(
    table: Vec<usize>,
    current: &[usize],
    parts: &Parts,
    layout: &ChunkLayout,
    prices: &ChangePrices,
) -> Change {
    let cost_of = |table: &[usize]| {
        let moved = sum_over_moved(parts, &parts.valued_bytes_before, table, current);
        let loss = parts.loss(table, layout).total_bytes();
        loss + prices.class_price_bytes * table.len() as f64 + prices.moved_byte_price * moved
    };
    let is_gain = cost_of(&table) < cost_of(current) - GAIN_MIN * parts.valued_bytes();
    let table = if is_gain { table } else { current.to_vec() };
    Change {
        current_loss: parts.loss(current, layout),
        new_loss: parts.loss(&table, layout),
        moved_bytes: sum_over_moved(parts, &parts.bytes_before, &table, current),
        current_classes: classes_used(parts, current, layout),
        new_classes: classes_used(parts, &table, layout),
        table,
    }
}

/// Returns the number of classes of a table that hold parts of items.
fn classes_used(parts: &Parts, table: &[usize], layout: &ChunkLayout) -> usize {
    let mut end = 0;
    let mut is_used = |&size: &usize| {
        let before = std::mem::replace(&mut end, parts.fitting(size));
        end > before || size == layout.chunk_size_bytes_max && parts.full_weight > 0.0
    };
    table.iter().filter(|size| is_used(size)).count()
}

/// Raises the sizes that are not in the current table to the largest size with the same number of chunks on a page. No
/// known part changes its class by this.
fn raise_new_sizes(table: &mut [usize], current: &[usize], parts: &Parts, layout: &ChunkLayout) {
    for class in 0..table.len() - 1 {
        let (size, above) = (table[class], table[class + 1]);
        if current.binary_search(&size).is_err() {
            let end = parts.sizes.get(parts.fitting(size)).map_or(above, |&part| part.min(above));
            table[class] = layout.stretched(size).min(end - layout.chunk_align_bytes);
        }
    }
}

/// Returns a sum over all parts whose chunk sizes in the two tables differ. `before[i]` is the sum over the parts
/// before the index i.
fn sum_over_moved(parts: &Parts, before: &[f64], table: &[usize], current: &[usize]) -> f64 {
    let ends = |table: &[usize]| table.iter().map(|&size| parts.fitting(size)).collect::<Vec<_>>();
    let (new_ends, old_ends) = (ends(table), ends(current));
    let (mut moved, mut first, mut new, mut old) = (0.0, 0, 0, 0);
    // The largest chunk of each table holds all parts, so the loop ends.
    while first < parts.sizes.len() {
        let end = new_ends[new].min(old_ends[old]);
        if end > first && table[new] != current[old] {
            moved += before[end] - before[first];
        }
        first = first.max(end);
        new += usize::from(new_ends[new] <= first && new + 1 < table.len());
        old += usize::from(old_ends[old] <= first && old + 1 < current.len());
    }
    moved
}

/// Adds a class to the tables whose least costs are `last`. Entry j of `last` and of the results is for tables whose
/// largest size is at place j. Returns the least costs, and the place of the second largest size of each table.
fn layer(candidates: &Candidates, prices: &ChangePrices, last: &[f64]) -> (Vec<f64>, Vec<u32>) {
    let end = candidates.sizes.len();
    let Candidates { taken, weight, valued_bytes, is_fixed: is_current, .. } = candidates;
    let moving = |from: usize| last[from] - prices.moved_byte_price * valued_bytes[from];
    let (mut next, mut before) = (vec![f64::INFINITY; end + 1], vec![0; end + 1]);
    // The lines of all places; of the places below the previous current size; and of the places from there on.
    let (mut all, mut below, mut near) = (Lines::default(), Lines::default(), Lines::default());
    let mut below_end = 0;
    // The place of the previous current size; 0 if there is none.
    let mut current = 0;
    for place in 1..=end {
        let from = place - 1;
        if from > 0 && is_current[from - 1] {
            near.clear();
            current = from;
            (below_end..current)
                .for_each(|from| below.push(-weight[from], moving(from), from as u32));
            below_end = current;
        }
        all.push(-weight[from], moving(from), from as u32);
        near.push(-weight[from], last[from], from as u32);
        let x = taken[place];
        let stored = weight[place] * x + prices.class_price_bytes;
        let cost_from = |lines: &mut Lines, moved: f64| {
            lines
                .least(x)
                .map(|(least, from)| (least + stored + prices.moved_byte_price * moved, from))
        };
        let ways = if is_current[place - 1] {
            [cost_from(&mut near, 0.0), cost_from(&mut below, valued_bytes[current])]
        } else {
            [cost_from(&mut all, valued_bytes[place]), None]
        };
        for (cost, from) in ways.into_iter().flatten() {
            if cost < next[place] {
                (next[place], before[place]) = (cost, from);
            }
        }
    }
    (next, before)
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
