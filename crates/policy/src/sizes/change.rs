//! What a cache that holds items should change its table to.
//!
//! A change pays if it loses less than before by more than it costs:
//!
//! - each class leaves about half a page unused; an empty one goes for that, and [`fill_gaps`](super::fill_gaps)
//!   restores what unknown items may need;
//! - each byte of an item whose chunk changes its size has to be carried or evicted.
//!
//! The dynamic programming is that of [`exact`](super::exact()), with the present sizes as candidates beside all those
//! that some part is rounded up to. With B(j) the bytes of all parts up to candidate j, m the price of a byte that
//! moves, and p(j) the present size before j, the parts between i and j in chunks of size j cost, beside what these
//! take,
//!
//! ```text
//!   m * (B(j) - B(i))               if j is new
//!   m * (B(p(j)) - B(i))            if j is present and i is below p(j): the parts in smaller chunks move
//!   0                               if j is present and i is not below p(j)
//! ```
//!
//! The first two are lines L(i) - m * B(i) - W(i) * x, once from all i and once from those below p(j); the third lines
//! L(i) - W(i) * x from the rest. Slopes fall and places rise in all three, so it stays O(k n).

use super::error::{BadArgument, SizesError};
use super::layers::{Candidates, Layers, Lines};
use super::layout::{ChunkLayout, check_class_count};
use super::parts::{Demand, Loss, Parts};

/// What a change costs, in bytes lost for good.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePrices {
    /// For a byte of an item whose chunk has another size then; times what the byte is worth.
    pub moved_byte: f64,
    /// For each class of a table.
    pub class_bytes: f64,
}

/// A table, beside the present one.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Chunk sizes in bytes, ascending; the present ones if none are better.
    pub table: Vec<usize>,
    /// What the present table loses.
    pub loss_now: Loss,
    /// What this one does.
    pub loss_then: Loss,
    /// Bytes of items whose chunks have other sizes then.
    pub moved_bytes: f64,
    /// Classes of the present table that hold something.
    pub classes_now: usize,
    /// Those of this one.
    pub classes_then: usize,
}

impl Change {
    /// Bytes that are lost no more, less what further classes that hold something cost; what moves is not counted.
    pub fn gain_bytes(&self, prices: &ChangePrices) -> f64 {
        let classes = self.classes_then as f64 - self.classes_now as f64;
        let lost = self.loss_now.total_bytes() - self.loss_then.total_bytes();
        lost - prices.class_bytes * classes
    }
}

/// A gain below this part of what all parts take is a rounding.
const GAIN_MIN: f64 = 1e-9;

/// The table of at most `class_count_max` classes that is best to change to; the present one if no other is better.
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
    give_room(&mut table, present, &parts, layout);
    let price_of = |table: &[usize]| {
        let moved = moved(&parts, &parts.worth_before, table, present);
        let loss = parts.loss(table, layout).total_bytes();
        loss + prices.class_bytes * table.len() as f64 + prices.moved_byte * moved
    };
    let is_gain = price_of(&table) < price_of(present) - GAIN_MIN * parts.worth();
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
    let mut first = 0;
    let mut holds_some = |&size: &usize| {
        let before = std::mem::replace(&mut first, parts.fitting(size));
        first > before || size == layout.chunk_size_bytes_max && parts.full_weight > 0.0
    };
    table.iter().filter(|size| holds_some(size)).count()
}

/// Raises new sizes as far as they take no more and no known part finds another chunk.
fn give_room(table: &mut [usize], present: &[usize], parts: &Parts, layout: &ChunkLayout) {
    for class in 0..table.len() - 1 {
        let (size, above) = (table[class], table[class + 1]);
        if present.binary_search(&size).is_err() {
            let end = parts.sizes.get(parts.fitting(size)).map_or(above, |&part| part.min(above));
            table[class] = layout.stretched(size).min(end - layout.chunk_align_bytes);
        }
    }
}

/// What of `before` belongs to parts whose chunks in the two tables differ.
fn moved(parts: &Parts, before: &[f64], table: &[usize], present: &[usize]) -> f64 {
    let ends = |table: &[usize]| table.iter().map(|&size| parts.fitting(size)).collect::<Vec<_>>();
    let (ends_then, ends_now) = (ends(table), ends(present));
    let (mut moved, mut first, mut then, mut now) = (0.0, 0, 0, 0);
    // Both tables end with a chunk that holds all.
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

/// One class more than `last`, by place: the least cost, and the place before.
fn layer(candidates: &Candidates, prices: &ChangePrices, last: &[f64]) -> (Vec<f64>, Vec<u32>) {
    let end = candidates.sizes.len();
    let Candidates { taken, weight, worth, is_fixed: is_present, .. } = candidates;
    let moving = |from: usize| last[from] - prices.moved_byte * worth[from];
    let (mut next, mut before) = (vec![f64::INFINITY; end + 1], vec![0; end + 1]);
    // From all places, from those below the present size before, and from the rest.
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
