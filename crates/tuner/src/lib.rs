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

/// How much of the machine page moves may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveBudget {
    /// Chunks that the mover visits in one step while clients are served; at least 1.
    pub chunks_per_step: usize,
    /// Pages that may move in a second while clients are served; at least 1. When nobody is, pages move as
    /// fast as they can.
    pub pages_per_second: u32,
}

impl MoveBudget {
    /// A step is some ten microseconds' work: a request that has to wait for it is not among the slow ones.
    pub const CHUNKS_PER_STEP_DEFAULT: usize = 32;

    /// When nobody has to wait.
    const CHUNKS_PER_STEP_IDLE: usize = 256;

    /// Bytes of pages that move in a second by default. At a millisecond a mebibyte, and twice that for small
    /// chunks, few requests in a hundred meet a step.
    const BYTES_PER_SECOND_DEFAULT: usize = 16 << 20;

    /// The default for pages of this size.
    pub fn for_pages_of(page_size_bytes: usize) -> MoveBudget {
        let pages_per_second = (Self::BYTES_PER_SECOND_DEFAULT / page_size_bytes).max(1) as u32;
        MoveBudget { chunks_per_step: Self::CHUNKS_PER_STEP_DEFAULT, pages_per_second }
    }

    /// Bytes that a step may have to copy: of large chunks it visits fewer.
    const STEP_SIZE_BYTES_MAX: usize = 32 << 10;

    /// Chunks to visit in one step of a page of so many.
    fn chunks(&self, load: Load, chunks_per_page: usize, page_size_bytes: usize) -> usize {
        let chunk_size_bytes = page_size_bytes / chunks_per_page;
        let few = (MoveBudget::STEP_SIZE_BYTES_MAX / chunk_size_bytes).max(1);
        match load {
            Load::Idle => MoveBudget::CHUNKS_PER_STEP_IDLE.max(self.chunks_per_step),
            Load::Serving => self.chunks_per_step.min(few),
        }
    }

    /// What so many chunks of a page are worth in time.
    fn rest(&self, chunks: usize, chunks_per_page: usize) -> Duration {
        let share = chunks as f64 / chunks_per_page as f64;
        Duration::from_secs_f64(share.min(1.0) / f64::from(self.pages_per_second))
    }
}

/// Whether clients are being served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// They ask for little or nothing.
    Idle,
    /// They ask for so much that a core that is taken from them is missed.
    Serving,
}

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

/// The engine as a policy sees it.
pub fn snapshot(engine: &Engine, now: Now) -> Snapshot {
    let pages = engine.page_stats();
    // A retired class's pages leave by themselves.
    let present = engine.class_stats(now).into_iter().filter(|stats| !stats.retired);
    let classes = present.filter_map(|stats| Some((stats.class?, stats)));
    let classes = classes.map(|(class, stats)| ClassSnapshot {
        class,
        chunk_size_bytes: stats.chunk_size_bytes,
        chunks_per_page: stats.chunks_per_page,
        pages: stats.pages,
        used_chunks: stats.used_chunks,
        free_chunks: stats.free_chunks,
        evicted: stats.counters_ever.evicted,
        // An item that had to live in a larger class is a call for a page just as well.
        out_of_memory: stats.counters_ever.out_of_memory + stats.counters_ever.homeless,
        tail_age_ticks: oldest_tail(&stats),
        hits: stats.hits_ever,
        sets: stats.sets_ever,
    });
    Snapshot {
        now: now.ticks,
        pages_free: pages.free,
        memory_full: pages.memory_full(),
        classes: classes.collect(),
        ..Snapshot::default()
    }
}

/// The age of the item that the class would give up next: the cold tail's, or where that queue is
/// empty the oldest of the others.
fn oldest_tail(stats: &ClassStats) -> u32 {
    let [hot, warm, cold, temp] = stats.tail_age_ticks;
    cold.or(hot.max(warm).max(temp)).unwrap_or(0)
}
