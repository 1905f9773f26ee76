//! The least of many lines at a rising place.
//!
//! Lines come with falling slopes, questions with rising places. Once a later line is below an earlier one it stays
//! so; hence the lines that can still be least form a queue, each least somewhere between its neighbours: a lower
//! envelope. Each line enters and leaves once, so n lines and n questions take O(n) steps. Source of the method, for
//! dynamic programming with such costs: P. Brucker, "Efficient algorithms for some path partitioning problems",
//! Discrete Applied Mathematics 62, 1995.
//!
//! Rounding: a line that is below its neighbours by less than the sums are rounded by may be left out.

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
    /// Forgets all lines; what comes next may have any slope, and be asked at any place.
    #[inline]
    pub fn clear(&mut self) {
        self.lines.clear();
        self.first = 0;
    }

    /// Adds a line whose slope is not above the last one's. An infinite intercept is no line.
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
                // The first line's start lies behind, whatever it was.
                if start > last.start || self.lines.len() == self.first + 1 {
                    break;
                }
            }
            self.lines.pop();
        }
        self.lines.push(Line { slope, intercept, start, id });
    }

    /// The least value at a place that is not before the last one asked for, and whose it is.
    #[inline]
    pub fn least(&mut self, place: f64) -> Option<(f64, u32)> {
        while self.lines.get(self.first + 1).is_some_and(|next| next.start <= place) {
            self.first += 1;
        }
        self.lines.get(self.first).map(|line| (line.at(place), line.id))
    }
}
