//! From the current partition to a better one: which pages move first.

use super::ClassCurve;
use crate::{PageMove, Snapshot};

/// The target of a round of moves, and their order.
pub(crate) struct Moves<'a> {
    pub classes: &'a [ClassCurve<'a>],
    /// Pages of each class after all moves.
    pub target: &'a [u64],
    pub moves_max: usize,
    pub reason: &'static str,
}

impl Moves<'_> {
    /// Plans moves from classes with more pages than their target to classes with fewer. Each page is taken from the
    /// class with the least `risk` (given its index and pages) and goes to the class with the greatest mean gain per
    /// page until its target.
    pub fn of(&self, snapshot: &Snapshot, risk: impl Fn(usize, u64) -> f64) -> Vec<PageMove> {
        let mut pages: Vec<u64> = self.classes.iter().map(|class| class.pages).collect();
        let indexes = 0..pages.len();
        // The values that order the classes; only a class's own moves change them.
        let mut risks: Vec<f64> = indexes.clone().map(|index| risk(index, pages[index])).collect();
        let mut gains: Vec<f64> =
            indexes.clone().map(|index| self.slope(index, pages[index])).collect();
        let mut moves = Vec::new();
        while moves.len() < self.moves_max {
            let gives = |&index: &usize| pages[index] > self.target[index];
            let takes = |&index: &usize| pages[index] < self.target[index];
            let by_risk = |&a: &usize, &b: &usize| risks[a].total_cmp(&risks[b]);
            let by_gain = |&a: &usize, &b: &usize| gains[a].total_cmp(&gains[b]);
            let victim = indexes.clone().filter(gives).min_by(by_risk);
            let receiver = indexes.clone().filter(takes).max_by(by_gain);
            let (Some(victim), Some(receiver)) = (victim, receiver) else { break };
            pages[victim] -= 1;
            pages[receiver] += 1;
            risks[victim] = risk(victim, pages[victim]);
            gains[receiver] = self.slope(receiver, pages[receiver]);
            moves.push(PageMove::between(snapshot, victim, receiver, self.reason));
        }
        moves
    }

    /// The cost that another page saves the class, on average between `pages` and its target.
    pub fn slope(&self, index: usize, pages: u64) -> f64 {
        let (class, target) = (&self.classes[index], self.target[index]);
        let (fewer, more) = (pages.min(target), pages.max(target));
        (class.cost(fewer) - class.cost(more)) / (more - fewer).max(1) as f64
    }
}
