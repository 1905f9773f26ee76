//! Cliffhanger (A. Cidon, A. Eisenman, M. Alizadeh, S. Katti, "Cliffhanger: Scaling Performance Cliffs in Web Memory
//! Caches", NSDI 2016).
//!
//! *Hill climbing.* A shadow hit is a get that one more page would have made a hit: it samples the slope of a class's
//! hit curve. Each shadow hit earns its class a credit of some bytes, which another class, drawn at random, pays. A
//! page moves for each page's worth of credits. So slopes become equal, which is the best partition for concave hit
//! curves.
//!
//! *Cliffs.* If the curve is flat first and steep later, the local slope does not show the gain and the class starves:
//!
//! ```text
//!   misses |----__ . c                   c: the current size; its slope is flat
//!          |   l   ' - . -----.
//!          |               ' - .|        l, r: pointers where the lower hull touches the curve,
//!          |                     ' r____ one at each side of the cliff
//!          +-------------------------- chunks
//! ```
//!
//! The paper searches for the ends of a cliff with two pointers and splits the queue in two by hash. The shares are
//! such that the queue has the misses of the line from l to r (Talus). Differences here:
//!
//! - The pointers are set at once where the hull touches the class's curve. Without a curve, cliffs are not seen.
//! - The engine's queue cannot be split, so the class has the misses of its curve and only *earns* by the line: its
//!   credits are the shadow hits that its gets would have with the line's slope. It climbs to r where the line is
//!   steeper than the slopes of the others and shrinks to l where it is not; it gains nothing on the way.
//! - Credits are counted in bytes of pages; the class deepest in debt gives the page. Payers of a class's credits are
//!   drawn at most [`DRAWS_MAX`] times a step.
//!
//! Weaknesses: payers are drawn regardless of their loss, so pages wander around the best partition. It climbs one page
//! at a time. Steps are triggered by shadow hits: if every class is on a plateau there are none.
//!
//! Invariants: the credits of classes sum to zero; only classes with two pages or more pay, and a class keeps one.

use crate::history::changes::{Changes, Counts};
use crate::history::per_class::PerClass;
use crate::options::options;
use crate::policy::Policy;
use crate::{ClassProfile, ClassSnapshot, PageMove, Plan, Snapshot, Trigger, Wants};
use slabwise_base::Random;
use slabwise_profile::{Mrc, Point};

/// The maximum number of payers drawn for the credits of one class in one step.
const DRAWS_MAX: u64 = 256;
/// A class is below a cliff if its curve is above the hull by more than this share of its references; less is noise.
const CLIFF_SHARE_MIN: f64 = 0.01;

options! {
    /// The published 4 KiB per hit. The paper steps at every hit; no page moves for a single hit, so a step here
    /// takes sixteen.
    pub struct CliffhangerOptions of Cliffhanger {
        /// Credits for more pages are kept for the next step.
        moves_max: usize = 32, moves_max;
        credit_bytes: u64 = 4 << 10, whole(1..=1 << 30), "bytes credited to a class per shadow hit";
        shadow_hits: u64 = 16, events, "shadow hits between two steps";
        cliffs: bool = true, choice, "let a class below a cliff of its curve earn credits by the slope across the whole cliff";
    }
}

#[derive(Clone, Debug, Default)]
pub struct Cliffhanger {
    options: CliffhangerOptions,
    changes: Changes,
    /// In bytes; negative if the class is in debt.
    credits: PerClass<f64>,
}

impl Policy for Cliffhanger {
    fn trigger(&self) -> Trigger {
        Trigger::EveryShadowHits(self.options.shadow_hits)
    }

    fn wants(&self) -> Wants {
        Wants::Profiles
    }

    fn step(&mut self, snapshot: &Snapshot, random: &mut Random) -> Plan {
        let changes = self.changes.since_last(snapshot);
        self.credits.follow(snapshot, |_| 0.0);
        // While the pool has pages, classes do not compete for memory.
        if !snapshot.is_divided() {
            return Plan::default();
        }
        let earned = self.earned(snapshot, &changes);
        let mut credits: Vec<f64> = self.credits.iter().copied().collect();
        for (index, &shadow_hits) in earned.iter().enumerate() {
            self.pay(snapshot, &mut credits, index, shadow_hits, random);
        }
        let plan = moves(snapshot, &mut credits, self.options.moves_max);
        self.credits.iter_mut().zip(credits).for_each(|(kept, credit)| *kept = credit);
        plan
    }
}

