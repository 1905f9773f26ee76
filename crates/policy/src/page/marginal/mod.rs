//! slabwise's own policy: LAMA's goal (X. Hu and others, ATC 2015) for any number of pages, with moves only if they
//! pay.
//!
//! ```text
//!   every step:   new classes, free chunks --------> space_time's moves, at once
//!                 target of an earlier evaluation? -> moves towards it, a few per step
//!   evaluation:   curves x recent references --> near_best_split with a move cost --> gain?
//!                                                        no: nothing      yes: a new target
//! ```
//!
//! The *marginal* gains of all classes are to be equal: the next page of one class saves as much as the last page of
//! any other costs. If a curve has a cliff, the whole way down has to pay.
//! [`near_best_split`](crate::split::near_best_split) finds the partition. The other rules keep the policy quick and
//! quiet:
//!
//! - *Costs.* A miss counts by its class's cost relative to the mean of all classes. Without costs, or with equal ones,
//!   every plan is that of the miss ratio.
//! - *Recent references.* A curve gives the shape. Its weight comes from the last fifty thousand gets or so, counted
//!   without sampling, so the policy sees a change of popularity before the curves have decayed.
//! - *Move cost.* The limit `move_cost` is in misses per get for moving all pages; a page's move costs its share. So
//!   slopes that differ only by noise move nothing.
//! - *Validation.* A better partition is first a proposal. It becomes the target when it would have saved, by the
//!   curves of each later evaluation, as much as the items that its moves drop cost. A gain of `gain_certain` needs no
//!   validation.
//! - *Stretch.* A sampled cliff is at a few percent too few or too many chunks. If the measured misses fit the curve
//!   only after a small stretch, the curve is stretched.
//! - *New classes.* A class that is new, or used again after a silence, has no reliable curve. Until it has had
//!   requests for twice its chunks, it receives pages by [`TailAge`] as under `space_time` and gives none. A nearly
//!   silent class receives none.
//! - *Idle chunks.* Chunks that were free for a whole window while the class did not grow are of no use to it, even if
//!   its curve says otherwise: the curve counts as level from there.
//!
//! Invariants: a step moves at most a 64th of the pages and at most 64, but may always move eight; a class that holds
//! items keeps a page; while the pool has pages nothing moves; a class in an urgent move is in no other move of that
//! step. When moves have stopped, no partition has a gain above `gain_min` plus the cost of its moves, apart from half
//! a percent of the cost, the error of the splitter.
//!
//! Weakness: if the keys of a class are reused in another pattern but equally often, the policy sees it only as the
//! curve decays.

mod usage;

use super::tail_age::{Permissions, TailAge, Worth};
use crate::history::costs::MissCosts;
use crate::history::per_class::PerClass;
use crate::options::options;
use crate::policy::Policy;
use crate::split::{ClassCurve, Moves, Objective, cost, near_best_split_at, predict};
use crate::{ClassProfile, ClassSnapshot, PageMove, Plan, Snapshot, Trigger, Wants};
use slabwise_base::Random;
use usage::{Since, Usage};

options! {
    /// A step every 62 ms, an evaluation every 25,000 gets, and a gain of at least 0.05 % of the gets.
    pub struct MarginalOptions of Marginal {
        period_ticks: u32 = 4, period_ticks;
        gain_min: f64 = 0.0005, gain_min;
        objective: Objective = Objective::Cost, choice, "quantity to minimize";
        evaluate_gets: u64 = 25_000, events, "gets between two evaluations of the curves";
        window_gets: u64 = 50_000, events,
            "half-life of reference counts, in gets; chunks that were free for this long are idle";
        gain_certain: f64 = 0.01, real(0.0..=1.0),
            "gain that needs no validation, in misses (or mean miss costs) per get";
        move_cost: f64 = 0.005, real(0.0..=1.0),
            "cost of moving all pages, in misses (or mean miss costs) per get";
        item_cost: f64 = 0.01, real(0.0..=1.0), "cost of each item that a move drops, in misses";
    }
}

#[derive(Clone, Debug, Default)]
pub struct Marginal {
    options: MarginalOptions,
    tail_age: TailAge,
    costs: MissCosts,
    usages: PerClass<Usage>,
    /// Gets at the last evaluation; `None` before the first.
    evaluated_at_gets: Option<u64>,
    marked_at_gets: u64,
    /// The savings of the proposal since it was made, in misses or their costs.
    saved_by_proposal: f64,
}

