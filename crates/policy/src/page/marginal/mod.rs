//! slabwise's own policy: LAMA's goal (X. Hu and others, ATC 2015) for any number of pages, with moves only where they
//! pay.
//!
//! ```text
//!   step   young classes, free chunks ----------> space_time's moves, at once
//!          target of an earlier look? ----------> moves towards it, a few a step
//!   look   curves x references lately --> near_best_split at a price a move --> gain?
//!                                                        no: nothing      yes: a new target
//! ```
//!
//! The *marginal* gains of all classes are to be equal: the next page of one saves as much as the last page of any
//! other costs. Where a curve has a cliff, the whole way down has to pay.
//! [`near_best_split`](crate::split::near_best_split) finds the split. The rest keeps the policy quick and quiet:
//!
//! - *Costs.* A miss of a class counts by its cost beside the mean of all classes. Without costs, or with equal ones,
//!   every plan is that of the miss ratio.
//! - *References lately.* A curve gives the shape. The gets of the last fifty thousand or so, counted and not sampled,
//!   give its weight, so a change of popularity is seen before curves have decayed.
//! - *Price.* A page's move costs as much as the page would save of `move_price` misses a get, were they spread over
//!   all pages. So slopes that differ only by noise move nothing.
//! - *Proof.* A better split is first a proposal. It becomes the target once it would have saved, by the curves of each
//!   look since, as much as the items that its moves drop cost. A gain of `gain_sure` needs no proof.
//! - *Stretch.* A sampled cliff is a few percent too near or too far. Where the measured misses fit the curve only if
//!   it is stretched a little, it is stretched.
//! - *Youth.* A class that is new, or used again after a silence, has no curve to rely on. Until it has had requests
//!   for twice its chunks it receives pages by [`TailAge`] as under `space_time`, and gives none. A nearly silent class
//!   receives none.
//! - *Idle chunks.* Chunks that were free for a whole window while the class did not grow are of no use to it, whatever
//!   its curve says: the curve counts as level from there.
//!
//! Invariants: a step moves at most a 64th of the pages and at most 64, but may always move eight; a class that holds
//! items keeps a page; while the pool has pages nothing moves; a class in an urgent move is in no other move of that
//! step. At rest, no split costs so much less that its gain exceeds `gain_min` and the price of the moves together,
//! except for half a percent of the cost, the error of the splitter.
//!
//! Weakness: if keys of a class are reused in another pattern, but as often, the policy sees it only as the curve
//! decays.

mod usage;

use super::tail_age::{Leave, TailAge, Worth};
use crate::history::costs::MissCosts;
use crate::history::per_class::PerClass;
use crate::options::options;
use crate::policy::Policy;
use crate::split::{ClassCurve, Moves, Objective, cost, near_best_split_at, predict};
use crate::{ClassProfile, ClassSnapshot, PageMove, Plan, Snapshot, Trigger, Wants};
use slabwise_base::Random;
use usage::{Since, Usage};

options! {
    /// A step every 62 ms, a look every 25,000 gets, for a twentieth of a point of miss ratio or more.
    pub struct MarginalOptions of Marginal {
        period_ticks: u32 = 4, period_ticks;
        gain_min: f64 = 0.0005, gain_min;
        objective: Objective = Objective::Cost, choice, "what is made least";
        look_gets: u64 = 25_000, events, "gets between looks at the curves";
        window_gets: u64 = 50_000, events,
            "gets after which references count half, and free chunks are idle";
        gain_sure: f64 = 0.01, real(0.0..=1.0),
            "the gain, in misses a get or their mean costs, that needs no proof";
        move_price: f64 = 0.005, real(0.0..=1.0),
            "what moving all pages costs, in misses a get or their mean costs";
        item_price: f64 = 0.01, real(0.0..=1.0), "misses that an item costs which a move drops";
    }
}

#[derive(Clone, Debug, Default)]
pub struct Marginal {
    options: MarginalOptions,
    tail_age: TailAge,
    costs: MissCosts,
    /// By class; empty before the first step.
    usages: PerClass<Usage>,
    /// Gets ever at the last look; `None` before the first.
    looked_at_gets: Option<u64>,
    marked_at_gets: u64,
    /// What the proposal would have saved since it was made, in misses or their costs.
    proven: f64,
}

impl Policy for Marginal {
    fn trigger(&self) -> Trigger {
        Trigger::EveryTicks(self.options.period_ticks)
    }

    fn wants(&self) -> Wants {
        Wants::RecentProfiles
    }

