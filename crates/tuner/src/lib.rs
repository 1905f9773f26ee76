//! The control loop in steps: snapshot, policy, plan, mover; and, between plans, the class table ([`Learning`]).
//!
//! ```text
//!   engine's access observer --> queue --> profiler (if profiling is on)
//!                                             | profiles
//!            due?                             v               one at a time
//!   step --> snapshot of the engine --> policy --> plan --> engine.reassign --> engine.mover_step
//!     ^                                                                             |
//!     '-------------------------- again, while there is work <----------------------'
//! ```
//!
//! A driver calls [`Tuner::step`] repeatedly: a thread of the server, or the lab on virtual time. The tuner never waits
//! and reads no clock but that of profiling. The crate also has a driver's other decisions, which take the time as an
//! argument: the load ([`LoadClassifier`]), the requested policy ([`RequestedPolicy`]), the time of a hit
//! ([`HitTime`]), and the wait between steps ([`TunerPace`], [`Backoff`], [`CrawlPeriod`]).
//!
//! Invariants: before the policy is stepped again, its plan is carried out or dropped; a step visits at most
//! [`MoveBudget::chunks_per_step`] chunks, and while clients are served the tuner rests between steps, so that at most
//! [`MoveBudget::pages_per_second`] pages move; a move that a command requests is carried out like a planned one.
#![forbid(unsafe_code)]

mod due;
mod learning;
mod load;
mod pacing;
mod profiling;
mod record;
mod requested_policy;
mod sampler;
mod status;
mod view;

pub use learning::{Learning, SizesReport};
pub use load::{HitTime, Load, LoadClassifier, MoveBudget};
pub use pacing::{
    Backoff, CRAWLER_CHUNKS_PER_STEP, CrawlCounts, CrawlPeriod, MAINTAINER_ITEMS_PER_STEP,
    TunerPace, TunerStep,
};
pub use profiling::{Profiling, ProfilingOptions, ProfilingStats};
pub use record::{EFFECT_GETS_MAX, Effect, PlanRecord};
pub use requested_policy::{AutomoveSettings, RequestedPolicy};
pub use sampler::{Sampler, Waker};
pub use status::{ProfileReport, TunerReport, TunerStatus};
pub use view::snapshot;

use due::{Due, count};
use record::Records;
use slabwise_base::{Moment, Now, Random};
use slabwise_engine::{Engine, MoverStep, ReassignError};
use slabwise_policy::sizes::LearnerOptions;
use slabwise_policy::{PageMove, PagePolicy, Snapshot, Wants};
use status::ProfileReporter;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// The state of the control loop.
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
    status: Option<Arc<TunerStatus>>,
    reporter: ProfileReporter,
}

impl Tuner {
    /// A tuner with this policy.
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
            status: None,
            reporter: ProfileReporter::default(),
        }
    }

    /// Sets where the tuner publishes its status.
    pub fn with_status(mut self, status: Arc<TunerStatus>) -> Tuner {
        self.status = Some(status);
        self.publish_plan();
        self
    }

    /// Adds profiling; without it, policies get no profiles.
    pub fn with_profiling(mut self, profiling: Profiling) -> Tuner {
        self.profiling = Some(profiling);
        self.keep_footprints();
        self
    }

    /// Sets how the class table is learned from now on; with `None` it stays as it is.
    pub fn set_learning(&mut self, learning: Option<Learning>) {
        self.learning = learning;
        self.publish_sizes();
    }

    /// Starts or stops learning the class table; does nothing if it is in that state already.
    pub fn learn_classes(&mut self, learns: bool) {
        if learns != self.learning.is_some() {
            self.set_learning(learns.then(|| Learning::new(LearnerOptions::default())));
        }
    }

    /// The learner of the class table, if it is learned.
    pub fn learning(&self) -> Option<&Learning> {
        self.learning.as_ref()
    }

    /// The current policy.
    pub fn policy(&self) -> &PagePolicy {
        &self.policy
    }

    /// Sets another policy and drops the moves that the old one planned.
    pub fn set_policy(&mut self, policy: PagePolicy) {
        self.policy = policy;
        self.pending.clear();
        self.due = Due::default();
        self.keep_footprints();
        self.publish_plan();
    }

    /// The profiling of the cache's keys, if it is on.
    pub fn profiling(&self) -> Option<&Profiling> {
        self.profiling.as_ref()
    }

    /// The profiling of the cache's keys, to be changed.
    pub fn profiling_mut(&mut self) -> Option<&mut Profiling> {
        self.profiling.as_mut()
    }

    /// The last plan that moved pages.
    pub fn last_plan(&self) -> Option<&PlanRecord> {
        self.records.last()
    }

    /// Does one bounded piece of work: [`Tuner::observe`], then [`Tuner::act`].
    pub fn step(&mut self, engine: &Engine, load: Load, at: impl Into<Moment>) -> TunerStep {
        let at = at.into();
        self.observe(engine, at.now);
        self.act(engine, load, at)
    }

    /// Counts the sampled accesses.
    pub fn observe(&mut self, engine: &Engine, now: Now) {
        let Some(profiling) = &mut self.profiling else { return };
        profiling.step(engine, now);
        if let Some(status) = &self.status {
            self.reporter.step(status, profiling, engine, now);
        }
    }

    /// Moves chunks, plans, or finds nothing to do. Before a rest is over, it only returns the remaining rest.
    pub fn act(&mut self, engine: &Engine, load: Load, at: Moment) -> TunerStep {
        let rest_nanos = self.rest_until_nanos.saturating_sub(at.nanos);
        if rest_nanos > 0 {
            return TunerStep::Rest(Duration::from_nanos(rest_nanos));
        }
        let step = self.move_or_plan(engine, load, at);
        if let TunerStep::Rest(rest) = step {
            self.rest_until_nanos = at.nanos + rest.as_nanos() as u64;
        }
        self.publish_plan();
        step
    }

    fn publish_plan(&self) {
        if let Some(status) = &self.status {
            status.set_plan(&self.policy, self.moves_planned, self.last_plan());
        }
    }

    fn publish_sizes(&self) {
        if let Some(status) = &self.status {
            let report = self.learning.as_ref().and_then(Learning::report);
            status.set_sizes(report.cloned());
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
            // If it fails for another reason, the cache has changed and the move is obsolete.
            self.records.requested(outcome.is_ok());
            return TunerStep::Requested { page_move: next, outcome };
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
        // A policy may want the next step at once, but has nothing to do now.
        self.idle(ticks.map(|ticks| ticks.max(1)), now)
    }

    /// Evaluates the sizes of items, if they are learned and an evaluation is due.
    fn learn(&mut self, engine: &Engine, now: Now) {
        let Tuner { learning: Some(learning), profiling, .. } = self else { return };
        let profiles = |snapshot: &Snapshot| match profiling {
            Some(profiling) => profiling.recent_profiles(snapshot),
            None => Vec::new(),
        };
        if learning.step(engine, profiles, now) {
            self.publish_sizes();
        }
    }

    /// Returns the ticks until the next step: a tick if keys are profiled, or until sizes are due.
    fn idle(&self, ticks: Option<u32>, now: Now) -> TunerStep {
        let profiled = self.profiling.as_ref().map(|_| 1);
        let learned = self.learning.as_ref().map(|learning| learning.due_ticks(now));
        TunerStep::Idle { ticks: [ticks, profiled, learned].into_iter().flatten().min() }
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
