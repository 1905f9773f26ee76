//! The best table for a cache that already holds items.
//!
//! A change pays if it reduces the loss by more than it costs:
//!
//! - each class leaves about half a page unused; so empty classes are removed, and [`fill_gaps`](super::fill_gaps)
//!   adds sizes for unknown items;
//! - each byte of an item whose chunk size changes must be carried or evicted.
//!
//! The dynamic programming is that of [`exact`](super::exact()), with the current sizes as candidates in addition to
//! the rounded sizes of all parts. B(j) is the bytes of all parts up to candidate j, m the price of a byte that moves,
//! and p(j) the current size before j. The parts between i and j in chunks of size j cost, in addition to the bytes
//! that they take,
//!
//! ```text
//!   m * (B(j) - B(i))               if j is new
//!   m * (B(p(j)) - B(i))            if j is current and i is below p(j): the parts in smaller chunks move
//!   0                               if j is current and i is not below p(j)
//! ```
//!
//! The first two are lines L(i) - m * B(i) - W(i) * x, for all i and for those below p(j); the third are lines
//! L(i) - W(i) * x for the others. Slopes fall and positions rise in all three, so it takes O(k n).

use super::error::{BadArgument, SizesError};
use super::layers::{Candidates, Layers, Lines};
use super::layout::{ChunkLayout, check_class_count};
use super::parts::{Demand, Loss, Parts};

/// The costs of a change, in lost bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePrices {
    /// The cost of a byte of an item whose chunk size changes; multiplied by the byte's value.
    pub moved_byte: f64,
    /// The cost of each class of a table.
    pub class_bytes: f64,
}

/// A table to change to, compared with the current one.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Chunk sizes in bytes, ascending; the current ones if none are better.
    pub table: Vec<usize>,
    /// The loss of the current table.
    pub loss_now: Loss,
    /// The loss of the new table.
    pub loss_then: Loss,
    /// Bytes of items whose chunk sizes change.
    pub moved_bytes: f64,
    /// Classes of the current table that hold items.
    pub classes_now: usize,
    /// Classes of the new table that hold items.
    pub classes_then: usize,
}

impl Change {
    /// The reduction of the loss, less the cost of additional classes that hold items; moved bytes do not count.
    pub fn gain_bytes(&self, prices: &ChangePrices) -> f64 {
        let classes = self.classes_then as f64 - self.classes_now as f64;
        let lost = self.loss_now.total_bytes() - self.loss_then.total_bytes();
        lost - prices.class_bytes * classes
    }
}

/// A gain below this share of the bytes of all parts is a rounding error.
const GAIN_MIN: f64 = 1e-9;

/// Finds the best table of at most `class_count_max` classes to change to; the current one if no other is better.
pub fn exact_change(
    demands: &[Demand],
    layout: &ChunkLayout,
    class_count_max: usize,
    present: &[usize],
    prices: &ChangePrices,
) -> Result<Change, SizesError> {
    let parts = Parts::of(demands, layout)?;
    check_class_count(class_count_max)?;
    layout.check_table(present)?;
    for price in [prices.moved_byte, prices.class_bytes] {
        if !(price >= 0.0 && price.is_finite()) {
            return Err(BadArgument::Price { price }.into());
        }
    }
    let candidates = Candidates::new(&parts, parts.sizes.iter().copied(), present, layout);
    let layers = Layers::of(&candidates, class_count_max, |last| layer(&candidates, prices, last));
    let by_cost = |&a: &usize, &b: &usize| layers.costs[a].total_cmp(&layers.costs[b]);
    let class_count = (0..layers.costs.len()).min_by(by_cost).unwrap_or(0);
    let mut table = layers.table(&candidates, class_count);
    widen(&mut table, present, &parts, layout);
    let cost_of = |table: &[usize]| {
        let moved = moved(&parts, &parts.worth_before, table, present);
        let loss = parts.loss(table, layout).total_bytes();
        loss + prices.class_bytes * table.len() as f64 + prices.moved_byte * moved
    };
    let is_gain = cost_of(&table) < cost_of(present) - GAIN_MIN * parts.worth();
    let table = if is_gain { table } else { present.to_vec() };
    Ok(Change {
        loss_now: parts.loss(present, layout),
        loss_then: parts.loss(&table, layout),
        moved_bytes: moved(&parts, &parts.bytes_before, &table, present),
        classes_now: classes_used(&parts, present, layout),
        classes_then: classes_used(&parts, &table, layout),
        table,
    })
}

