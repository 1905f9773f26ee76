//! The page movers by name, and the mover's thread in virtual time.

use super::costs::{VisitCost, step};
use serde::Deserialize;
use slabwise_base::{ClassId, Moment, Now};
use slabwise_engine::{Engine, MoverKind, MoverStep};
use std::fmt;

/// A mover kind, or none for the control run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MoverName {
    None,
    /// The mover of memcached 1.5.12, as published.
    Base,
    Fast,
    Stock,
    Warm,
}

impl MoverName {
    /// The kind of the engine. The control never moves a page, so its kind does not matter.
    pub fn kind(self) -> MoverKind {
        match self {
            MoverName::None | MoverName::Warm => MoverKind::WARM,
            MoverName::Base => MoverKind::BASE,
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

/// The largest number of chunks per step, as in the server.
const CHUNKS_PER_STEP_MAX: f64 = 256.0;

/// The reason of moves in the engine's record.
const REASON: &str = "lab: partition by exact curves";
const RETRY_NANOS: f64 = 1e6;

pub struct Mover<'e> {
    engine: &'e Engine,
    name: MoverName,
    cost: VisitCost,
    sleep: SleepLength,
    free_at_nanos: f64,
    began: Option<u64>,
    pub time: MoverTime,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SleepLength {
    Requested,
    /// The measured length in nanoseconds; timers fire late.
    Measured(f64),
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MoverTime {
    pub visits: u64,
    pub work_nanos: f64,
    pub sleeps: u64,
    pub sleep_nanos: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub began: u64,
    pub ended: u64,
    pub arrived: bool,
}

impl Arrival {
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

    /// Skips the time until `nanos`.
    pub fn idle_until(&mut self, nanos: f64) {
        self.free_at_nanos = self.free_at_nanos.max(nanos);
    }

    /// Works until `nanos`, the time of `request`. When no move is in progress, `next` returns the victim and the
    /// receiver of the next move.
    #[inline]
    pub fn work_until(
        &mut self,
        nanos: f64,
        request: u64,
        mut next: impl FnMut(&Engine) -> Option<(ClassId, ClassId)>,
        arrivals: &mut Vec<Arrival>,
    ) {
        while self.free_at_nanos <= nanos {
            if self.began.is_none() {
                let is_control = self.name == MoverName::None;
                let wanted = if is_control { None } else { next(self.engine) };
                let Some((victim, receiver)) = wanted else {
                    // Idle time is not saved for later.
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
            arrivals.extend(self.step(nanos, request));
        }
    }

    /// Runs one step of the current move, as large as the time until `nanos` allows.
    fn step(&mut self, nanos: f64, request: u64) -> Option<Arrival> {
        let cost = self.cost.nanos();
        let visits_max = (nanos - self.free_at_nanos) / cost;
        let budget = visits_max.clamp(1.0, CHUNKS_PER_STEP_MAX) as usize;
        let at = Moment::from_nanos(self.free_at_nanos as u64);
        let (stepped, visits) = step(self.engine, budget, at);
        // A step without a visit has a cost too.
        let work_nanos = visits.max(1) as f64 * cost;
        self.time.visits += visits;
        self.time.work_nanos += work_nanos;
        self.free_at_nanos += work_nanos;
        let arrived = match stepped {
            MoverStep::Working => return None,
            MoverStep::Rest(rest) => {
                let nanos = match self.sleep {
                    SleepLength::Requested => rest.as_nanos() as f64,
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
        Some(Arrival { began, ended: request, arrived })
    }
}
