//! The decisions of the steerer: a state machine without a clock and without a connection.
//!
//! ```text
//!   Counters --> Steerer::observe --> Decision --> the driver orders the moves --> Steerer::report
//!                   |
//!                   +-- process changed?          forget everything but the split and the curves
//!                   +-- moves of others?          stop
//!                   +-- shifted traffic?          forget what was measured, and allow as many moves as at the start
//!                   +-- a goal?                   its moves, until it is reached or given up
//!                   +-- a trial that hurt?        a goal: the split before the trial
//!                   '-- policy: a plan            its moves, within the rate limit, if no trial forbids it
//! ```
//!
//! Invariants:
//! - while the server moves a page, and while its memory is not full, no move is decided;
//! - while there is a goal, the policy moves no page;
//! - no class gives its last `pages_min` pages;
//! - a round is decided only if no trial is being measured, if it continues the direction of the trial, or if it promises a large
//!   saving ([`LARGE_SAVING`]);
//! - a class that was in an undone trial is in no round of the policy until its hold ends;
//! - the rate limit holds for all orders except those that undo a trial, also for orders that the server refuses.
//!
//! After a restart of the server its clients are the same, so the curves keep their counts, which decay.

use crate::budget::Budget;
use crate::curves::ColdHits;
use crate::due::LastStep;
use crate::goal::{Goal, GoalEnd, Purpose, Step};
use crate::rival::OwnMoves;
use crate::shift::{Shift, ShiftDetector};
use crate::split::{Order, Split};
use crate::trial::Effect;
use crate::trials::{Progress, SECOND_NANOS, Trials};
use slabwise_base::{ClassId, Now, Random};
use slabwise_observer::counters::{ClassCounters, Counters};
use slabwise_policy::{PagePolicy, Plan, Snapshot};

/// A round that saves this share of the misses may begin while the trial of an earlier round is measured.
const LARGE_SAVING: f64 = 0.03;
/// A move must save at least this share of the mean misses per page: the misses of all classes divided by the number of
/// pages. So the moves of a tenth of all pages save at least 2 % of the misses, or are not worth their items.
const MOVE_SAVING_MIN: f64 = 0.15;
/// The longest time from an accepted order to the beginning of the move.
const ORDER_NANOS_MAX: u64 = 5 * SECOND_NANOS;

/// The limits that the operator sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The number of moves per minute, after the first ones.
    pub moves_per_minute: f64,
    /// The number of pages that each class keeps.
    pub pages_min: u64,
}

/// Some moves that are ordered one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Round {
    /// Why the pages move.
    pub purpose: Purpose,
    /// The moves, with their reasons.
    pub moves: Vec<(Order, &'static str)>,
    /// The misses per get that the moves save, computed from the curves; `None` if there are no curves.
    pub predicted_saving: Option<f64>,
}

/// What the driver must do.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Nothing; the next reading decides.
    Wait,
    /// Order these moves, and report them.
    Move(Round),
    /// Stop steering: somebody else has moved this number of pages.
    Rival(u64),
}

/// What the steerer noticed in a reading, for the log.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The server is another process than at the last reading.
    Restarted,
    /// The effect of a trial was measured.
    Measured(Effect),
    /// The goal with this purpose has ended.
    GoalEnded(Purpose, GoalEnd),
    /// The traffic has shifted.
    Shifted(Shift),
}

/// The state machine.
pub struct Steerer {
    policy: PagePolicy,
    /// The policy in its first state, for a restarted server.
    fresh_policy: PagePolicy,
    curves: ColdHits,
    random: Random,
    limits: Limits,
    budget: Option<Budget>,
    own_moves: OwnMoves,
    tolerates_others: bool,
    ordered_at_nanos: Option<u64>,
    trials: Trials,
    shift: ShiftDetector,
    last_step: Option<LastStep>,
    last: Option<Counters>,
    turnovers: f64,
    goal: Option<Goal>,
    /// The split that was chosen last. An unfinished goal may not have reached it.
    split: Split,
    events: Vec<Event>,
}

