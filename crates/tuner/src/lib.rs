//! The control loop: it takes a snapshot of the engine, steps the policy, and passes the plan to the engine's mover.
//! Between plans it learns the class table ([`Learning`]).
//!
//! ```text
//!   engine's access observer --> queue --> profiler (if profiling is on)
//!                                             | profiles
//!            due?                             v
//!   step --> snapshot of the engine --> policy --> plan --> engine.plan_moves --> engine.mover_step
//!     ^                                                                              |
//!     '-------------------------- again, while there is work <-----------------------'
//! ```
//!
//! A *driver* calls [`Tuner::step`] repeatedly. It is a thread of the server, or the lab on virtual time. The tuner
//! never waits. It reads no clock, except that profiling reads the times of accesses. The crate also has the other
//! decisions of a driver, which take the time as an argument: the requested policy ([`RequestedPolicy`]), the time of a
//! hit ([`HitTime`]), and the wait between steps ([`TunerPace`], [`MaintainerPace`], [`CrawlPeriod`]).
//!
//! Invariants:
//!
//! - the plan of a step of the policy is carried out or dropped before the next step of the policy;
//! - while the workers are busy, a step visits at most [`MoveBudget::chunks_per_step`] chunks, and the tuner pauses
//!   between steps, so that the moves take at most a share of the workers' time ([`MoveShares`]);
//! - a move that a command requests is carried out like a planned move.
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
mod work;

pub use learning::{Learning, SizesReport};
pub use load::{HitTime, MoveBudget, MoveShares, StepTime, WorkerTime};
pub use pacing::{
    Backoff, CRAWLER_CHUNKS_PER_STEP, CrawlCounts, CrawlPeriod, MAINTAINER_ROUNDS_PER_STEP,
    MaintainerPace, TunerPace, TunerStep,
};
pub use profiling::{DENSITIES_SIZE_BYTES_MAX, Profiling, ProfilingOptions, ProfilingStats};
pub use record::{EFFECT_GETS_MAX, Effect, PlanRecord};
pub use requested_policy::{AutomoveSettings, RequestedPolicy};
pub use sampler::{Sampler, Waker};
pub use status::{ProfileReport, TunerReport, TunerStatus};
pub use view::snapshot;

use due::{Due, count};
use load::{MovePacer, MoveState};
use record::Records;
use slabwise_base::{Moment, Now, Random};
use slabwise_engine::{BegunMove, Engine, MoverStep, PlannedMove, QueueSplit};
use slabwise_policy::partition::{WhatIf, what_if};
use slabwise_policy::sizes::LearnerOptions;
use slabwise_policy::{Inputs, PagePolicy, Snapshot};
use slabwise_profile::RecentGets;
use status::ProfileReporter;
use std::sync::Arc;
use std::time::Duration;

/// The shortest wait after a step of the policy that has planned no move.
const WAIT_AFTER_STEP_MIN: Duration = Duration::from_millis(2);
/// The longest wait while keys are profiled and clients send requests. A queue that is half full ends the wait earlier.
const PROFILE_WAIT: Duration = Duration::from_millis(125);

/// The state of the control loop.
#[derive(Debug)]
pub struct Tuner {
    policy: PagePolicy,
    pacer: MovePacer,
    /// The source of randomness of policies.
    random: Random,
    /// `None` if keys are not profiled.
    profiling: Option<Profiling>,
    /// `None` if the class table is not learned.
    learning: Option<Learning>,
    due: Due,
    /// The planned moves that have begun or were dropped, and that the driver has not taken yet.
    begun: Vec<BegunMove>,
    /// True if moves of an earlier policy must be dropped.
    drops_plan: bool,
    /// The time until which the tuner pauses.
    pause_until_nanos: u64,
    /// True if a policy has divided queues of classes, and they have not been joined since.
    has_splits: bool,
    /// True if the queues that an earlier policy has divided must be joined.
    joins_queues: bool,
    /// True if the engine records the last access of each page.
    notes_pages: bool,
    /// The number of moves that the current policy has planned since it was selected.
    moves_planned: u64,
    records: Records,
    /// The place where the tuner publishes its status; `None` if it does not.
    status: Option<Arc<TunerStatus>>,
    reporter: ProfileReporter,
}

