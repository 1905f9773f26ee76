//! The names of page movers in experiment files, and a mover in virtual time.

use super::costs::{VisitCost, step};
use serde::{Deserialize, Serialize};
use slabwise_base::{ClassId, Moment, Now};
use slabwise_engine::{Engine, MoverKind, MoverStep};
use std::fmt;

/// Name of a mover in the file of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MoverName {
    /// No page moves. This is the control of an experiment.
    None,
    /// The mover of memcached 1.5.12, as published. Clients may allocate the chunk of an unlinked item again before the
    /// mover's next visit.
    Base,
    /// `base` with the order of memcached 1.5.12: after a busy chunk it visits the next chunk of the page.
    BaseNext,
    /// The published improvement of `base`: the mover withdraws the chunk of an unlinked item at once.
    Fast,
    /// The mover of memcached 1.6.
    Stock,
    /// slabwise's mover, which moves the items of the page and evicts the coldest items of the class.
    Warm,
}

impl MoverName {
    pub const ALL: [MoverName; 6] = [
        MoverName::None,
        MoverName::Base,
        MoverName::BaseNext,
        MoverName::Fast,
        MoverName::Stock,
        MoverName::Warm,
    ];

    /// Returns the engine's mover with this name. Every engine has a mover. With the name `None` the experiment never
    /// uses it.
    pub fn kind(self) -> MoverKind {
        match self {
            MoverName::None | MoverName::Warm => MoverKind::WARM,
            MoverName::Base => MoverKind::BASE,
            MoverName::BaseNext => MoverKind::BASE_NEXT,
            MoverName::Fast => MoverKind::FAST,
            MoverName::Stock => MoverKind::STOCK,
        }
    }
}

impl fmt::Display for MoverName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == MoverName::None { "none" } else { self.kind().name() })
    }
}

/// The largest number of visits per step, as in the server.
const CHUNKS_PER_STEP_MAX: f64 = 256.0;

/// The reason that the engine stores with each move.
const REASON: &str = "lab: partition by exact curves";
/// Virtual time until the next attempt after the engine has refused a move.
const RETRY_NANOS: f64 = 1e6;

/// A mover in virtual time, which moves the pages that its caller specifies, one at a time.
pub struct Mover<'e> {
    engine: &'e Engine,
    name: MoverName,
    cost: VisitCost,
    sleep: SleepLength,
    /// Virtual time at which the mover ends its last visit or sleep, in nanoseconds since the start.
    free_at_nanos: f64,
    /// Number of the request before which the current move began. `None` if no move is in progress.
    began: Option<u64>,
    pub time: MoverTime,
}

/// How far virtual time advances when the mover sleeps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SleepLength {
    /// By the length that the mover requests.
    Requested,
    /// By this number of nanoseconds, which is the mean measured length of sleeps with the requested length. Timers
    /// fire late, so the number is larger than the requested length.
    Measured(f64),
}

/// Totals of a mover since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MoverTime {
    /// Number of visits to chunks.
    pub visits: u64,
    /// Virtual time of all visits.
    pub work_nanos: f64,
    /// Number of sleeps.
    pub sleeps: u64,
    /// Virtual time of all sleeps.
    pub sleep_nanos: f64,
}

/// A page move that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageMove {
    /// Number of requests of the run before the move began.
    pub began: u64,
    /// Number of requests of the run before the move ended.
    pub ended: u64,
    /// True if the receiver got the page, false if the mover gave up.
    pub arrived: bool,
}

impl PageMove {
    /// Returns the number of requests that clients made during the move.
    pub fn requests(&self) -> u64 {
        self.ended - self.began
    }
}

impl<'e> Mover<'e> {
    pub fn new(
        engine: &'e Engine,
        name: MoverName,
        cost: VisitCost,
        sleep: SleepLength,
    ) -> Mover<'e> {
        let time = MoverTime::default();
        Mover { engine, name, cost, sleep, free_at_nanos: 0.0, began: None, time }
    }

    /// Does not work before the virtual time `nanos`.
    pub fn idle_until(&mut self, nanos: f64) {
        self.free_at_nanos = self.free_at_nanos.max(nanos);
    }

    /// Works until the virtual time `nanos`, which is the time of the request with the number `request`. When a move
    /// ends, adds the move to `page_moves`. When no move is in progress, calls `next`, which returns the victim and the
    /// receiver of the next move.
    #[inline]
    pub fn work_until(
        &mut self,
        nanos: f64,
        request: u64,
        mut next: impl FnMut(&Engine) -> Option<(ClassId, ClassId)>,
        page_moves: &mut Vec<PageMove>,
    ) {
        while self.free_at_nanos <= nanos {
            if self.began.is_none() {
                let is_control = self.name == MoverName::None;
                let next_move = if is_control { None } else { next(self.engine) };
                let Some((victim, receiver)) = next_move else {
                    // The next move begins now at the earliest, not at the end of the last move.
                    self.free_at_nanos = nanos;
                    return;
                };
                let now = Now::from_nanos(self.free_at_nanos as u64);
                if self.engine.reassign(Some(victim), Some(receiver), REASON, now).is_err() {
                    self.free_at_nanos = nanos + RETRY_NANOS;
                    return;
                }
                self.began = Some(request);
            }
            page_moves.extend(self.step(nanos, request));
        }
    }

    /// Runs one step of the current move, with as many visits as fit into the time until `nanos`. Returns the move if
    /// the step ended the move.
    fn step(&mut self, nanos: f64, request: u64) -> Option<PageMove> {
        let cost = self.cost.nanos();
        let visits_max = (nanos - self.free_at_nanos) / cost;
        let budget = visits_max.clamp(1.0, CHUNKS_PER_STEP_MAX) as usize;
        let at = Moment::from_nanos(self.free_at_nanos as u64);
        let (stepped, visits) = step(self.engine, budget, at);
        // A step without a visit takes the time of one visit.
        let work_nanos = visits.max(1) as f64 * cost;
        self.time.visits += visits;
        self.time.work_nanos += work_nanos;
        self.free_at_nanos += work_nanos;
        let arrived = match stepped {
            MoverStep::Working => return None,
            MoverStep::Pause(pause) => {
                let nanos = match self.sleep {
                    SleepLength::Requested => pause.as_nanos() as f64,
                    SleepLength::Measured(nanos) => nanos,
                };
                self.time.sleeps += 1;
                self.time.sleep_nanos += nanos;
                self.free_at_nanos += nanos;
                return None;
            }
            MoverStep::Idle | MoverStep::GivenUp => false,
            MoverStep::Done => true,
        };
        let began = self.began.take().unwrap_or(request);
        Some(PageMove { began, ended: request, arrived })
    }
}