impl Policy for Marginal {
    fn trigger(&self) -> Trigger {
        Trigger::EveryTicks(self.options.period_ticks)
    }

    fn wants(&self) -> Wants {
        Wants::RecentProfiles
    }

    fn step(&mut self, snapshot: &Snapshot, _random: &mut Random) -> Plan {
        self.costs.update(snapshot);
        let gets_of_curves = gets_of(&snapshot.profiles);
        self.usages.follow(snapshot, |class| {
            let index = snapshot.classes.iter().position(|other| other.class == class.class);
            let known = index.and_then(|index| snapshot.profiles.get(index));
            match known {
                Some(profile) => Usage::new(class).after(profile, gets_of_curves),
                None => Usage::new(class),
            }
        });
        let each = snapshot.classes.iter().zip(self.usages.iter_mut());
        each.for_each(|(class, usage)| usage.update(class));
        let evaluated_gets = self.update_usages(snapshot);
        let mut plan = self.urgent_moves(snapshot);
        if !snapshot.is_divided() || snapshot.profiles.is_empty() {
            return plan;
        }
        if evaluated_gets.is_none() && self.usages.iter().all(|usage| usage.target.is_none()) {
            return plan;
        }
        let mut classes = self.classes(snapshot);
        carry_out(&mut classes, snapshot, &plan.moves);
        if let Some(gets) = evaluated_gets {
            self.choose_target(&classes, gets as f64);
        }
        // A class in an urgent move is in no other move of this step.
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
            reason: "towards equal marginal gains, whole cliffs at once",
        };
        let towards = moves.of(snapshot, |index, pages| moves.slope(index, pages));
        if towards.is_empty() && plan.moves.is_empty() {
            self.usages.iter_mut().for_each(|usage| usage.target = None);
        }
        if towards.is_empty() {
            return plan;
        }
        let current: Vec<u64> = classes.iter().map(|class| class.pages).collect();
        plan.predicted = Some(predict(snapshot, &classes, &current, &targets));
        plan.moves.extend(towards);
        plan
    }
}

