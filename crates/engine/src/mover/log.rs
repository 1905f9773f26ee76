//! The record of the mover's last moves.

use slabwise_base::ClassId;
use std::collections::VecDeque;
use std::time::Duration;

/// Moves that the record keeps.
pub const MOVE_RECORDS_MAX: usize = 100;

/// What became of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveOutcome {
    /// The page arrived.
    Moved,
    /// It was given up, and the page is back in service.
    GivenUp,
}

/// One move that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveRecord {
    /// The class that gave the page.
    pub victim: ClassId,
    /// The class that got it; `None` is the pool.
    pub receiver: Option<ClassId>,
    /// Why.
    pub reason: &'static str,
    /// What became of it.
    pub outcome: MoveOutcome,
    /// Chunks in use on the page when it began.
    pub chunks: u32,
    /// Items carried to another page.
    pub rescued: u64,
    /// Items evicted or dropped.
    pub evicted: u64,
    /// Gets that the cache served meanwhile.
    pub gets: u64,
    /// From its first step to its end.
    pub duration: Duration,
}

/// The last moves, the newest last.
#[derive(Debug, Default)]
pub struct MoveLog {
    records: VecDeque<MoveRecord>,
}

impl MoveLog {
    /// Adds a move; the oldest beyond [`MOVE_RECORDS_MAX`] is forgotten.
    pub fn push(&mut self, record: MoveRecord) {
        if self.records.len() == MOVE_RECORDS_MAX {
            self.records.pop_front();
        }
        self.records.push_back(record);
    }

    /// The records, the oldest first.
    pub fn to_vec(&self) -> Vec<MoveRecord> {
        self.records.iter().copied().collect()
    }
}
