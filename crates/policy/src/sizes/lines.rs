//! The least of many lines at a rising place.
//!
//! Lines come with falling slopes, questions with rising places. Once a later line is below an earlier one it stays
//! so; hence the lines that can still be least form a queue, each least somewhere between its neighbours: a lower
//! envelope. Each line enters and leaves once, so n lines and n questions take O(n) steps. Source of the method, for
//! dynamic programming with such costs: P. Brucker, "Efficient algorithms for some path partitioning problems",
//! Discrete Applied Mathematics 62, 1995.
//!
//! Rounding: a line is left out where it is less than a rounding below its neighbours' crossing, which costs less than
//! the rounding of the sums themselves.

/// A line, and what it stands for.
#[derive(Clone, Copy, Debug)]
struct Line {
    slope: f64,
    intercept: f64,
    id: u32,
}

impl Line {
    fn at(&self, place: f64) -> f64 {
        self.intercept + self.slope * place
    }
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: Vec<Line>,
    /// The lines before it are least nowhere any more.
    first: usize,
}

impl Lines {
    /// Forgets all lines; what comes next may have any slope, and be asked at any place.
    pub fn clear(&mut self) {
        self.lines.clear();
        self.first = 0;
    }

    /// Adds a line whose slope is not above the last one's. An infinite intercept is no line.
    pub fn push(&mut self, slope: f64, intercept: f64, id: u32) {
        if intercept == f64::INFINITY {
            return;
        }
        let line = Line { slope, intercept, id };
        while self.lines.len() > self.first {
            let last = self.lines[self.lines.len() - 1];
            debug_assert!(slope <= last.slope, "slopes fall");
            if slope == last.slope {
                if intercept >= last.intercept {
                    return;
                }
            } else if self.lines.len() - self.first < 2
                || !is_above_crossing(self.lines[self.lines.len() - 2], last, line)
            {
                break;
            }
            self.lines.pop();
        }
        self.lines.push(line);
    }

    /// The least value at a place that is not before the last one asked for, and whose it is.
    pub fn least(&mut self, place: f64) -> Option<(f64, u32)> {
        let mut best = self.lines.get(self.first)?;
        let mut value = best.at(place);
        while let Some(next) = self.lines.get(self.first + 1) {
            let next_value = next.at(place);
            if next_value > value {
                break;
            }
            (best, value) = (next, next_value);
            self.first += 1;
        }
        Some((value, best.id))
    }
}

/// Whether `middle` is not below both others anywhere.
fn is_above_crossing(before: Line, middle: Line, after: Line) -> bool {
    (after.intercept - before.intercept) * (before.slope - middle.slope)
        <= (middle.intercept - before.intercept) * (before.slope - after.slope)
}
