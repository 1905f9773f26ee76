//! slabwise's own policy: it moves pages towards the partition with the lowest miss cost, but only if the gain exceeds
//! the cost of the moves. LAMA (X. Hu and others, ATC 2015) has the same goal; this policy works for any number of
//! pages.
//!
//! ```text
//!   every step:   new classes, free chunks --------> moves of space_time, at once
//!                 target of an earlier evaluation? -> moves towards the target, a few per step
//!   evaluation:   curves x recent references --> near_best_partition with a move cost --> gain?
//!                                                        no: no move      yes: a new target
//! ```
//!
//! In the best partition the *marginal* gains of all classes are equal: a page more saves a class as many misses as a
//! page less costs any other class. A class below a cliff receives all pages of the cliff or none.
//! [`near_best_partition`](crate::partition::near_best_partition) finds the partition. Eight rules make the policy fast
//! and prevent useless moves:
//!
//! - *Costs.* A miss counts by the miss cost of its class, divided by the mean miss cost of all classes. If all costs
//!   are equal or unknown, every plan equals the plan for the objective `miss_ratio`.
//! - *Recent references.* A class's misses are its curve times a weight. The weight is the recent references of the
//!   class divided by the references of the curve. References count without sampling and decay with a half-life of
//!   `window_gets`, so the policy reacts to a change of popularity before the curves have decayed.
//! - *Move cost.* `move_cost` is the cost of moving all pages, in misses per get. The move of one page costs this value
//!   divided by the number of pages. So no page moves if the slopes of the curves differ only by noise.
//! - *Validation.* A better partition is first a proposal. Each later evaluation computes from its own curves the cost
//!   that the proposal would have saved since the last evaluation. The proposal becomes the target when the sum of
//!   these savings reaches the cost of the items that its moves drop. A gain of `gain_certain` needs no validation.
//! - *Stretch.* Sampling moves a cliff by a few percent of the chunks. If the measured misses differ from the curve,
//!   but agree with a curve whose sizes are multiplied by a factor near 1, the policy uses this factor (the *stretch*).
//! - *New classes.* A class that is new, or used again after a silence, has no reliable curve. It gives pages to any class,
//!   and receives pages, only as under `space_time` ([`TailAge`]) until its requests reach twice the number of its chunks (at least 64), and
//!   it has evicted half as many items as it has chunks, or has had eight requests for each chunk. Before its first
//!   evictions, no curve can show what more memory would save. A class of a new class table is not new if its curve
//!   counts enough references, because the keys follow their items into the new classes. A class with almost no
//!   references is *silent* and receives no pages.
//! - *Pace.* A class receives only the pages that it would fill until the next step, so pages do not wait for items.
//! - *Idle chunks.* Chunks that were free for a whole window (`window_gets`) while the class did not grow are *idle*.
//!   The policy assumes that they save no misses, even if the curve shows a gain.
//!
//! Invariants:
//!
//! - the maximum number of moves in a step is a 64th of the pages, but at least 8 and at most 64 or a 128th of the
//!   pages;
//! - a class that holds items keeps a page;
//! - while the pool has pages no page moves;
//! - a class that is in a move of `space_time` is in no other move of that step;
//! - when moves have stopped, no partition has a gain above `gain_min` plus the cost of its moves plus half a percent
//!   of the cost of all misses, the error of `near_best_partition`.
//!
//! Weakness: if the reuse pattern of a class's keys changes but its number of references does not, the policy reacts
//! only as fast as the curve decays.

mod usage;

use super::tail_age::{Permissions, Quantity, TailAge};
use crate::history::costs::MissCosts;
use crate::history::per_class::PerClass;
use crate::options::options;
use crate::partition::{ClassCurve, Moves, Objective, cost, near_best_partition_at, predict};
use crate::policy::Policy;
use crate::{ClassProfile, ClassSnapshot, Inputs, PageMove, Plan, Snapshot, Trigger};
use slabwise_base::Random;
use usage::{Evaluation, Usage};