impl Tuner {
    /// Creates a tuner with this policy. `seed` is the seed of the random numbers that policies use.
    pub fn new(policy: PagePolicy, budget: MoveBudget, seed: u64) -> Tuner {
        Tuner {
            policy,
            pacer: MovePacer::new(budget),
            random: Random::new(seed),
            profiling: None,
            learning: None,
            due: Due::default(),
            begun: Vec::new(),
            drops_plan: false,
            pause_until_nanos: 0,
            has_splits: false,
            joins_queues: false,
            notes_pages: false,
            moves_planned: 0,
            records: Records::default(),
            status: None,
            reporter: ProfileReporter::default(),
        }
    }

    /// Sets the place where the tuner publishes its status.
    pub fn with_status(mut self, status: Arc<TunerStatus>) -> Tuner {
        self.status = Some(status);
        self.publish_plan();
        self
    }

    /// Adds profiling. Without profiling, snapshots have no profiles.
    pub fn with_profiling(mut self, profiling: Profiling) -> Tuner {
        self.profiling = Some(profiling);
        self.adjust_profiler();
        self
    }

    /// Sets the learner of the class table. With `None` the table does not change from now on.
    pub fn set_learning(&mut self, learning: Option<Learning>) {
        self.learning = learning;
        self.publish_sizes();
    }

    /// Starts learning the class table with these options, or stops it if `options` is `None`. Does nothing if learning
    /// is already on or off as requested.
    pub fn set_learns_classes(&mut self, options: Option<LearnerOptions>) {
        if options.is_some() != self.learning.is_some() {
            self.set_learning(options.map(Learning::new));
        }
    }

    /// Returns the learner of the class table; `None` if the table is not learned.
    pub fn learning(&self) -> Option<&Learning> {
        self.learning.as_ref()
    }

    /// Returns the current policy.
    pub fn policy(&self) -> &PagePolicy {
        &self.policy
    }

    /// Sets another policy and drops the moves that the old policy planned but that have not started.
    pub fn set_policy(&mut self, policy: PagePolicy) {
        self.policy = policy;
        self.moves_planned = 0;
        self.drops_plan = true;
        self.due = Due::default();
        self.joins_queues = self.has_splits;
        self.adjust_profiler();
        self.publish_plan();
    }

    /// Returns the profiling of the cache's keys; `None` if it is off.
    pub fn profiling(&self) -> Option<&Profiling> {
        self.profiling.as_ref()
    }

    /// Returns the profiling of the cache's keys, which the caller may change; `None` if it is off.
    pub fn profiling_mut(&mut self) -> Option<&mut Profiling> {
        self.profiling.as_mut()
    }

    /// Returns the record of the last plan with moves; `None` if there is none.
    pub fn last_plan(&self) -> Option<&PlanRecord> {
        self.records.last()
    }

    /// Takes one step, which takes a bounded time: calls [`Tuner::observe`], then [`Tuner::act`].
    pub fn step(
        &mut self,
        engine: &Engine,
        workers: WorkerTime,
        at: impl Into<Moment>,
    ) -> TunerStep {
        let at = at.into();
        self.observe(engine, at.now);
        self.act(engine, workers, at)
    }

    /// Counts the sampled accesses since the last call, and publishes profiles if that is due.
    pub fn observe(&mut self, engine: &Engine, now: Now) {
        let Some(profiling) = &mut self.profiling else { return };
        profiling.step(engine, now);
        if let Some(status) = &self.status {
            self.reporter.step(status, profiling, engine, now);
        }
    }

