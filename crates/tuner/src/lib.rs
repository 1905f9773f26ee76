//! The control loop as a step: snapshot, policy, plan, mover; and, between plans, the class table ([`Learning`]).
//!
//! ```text
//!   engine's tap --> queue --> profiler (where profiling is on)
//!                                 | profiles
//!            due?                 v               one at a time
//!   step --> snapshot of the engine --> policy --> plan --> engine.reassign --> engine.mover_step
//!     ^                                                                             |
//!     '-------------------------- again, while there is work <----------------------'
//! ```
//!
//! A driver calls [`Tuner::step`] again and again: a thread of the server, the lab on virtual time. The tuner never
//! waits; the only clock it reads is the one that profiling was given. A driver's other decisions are here, too, and
//! take time as an argument: the load ([`LoadClassifier`]), the requested policy ([`RequestedPolicy`]), the time of a
//! hit ([`HitTime`]), and the wait between steps ([`TunerPace`], [`Backoff`], [`CrawlPeriod`]).
//!
//! Invariants: a plan is carried out, or the rest of it dropped, before the policy is stepped again; a step visits at
//! most [`MoveBudget::chunks_per_step`] chunks, and while clients are served the tuner rests in between, so that no
//! more pages move than [`MoveBudget::pages_per_second`]; a move that a command requests is carried out like a planned
//! one.
#![forbid(unsafe_code)]

mod board;
mod due;
mod learning;
mod load;
mod pacing;
mod profiling;
mod record;
mod requested_policy;
mod sampler;
mod view;

pub use board::{Board, ProfileReport, Shown};
pub use learning::{Learning, SizesReport};
pub use load::{HitTime, Load, LoadClassifier, MoveBudget};
pub use pacing::{
    Backoff, CRAWLER_CHUNKS_PER_STEP, CrawlCounts, CrawlPeriod, MAINTAINER_ITEMS_PER_STEP,
    TunerPace, TunerStep,
};
pub use profiling::{Profiling, ProfilingOptions, ProfilingStats};
pub use record::{EFFECT_GETS_MAX, Effect, PlanRecord};
pub use requested_policy::{AutomoveSettings, RequestedPolicy};
pub use sampler::{Caller, Sampler};
pub use view::snapshot;

use board::Reporter;
use due::{Due, count};
use record::Records;
use slabwise_base::{Moment, Now, Random};
use slabwise_engine::{Engine, MoverStep, ReassignError};
use slabwise_policy::sizes::LearnerOptions;
use slabwise_policy::{PageMove, PagePolicy, Snapshot, Wants};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// The control loop's state.
#[derive(Debug)]
pub struct Tuner {
    policy: PagePolicy,
    budget: MoveBudget,
    random: Random,
    profiling: Option<Profiling>,
    learning: Option<Learning>,
    due: Due,
    pending: VecDeque<PageMove>,
    rest_until_nanos: u64,
    moves_planned: u64,
    records: Records,
    board: Option<Arc<Board>>,
    reporter: Reporter,
}

impl Tuner {
    /// A tuner under this policy.
    pub fn new(policy: PagePolicy, budget: MoveBudget, seed: u64) -> Tuner {
        Tuner {
            policy,
            budget,
            random: Random::new(seed),
            profiling: None,
            learning: None,
            due: Due::default(),
            pending: VecDeque::new(),
            rest_until_nanos: 0,
            moves_planned: 0,
            records: Records::default(),
            board: None,
            reporter: Reporter::default(),
        }
    }

    /// The same, shown on this board.
    pub fn shown_on(mut self, board: Arc<Board>) -> Tuner {
        self.board = Some(board);
        self.show_plan();
        self
    }

    /// The same with profiles to show to policies that want them. Without, they see none.
    pub fn with_profiling(mut self, profiling: Profiling) -> Tuner {
        self.profiling = Some(profiling);
        self.keep_footprints();
        self
    }

    /// Lets this learn the class table from here on; `None`: the table stays as it is.
    pub fn set_learning(&mut self, learning: Option<Learning>) {
        self.learning = learning;
        self.show_sizes();
    }

    /// Lets the class table be learned from here on, or stay as it is; nothing changes where it is so already.
    pub fn learn_classes(&mut self, learns: bool) {
        if learns != self.learning.is_some() {
            self.set_learning(learns.then(|| Learning::new(LearnerOptions::default())));
        }
    }

    /// What learns the class table, if it is learned.
    pub fn learning(&self) -> Option<&Learning> {
        self.learning.as_ref()
    }

    /// The policy in force.
    pub fn policy(&self) -> &PagePolicy {
        &self.policy
    }

    /// Puts another policy in force; what the old one planned is dropped.
    pub fn set_policy(&mut self, policy: PagePolicy) {
        self.policy = policy;
        self.pending.clear();
        self.due = Due::default();
        self.keep_footprints();
        self.show_plan();
    }

    /// What profiles the cache's keys, if it is done.
    pub fn profiling(&self) -> Option<&Profiling> {
        self.profiling.as_ref()
    }