    fn step(&mut self, snapshot: &Snapshot, _random: &mut Random) -> Plan {
        self.costs.take_in(snapshot);
        let gets_of_curves = gets_of(&snapshot.profiles);
        self.usages.follow(snapshot, |class| {
            let place = snapshot.classes.iter().position(|other| other.class == class.class);
            let known = place.and_then(|place| snapshot.profiles.get(place));
            match known {
                Some(profile) => Usage::new(class).after(profile, gets_of_curves),
                None => Usage::new(class),
            }
        });
        let each = snapshot.classes.iter().zip(self.usages.iter_mut());
        each.for_each(|(class, usage)| usage.note(class));
        let looked = self.take_in(snapshot);
        let mut plan = self.urgent_moves(snapshot);
        if !snapshot.is_divided() || snapshot.profiles.is_empty() {
            return plan;
        }
        if looked.is_none() && self.usages.iter().all(|usage| usage.target.is_none()) {
            return plan;
        }
        let mut classes = self.classes(snapshot);
        carry_out(&mut classes, snapshot, &plan.moves);
        if let Some(gets) = looked {
            self.aim(&classes, gets as f64);
        }
        // Who gives or takes by an urgent move does neither by another.
        let is_moved = |class: &ClassSnapshot| {
            let of = |page_move: &PageMove| {
                page_move.victim == class.class || page_move.receiver == Some(class.class)
            };
            plan.moves.iter().any(of)
        };
        let known = snapshot.classes.iter().zip(self.usages.iter());
        let each = classes.iter().zip(known);
        let targets = each.map(|(class, (shown, usage))| match usage.target {
            Some(target) if !is_moved(shown) => target.max(class.pages_min),
            _ => class.pages,
        });
        let targets: Vec<u64> = targets.collect();
        let pages: u64 = classes.iter().map(|class| class.pages).sum();
        let moves = Moves {
            classes: &classes,
            target: &targets,
            moves_max: moves_max(pages).saturating_sub(plan.moves.len()),
            reason: "towards equal marginal gains, cliffs taken whole",
        };
        let towards = moves.of(snapshot, |place, pages| moves.slope(place, pages));
        if towards.is_empty() && plan.moves.is_empty() {
            self.usages.iter_mut().for_each(|usage| usage.target = None);
        }
        if towards.is_empty() {
            return plan;
        }
        let present: Vec<u64> = classes.iter().map(|class| class.pages).collect();
        plan.predicted = Some(predict(snapshot, &classes, &present, &targets));
        plan.moves.extend(towards);
        plan
    }
}

impl Marginal {
    /// Takes in what happened since the last look, if enough did; returns the gets since then if a look is due.
    fn take_in(&mut self, snapshot: &Snapshot) -> Option<u64> {
        let looked_at = *self.looked_at_gets.get_or_insert(snapshot.gets);
        let gets = snapshot.gets.saturating_sub(looked_at);
        if gets < self.options.look_gets || snapshot.profiles.is_empty() {
            return None;
        }
        self.looked_at_gets = Some(snapshot.gets);
        let is_mark = snapshot.gets - self.marked_at_gets >= self.options.window_gets;
        if is_mark {
            self.marked_at_gets = snapshot.gets;
        }
        let since = Since {
            gets: gets.max(1) as f64,
            half_gets: self.options.window_gets as f64,
            gets_of_curves: gets_of(&snapshot.profiles),
            miss_cost: 1.0,
        };
        let costs = self.options.objective.relative_costs(snapshot, &self.costs);
        let shown = snapshot.classes.iter().zip(&snapshot.profiles).zip(costs);
        for (((class, profile), miss_cost), usage) in shown.zip(self.usages.iter_mut()) {
            usage.look(class, profile, Since { miss_cost, ..since });
            if is_mark {
                usage.mark(class);
            }
        }
        Some(gets)
    }

    /// What cannot wait for curves, and what needs none.
    fn urgent_moves(&mut self, snapshot: &Snapshot) -> Plan {
        let known = || snapshot.classes.iter().zip(self.usages.iter());
        let is_young = |(class, usage): (&ClassSnapshot, &Usage)| {
            snapshot.profiles.is_empty() || usage.is_young(class)
        };
        let young_is_pressed = known().any(|both| is_young(both) && both.1.is_pressed);
        let costs = self.options.objective.relative_costs(snapshot, &self.costs);
        let leaves = known().zip(costs).map(|((class, usage), miss_cost)| {
            let young = is_young((class, usage));
            // Else idle chunks wait for whom a look finds to need them.
            let idle = young_is_pressed && usage.idle_pages(class) > 0;
            // All hits of a silent class are worth less than a page.
            let receive = young && (snapshot.profiles.is_empty() || usage.is_awake(class));
            Leave { receive, spare: young || idle || class.used_chunks == 0, miss_cost }
        });
        let leaves: Vec<Leave> = leaves.collect();
        let plan = self.tail_age.step_with_leave(snapshot, Worth::SpaceTime, |place| leaves[place]);
        for page_move in &plan.moves {
            let victim = self.usages.of(page_move.victim);
            victim.target = victim.target.map(|target| target.saturating_sub(1));
            if let Some(receiver) = page_move.receiver {
                let receiver = self.usages.of(receiver);
                receiver.target = receiver.target.map(|target| target + 1);
            }
        }
        plan
    }

