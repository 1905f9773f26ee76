//! The engine's page movers, as experiments name them.

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
    Fast,
    Stock,
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

/// One step of at most `budget_chunks` visits; what it came to, and how many visits it took.
pub fn step(engine: &Engine, budget_chunks: usize, at: Moment) -> (MoverStep, u64) {
    let before = engine.mover_counters().visits;
    let stepped = engine.mover_step(budget_chunks, at);
    (stepped, engine.mover_counters().visits - before)
}