    /// Visits chunks of the moving page, or steps the policy if it is due. While the mover pauses, the function only
    /// returns the remaining pause. The driver passes the time that the step took to [`Tuner::charge`].
    pub fn act(&mut self, engine: &Engine, workers: WorkerTime, at: Moment) -> TunerStep {
        if std::mem::take(&mut self.drops_plan) {
            engine.plan_moves(Vec::new());
        }
        let pause_nanos = self.pause_until_nanos.saturating_sub(at.nanos);
        if pause_nanos > 0 {
            return TunerStep::Pause(Duration::from_nanos(pause_nanos));
        }
        let visits = engine.mover_counters().work();
        let state = MoveState { visits, is_planned: engine.has_planned_moves() };
        let evictions = || engine.evictions_ever();
        if let Some(chunks) = self.pacer.advance(workers, state, at, evictions) {
            engine.set_help_chunks(chunks);
        }
        let step = match self.pacer.pause().filter(|_| state.is_planned) {
            Some(pause) => TunerStep::Pause(pause),
            None => self.move_or_plan(engine, at),
        };
        if let TunerStep::Pause(pause) = step {
            self.pause_until_nanos = at.nanos + pause.as_nanos() as u64;
        }
        self.pacer.note_step(engine.mover_counters().work());
        for (planned, outcome) in engine.take_begun_moves() {
            self.records.note_request(outcome.is_ok());
            self.begun.push((planned, outcome));
        }
        self.publish_plan();
        step
    }

    /// Adds the time of the last step to the time that moves have taken, if the mover worked in this step. Returns true
    /// if it did. Otherwise the policy used the time.
    pub fn charge(&mut self, time: StepTime) -> bool {
        self.pacer.charge(time)
    }

    /// Returns the planned moves that have begun since the last call, and those that the engine refused because the
    /// cache had changed since the plan.
    pub fn take_begun_moves(&mut self) -> Vec<BegunMove> {
        std::mem::take(&mut self.begun)
    }

    fn publish_plan(&self) {
        if let Some(status) = &self.status {
            status.set_plan(&self.policy, self.moves_planned, &self.records);
        }
    }

    fn publish_sizes(&self) {
        if let Some(status) = &self.status {
            let report = self.learning.as_ref().and_then(Learning::report);
            status.set_sizes(report.cloned());
        }
    }

    fn move_or_plan(&mut self, engine: &Engine, at: Moment) -> TunerStep {
        let page_size_bytes = engine.config().page_size_bytes;
        let chunks_per_page = engine.chunks_of_moving_page();
        let chunks = chunks_per_page.map_or(1, |all| self.pacer.chunks(page_size_bytes / all));
        match engine.mover_step(chunks, at) {
            MoverStep::Idle => self.plan(engine, at),
            MoverStep::Pause(pause) => TunerStep::Pause(pause),
            MoverStep::Working | MoverStep::Done | MoverStep::GivenUp => TunerStep::Working,
        }
    }

    /// Makes the profiler keep the data that the policy needs.
    fn adjust_profiler(&mut self) {
        if let Some(profiling) = &mut self.profiling {
            profiling.profiler.keep_footprints(self.policy.footprint_gets());
            profiling.profiler.detect_stored_before(self.policy.detects_stored_before());
        }
    }

    fn plan(&mut self, engine: &Engine, at: Moment) -> TunerStep {
        let now = at.now;
        if std::mem::take(&mut self.joins_queues) {
            self.has_splits = false;
            let classes = engine.class_ids();
            classes.into_iter().for_each(|it| engine.divide_queue(it, QueueSplit::default()));
        }
        let notes_pages = self.policy.inputs() == Inputs::Pages;
        if notes_pages != self.notes_pages {
            engine.note_page_accesses(notes_pages, now);
            self.notes_pages = notes_pages;
        }
        self.learn(engine, now);
        let counts = Effect { gets: engine.gets_ever(), misses: engine.misses_ever() };
        self.records.note_counts(counts);
        let trigger = self.policy.trigger();
        let count = count(trigger, engine, self.profiling.as_ref());
        let wait = self.due.wait(trigger, count, at);
        if wait != Some(Duration::ZERO) {
            return self.idle(wait);
        }
        self.due.step(count, at);
        let snapshot = self.snapshot(engine, now);
        let plan = self.policy.step(&snapshot, &mut self.random);
        self.due.note_plan(!plan.moves.is_empty());
        self.records.note_plan(&plan, counts, now.ticks);
        self.moves_planned += plan.moves.len() as u64;
        self.divide_queues(engine, &plan.splits);
        if !plan.moves.is_empty() {
            engine.plan_moves(plan.moves.iter().map(planned).collect());
            return TunerStep::Working;
        }
        let wait = self.due.wait(trigger, count, at);
        // The policy may be due at once again, but it has planned no move. So the tuner waits.
        self.idle(wait.map(|wait| wait.max(WAIT_AFTER_STEP_MIN)))
    }