impl Cliffhanger {
    fn earned(&self, snapshot: &Snapshot, changes: &[Counts]) -> Vec<f64> {
        let each = snapshot.classes.iter().zip(&snapshot.profiles).zip(changes);
        each.map(|((class, profile), change)| {
            let climbed = change.profiled.map_or(0.0, |profiled| profiled.shadow_hits);
            let cliff = self.options.cliffs.then(|| hits_by_hull(class, profile)).flatten();
            cliff.map_or(climbed, |share| share * change.gets())
        })
        .collect()
    }

    /// Credits a class with this many shadow hits, each at the expense of another class drawn at random.
    fn pay(
        &self,
        snapshot: &Snapshot,
        credits: &mut [f64],
        earner: usize,
        shadow_hits: f64,
        random: &mut Random,
    ) {
        let can_pay = |&index: &usize| index != earner && snapshot.classes[index].pages > 1;
        let payers: Vec<usize> = (0..credits.len()).filter(can_pay).collect();
        if payers.is_empty() || shadow_hits <= 0.0 {
            return;
        }
        let draws = (shadow_hits.ceil() as u64).min(DRAWS_MAX);
        let credit = self.options.credit_bytes as f64 * shadow_hits / draws as f64;
        for _ in 0..draws {
            let payer = payers[random.below(payers.len() as u64) as usize];
            credits[earner] += credit;
            credits[payer] -= credit;
        }
    }
}

/// Plans a page for each page's worth of credits, from the classes deepest in debt.
fn moves(snapshot: &Snapshot, credits: &mut [f64], moves_max: usize) -> Plan {
    let mut plan = Plan::default();
    let mut pages: Vec<u64> = snapshot.classes.iter().map(|class| class.pages).collect();
    // The usable bytes of a page are those of the class that wastes the least at its end.
    let bytes = |class: &ClassSnapshot| class.chunk_size_bytes * class.chunks_per_page;
    let page_bytes = snapshot.classes.iter().map(bytes).max().unwrap_or(0) as f64;
    while plan.moves.len() < moves_max {
        let by_credit = |a: &usize, b: &usize| credits[*a].total_cmp(&credits[*b]);
        let richest = (0..credits.len()).max_by(by_credit);
        let Some(receiver) = richest.filter(|&index| credits[index] >= page_bytes) else { break };
        let can_give = |&index: &usize| pages[index] > 1 && credits[index] < 0.0;
        let Some(victim) = (0..credits.len()).filter(can_give).min_by(by_credit) else { break };
        pages[victim] -= 1;
        credits[victim] += page_bytes;
        credits[receiver] -= page_bytes;
        let reason = "credits of shadow hits amount to a page";
        plan.moves.push(PageMove::between(snapshot, victim, receiver, reason));
    }
    plan
}

/// For a class below a cliff: the share of its gets that one more page would make hits if its curve were the line over
/// the cliff.
fn hits_by_hull(class: &ClassSnapshot, profile: &ClassProfile) -> Option<f64> {
    let curve = &profile.curve;
    let chunks = class.pages * class.chunks_per_page as u64;
    let [left, right] = pointers(curve, chunks)?;
    let slope = (left.misses - right.misses) / (right.chunks - left.chunks) as f64;
    let line = left.misses - slope * (chunks - left.chunks) as f64;
    let above = curve.misses(chunks) - line;
    (above > CLIFF_SHARE_MIN * curve.references())
        .then(|| slope * class.chunks_per_page as f64 / curve.references())
}

/// The points where the lower hull touches the curve on either side of this size; `None` if the size is one of them or
/// beyond the end of the curve.
fn pointers(curve: &Mrc, chunks: u64) -> Option<[Point; 2]> {
    let hull = curve.lower_hull();
    let hull = hull.points();
    let right = hull.iter().position(|point| point.chunks >= chunks)?;
    let left = right.checked_sub(1)?;
    (hull[right].chunks > chunks).then(|| [hull[left], hull[right]])
}

#[cfg(test)]
#[path = "cliffhanger_tests.rs"]
mod tests;