fn classes_used(parts: &Parts, table: &[usize], layout: &ChunkLayout) -> usize {
    let mut end = 0;
    let mut is_used = |&size: &usize| {
        let before = std::mem::replace(&mut end, parts.fitting(size));
        end > before || size == layout.chunk_size_bytes_max && parts.full_weight > 0.0
    };
    table.iter().filter(|size| is_used(size)).count()
}

/// Raises new sizes as long as they take no more memory and each known part keeps its class.
fn widen(table: &mut [usize], present: &[usize], parts: &Parts, layout: &ChunkLayout) {
    for class in 0..table.len() - 1 {
        let (size, above) = (table[class], table[class + 1]);
        if present.binary_search(&size).is_err() {
            let end = parts.sizes.get(parts.fitting(size)).map_or(above, |&part| part.min(above));
            table[class] = layout.stretched(size).min(end - layout.chunk_align_bytes);
        }
    }
}

/// The sum of `before` over parts whose chunk sizes in the two tables differ.
fn moved(parts: &Parts, before: &[f64], table: &[usize], present: &[usize]) -> f64 {
    let ends = |table: &[usize]| table.iter().map(|&size| parts.fitting(size)).collect::<Vec<_>>();
    let (ends_then, ends_now) = (ends(table), ends(present));
    let (mut moved, mut first, mut then, mut now) = (0.0, 0, 0, 0);
    // Both tables end with a chunk that holds all parts.
    while first < parts.sizes.len() {
        let end = ends_then[then].min(ends_now[now]);
        if end > first && table[then] != present[now] {
            moved += before[end] - before[first];
        }
        first = first.max(end);
        then += usize::from(ends_then[then] <= first && then + 1 < table.len());
        now += usize::from(ends_now[now] <= first && now + 1 < present.len());
    }
    moved
}

/// Adds a class to `last`, by place: the least cost, and the previous place.
fn layer(candidates: &Candidates, prices: &ChangePrices, last: &[f64]) -> (Vec<f64>, Vec<u32>) {
    let end = candidates.sizes.len();
    let Candidates { taken, weight, worth, is_fixed: is_present, .. } = candidates;
    let moving = |from: usize| last[from] - prices.moved_byte * worth[from];
    let (mut next, mut before) = (vec![f64::INFINITY; end + 1], vec![0; end + 1]);
    // Lines from all places, from those below the previous current size, and from the others.
    let (mut all, mut below, mut near) = (Lines::default(), Lines::default(), Lines::default());
    let mut below_end = 0;
    let mut present = 0;
    for place in 1..=end {
        let from = place - 1;
        if from > 0 && is_present[from - 1] {
            near.clear();
            present = from;
            (below_end..present)
                .for_each(|from| below.push(-weight[from], moving(from), from as u32));
            below_end = present;
        }
        all.push(-weight[from], moving(from), from as u32);
        near.push(-weight[from], last[from], from as u32);
        let x = taken[place];
        let stored = weight[place] * x + prices.class_bytes;
        let with = |lines: &mut Lines, moved: f64| {
            lines.least(x).map(|(least, from)| (least + stored + prices.moved_byte * moved, from))
        };
        let ways = if is_present[place - 1] {
            [with(&mut near, 0.0), with(&mut below, worth[present])]
        } else {
            [with(&mut all, worth[place]), None]
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
