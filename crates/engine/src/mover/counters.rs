//! What the mover counts, and the record of its last moves.

use slabwise_base::{ClassId, counts};
use std::collections::VecDeque;
use std::time::Duration;

/// Moves that the record keeps.
pub const MOVE_RECORDS_MAX: usize = 100;

counts! {
    /// Counters of the mover since the start. The cases are those of the paper on fast page moves (MEMSYS 2019,
    /// section 2.2).
    pub struct MoverCounters {
        /// Pages that arrived.
        moved,
        /// Moves given up because a chunk stayed held.
        aborted,
        /// Chunks looked at, one looked at twice counted twice.
        visits,
        /// Case 1: items whose stripe was locked (`base` and `fast` only try it).
        locked,
        /// Case 2: items that somebody pinned.
        pinned,
        /// Case 3: items that were unlinked and whose chunks had to be met again (`base`).
        unlinked,
        /// Chunks that were in use again when they were met again (`base`).
        reallocated,
        /// Items carried to another page.
        rescued,
        /// Bodies of chained items carried to another page.
        bodies_rescued,
        /// Items evicted to make room for those carried, or dropped for want of it.
        evicted,
        /// Chunks met that could not be emptied then.
        busy,
        /// Of these, those for which there was no room outside the page: where eviction is on, their items were
        /// dropped.
        busy_without_room,
    }
    gauges {
        /// Why the last of them could not be emptied.
        last_busy: Option<Busy>,
    }
}

/// Why a chunk cannot be emptied now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Busy {
    /// Its item is pinned.
    Held,
    /// It holds no item that could be found: one that has ended, or was carried away, and is still pinned;
    /// or one that is being written.
    Unlinked,
    /// There is no room outside the page.
    NoRoom,
}

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

impl MoverCounters {
    /// Items and bodies carried to another page.
    pub(super) fn carried(&self) -> u64 {
        self.rescued + self.bodies_rescued
    }

    /// Notes a chunk that could not be emptied.
    pub(super) fn note_busy(&mut self, why: Busy) {
        self.busy += 1;
        self.busy_without_room += u64::from(why == Busy::NoRoom);
        self.last_busy = Some(why);
    }
}