impl Marginal {
    /// Updates the usages if an evaluation is due; returns the gets since the last one.
    fn update_usages(&mut self, snapshot: &Snapshot) -> Option<u64> {
        let evaluated_at = *self.evaluated_at_gets.get_or_insert(snapshot.gets);
        let gets = snapshot.gets.saturating_sub(evaluated_at);
        if gets < self.options.evaluate_gets || snapshot.profiles.is_empty() {
            return None;
        }
        self.evaluated_at_gets = Some(snapshot.gets);
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
            usage.evaluate(class, profile, Since { miss_cost, ..since });
            if is_mark {
                usage.mark(class);
            }
        }
        Some(gets)
    }

    /// Moves that cannot wait for curves or need none.
    fn urgent_moves(&mut self, snapshot: &Snapshot) -> Plan {
        let known = || snapshot.classes.iter().zip(self.usages.iter());
        let is_new = |(class, usage): (&ClassSnapshot, &Usage)| {
            snapshot.profiles.is_empty() || usage.is_new(class)
        };
        let new_is_pressed = known().any(|both| is_new(both) && both.1.is_pressed);
        let costs = self.options.objective.relative_costs(snapshot, &self.costs);
        let permissions = known().zip(costs).map(|((class, usage), miss_cost)| {
            let is_new = is_new((class, usage));
            // Otherwise idle chunks wait until an evaluation finds the class that needs them.
            let idle = new_is_pressed && usage.idle_pages(class) > 0;
            // All hits of a silent class together are worth less than a page.
            let receive = is_new && (snapshot.profiles.is_empty() || usage.is_awake(class));
            Permissions { receive, spare: is_new || idle || class.used_chunks == 0, miss_cost }
        });
        let permissions: Vec<Permissions> = permissions.collect();
        let plan = self
            .tail_age
            .step_with_permissions(snapshot, Worth::SpaceTime, |index| permissions[index]);
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

    /// The classes with their curves, weighted by recent references. New classes keep their pages.
    fn classes<'s>(&self, snapshot: &'s Snapshot) -> Vec<ClassCurve<'s>> {
        let mut classes = self.options.objective.class_curves(snapshot, &self.costs);
        let gets_of_curves = gets_of(&snapshot.profiles);
        let known = snapshot.classes.iter().zip(self.usages.iter());
        for (class, (shown, usage)) in classes.iter_mut().zip(known) {
            class.stretch = usage.stretch;
            class.weight = usage.weight() / gets_of_curves;
            if usage.is_new(shown) && !usage.is_silent {
                (class.pages_min, class.pages_usable) = (class.pages, class.pages);
            } else if usage.idle_pages(shown) > 0 {
                class.pages_usable = class.pages - usage.idle_pages(shown);
            }
        }
        classes
    }

    /// Sets a new target if leaving the current target, or the current pages, for it has paid.
    fn choose_target(&mut self, classes: &[ClassCurve], gets: f64) {
        let known = classes.iter().zip(self.usages.iter());
        let from_base = known.map(|(class, usage)| {
            let pages = usage.target.unwrap_or(class.pages);
            ClassCurve { pages, pages_min: class.pages_min.min(pages), ..*class }
        });
        let from_base: Vec<ClassCurve> = from_base.collect();
        let base: Vec<u64> = from_base.iter().map(|class| class.pages).collect();
        let pages: u64 = base.iter().sum();
        let unit: f64 = from_base.iter().map(ClassCurve::cost_max).sum();
        // A page that moves is one page fewer in one class and one more in another.
        let page_move_cost = self.options.move_cost * unit / (2 * pages).max(1) as f64;
        let best = near_best_split_at(&from_base, pages, page_move_cost);
        let gain = |split: &[u64]| cost(&from_base, &base) - cost(&from_base, split);
        let least = self.options.gain_min * unit + page_move_cost * distance(&base, &best) as f64;
        if gain(&best) <= least {
            self.set_proposal(&[]);
            return;
        }
        let mut proposal = self.proposal(pages);
        if proposal.is_empty() || gain(&proposal) < gain(&best) / 2.0 {
            // The curves that led to a proposal do not validate it; later gets do.
            self.set_proposal(&best);
            proposal = best;
        } else {
            self.saved_by_proposal += gain(&proposal) * gets;
        }
        let saved = gain(&proposal);
        let dropped = from_base.iter().zip(&proposal).map(|(class, &pages)| {
            let chunks = class.pages.saturating_sub(pages) * class.chunks_per_page;
            chunks as f64 * class.miss_cost
        });
        let drop_cost = self.options.item_cost * dropped.sum::<f64>();
        if self.saved_by_proposal >= drop_cost || saved >= self.options.gain_certain * unit {
            let usages = self.usages.iter_mut().zip(proposal);
            usages.for_each(|(usage, pages)| usage.target = Some(pages));
            self.set_proposal(&[]);
        }
    }

    /// The partition under validation, if it still has at most this many pages; otherwise empty.
    fn proposal(&self, pages: u64) -> Vec<u64> {
        let proposal: Option<Vec<u64>> = self.usages.iter().map(|usage| usage.proposal).collect();
        proposal.filter(|split| split.iter().sum::<u64>() <= pages).unwrap_or_default()
    }

    /// Starts the validation of a partition; an empty one ends it.
    fn set_proposal(&mut self, split: &[u64]) {
        let pages = split.iter().copied().map(Some).chain(std::iter::repeat(None));
        self.usages.iter_mut().zip(pages).for_each(|(usage, pages)| usage.proposal = pages);
        self.saved_by_proposal = 0.0;
    }
}

/// The maximum number of moves of all kinds in a step, in a cache of this many pages.
pub(crate) fn moves_max(pages: u64) -> usize {
    (pages / 64).clamp(8, 64) as usize
}

fn gets_of(profiles: &[ClassProfile]) -> f64 {
    let references: f64 = profiles.iter().map(|profile| profile.curve.references()).sum();
    references.max(1.0)
}

fn distance(a: &[u64], b: &[u64]) -> u64 {
    a.iter().zip(b).map(|(&a, &b)| a.abs_diff(b)).sum()
}

fn carry_out(classes: &mut [ClassCurve], snapshot: &Snapshot, moves: &[PageMove]) {
    for page_move in moves {
        let index = |id| snapshot.classes.iter().position(|class| class.class == id);
        if let Some(victim) = index(page_move.victim) {
            classes[victim].pages -= 1;
            classes[victim].pages_min = classes[victim].pages_min.min(classes[victim].pages);
        }
        if let Some(receiver) = page_move.receiver.and_then(index) {
            classes[receiver].pages += 1;
        }
    }
}

#[cfg(test)]
mod tests;
