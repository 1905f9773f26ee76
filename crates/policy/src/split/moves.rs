//! From the present split to a better one: which pages move first.

use super::ClassCurve;
use crate::{PageMove, Snapshot};

/// What a round of moves is to lead to, and in which order.
pub(crate) struct Moves<'a> {
    pub classes: &'a [ClassCurve<'a>],
    /// Pages by class, in the end.
    pub target: &'a [u64],
    pub moves_max: usize,
    pub reason: &'static str,
}

impl Moves<'_> {
    /// Page by page from the class whose `risk`, given its place and its pages, is least, to the class that
    /// gains most by a page in the mean over all that it is still to get. A class that has more pages than
    /// its target gives, one that has fewer takes.
    pub fn of(&self, snapshot: &Snapshot, risk: impl Fn(usize, u64) -> f64) -> Vec<PageMove> {
        let mut pages: Vec<u64> = self.classes.iter().map(|class| class.pages).collect();
        let places = 0..pages.len();
        // Of each class what its next move goes by; only a move of its own changes that.
        let mut risks: Vec<f64> = places.clone().map(|place| risk(place, pages[place])).collect();
        let mut gains: Vec<f64> =
            places.clone().map(|place| self.slope(place, pages[place])).collect();
        let mut moves = Vec::new();
        while moves.len() < self.moves_max {
            let gives = |&place: &usize| pages[place] > self.target[place];
            let takes = |&place: &usize| pages[place] < self.target[place];
            let by_risk = |&a: &usize, &b: &usize| risks[a].total_cmp(&risks[b]);
            let by_gain = |&a: &usize, &b: &usize| gains[a].total_cmp(&gains[b]);
            let victim = places.clone().filter(gives).min_by(by_risk);
            let receiver = places.clone().filter(takes).max_by(by_gain);
            let (Some(victim), Some(receiver)) = (victim, receiver) else { break };
            pages[victim] -= 1;
            pages[receiver] += 1;
            risks[victim] = risk(victim, pages[victim]);
            gains[receiver] = self.slope(receiver, pages[receiver]);
            moves.push(PageMove::between(snapshot, victim, receiver, self.reason));
        }
        moves
    }

    /// How much less the class costs with a page more, in the mean between `pages` and its target.
    pub fn slope(&self, place: usize, pages: u64) -> f64 {
        let (class, target) = (&self.classes[place], self.target[place]);
        let (fewer, more) = (pages.min(target), pages.max(target));
        (class.cost(fewer) - class.cost(more)) / (more - fewer).max(1) as f64
    }
}
