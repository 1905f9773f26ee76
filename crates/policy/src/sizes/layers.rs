//! Dynamic programming over the possible sizes of a table, one class at a time.
//!
//! A layer needs, at each size, the least of many lines. The lines come with falling slopes and are evaluated at rising
//! positions. Once a later line is below an earlier one it stays below. So the lines that can still be least form a
//! queue, each least between its neighbours: a lower envelope. Each line enters and leaves once, so n lines and n
//! evaluations take O(n) steps. Source of the method for such costs: P. Brucker, "Efficient algorithms for some path
//! partitioning problems", Discrete Applied Mathematics 62, 1995.
//!
//! Rounding: a line that is below its neighbours by less than the rounding error of the sums may be left out.

use super::layout::ChunkLayout;
use super::parts::Parts;

/// Sizes, ascending. A *place* is the number of a size, from 1; place 0 is before all sizes.
pub(super) struct Candidates {
    pub sizes: Vec<usize>,
    pub is_fixed: Vec<bool>,
    /// By place: the bytes that a chunk takes.
    pub taken: Vec<f64>,
    /// By place: the weight of all parts up to it.
    pub weight: Vec<f64>,
    /// By place: the bytes of these parts, each weighted by its value.
    pub worth: Vec<f64>,
}

impl Candidates {
    /// Creates candidates from free and fixed sizes, both ascending; the last fixed size is the largest.
    pub fn new(
        parts: &Parts,
        free: impl Iterator<Item = usize>,
        fixed: &[usize],
        layout: &ChunkLayout,
    ) -> Candidates {
        let mut sizes: Vec<usize> = free.collect();
        sizes.dedup();
        sizes.extend(fixed);
        // The stable sort is fast on two ascending sequences.
        sizes.sort();
        sizes.dedup();
        let is_fixed = sizes.iter().map(|size| fixed.binary_search(size).is_ok()).collect();
        let (mut taken, mut weight, mut worth) = (vec![0.0], vec![0.0], vec![0.0]);
        let mut end = 0;
        for &size in &sizes {
            end += parts.sizes[end..].iter().take_while(|&&part| part <= size).count();
            taken.push(layout.taken_bytes(size));
            weight.push(parts.weight_before[end]);
            worth.push(parts.worth_before[end]);
        }
        Candidates { sizes, is_fixed, taken, weight, worth }
    }
}

/// By the number of classes: the least cost of all parts in that many classes, and the choices that lead to it.
pub(super) struct Layers {
    pub costs: Vec<f64>,
    /// By layer and place: the previous place in the best table.
    before: Vec<Vec<u32>>,
}

impl Layers {
    /// `layer` adds a class: from the least costs by the place of the last class it computes those with one class more,
    /// each with the previous place.
    pub fn of(
        candidates: &Candidates,
        class_count_max: usize,
        layer: impl Fn(&[f64]) -> (Vec<f64>, Vec<u32>),
    ) -> Layers {
        let end = candidates.sizes.len();
        // Without a class no part can be stored.
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

    /// The best table with exactly this many classes.
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
    start: f64,
    id: u32,
}

impl Line {
    fn at(&self, place: f64) -> f64 {
        self.intercept + self.slope * place
    }
}

#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: Vec<Line>,
    first: usize,
}

impl Lines {
    /// Removes all lines; the next ones may have any slope and be evaluated at any position.
    #[inline]
    pub fn clear(&mut self) {
        self.lines.clear();
        self.first = 0;
    }

    /// Adds a line whose slope is at most the last one's. A line with an infinite intercept is ignored.
    #[inline]
    pub fn push(&mut self, slope: f64, intercept: f64, id: u32) {
        if intercept == f64::INFINITY {
            return;
        }
        let mut start = f64::NEG_INFINITY;
        while self.lines.len() > self.first {
            let last = self.lines[self.lines.len() - 1];
            debug_assert!(slope <= last.slope, "slopes fall");
            if slope == last.slope {
                if intercept >= last.intercept {
                    return;
                }
            } else {
                start = (intercept - last.intercept) / (last.slope - slope);
                // The start of the first line does not matter: it is before the last position.
                if start > last.start || self.lines.len() == self.first + 1 {
                    break;
                }
            }
            self.lines.pop();
        }
        self.lines.push(Line { slope, intercept, start, id });
    }

    /// The least value at a position that is not before the last one, with the id of its line.
    #[inline]
    pub fn least(&mut self, place: f64) -> Option<(f64, u32)> {
        while self.lines.get(self.first + 1).is_some_and(|next| next.start <= place) {
            self.first += 1;
        }
        self.lines.get(self.first).map(|line| (line.at(place), line.id))
    }
}