    /// The same, to tell it something.
    pub fn profiling_mut(&mut self) -> Option<&mut Profiling> {
        self.profiling.as_mut()
    }

    /// The last plan that moves pages.
    pub fn last_plan(&self) -> Option<&PlanRecord> {
        self.records.last()
    }

    /// One bounded piece of work: [`Tuner::observe`], then [`Tuner::act`].
    pub fn step(&mut self, engine: &Engine, load: Load, at: impl Into<Moment>) -> TunerStep {
        let at = at.into();
        self.observe(engine, at.now);
        self.act(engine, load, at)
    }

    /// Takes in what was sampled.
    pub fn observe(&mut self, engine: &Engine, now: Now) {
        let Some(profiling) = &mut self.profiling else { return };
        profiling.step(engine, now);
        if let Some(board) = &self.board {
            self.reporter.step(board, profiling, engine, now);
        }
    }

    /// Moves, plans, or finds nothing to do. Called before a rest is over it rests on.
    pub fn act(&mut self, engine: &Engine, load: Load, at: Moment) -> TunerStep {
        let rest_nanos = self.rest_until_nanos.saturating_sub(at.nanos);
        if rest_nanos > 0 {
            return TunerStep::Rest(Duration::from_nanos(rest_nanos));
        }
        let step = self.move_or_plan(engine, load, at);
        if let TunerStep::Rest(rest) = step {
            self.rest_until_nanos = at.nanos + rest.as_nanos() as u64;
        }
        self.show_plan();
        step
    }

    fn show_plan(&self) {
        if let Some(board) = &self.board {
            board.show_plan(&self.policy, self.moves_planned, self.last_plan());
        }
    }

    fn show_sizes(&self) {
        if let Some(board) = &self.board {
            let report = self.learning.as_ref().and_then(Learning::report);
            board.show_sizes(report.cloned());
        }
    }

    fn move_or_plan(&mut self, engine: &Engine, load: Load, at: Moment) -> TunerStep {
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

    /// Lets footprints be kept if the policy in force goes by them.
    fn keep_footprints(&mut self) {
        if let Some(profiling) = &mut self.profiling {
            profiling.profiler.keep_footprints(self.policy.footprint_gets());
        }
    }

    fn plan(&mut self, engine: &Engine, now: Now) -> TunerStep {
        if let Some(next) = self.pending.pop_front() {
            let outcome = engine.reassign(Some(next.victim), next.receiver, next.reason, now);
            if outcome == Err(ReassignError::Running) {
                self.pending.push_front(next);
                return TunerStep::Working;
            }
            // Where it fails otherwise the move has lost its reason.
            self.records.asked(outcome.is_ok());
            return TunerStep::Asked { page_move: next, outcome };
        }
        self.learn(engine, now);
        let counts = Effect { gets: engine.gets_ever(), misses: engine.misses_ever() };
        self.records.note(counts);
        let trigger = self.policy.trigger();
        let count = count(trigger, engine, self.profiling.as_ref());
        let ticks = self.due.wait(trigger, count, now);
        if ticks != Some(0) {
            return self.idle(ticks, now);
        }
        self.due.step(count, now);
        let snapshot = self.snapshot(engine, now);
        let plan = self.policy.step(&snapshot, &mut self.random);
        self.records.plan(&plan, counts, now.ticks);
        self.moves_planned += plan.moves.len() as u64;
        self.pending.extend(plan.moves);
        if !self.pending.is_empty() {
            return TunerStep::Working;
        }
        let ticks = self.due.wait(trigger, count, now);
        // It may ask to be stepped without a pause, but has nothing to do.
        self.idle(ticks.map(|ticks| ticks.max(1)), now)
    }

    /// Looks at the sizes of items, if they are learned and it is time to.
    fn learn(&mut self, engine: &Engine, now: Now) {
        let Tuner { learning: Some(learning), profiling, .. } = self else { return };
        let profiles = |snapshot: &Snapshot| match profiling {
            Some(profiling) => profiling.recent_profiles(snapshot),
            None => Vec::new(),
        };
        if learning.step(engine, profiles, now) {
            self.show_sizes();
        }
    }

    /// Nothing to do, but to look into the queue after a tick, and at sizes when that is due.
    fn idle(&self, ticks: Option<u32>, now: Now) -> TunerStep {
        let watched = self.profiling.as_ref().map(|_| 1);
        let learned = self.learning.as_ref().map(|learning| learning.due_ticks(now));
        TunerStep::Idle { ticks: [ticks, watched, learned].into_iter().flatten().min() }
    }

    fn snapshot(&mut self, engine: &Engine, now: Now) -> Snapshot {
        let mut snapshot = snapshot(engine, now);
        if let Some(profiling) = &mut self.profiling {
            snapshot.unstored_gets = profiling.profiler.unstored_gets();
            snapshot.profiles = match self.policy.wants() {
                Wants::Counts => Vec::new(),
                Wants::Profiles => profiling.new_profiles(&snapshot),
                Wants::AnyProfiles | Wants::RecentProfiles => profiling.recent_profiles(&snapshot),
            };
        }
        snapshot
    }
}