impl Steerer {
    /// Creates a steerer.
    pub fn new(policy: PagePolicy, curves: ColdHits, limits: Limits) -> Steerer {
        Steerer {
            fresh_policy: policy.clone(),
            policy,
            curves,
            random: Random::new(1),
            limits,
            budget: None,
            own_moves: OwnMoves::default(),
            tolerates_others: false,
            ordered_at_nanos: None,
            trials: Trials::default(),
            shift: ShiftDetector::default(),
            last_step: None,
            last: None,
            turnovers: 0.0,
            goal: None,
            split: Split::default(),
            events: Vec::new(),
        }
    }

    /// Returns the last split that the steerer chose; empty if it has chosen none.
    pub fn split(&self) -> &Split {
        &self.split
    }

    /// Returns true if the next reading should follow soon, because the memory fills or the first rounds are due.
    pub fn is_eager(&self) -> bool {
        !self.trials.has_history() && self.goal.as_ref().is_none_or(|goal| !goal.has_begun())
    }

    /// Returns what was noticed since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Receives one reading of the counters, taken `nanos` nanoseconds after the start of the caller's clock.
    pub fn observe(&mut self, counters: &Counters, nanos: u64) -> Decision {
        self.follow_process(counters);
        let since_order = self.ordered_at_nanos.map(|at| nanos.saturating_sub(at));
        let is_settled = !counters.is_moving && since_order.is_none_or(|it| it > ORDER_NANOS_MAX);
        let foreign = self.own_moves.observe(counters.pages_moved, is_settled);
        if foreign > 0 && !self.tolerates_others {
            return Decision::Rival(foreign);
        }
        self.follow_traffic(counters, nanos);
        self.curves.observe(counters);
        self.count_turnovers(counters);
        self.last = Some(counters.clone());
        if counters.is_moving || !counters.is_memory_full() || counters.pages_free > 0 {
            self.goal.iter_mut().for_each(Goal::wait);
            return Decision::Wait;
        }
        let pages: u64 = counters.classes.iter().map(|class| class.shown.pages).sum();
        let budget = self.budget.get_or_insert_with(|| {
            Budget::new(self.limits.moves_per_minute, first_moves_max(pages), nanos)
        });
        let allowed = budget.allowed(nanos);
        if let Some(decision) = self.follow_goal(counters, nanos, allowed) {
            return decision;
        }
        match self.trials.observe(counters, nanos) {
            Progress::Open => {}
            Progress::Measured(effect, undo) => {
                self.events.push(Event::Measured(effect));
                if let Some(split) = undo {
                    self.split = split.clone();
                    self.goal = Some(Goal::new(Purpose::Undo, split));
                    return self.follow_goal(counters, nanos, allowed).unwrap_or(Decision::Wait);
                }
            }
        }
        self.follow_policy(counters, nanos, allowed)
    }

    /// Receives the orders of a round that the server has accepted, the number of those that it has refused, and the reading
    /// before them.
    pub fn report(
        &mut self,
        round: &Round,
        before: &Counters,
        accepted: &[Order],
        refused: usize,
        nanos: u64,
    ) {
        if let Some(budget) = self.budget.as_mut().filter(|_| round.purpose != Purpose::Undo) {
            // A refused order costs the server as much, and the next step plans it again.
            budget.spend(accepted.len() + refused);
        }
        if let Some(goal) = self.goal.as_mut().filter(|goal| goal.purpose == round.purpose) {
            goal.report(accepted.len(), refused, nanos);
        }
        if accepted.is_empty() {
            return;
        }
        if round.purpose == Purpose::Policy {
            self.trials.moved(before, nanos);
            self.split = Split::of(before);
            accepted.iter().for_each(|&order| self.split.move_page(order, before));
        }
    }

    /// Continues if others move pages, as the automover does in a dry run.
    pub fn tolerate_others(&mut self) {
        self.tolerates_others = true;
    }

    /// Records that an order was sent, whether or not its reply arrives.
    pub fn ordered(&mut self, nanos: u64) {
        self.own_moves.ordered();
        self.ordered_at_nanos = Some(nanos);
    }

