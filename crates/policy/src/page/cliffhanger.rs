//! Cliffhanger (A. Cidon, A. Eisenman, M. Alizadeh, S. Katti, "Cliffhanger: Scaling Performance Cliffs in Web Memory
//! Caches", NSDI 2016).
//!
//! *Hill climbing.* A shadow hit is a get that one more page would have made a hit, so the rate of shadow hits measures
//! the slope of a class's hit curve. Each shadow hit earns its class a credit of some bytes, which another class, drawn
//! at random, pays. When a class has the credit of a page, a page moves to it. So the slopes of all classes become
//! equal. If hit curves are concave, a partition with equal slopes is the best partition.
//!
//! *Cliffs.* If a curve is flat first and steep later, a class at the flat part has no shadow hits. So it receives no
//! page, although it would gain much from many pages:
//!
//! ```text
//!   misses |----__ . c                   c: the current size; the curve is flat
//!          |   l   ' - . -----.
//!          |               ' - .|        l, r: pointers to the two ends of the cliff
//!          |                     ' r____
//!          +-------------------------- chunks
//! ```
//!
//! Section 4.2 searches for the ends of a cliff with two pointers, and divides the queue in two by the hash of the key.
//! The sizes of the two queues are such that the class has the misses of the line from l to r (Talus). With
//! `cliffs=on` the profile has these pointers ([`Pointers`](slabwise_profile::Pointers)), and hill climbing uses the
//! shadow queues of the two queues, as in the published combination of both algorithms (section 4.3). With
//! `cliffs=curve`, a variant of slabwise, the pointers are set at once where the lower hull of the class's curve touches
//! it, and a class below a cliff earns credits by the slope of the line between them.
//!
//! Differences here:
//!
//! - A shadow queue is not a list of evicted keys of its own, but the part of the profile's stack after the class's
//!   chunks. If the class is an exact LRU, both have the same keys. The profile is of a sample of the keys, so a sampled
//!   hit counts for several gets. The shadow queue has a page instead of the published 1 MB.
//! - Only the eviction kind `split_lru` divides the queue of a class. With every other kind the two queues exist only in
//!   the profile, and the class has the misses of its curve instead of those of the line. But it earns the credits that
//!   the two queues would earn. If the line is steeper than the curves of the other classes, the class grows to r;
//!   otherwise it shrinks to l. Between l and r the class gains nothing by its new pages.
//! - The windows beside the pointers are in the stack of all keys of the class, scaled by the shares of the two queues.
//!   So a division changes the misses, but not the climb of the pointers.
//! - The shares of the two queues change at the steps of the policy, not at each miss.
//! - Credits become memory only in whole pages. The class with the lowest credit gives the page. For each class that
//!   earned credits, a step draws at most [`DRAWS_MAX`] classes that pay.
//!
//! Weaknesses: classes that pay are drawn regardless of the misses that a lost page costs them, so the partition varies
//! around the best partition. A class grows one page at a time. Shadow hits trigger the steps: if the curves of all
//! classes are flat at their sizes, there are no steps.
//!
//! Invariants: the sum of all credits is zero; only classes with two pages or more pay; a class keeps one page.

use crate::history::changes::{Changes, Counts};
use crate::history::per_class::PerClass;
use crate::options::{Choice, options};
use crate::policy::Policy;
use crate::{ClassProfile, ClassSnapshot, Inputs, PageMove, Plan, QueueSplit, Snapshot, Trigger};
use slabwise_base::Random;
use slabwise_profile::{Mrc, Point, Pointers};

/// The maximum number of classes drawn to pay for the credits of one class in one step.
const DRAWS_MAX: u64 = 256;
/// With `cliffs=curve`, a class is below a cliff if its curve is above the hull by more than this share of its references. Smaller
/// differences are noise.
const CLIFF_SHARE_MIN: f64 = 0.01;

/// The search for the ends of cliffs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cliffs {
    /// Two pointers climb to the ends, as published.
    Pointers,
    /// The ends are where the lower hull touches the curve.
    Curve,
    /// There is no search: hill climbing alone.
    Ignored,
}

impl Choice for Cliffs {
    const WORDS: &'static [(&'static str, Cliffs)] =
        &[("on", Cliffs::Pointers), ("curve", Cliffs::Curve), ("off", Cliffs::Ignored)];
}

options! {
    /// The credit of 4 KiB per shadow hit is the published value. The paper takes a step at every shadow hit. A page is
    /// larger than one credit, so here a step follows only every sixteenth shadow hit. With `cliffs=on`, hits in the shadow
    /// queues of the two partitions count, too.
    pub struct CliffhangerOptions of Cliffhanger {
        /// The maximum number of moves in a step. Classes keep the credits for further pages until the next step.
        moves_max: usize = 32, moves_max;
        credit_bytes: u64 = 4 << 10, whole(1..=1 << 30), "bytes credited to a class per shadow hit";
        shadow_hits: u64 = 16, events, "shadow hits between two steps";
        cliffs: Cliffs = Cliffs::Pointers, choice,
            "how cliffs are found; on: two pointers climb to the ends; curve: by the hull of the curve";
    }
}

#[derive(Clone, Debug, Default)]
pub struct Cliffhanger {
    options: CliffhangerOptions,
    changes: Changes,
    /// The credit of each class, in bytes; negative if the class has paid more than it has earned.
    credits: PerClass<f64>,
}

impl Policy for Cliffhanger {
    fn trigger(&self) -> Trigger {
        let shadow_hits = self.options.shadow_hits;
        match self.options.cliffs {
            Cliffs::Pointers => Trigger::EveryShadowHitsWithPartitions(shadow_hits),
            Cliffs::Curve | Cliffs::Ignored => Trigger::EveryShadowHits(shadow_hits),
        }
    }

