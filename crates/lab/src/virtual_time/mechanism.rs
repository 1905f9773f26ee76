//! The engine's page movers, as experiments name and count them.

use serde::{Deserialize, Serialize};
use slabwise_base::Now;
use slabwise_engine::{Engine, MoverKind, MoverStep};
use std::fmt;

/// A mover kind, or none as the control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MoverName {
    /// Pages never move.
    None,
    /// memcached's.
    Base,
    /// The published improvement.
    Fast,
    /// slabwise's own.
    Warm,
}

impl MoverName {
    /// The engine's kind. The control runs on any, and is never asked to move.
    pub fn kind(self) -> Option<MoverKind> {
        match self {
            MoverName::None | MoverName::Warm => Some(MoverKind::Warm),
            MoverName::Base => Some(MoverKind::Base),
            MoverName::Fast => None,
        }
    }
}

impl fmt::Display for MoverName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MoverName::None => "none",
            MoverName::Base => "base",
            MoverName::Fast => "fast",
            MoverName::Warm => "warm",
        })
    }
}

/// What a mover met and did since its engine was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MoveCounts {
    /// Chunks visited.
    pub visits: u64,
    /// Case 1: chunks whose item was locked.
    pub case_1: u64,
    /// Case 2: chunks whose item was in use.
    pub case_2: u64,
    /// Case 3: chunks whose item was unlinked, to be met again.
    pub case_3: u64,
    /// Chunks that were taken again before they were met again.
    pub reallocated: u64,
    /// Items carried to another page.
    pub rescued: u64,
    /// Items dropped, or evicted for room.
    pub dropped: u64,
    /// Pages that arrived.
    pub pages: u64,
    /// Moves given up.
    pub given_up: u64,
}

impl MoveCounts {
    /// The counts of this engine.
    pub fn of(engine: &Engine, now: Now) -> MoveCounts {
        let counters = engine.stats(now).mover;
        MoveCounts {
            visits: 0,
            case_1: 0,
            case_2: counters.busy,
            case_3: 0,
            reallocated: 0,
            rescued: counters.rescued,
            dropped: counters.evicted,
            pages: counters.moved,
            given_up: counters.aborted,
        }
    }
}

/// What a step of the mover came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stepped {
    /// Nothing is to be done.
    Idle,
    /// There is more to do.
    Working,
    /// The mover sleeps so long.
    Rest {
        /// Nanoseconds.
        nanos: f64,
    },
    /// A page arrived.
    Arrived,
    /// The move was given up.
    GivenUp,
}

/// One step of at most `budget_chunks` visits; what it came to, and how many visits it took.
pub fn step(engine: &Engine, budget_chunks: usize, now: Now) -> (Stepped, u64) {
    let stepped = match engine.mover_step(budget_chunks, now) {
        MoverStep::Idle => Stepped::Idle,
        MoverStep::Working => Stepped::Working,
        MoverStep::Waiting => Stepped::Rest { nanos: 1e9 / 64.0 },
        MoverStep::Done => Stepped::Arrived,
        MoverStep::GivenUp => Stepped::GivenUp,
    };
    (stepped, budget_chunks as u64)
}
