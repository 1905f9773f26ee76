//! The control loop as a step: snapshot, policy, plan, mover.
//!
//! ```text
//!            due?                                 one at a time
//!   step --> snapshot of the engine --> policy --> plan --> engine.reassign --> engine.mover_step
//!     ^                                                                             |
//!     '-------------------------- again, while there is work <----------------------'
//! ```
//!
//! Whoever owns the tuner calls [`Tuner::step`] again and again: a thread of the server, the lab on
//! virtual time. It never waits and reads no clock.
//!
//! Laws: a plan is carried out, or what is left of it dropped, before the policy is asked again; a step
//! visits at most [`MoveBudget::chunks_per_step`] chunks, and while clients are served steps lie so far
//! apart that no more pages move than [`MoveBudget::pages_per_second`]; a move asked for by hand is carried
//! out like a planned one.
#![forbid(unsafe_code)]

use slabwise_base::{Moment, Now, Random, Ticks};
use slabwise_engine::{ClassStats, Engine, MoverStep, ReassignError};
use slabwise_policy::{ClassSnapshot, PageMove, PagePolicy, Plan, Snapshot, Trigger};
use std::collections::VecDeque;
use std::time::Duration;

/// The control loop's state.
#[derive(Debug)]
pub struct Tuner {
    policy: PagePolicy,
    budget: MoveBudget,
    random: Random,
    /// When the policy was stepped last; `None` before the first time.
    stepped_at: Option<Ticks>,
    pending: VecDeque<PageMove>,
    moves_planned: u64,
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunerStep {
    /// There is more to do: call again soon.
    Working,
    /// The same; a planned move was asked for.
    Asked {
        /// The move.
        page_move: PageMove,
        /// Whether it began; if not, the cache has changed since it was planned.
        outcome: Result<(), ReassignError>,
    },
    /// There is more to do, after so long.
    Rest(Duration),
    /// Nothing to do for this many ticks, unless a move is asked for by hand.
    Idle {
        /// Ticks until the policy is due; `None` if it never is.
        ticks: Option<u32>,
    },
}

impl Tuner {
    /// A tuner under this policy.
    pub fn new(policy: PagePolicy, budget: MoveBudget, seed: u64) -> Tuner {
        Tuner {
            policy,
            budget,
            random: Random::new(seed),
            stepped_at: None,
            pending: VecDeque::new(),
            moves_planned: 0,
        }
    }

    /// The policy in force.
    pub fn policy(&self) -> &PagePolicy {
        &self.policy
    }

    /// Puts another policy in force; what the old one planned is dropped.
    pub fn set_policy(&mut self, policy: PagePolicy) {
        self.policy = policy;
        self.pending.clear();
        self.stepped_at = None;
    }

    /// Moves that the policies have planned so far.
    pub fn moves_planned(&self) -> u64 {
        self.moves_planned
    }

    /// One bounded piece of work.
    pub fn step(&mut self, engine: &Engine, load: Load, at: impl Into<Moment>) -> TunerStep {
        let at = at.into();
        let chunks_per_page = engine.chunks_of_moving_page();
        let page_size_bytes = engine.config().page_size_bytes;
        let chunks = chunks_per_page.map(|all| self.budget.chunks(load, all, page_size_bytes));
        match engine.mover_step(chunks.unwrap_or(1), at) {
            MoverStep::Idle => self.plan(engine, at.now),
            MoverStep::Rest(rest) => TunerStep::Rest(rest),
            MoverStep::Working | MoverStep::Done | MoverStep::GivenUp => {
                match chunks.zip(chunks_per_page) {
                    Some((chunks, all)) if load == Load::Serving => {
                        TunerStep::Rest(self.budget.rest(chunks, all))
                    }
                    _ => TunerStep::Working,
                }
            }
        }
    }

    /// Begins the next planned move, or lets the policy plan.
    fn plan(&mut self, engine: &Engine, now: Now) -> TunerStep {
        if let Some(next) = self.pending.pop_front() {
            let outcome = engine.reassign(Some(next.victim), next.receiver, next.reason, now);
            if outcome == Err(ReassignError::Running) {
                self.pending.push_front(next);
                return TunerStep::Working;
            }
            // Where it fails otherwise the move has lost its reason.
            return TunerStep::Asked { page_move: next, outcome };
        }
        let Trigger::EveryTicks(period) = self.policy.trigger() else {
            return TunerStep::Idle { ticks: None };
        };
        let waited = self.stepped_at.map_or(period, |at| at.age_at(now.ticks));
        if waited < period {
            return TunerStep::Idle { ticks: Some(period - waited) };
        }
        self.stepped_at = Some(now.ticks);
        let Plan { moves, .. } = self.policy.step(&snapshot(engine, now), &mut self.random);
        self.moves_planned += moves.len() as u64;
        self.pending.extend(moves);
        if self.pending.is_empty() {
            TunerStep::Idle { ticks: Some(period) }
        } else {
            TunerStep::Working
        }
    }
}