    /// Records that the server refused the last order.
    pub fn refused(&mut self) {
        self.own_moves.refused();
    }

    /// Starts with the split of an earlier run. It is reached again if the server has restarted since.
    pub fn start_with(&mut self, split: Split, has_restarted: bool) {
        let is_to_reach = !split.is_empty() && has_restarted;
        self.goal = is_to_reach.then(|| Goal::new(Purpose::Reapply, split.clone()));
        self.split = split;
    }

    /// Records that the automover was switched off. It may have a move in progress, and may have ordered another one before
    /// it read its new mode.
    pub fn took_over(&mut self, nanos: u64) {
        (0..2).for_each(|_| self.ordered(nanos));
    }

    /// Forgets everything but the split and the curves if the counters are of another process. Forgets the readings if the counts were
    /// reset.
    fn follow_process(&mut self, counters: &Counters) {
        let Some(last) = &self.last else { return };
        if !counters.process.is_same_process(last.process) {
            self.events.push(Event::Restarted);
            self.own_moves.forget();
            self.policy = self.fresh_policy.clone();
            (self.budget, self.last_step, self.turnovers) = (None, None, 0.0);
            self.trials = Trials::default();
            self.shift = ShiftDetector::default();
            let split = self.split.clone();
            self.goal = (!split.is_empty()).then(|| Goal::new(Purpose::Reapply, split));
        } else if counters.gets < last.gets {
            self.trials.forget_readings();
            self.shift.forget_window();
            self.last_step = None;
        } else {
            return;
        }
        self.last = None;
    }

    /// Forgets what was measured if the traffic has shifted, and allows as many moves as at the start.
    fn follow_traffic(&mut self, counters: &Counters, nanos: u64) {
        let Some(shift) = self.shift.observe(counters, nanos) else { return };
        self.events.push(Event::Shifted(shift));
        self.trials.shifted();
        // Whether the trial hurt says nothing about the present traffic.
        if self.goal.take_if(|goal| goal.purpose == Purpose::Undo).is_some() {
            self.split = Split::of(counters);
        }
        self.curves.shifted();
        if let Some(budget) = &mut self.budget {
            budget.refill(nanos);
        }
    }

    /// Adds the bytes that were stored since the last reading.
    fn count_turnovers(&mut self, counters: &Counters) {
        let Some(last) = &self.last else { return };
        let stored = |class: &ClassCounters| {
            let sets_before = last.class(class.shown.class).map_or(0, |it| it.shown.sets);
            class.shown.sets.saturating_sub(sets_before) as f64
                * class.shown.chunk_size_bytes as f64
        };
        let bytes: f64 = counters.classes.iter().map(stored).sum();
        self.turnovers += bytes / counters.memory_limit_bytes.max(1) as f64;
    }

    /// Returns the moves towards the goal; `None` if there is no goal, or it has ended.
    fn follow_goal(&mut self, counters: &Counters, nanos: u64, allowed: usize) -> Option<Decision> {
        let goal = self.goal.as_mut()?;
        let purpose = goal.purpose;
        let (allowed, reason) = match purpose {
            Purpose::Undo => (usize::MAX, "back, because the misses rose after the moves"),
            _ => (allowed, "towards the split of before the restart"),
        };
        match goal.step(counters, self.limits.pages_min, nanos, allowed) {
            Step::End(end) => {
                self.goal = None;
                if purpose == Purpose::Undo {
                    self.split = Split::of(counters);
                }
                self.events.push(Event::GoalEnded(purpose, end));
                None
            }
            Step::Moves(orders) if orders.is_empty() => Some(Decision::Wait),
            Step::Moves(orders) => {
                let moves = orders.into_iter().map(|order| (order, reason)).collect();
                Some(Decision::Move(Round { purpose, moves, predicted_saving: None }))
            }
        }
    }