    /// The classes with their curves, which count for what was asked of them lately. Young ones keep their
    /// pages.
    fn classes<'s>(&self, snapshot: &'s Snapshot) -> Vec<ClassCurve<'s>> {
        let mut classes = self.options.objective.class_curves(snapshot, &self.costs);
        let gets_of_curves = gets_of(&snapshot.profiles);
        let known = snapshot.classes.iter().zip(self.usages.iter());
        for (class, (shown, usage)) in classes.iter_mut().zip(known) {
            class.stretch = usage.stretch;
            class.weight = usage.weight() / gets_of_curves;
            if usage.is_young(shown) && !usage.is_silent {
                (class.pages_min, class.pages_usable) = (class.pages, class.pages);
            } else if usage.idle_pages(shown) > 0 {
                class.pages_usable = class.pages - usage.idle_pages(shown);
            }
        }
        classes
    }

    /// Sets a new target if it has paid to leave the present one, or the pages as they are, for it.
    fn aim(&mut self, classes: &[ClassCurve], gets: f64) {
        let known = classes.iter().zip(self.usages.iter());
        let from_base = known.map(|(class, usage)| {
            let pages = usage.target.unwrap_or(class.pages);
            ClassCurve { pages, pages_min: class.pages_min.min(pages), ..*class }
        });
        let from_base: Vec<ClassCurve> = from_base.collect();
        let base: Vec<u64> = from_base.iter().map(|class| class.pages).collect();
        let pages: u64 = base.iter().sum();
        let unit: f64 = from_base.iter().map(ClassCurve::cost_max).sum();
        // A page that moves is one less here and one more there.
        let page_price = self.options.move_price * unit / (2 * pages).max(1) as f64;
        let best = near_best_split_at(&from_base, pages, page_price);
        let gain = |split: &[u64]| cost(&from_base, &base) - cost(&from_base, split);
        let least = self.options.gain_min * unit + page_price * distance(&base, &best) as f64;
        if gain(&best) <= least {
            self.propose(&[]);
            return;
        }
        let mut proposal = self.proposal(pages);
        if proposal.is_empty() || gain(&proposal) < gain(&best) / 2.0 {
            // Curves that propose it prove nothing: it is gets from here on that do.
            self.propose(&best);
            proposal = best;
        } else {
            self.proven += gain(&proposal) * gets;
        }
        let saved = gain(&proposal);
        let dropped = from_base.iter().zip(&proposal).map(|(class, &pages)| {
            let chunks = class.pages.saturating_sub(pages) * class.chunks_per_page;
            chunks as f64 * class.miss_cost
        });
        let price = self.options.item_price * dropped.sum::<f64>();
        if self.proven >= price || saved >= self.options.gain_sure * unit {
            let usages = self.usages.iter_mut().zip(proposal);
            usages.for_each(|(usage, pages)| usage.target = Some(pages));
            self.propose(&[]);
        }
    }

    /// The split that is to prove itself, if it still divides so many pages; else none.
    fn proposal(&self, pages: u64) -> Vec<u64> {
        let proposal: Option<Vec<u64>> = self.usages.iter().map(|usage| usage.proposal).collect();
        proposal.filter(|split| split.iter().sum::<u64>() <= pages).unwrap_or_default()
    }

    /// Puts this split to the proof from now on; none if it is empty.
    fn propose(&mut self, split: &[u64]) {
        let pages = split.iter().copied().map(Some).chain(std::iter::repeat(None));
        self.usages.iter_mut().zip(pages).for_each(|(usage, pages)| usage.proposal = pages);
        self.proven = 0.0;
    }
}

/// The most moves of a step in a cache of so many pages, whatever they are for.
pub(crate) fn moves_max(pages: u64) -> usize {
    (pages / 64).clamp(8, 64) as usize
}

fn gets_of(profiles: &[ClassProfile]) -> f64 {
    let references: f64 = profiles.iter().map(|profile| profile.curve.references()).sum();
    references.max(1.0)
}

/// By how many pages two splits differ.
fn distance(a: &[u64], b: &[u64]) -> u64 {
    a.iter().zip(b).map(|(&a, &b)| a.abs_diff(b)).sum()
}

/// Gives the classes the pages that they have after these moves.
fn carry_out(classes: &mut [ClassCurve], snapshot: &Snapshot, moves: &[PageMove]) {
    for page_move in moves {
        let place = |id| snapshot.classes.iter().position(|class| class.class == id);
        if let Some(victim) = place(page_move.victim) {
            classes[victim].pages -= 1;
            classes[victim].pages_min = classes[victim].pages_min.min(classes[victim].pages);
        }
        if let Some(receiver) = page_move.receiver.and_then(place) {
            classes[receiver].pages += 1;
        }
    }
}

#[cfg(test)]
mod tests;