    fn inputs(&self) -> Inputs {
        Inputs::FreshProfiles
    }

    fn step(&mut self, snapshot: &Snapshot, random: &mut Random) -> Plan {
        let changes = self.changes.since_last(snapshot);
        self.credits.follow(snapshot, |_| 0.0);
        let splits = self.splits(snapshot);
        // While the pool has pages, classes do not compete for memory.
        if !snapshot.is_divided() {
            return Plan { splits, ..Plan::default() };
        }
        let earned = self.earned(snapshot, &changes);
        let mut credits: Vec<f64> = self.credits.iter().copied().collect();
        for (index, &shadow_hits) in earned.iter().enumerate() {
            self.pay(snapshot, &mut credits, index, shadow_hits, random);
        }
        let moves = moves(snapshot, &mut credits, self.options.moves_max);
        self.credits.iter_mut().zip(credits).for_each(|(kept, credit)| *kept = credit);
        Plan { moves, splits, ..Plan::default() }
    }
}

impl Cliffhanger {
    /// Returns the division of the queue of each class; empty if the policy divides no queues.
    fn splits(&self, snapshot: &Snapshot) -> Vec<QueueSplit> {
        if self.options.cliffs != Cliffs::Pointers {
            return Vec::new();
        }
        let each = snapshot.classes.iter().zip(&snapshot.profiles);
        each.map(|(class, profile)| split(class, profile)).collect()
    }

    /// Returns the shadow hits for which each class earns credits.
    fn earned(&self, snapshot: &Snapshot, changes: &[Counts]) -> Vec<f64> {
        let each = snapshot.classes.iter().zip(&snapshot.profiles).zip(changes);
        each.map(|((class, profile), change)| {
            let profiled = change.profiled.unwrap_or_default();
            match self.options.cliffs {
                Cliffs::Pointers => profiled.partition_shadow_hits,
                Cliffs::Ignored => profiled.shadow_hits,
                // The shadow hits that the class would have if its curve were the line across the cliff.
                Cliffs::Curve => match hit_share_by_hull(class, profile) {
                    Some(share) => share * change.gets(),
                    None => profiled.shadow_hits,
                },
            }
        })
        .collect()
    }

    /// Adds the credit of this many shadow hits to the class `earner`. Other classes, drawn at random, pay for it.
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

/// Plans pages for the classes whose credit is at least a page, as long as there are such classes. The class with the
/// lowest credit gives. Each move takes the credit of a page from the receiver and adds it to the victim.
fn moves(snapshot: &Snapshot, credits: &mut [f64], moves_max: usize) -> Vec<PageMove> {
    let mut moves = Vec::new();
    let mut pages: Vec<u64> = snapshot.classes.iter().map(|class| class.pages).collect();
    // The bytes of a page are estimated from the class that leaves the fewest bytes at the end of the page unused.
    let bytes = |class: &ClassSnapshot| class.chunk_size_bytes * class.chunks_per_page;
    let page_bytes = snapshot.classes.iter().map(bytes).max().unwrap_or(0) as f64;
    while moves.len() < moves_max {
        let by_credit = |a: &usize, b: &usize| credits[*a].total_cmp(&credits[*b]);
        let richest = (0..credits.len()).max_by(by_credit);
        let Some(receiver) = richest.filter(|&index| credits[index] >= page_bytes) else { break };
        let can_give = |&index: &usize| pages[index] > 1 && credits[index] < 0.0;
        let Some(victim) = (0..credits.len()).filter(can_give).min_by(by_credit) else { break };
        pages[victim] -= 1;
        credits[victim] += page_bytes;
        credits[receiver] -= page_bytes;
        let reason = "the receiver has earned a page by shadow hits";
        moves.push(PageMove::between(snapshot, victim, receiver, reason));
    }
    moves
}

/// Returns the division of a class's queue by the pointers of its profile: the algorithm that updates the physical
/// queues. The left queue has the left share of the size at the left pointer. A class that is on no cliff has two equal
/// queues. A class with few chunks has one queue.
fn split(class: &ClassSnapshot, profile: &ClassProfile) -> QueueSplit {
    let (pointers, chunks) = (profile.pointers, class.pages * class.chunks_per_page as u64);
    let [left_key_share, left_item_share] = if chunks <= Pointers::CHUNKS_MIN {
        [0.0, 0.0]
    } else if pointers.are_apart(chunks) {
        let left_share = pointers.left_share(chunks);
        [left_share, left_share * pointers.left_chunks / chunks as f64]
    } else {
        [0.5, 0.5]
    };
    QueueSplit { class: class.class, left_key_share, left_item_share }
}

/// Returns the share of the class's gets that one more page would make hits if the curve were the line across its
/// cliff; `None` if the class is not below a cliff.
fn hit_share_by_hull(class: &ClassSnapshot, profile: &ClassProfile) -> Option<f64> {
    let curve = &profile.curve;
    let chunks = class.pages * class.chunks_per_page as u64;
    let [left, right] = pointers(curve, chunks)?;
    let slope = (left.misses - right.misses) / (right.chunks - left.chunks) as f64;
    let line = left.misses - slope * (chunks - left.chunks) as f64;
    let above = curve.misses(chunks) - line;
    (above > CLIFF_SHARE_MIN * curve.references())
        .then(|| slope * class.chunks_per_page as f64 / curve.references())
}

/// Returns the two points where the lower hull touches the curve, one on each side of this size. Returns `None` if the
/// hull touches the curve at this size, or if the size is beyond the end of the curve.
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