options! {
    /// By default a step follows when a 256th of the memory was stored, and an evaluation every 25,000 gets. A gain must
    /// exceed 0.05 misses per 100 gets.
    pub struct MarginalOptions of Marginal {
        period_divisor: u64 = 256, memory_divisor;
        gain_min: f64 = 0.0005, gain_min;
        objective: Objective = Objective::Cost, choice, "quantity that a new partition minimizes";
        evaluate_gets: u64 = 25_000, events, "gets between two evaluations of the curves";
        window_gets: u64 = 50_000, events,
            "half-life of reference counts, in gets; chunks that were free for this number of gets are idle";
        gain_certain: f64 = 0.01, real(0.0..=1.0),
            "gain that needs no validation, in misses (or mean miss costs) per get";
        move_cost: f64 = 0.005, real(0.0..=1.0),
            "charge for moving all pages of the cache, in misses (or mean miss costs) per get; fewer pages are \
             charged in proportion";
        item_cost: f64 = 0.01, real(0.0..=1.0), "cost of each item that a move drops, in misses";
    }
}

#[derive(Clone, Debug, Default)]
pub struct Marginal {
    options: MarginalOptions,
    tail_age: TailAge,
    costs: MissCosts,
    usages: PerClass<Usage>,
    /// The gets since the start of the cache, at the last evaluation; `None` before the first step.
    evaluated_at_gets: Option<u64>,
    /// The gets since the start of the cache, at the end of the last window of `window_gets` gets.
    marked_at_gets: u64,
    /// The miss cost that the proposal would have saved since it was made, relative to the mean cost of a miss.
    saved_by_proposal: f64,
}

impl Policy for Marginal {
    fn trigger(&self) -> Trigger {
        let MarginalOptions { evaluate_gets, period_divisor, .. } = self.options;
        Trigger::EveryWork { gets: evaluate_gets, memory_divisor: period_divisor }
    }

    fn inputs(&self) -> Inputs {
        Inputs::RecentProfiles
    }

