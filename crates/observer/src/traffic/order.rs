//! Puts the lines of several workers into the order in which the workers wrote them.
//!
//! memcached's log thread reads the buffers of the workers one after the other, so lines of different workers arrive out
//! of order. A worker numbers each line when it writes the line (`gid`, in memcached's `logger.c`). The numbers have no
//! gaps, except for lines that the server skipped or sent only to other watchers.
//!
//! Invariants: lines leave in ascending order of their numbers, except lines that arrive more than [`WAITING_MAX`] lines
//! too late; at most [`WAITING_MAX`] lines wait.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The maximum number of lines that wait for a line with a lower number. A worker buffers 64 KiB of lines of about 90
/// bytes, so this is enough for eleven workers.
pub const WAITING_MAX: usize = 8192;

/// Lines that wait for their turn, with their numbers.
#[derive(Debug)]
pub struct Order<T> {
    waiting: BinaryHeap<Numbered<T>>,
    /// The number after the last line that left; `None` before the first line.
    next: Option<u64>,
}

#[derive(Debug)]
struct Numbered<T> {
    number: u64,
    line: T,
}

impl<T> Order<T> {
    /// Starts without lines.
    pub fn new() -> Order<T> {
        Order { waiting: BinaryHeap::new(), next: None }
    }

    /// Adds a line, and passes all lines to `out` that no longer wait.
    pub fn push(&mut self, number: u64, line: T, out: &mut impl FnMut(T)) {
        if self.waiting.is_empty() && self.next == Some(number) {
            self.next = Some(number.saturating_add(1));
            return out(line);
        }
        self.waiting.push(Numbered { number, line });
        while self
            .waiting
            .peek()
            .is_some_and(|first| self.next.is_some_and(|next| first.number <= next))
            || self.waiting.len() > WAITING_MAX
        {
            self.pop(out);
        }
    }

    /// Passes all waiting lines to `out`. The caller calls it when the server has sent no line for some time.
    pub fn flush(&mut self, out: &mut impl FnMut(T)) {
        while !self.waiting.is_empty() {
            self.pop(out);
        }
    }

    fn pop(&mut self, out: &mut impl FnMut(T)) {
        if let Some(Numbered { number, line }) = self.waiting.pop() {
            let after = number.saturating_add(1);
            self.next = Some(self.next.map_or(after, |next| next.max(after)));
            out(line);
        }
    }
}

// A heap returns its maximum, so a lower number is greater.
impl<T> Ord for Numbered<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.number.cmp(&self.number)
    }
}

impl<T> PartialOrd for Numbered<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Numbered<T> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<T> Eq for Numbered<T> {}

#[cfg(test)]
mod tests {
    use super::{Order, WAITING_MAX};
    use slabwise_base::Random;

    #[test]
    fn lines_of_several_workers_leave_in_order() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let workers = 1 + random.below(4) as usize;
            let mut buffers = vec![vec![]; workers];
            let (mut order, mut left) = (Order::new(), vec![]);
            for number in 10..20_000u64 {
                buffers[random.below(workers as u64) as usize].push(number);
                if random.below(500) == 0 {
                    for line in buffers.iter_mut().flat_map(|buffer| buffer.drain(..)) {
                        order.push(line, line, &mut |line| left.push(line));
                    }
                }
            }
            for line in buffers.into_iter().flatten() {
                order.push(line, line, &mut |line| left.push(line));
            }
            order.flush(&mut |line| left.push(line));
            assert!(left.iter().copied().eq(10..20_000), "seed {seed}, {workers} workers");
        }
    }

    #[test]
    fn a_missing_number_delays_a_bounded_number_of_lines() {
        let (mut order, mut left) = (Order::new(), vec![]);
        let count = WAITING_MAX as u64 + 100;
        for number in (0..50).chain(51..=count) {
            order.push(number, number, &mut |line| left.push(line));
            assert!(number.saturating_sub(left.len() as u64) <= WAITING_MAX as u64 + 1);
        }
        assert!(left.len() >= 100, "{} lines left", left.len());
        order.flush(&mut |line| left.push(line));
        assert!(left.iter().copied().eq((0..50).chain(51..=count)));
    }
}
