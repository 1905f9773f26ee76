//! Dynamic programming over the possible sizes of a table. Each layer adds one class.
//!
//! A layer needs, at each size, the least value of many lines. Lines are added in the order of decreasing slopes and
//! evaluated at increasing positions. So if a line is below an earlier line at one position, it is below that line at
//! all later positions. The lines that can have the least value at a later position form a queue, the lower envelope.
//! Each line is added to the queue once and removed at most once, so n lines and n evaluations take O(n) steps. Source
//! of the method for such costs: P. Brucker, "Efficient algorithms for some path partitioning problems", Discrete
//! Applied Mathematics 62, 1995.
//!
//! Rounding: a line may be missing if it is below its neighbours by less than the rounding error of the sums.

use super::layout::ChunkLayout;
use super::parts::Parts;

/// The possible sizes of a table. The *place* of a size is its index in `sizes` plus 1; place 0 is before all sizes.
pub(super) struct Candidates {
    /// The possible chunk sizes in bytes, ascending.
    pub sizes: Vec<usize>,
    /// One entry per size: true if every table must have the size.
    pub is_fixed: Vec<bool>,
    /// One entry per place: the bytes that a chunk of this size takes, including its share of the page's end.
    pub taken: Vec<f64>,
    /// One entry per place: the weight (the number times the value of a byte) of all parts that a chunk of this size
    /// holds.
    pub weight: Vec<f64>,
    /// One entry per place: the bytes of all parts that a chunk of this size holds, each multiplied by its value.
    pub valued_bytes: Vec<f64>,
}

impl Candidates {
    /// Creates candidates from the sizes `free`, which a table may have, and the sizes `fixed`, which it must have.
    /// Both ascend; the last fixed size is the largest of all.
    pub fn new(
        parts: &Parts,
        free: impl Iterator<Item = usize>,
        fixed: &[usize],
        layout: &ChunkLayout,
    ) -> Candidates {
        let mut sizes: Vec<usize> = free.collect();
        sizes.dedup();
        sizes.extend(fixed);
        // The stable sort is fast, because the sizes are two sorted sequences.
        sizes.sort();
        sizes.dedup();
        let is_fixed = sizes.iter().map(|size| fixed.binary_search(size).is_ok()).collect();
        let (mut taken, mut weight, mut valued_bytes) = (vec![0.0], vec![0.0], vec![0.0]);
        let mut end = 0;
        for &size in &sizes {
            end += parts.sizes[end..].iter().take_while(|&&part| part <= size).count();
            taken.push(layout.taken_bytes(size));
            weight.push(parts.weight_before[end]);
            valued_bytes.push(parts.valued_bytes_before[end]);
        }
        Candidates { sizes, is_fixed, taken, weight, valued_bytes }
    }
}

/// The best tables of each number of classes.
pub(super) struct Layers {
    /// One entry per number of classes, from 0: the least cost of a table with exactly this many classes.
    pub costs: Vec<f64>,
    /// For each number of classes and each place j: the place of the second largest size of the best table whose
    /// largest size is at place j.
    before: Vec<Vec<u32>>,
}

impl Layers {
    /// Computes all layers. `layer` adds a class: it receives, for each place j, the least cost of a table whose
    /// largest size is at place j. It returns these costs for one class more, and the places of the second largest
    /// sizes.
    pub fn of(
        candidates: &Candidates,
        class_count_max: usize,
        layer: impl Fn(&[f64]) -> (Vec<f64>, Vec<u32>),
    ) -> Layers {
        let end = candidates.sizes.len();
        // A table without classes holds only the parts before place 0, which are none.
        let mut last = vec![f64::INFINITY; end + 1];
        last[0] = 0.0;
        let mut layers = Layers { costs: vec![f64::INFINITY], before: vec![Vec::new()] };
        for _ in 1..=class_count_max.min(end) {
            let (next, before) = layer(&last);
            layers.costs.push(next[end]);
            layers.before.push(before);
            last = next;
        }
        layers
    }

    /// Returns the best table with exactly this many classes.
    pub fn table(&self, candidates: &Candidates, class_count: usize) -> Vec<usize> {
        let mut place = candidates.sizes.len();
        let mut table = Vec::with_capacity(class_count);
        for before in self.before[1..=class_count].iter().rev() {
            table.push(candidates.sizes[place - 1]);
            place = before[place] as usize;
        }
        table.reverse();
        table
    }
}

#[derive(Clone, Copy, Debug)]
struct Line {
    slope: f64,
    intercept: f64,
    /// The position from which this line is below the line before it.
    start: f64,
    id: u32,
}

impl Line {
    fn at(&self, position: f64) -> f64 {
        self.intercept + self.slope * position
    }
}

/// The lower envelope of lines that are added in the order of decreasing slopes.
#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: Vec<Line>,
    /// The index of the line with the least value at the last position that was evaluated.
    first: usize,
}

impl Lines {
    /// Removes all lines; the next ones may have any slope and be evaluated at any position.
    #[inline]
    pub fn clear(&mut self) {
        self.lines.clear();
        self.first = 0;
    }

    /// Adds a line whose slope is at most that of the line added before. A line with an infinite intercept is ignored.
    #[inline]
    pub fn push(&mut self, slope: f64, intercept: f64, id: u32) {
        if intercept == f64::INFINITY {
            return;
        }
        let mut start = f64::NEG_INFINITY;
        while self.lines.len() > self.first {
            let last = self.lines[self.lines.len() - 1];
            debug_assert!(slope <= last.slope, "lines are added in the order of decreasing slopes");
            if slope == last.slope {
                if intercept >= last.intercept {
                    return;
                }
            } else {
                start = (intercept - last.intercept) / (last.slope - slope);
                // The start of the first line does not matter, because it is at most the last evaluated position.
                if start > last.start || self.lines.len() == self.first + 1 {
                    break;
                }
            }
            self.lines.pop();
        }
        self.lines.push(Line { slope, intercept, start, id });
    }

    /// Returns the least value of all lines at this position, and the id of the line that has it; `None` if there are
    /// no lines. The position must be at least the last position that was evaluated.
    #[inline]
    pub fn least(&mut self, position: f64) -> Option<(f64, u32)> {
        while self.lines.get(self.first + 1).is_some_and(|next| next.start <= position) {
            self.first += 1;
        }
        self.lines.get(self.first).map(|line| (line.at(position), line.id))
    }
}