    /// Divides the queues of classes as the policy requests. All other classes keep the division of their queues.
    fn divide_queues(&mut self, engine: &Engine, splits: &[slabwise_policy::QueueSplit]) {
        for &slabwise_policy::QueueSplit { class, left_key_share, left_item_share } in splits {
            engine.divide_queue(class, QueueSplit { left_key_share, left_item_share });
        }
        self.has_splits |= !splits.is_empty();
    }

    /// Evaluates the sizes of items if the class table is learned and an evaluation is due.
    fn learn(&mut self, engine: &Engine, now: Now) {
        let Tuner { learning: Some(learning), profiling, .. } = self else { return };
        let profiles = |snapshot: &Snapshot| match profiling {
            Some(profiling) => {
                profiling.follow_table(engine, now);
                profiling.recent_profiles(snapshot)
            }
            None => Vec::new(),
        };
        if learning.step(engine, profiles, now) {
            self.publish_sizes();
        }
    }

    /// Returns the result of a step that found nothing to do. The next step is after `wait`, but earlier if an evaluation
    /// of sizes is due, and after [`PROFILE_WAIT`] if keys are profiled.
    fn idle(&self, wait: Option<Duration>) -> TunerStep {
        let profiled = self.profiling.as_ref().map(|_| PROFILE_WAIT);
        let learned = self.learning.as_ref().map(|_| learning::EVALUATION_WAIT);
        TunerStep::Idle { wait: [wait, profiled, learned].into_iter().flatten().min() }
    }

    /// Predicts the miss ratio at other memory sizes. Also returns the recent gets from which it is predicted. `None`
    /// without profiles.
    pub fn what_if(&mut self, engine: &Engine, now: Now) -> Option<(Vec<WhatIf>, RecentGets)> {
        let profiling = self.profiling.as_mut()?;
        profiling.follow_table(engine, now);
        let snapshot = status::with_profiles(profiling, snapshot(engine, now));
        Some((what_if(&snapshot), snapshot.recent))
    }

    /// Takes a snapshot with the profiles that the policy needs.
    fn snapshot(&mut self, engine: &Engine, now: Now) -> Snapshot {
        let mut snapshot = snapshot(engine, now);
        if self.policy.inputs() == Inputs::Pages {
            snapshot.pages = view::pages(engine);
        }
        if let Some(profiling) = &mut self.profiling {
            profiling.follow_table(engine, now);
            snapshot.recent = profiling.profiler.recent_gets();
            snapshot.profiles = match self.policy.inputs() {
                Inputs::Counts | Inputs::Pages => Vec::new(),
                Inputs::FreshProfiles => profiling.new_profiles(&snapshot),
                Inputs::OptionalProfiles | Inputs::RecentProfiles => {
                    profiling.recent_profiles(&snapshot)
                }
            };
        }
        snapshot
    }
}

/// Returns a move of a policy's plan as a move of the engine's plan.
fn planned(page_move: &slabwise_policy::PageMove) -> PlannedMove {
    let &slabwise_policy::PageMove { victim, page, receiver, reason } = page_move;
    PlannedMove { victim, page, receiver, reason }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod queue_tests;
