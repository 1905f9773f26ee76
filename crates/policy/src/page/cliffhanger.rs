//! Cliffhanger (A. Cidon, A. Eisenman, M. Alizadeh, S. Katti, "Cliffhanger: Scaling Performance Cliffs in Web Memory
//! Caches", NSDI 2016).
//!
//! *Hill climbing.* A shadow hit is a get that one page more would have made a hit: it samples the slope of a class's
//! hit curve. Each earns its class a credit of some bytes, which a class drawn at random pays. Credits for a page move
//! a page. So slopes become equal, which on concave hit curves is the best split.
//!
//! *Cliffs.* Where the curve is flat first and steep later, the local slope says nothing, and the class starves:
//!
//! ```text
//!   misses |----__ . c                   c: the class is here, its slope is flat
//!          |   l   ' - . -----.
//!          |               ' - .|        l, r: pointers where the lower hull touches the curve,
//!          |                     ' r____ one at each side of the cliff
//!          +-------------------------- chunks
//! ```
//!
//! The paper searches for the ends of a cliff by two pointers, and splits the queue in two by hash, in shares that give
//! it the misses of the line from l to r (Talus). Differences here:
//!
//! - The pointers are put at once where the hull touches the class's curve. Without a curve cliffs are not seen.
//! - The engine's queue cannot be split, so the class has the misses of its curve and only *earns* by the line: as many
//!   credits as the line's slope makes shadow hits of its gets. It climbs to r where the line is steeper than the
//!   others' slopes and shrinks to l where it is not, and gains nothing on the way.
//! - Credits are counted in bytes of pages; the class deepest in debt gives the page. Payers of a class's credits are
//!   drawn at most [`DRAWS_MAX`] times a step.
//!
//! Weaknesses: payers are drawn whatever they lose, so pages wander about the best split. It climbs a page at a time.
//! Steps come with shadow hits: where every class is on a plateau there are none.
//!
//! Invariants: credits of classes that stay sum to zero; only classes of two pages or more pay, and a class keeps one.

use crate::history::changes::{Changes, Counts};
use crate::history::per_class::PerClass;
use crate::options::options;
use crate::policy::Policy;
use crate::{ClassProfile, ClassSnapshot, PageMove, Plan, Snapshot, Trigger, Wants};
use slabwise_base::Random;
use slabwise_profile::{Mrc, Point};

/// The most payers drawn for one class's credits in one step.
const DRAWS_MAX: u64 = 256;
/// How far above the hull a class must stand to be below a cliff: in its references. Less is the curve's noise.
const CLIFF_SHARE_MIN: f64 = 0.01;

options! {
    /// The published 4 KiB a hit. Published is a step at every hit; as no page moves for one, ours come sixteen
    /// at a time.
    pub struct CliffhangerOptions of Cliffhanger {
        /// Credits for more pages are kept.
        moves_max: usize = 32, moves_max;
        credit_bytes: u64 = 4 << 10, whole(1..=1 << 30), "bytes that a shadow hit earns its class";
        shadow_hits: u64 = 16, events, "shadow hits between two steps";
        cliffs: bool = true, choice, "whether classes are carried over cliffs of their curves";
    }
}

#[derive(Clone, Debug, Default)]
pub struct Cliffhanger {
    options: CliffhangerOptions,
    changes: Changes,
    /// Of each class, in bytes; what it owes is negative.
    credits: PerClass<f64>,
}

impl Policy for Cliffhanger {
    fn trigger(&self) -> Trigger {
        Trigger::EveryShadowHits(self.options.shadow_hits)
    }

    fn wants(&self) -> Wants {
        Wants::Profiles
    }

    /// Credits what is new, and moves a page for each page's worth of credits.
    fn step(&mut self, snapshot: &Snapshot, random: &mut Random) -> Plan {
        let changes = self.changes.since_last(snapshot);
        self.credits.follow(snapshot, |_| 0.0);
        // While the pool has pages nobody's gain is another's loss.
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
    /// The shadow hits that each class is credited with.
    fn earned(&self, snapshot: &Snapshot, changes: &[Counts]) -> Vec<f64> {
        let each = snapshot.classes.iter().zip(&snapshot.profiles).zip(changes);
        each.map(|((class, profile), change)| {
            let climbed = change.profiled.map_or(0.0, |profiled| profiled.shadow_hits);
            let cliff = self.options.cliffs.then(|| hits_by_hull(class, profile)).flatten();
            cliff.map_or(climbed, |share| share * change.gets())
        })
        .collect()
    }

    /// Credits a class with so many shadow hits, each at the expense of a random other.
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

/// A page for each page's worth of credits, from the classes deepest in debt.
fn moves(snapshot: &Snapshot, credits: &mut [f64], moves_max: usize) -> Plan {
    let mut plan = Plan::default();
    let mut pages: Vec<u64> = snapshot.classes.iter().map(|class| class.pages).collect();
    // A page's bytes, as the class shows them that wastes least of its end.
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
        let reason = "credits of shadow hits make a page";
        plan.moves.push(PageMove::between(snapshot, victim, receiver, reason));
    }
    plan
}

/// Of a class that stands below a cliff: the share of its gets that one page more would make hits, were its
/// curve the line over the cliff.
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

/// The points where the lower hull touches the curve, on either side of this size; `None` where the size is
/// one of them, or the curve has ended.
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
