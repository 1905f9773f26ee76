//! The order of the page moves from the current partition to a better one.

use super::ClassCurve;
use crate::{PageMove, Snapshot};

/// The parameters of the moves towards a target partition.
pub(crate) struct Moves<'a> {
    pub classes: &'a [ClassCurve<'a>],
    /// The pages of each class in the target partition.
    pub target: &'a [u64],
    /// The maximum number of moves.
    pub moves_max: usize,
    /// The maximum number of pages that each class receives; `None`: any number.
    pub received_max: Option<&'a [u64]>,
    /// The reason for the moves in words, for the log of moves.
    pub reason: &'static str,
}

impl Moves<'_> {
    /// Plans moves from classes with more pages than their target to classes with fewer pages than their target. The
    /// victim of each move is the class with the least `risk`, a function of the class's index and its pages. The
    /// receiver is the class with the greatest mean gain per page on the way to its target.
    pub fn of(&self, snapshot: &Snapshot, risk: impl Fn(usize, u64) -> f64) -> Vec<PageMove> {
        let mut pages: Vec<u64> = self.classes.iter().map(|class| class.pages).collect();
        let indexes = 0..pages.len();
        // A move changes only the risk of its victim and the gain of its receiver.
        let mut risks: Vec<f64> = indexes.clone().map(|index| risk(index, pages[index])).collect();
        let mut gains: Vec<f64> =
            indexes.clone().map(|index| self.slope(index, pages[index])).collect();
        let mut received = vec![0; pages.len()];
        let mut moves = Vec::new();
        while moves.len() < self.moves_max {
            let gives = |&index: &usize| pages[index] > self.target[index];
            let takes = |&index: &usize| {
                let may_receive = |max: &[u64]| received[index] < max[index];
                pages[index] < self.target[index] && self.received_max.is_none_or(may_receive)
            };
            let by_risk = |&a: &usize, &b: &usize| risks[a].total_cmp(&risks[b]);
            let by_gain = |&a: &usize, &b: &usize| gains[a].total_cmp(&gains[b]);
            let victim = indexes.clone().filter(gives).min_by(by_risk);
            let receiver = indexes.clone().filter(takes).max_by(by_gain);
            let (Some(victim), Some(receiver)) = (victim, receiver) else { break };
            pages[victim] -= 1;
            pages[receiver] += 1;
            received[receiver] += 1;
            risks[victim] = risk(victim, pages[victim]);
            gains[receiver] = self.slope(receiver, pages[receiver]);
            moves.push(PageMove::between(snapshot, victim, receiver, self.reason));
        }
        moves
    }

    /// Returns the mean cost that each page between `pages` and the target of the class saves.
    pub fn slope(&self, index: usize, pages: u64) -> f64 {
        let (class, target) = (&self.classes[index], self.target[index]);
        let (fewer, more) = (pages.min(target), pages.max(target));
        (class.cost(fewer) - class.cost(more)) / (more - fewer).max(1) as f64
    }
}
