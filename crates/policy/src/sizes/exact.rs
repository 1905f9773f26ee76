//! The best table of each number of classes, by dynamic programming.
//!
//! Candidates: the loss of a table does not increase if each size is reduced to the largest part that it holds, rounded
//! up. If the loss at the ends of pages counts, the size is then raised to the largest size with the same number of
//! chunks on a page. So there is one candidate for each number of chunks on a page: at most 2 * sqrt(page / align). Of
//! several equally good sizes the largest is chosen, because it also holds larger items, which are not yet known.
//!
//! The recurrence: W(j) is the weight (the number times the value of a byte) of all parts up to candidate j, and t(j)
//! the bytes that a chunk of this size takes. L(k, j) is the least number of bytes that these parts take in k classes,
//! the largest of which is j:
//!
//! ```text
//!   L(k, j) = min over i < j of  L(k - 1, i) + (W(j) - W(i)) * t(j)
//!           = W(j) * t(j)  +  min over i of the lines  L(k - 1, i) - W(i) * x  at  x = t(j)
//! ```
//!
//! The slopes -W(i) decrease with i, and the positions t(j) increase with j. So [`Lines`](super::layers::Lines) finds
//! L(k, j) for all n candidates j in O(n), and all tables of up to k classes in O(k n). The cost has the Monge
//! property, because (W(i') - W(i)) * (t(j') - t(j)) >= 0 for i <= i' and j <= j'. Hence an additional class never
//! saves more than the class added before it (A. Aggarwal, B. Schieber, T. Tokuyama, "Finding a minimum-weight k-link
//! path in graphs with the concave Monge property and applications", Discrete & Computational Geometry 12, 1994).
//!
//! Memory: 4 bytes for each candidate and class. For 63 classes, pages of 1 MiB and sizes that are multiples of 8, this
//! is 200 KB. If the ends of pages do not count, it is up to 33 MB, for items of all 131,072 sizes up to 1 MiB.

use super::error::{BadArgument, SizesError};
use super::layers::{Candidates, Layers, Lines};
use super::layout::{ChunkLayout, check_class_count};
use super::parts::{Demand, Loss, Parts};

/// The best table for each maximum number of classes.
#[derive(Clone, Debug, PartialEq)]
pub struct ExactTables {
    /// The maximum number of classes of the first table in `best`.
    class_count_min: usize,
    /// The best tables; each may have one class more than the table before it.
    best: Vec<BestTable>,
}

/// A table with the least loss.
#[derive(Clone, Debug, PartialEq)]
pub struct BestTable {
    /// The chunk sizes in bytes, ascending.
    pub sizes: Vec<usize>,
    /// The loss of the table.
    pub loss: Loss,
}

impl ExactTables {
    /// Returns the range of the maximum numbers of classes for which there is a table.
    pub fn class_counts(&self) -> std::ops::RangeInclusive<usize> {
        self.class_count_min..=self.class_count_min + self.best.len() - 1
    }

    /// Returns the best table of at most this many classes.
    ///
    /// # Panics
    /// Panics if the number is outside [`ExactTables::class_counts`].
    pub fn of(&self, class_count: usize) -> &BestTable {
        let counts = self.class_counts();
        assert!(
            counts.contains(&class_count),
            "the number of classes must be within {counts:?}, not {class_count}"
        );
        &self.best[class_count - self.class_count_min]
    }
}

/// Finds the best tables of up to `class_count_max` classes. Every table has the layout's largest chunk and the sizes
/// `kept`, which must ascend. These sizes count as classes.
pub fn exact(
    demands: &[Demand],
    layout: &ChunkLayout,
    kept: &[usize],
    class_count_max: usize,
) -> Result<ExactTables, SizesError> {
    let parts = Parts::of(demands, layout)?;
    check_class_count(class_count_max)?;
    layout.check_sizes(kept)?;
    let largest = layout.chunk_size_bytes_max;
    let mut fixed = kept.to_vec();
    if fixed.last() != Some(&largest) {
        fixed.push(largest);
    }
    if fixed.len() > class_count_max {
        return Err(BadArgument::TooManyKept { kept: fixed.len(), class_count_max }.into());
    }
    let candidates = Candidates::new(
        &parts,
        parts.sizes.iter().map(|&size| layout.stretched(size)),
        &fixed,
        layout,
    );
    let layers = Layers::of(&candidates, class_count_max, |last| layer(&candidates, last));
    let mut best: Vec<BestTable> = Vec::new();
    let mut least = f64::INFINITY;
    for class_count in fixed.len()..=class_count_max {
        // A table with more classes than candidates does not lose less.
        match layers.costs.get(class_count) {
            Some(&taken) if taken < least => {
                least = taken;
                let sizes = layers.table(&candidates, class_count);
                let loss = parts.loss(&sizes, layout);
                best.push(BestTable { sizes, loss });
            }
            _ => best.extend(best.last().cloned()),
        }
    }
    Ok(ExactTables { class_count_min: fixed.len(), best })
}

/// Adds a class to the tables whose least numbers of taken bytes are `last`. Entry j of `last` and of the results is
/// for tables whose largest size is at place j. Returns the least numbers of taken bytes, and the place of the second
/// largest size of each table.
fn layer(candidates: &Candidates, last: &[f64]) -> (Vec<f64>, Vec<u32>) {
    let (mut next, mut before) = (vec![f64::INFINITY; last.len()], vec![0; last.len()]);
    let mut lines = Lines::default();
    for place in 1..last.len() {
        let from = place - 1;
        if from > 0 && candidates.is_fixed[from - 1] {
            // Every table has this fixed size, so smaller parts are not stored in larger chunks.
            lines.clear();
        }
        lines.push(-candidates.weight[from], last[from], from as u32);
        let taken = candidates.taken[place];
        if let Some((least, from)) = lines.least(taken) {
            (next[place], before[place]) = (least + candidates.weight[place] * taken, from);
        }
    }
    (next, before)
}

#[cfg(test)]
#[path = "exact_tests.rs"]
mod tests;