    fn step(&mut self, snapshot: &Snapshot, _random: &mut Random) -> Plan {
        self.costs.update(snapshot);
        let gets_of_curves = gets_of(&snapshot.profiles);
        self.usages.follow(snapshot, |class| {
            let index = snapshot.classes.iter().position(|other| other.class == class.class);
            let known = index.and_then(|index| snapshot.profiles.get(index));
            match known {
                Some(profile) => Usage::of_known(class, profile, gets_of_curves),
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
        // A class that is in an urgent move is in no other move of this step.
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
        let known = snapshot.classes.iter().zip(self.usages.iter());
        let fillable: Vec<u64> =
            known.map(|(class, usage)| usage.filling.fillable_pages(class)).collect();
        let moves = Moves {
            classes: &classes,
            target: &targets,
            moves_max: moves_max(pages).saturating_sub(plan.moves.len()),
            received_max: Some(&fillable),
            reason: "towards the partition with the lowest miss cost (equal marginal gains)",
        };
        let towards = moves.of(snapshot, |index, pages| moves.slope(index, pages));
        let compared = || classes.iter().zip(&targets);
        // The targets are also done with if no class gives a page: they were those of a cache with more pages.
        let is_reached = compared().all(|(class, &target)| class.pages >= target)
            || compared().all(|(class, &target)| class.pages <= target);
        if is_reached && plan.moves.is_empty() {
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
    /// Updates the usages if an evaluation is due. Returns the gets since the last evaluation; `None` if none is due.
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
        let evaluation = Evaluation {
            gets: gets.max(1) as f64,
            half_gets: self.options.window_gets as f64,
            gets_of_curves: gets_of(&snapshot.profiles),
            miss_cost: 1.0,
        };
        let costs = self.options.objective.relative_costs(snapshot, &self.costs);
        let shown = snapshot.classes.iter().zip(&snapshot.profiles).zip(costs);
        for (((class, profile), miss_cost), usage) in shown.zip(self.usages.iter_mut()) {
            usage.evaluate(class, profile, Evaluation { miss_cost, ..evaluation });
            if is_mark {
                usage.mark(class);
            }
        }
        Some(gets)
    }

    /// Plans the moves of `space_time`: pages for new classes, whose curves are not yet reliable, and pages of free
    /// chunks that a class does not need.
    fn urgent_moves(&mut self, snapshot: &Snapshot) -> Plan {
        let known = || snapshot.classes.iter().zip(self.usages.iter());
        let is_new = |(class, usage): (&ClassSnapshot, &Usage)| {
            snapshot.profiles.is_empty() || usage.is_new(class)
        };
        let new_had_shortage = known().any(|both| is_new(both) && both.1.filling.had_shortage);
        let costs = self.options.objective.relative_costs(snapshot, &self.costs);
        let permissions = known().zip(costs).map(|((class, usage), miss_cost)| {
            let is_new = is_new((class, usage));
            // If no new class needs a page, an evaluation decides which class receives the idle chunks.
            let idle = new_had_shortage && usage.idle_pages(class) > 0;
            // A silent class has too few references for a page.
            let is_awake = snapshot.profiles.is_empty() || usage.is_awake(class);
            Permissions {
                receives_from_all: is_new && is_awake,
                gives_to_all: is_new && !usage.has_known_keys,
                spare: is_new || idle || class.used_chunks == 0,
                miss_cost,
            }
        });
        let permissions: Vec<Permissions> = permissions.collect();
        let plan = self
            .tail_age
            .step_with_permissions(snapshot, Quantity::SpaceTime, |index| permissions[index]);
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

    /// Returns the classes with their curves, weighted by recent references. The limits of a new class are its current
    /// pages, so that it gives and receives none.
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

    /// Evaluates the best partition. Sets it as the new target if it is better than the current target (without a
    /// target: than the current pages) and is validated or certain; otherwise keeps it as a proposal.
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
        // The move of one page changes the number of pages of two classes, so each change costs half of the move.
        let page_move_cost = self.options.move_cost * unit / (2 * pages).max(1) as f64;
        let best = near_best_partition_at(&from_base, pages, page_move_cost);
        let gain = |partition: &[u64]| cost(&from_base, &base) - cost(&from_base, partition);
        let least = self.options.gain_min * unit + page_move_cost * distance(&base, &best) as f64;
        if gain(&best) <= least {
            self.set_proposal(&[]);
            return;
        }
        let mut proposal = self.proposal(pages);
        if proposal.is_empty() || gain(&proposal) < gain(&best) / 2.0 {
            // Only evaluations after this one validate the proposal.
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

    /// Returns the partition under validation; empty if there is none or if it has more than this many pages.
    fn proposal(&self, pages: u64) -> Vec<u64> {
        let proposal: Option<Vec<u64>> = self.usages.iter().map(|usage| usage.proposal).collect();
        proposal.filter(|partition| partition.iter().sum::<u64>() <= pages).unwrap_or_default()
    }

    /// Starts the validation of a partition. An empty partition ends the current validation.
    fn set_proposal(&mut self, partition: &[u64]) {
        let pages = partition.iter().copied().map(Some).chain(std::iter::repeat(None));
        self.usages.iter_mut().zip(pages).for_each(|(usage, pages)| usage.proposal = pages);
        self.saved_by_proposal = 0.0;
    }
}

/// Returns the maximum number of moves in a step, in a cache of this many pages.
pub(crate) fn moves_max(pages: u64) -> usize {
    (pages / 64).clamp(8, 64.max(pages / 128)) as usize
}

/// Returns the number of gets that the curves count, at least 1.
fn gets_of(profiles: &[ClassProfile]) -> f64 {
    let references: f64 = profiles.iter().map(|profile| profile.curve.references()).sum();
    references.max(1.0)
}

/// Returns the sum over all classes of the difference of their pages in the two partitions.
fn distance(a: &[u64], b: &[u64]) -> u64 {
    a.iter().zip(b).map(|(&a, &b)| a.abs_diff(b)).sum()
}

/// Changes the pages of the classes as these moves will change them.
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