    /// Steps the policy if a step is due, and returns the moves that the limits allow.
    fn follow_policy(&mut self, counters: &Counters, nanos: u64, allowed: usize) -> Decision {
        let mut snapshot = counters.snapshot(Now::from_nanos(nanos).ticks, self.turnovers);
        let now = LastStep::of(&snapshot);
        let is_due = self.last_step.is_none_or(|it| it.is_due(self.policy.trigger(), &snapshot));
        if !is_due {
            return Decision::Wait;
        }
        self.last_step = Some(now);
        snapshot.profiles = self.curves.profiles(&snapshot);
        let plan = self.policy.step(&snapshot, &mut self.random);
        let round = self.round(&snapshot, &plan, nanos, allowed);
        let curves = Forecast::of(&snapshot);
        let pages: Vec<u64> = snapshot.classes.iter().map(|class| class.pages).collect();
        let large = LARGE_SAVING * curves.misses(&pages);
        let is_large = round.predicted_saving.is_some_and(|it| it * curves.references() >= large);
        let orders: Vec<Order> = round.moves.iter().map(|(order, _)| *order).collect();
        let may_begin = is_large || self.trials.may_begin(counters, &orders, nanos);
        match orders.is_empty() || !may_begin {
            true => Decision::Wait,
            false => Decision::Move(round),
        }
    }

    /// Returns the moves of the plan that the limits allow, and the saving that the curves promise for them.
    fn round(&self, snapshot: &Snapshot, plan: &Plan, nanos: u64, allowed: usize) -> Round {
        let present: Vec<u64> = snapshot.classes.iter().map(|class| class.pages).collect();
        let curves = Forecast::of(snapshot);
        let saving_min = match self.policy.inputs().needs_profiles() {
            true => {
                MOVE_SAVING_MIN * curves.misses(&present)
                    / present.iter().sum::<u64>().max(1) as f64
            }
            false => f64::NEG_INFINITY,
        };
        let index = |id: ClassId| snapshot.classes.iter().position(|class| class.class == id);
        let is_held =
            |index: usize| self.trials.is_held(snapshot.classes[index].chunk_size_bytes, nanos);
        let mut pages = present.clone();
        let mut moves = Vec::new();
        for planned in &plan.moves {
            let receiver = planned.receiver.and_then(index);
            let (Some(victim), Some(receiver)) = (index(planned.victim), receiver) else {
                continue;
            };
            let is_allowed = pages[victim] > self.limits.pages_min && moves.len() < allowed;
            if !is_allowed || is_held(victim) || is_held(receiver) || victim == receiver {
                continue;
            }
            let mut moved = pages.clone();
            (moved[victim], moved[receiver]) = (moved[victim] - 1, moved[receiver] + 1);
            if curves.misses(&pages) - curves.misses(&moved) < saving_min {
                continue;
            }
            pages = moved;
            let [victim, receiver] = [victim, receiver].map(|index| snapshot.classes[index].class);
            moves.push((Order { victim, receiver }, planned.reason));
        }
        let saved = curves.misses(&present) - curves.misses(&pages);
        let predicted_saving = (curves.references() > 0.0).then(|| saved / curves.references());
        Round { purpose: Purpose::Policy, moves, predicted_saving }
    }
}

/// The misses that the curves of a snapshot promise for a split.
struct Forecast<'s>(&'s Snapshot);

impl<'s> Forecast<'s> {
    fn of(snapshot: &'s Snapshot) -> Forecast<'s> {
        Forecast(snapshot)
    }

    /// Returns the misses with these numbers of pages; 0 if there are no curves.
    fn misses(&self, pages: &[u64]) -> f64 {
        let each = self.0.profiles.iter().zip(&self.0.classes).zip(pages);
        each.map(|((it, class), &pages)| it.curve.misses(pages * class.chunks_per_page as u64))
            .sum()
    }

    fn references(&self) -> f64 {
        self.0.profiles.iter().map(|it| it.curve.references()).sum()
    }
}

/// Returns the number of moves that are allowed at once, in a server with this many pages: a quarter of the pages.
fn first_moves_max(pages: u64) -> usize {
    const MOVES_MIN: u64 = 8;
    const MOVES_MAX: u64 = 256;
    (pages / 4).clamp(MOVES_MIN, MOVES_MAX) as usize
}

#[cfg(test)]
mod tests;
