//! The engine's page movers, as experiments name and count them.

use serde::{Deserialize, Serialize};
use slabwise_base::Moment;
use slabwise_engine::{Engine, MoverKind, MoverStep};
use std::fmt;

/// A mover kind, or none as the control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MoverName {
    /// Pages never move.
    None,
    /// memcached 1.5.12's, as published.
    Base,
    /// The published improvement.
    Fast,
    /// memcached's of today.
    Stock,
    /// slabwise's own.
    Warm,
}

impl MoverName {
    /// The engine's kind. The control runs on any, and is never asked to move.
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
        f.write_str(match self {
            MoverName::None => "none",
            MoverName::Base => "base",
            MoverName::Fast => "fast",
            MoverName::Stock => "stock",
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
    pub fn of(engine: &Engine) -> MoveCounts {
        let counters = engine.mover_counters();
        MoveCounts {
            visits: counters.visits,
            case_1: counters.locked,
            case_2: counters.pinned,
            case_3: counters.unlinked,
            reallocated: counters.reallocated,
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
pub fn step(engine: &Engine, budget_chunks: usize, at: Moment) -> (Stepped, u64) {
    let before = engine.mover_counters().visits;
    let stepped = match engine.mover_step(budget_chunks, at) {
        MoverStep::Idle => Stepped::Idle,
        MoverStep::Working => Stepped::Working,
        MoverStep::Rest(rest) => Stepped::Rest { nanos: rest.as_nanos() as f64 },
        MoverStep::Done => Stepped::Arrived,
        MoverStep::GivenUp => Stepped::GivenUp,
    };
    (stepped, engine.mover_counters().visits - before)
}
