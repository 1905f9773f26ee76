//! Learning of the class table: evaluates the sizes of the items in the cache and changes the table if the gain is
//! large enough.
//!
//! ```text
//!   engine's sizes --x values of bytes--> SizeLearner::evaluate --> engine.change_classes --> (the mover drains)
//!                        (profiles)            |
//!                                              '--> SizesReport, in the TunerStatus
//! ```
//!
//! An evaluation is due when an eighth of the memory was stored since the last one, and after a second.
//!
//! Invariants: a table that another caller has set during an evaluation is not overwritten; there is at most one
//! evaluation in [`EVALUATION_TICKS_MIN`], and only while no planned move waits; a change that the engine refuses is
//! tried again at the next evaluation.

use crate::pacing::TICK;
use crate::view::snapshot;
use crate::work::turnovers;
use slabwise_base::size_histogram::bucket_of;
use slabwise_base::{Now, SizeBin, Ticks};
use slabwise_engine::{
    BODY_HEADER_SIZE_BYTES, CHAIN_LINK_SIZE_BYTES, CHUNK_ALIGN_BYTES, CHUNK_SIZE_BYTES_MIN, Engine,
    chain_head_size_bytes,
};
use slabwise_policy::ClassProfile;
use slabwise_policy::sizes::{
    Chaining, Change, ChunkLayout, LearnerOptions, SizeLearner, SizeSnapshot, Waiting, valued,
};
use std::sync::Arc;
use std::time::Duration;

/// The time after which an evaluation is due if little was stored.
const EVALUATION_TICKS: u32 = Ticks::PER_SECOND;
/// The minimum time between two evaluations, because an evaluation can take a millisecond.
const EVALUATION_TICKS_MIN: u32 = Ticks::PER_SECOND / 32;
/// The longest wait before a check whether an evaluation is due.
pub(crate) const EVALUATION_WAIT: Duration = TICK.saturating_mul(EVALUATION_TICKS_MIN);
/// The part of the memory that is stored between two evaluations if much is stored.
const EVALUATION_TURNOVERS: f64 = 1.0 / 8.0;
/// An estimate of the usual length of a key, in bytes.
const KEY_LEN_USUAL: usize = 32;

/// The result of the last evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct SizesReport {
    /// The time of the evaluation.
    pub at: Ticks,
    /// The number of items in the cache at the evaluation.
    pub items: u64,
    /// The bytes of these items.
    pub item_bytes: u64,
    /// The chunk sizes at the evaluation, in bytes, ascending.
    pub current_table: Vec<usize>,
    /// The best table, compared with the current table; `None` if there was too little evidence.
    pub best: Option<Change>,
    /// The event that the learner waits for before it changes the table; `None` if the evaluation changed the table.
    pub waiting: Option<Waiting>,
    /// The number of changes of the table since the start.
    pub changes: u64,
    /// The time of the last change; `None` if the table never changed.
    pub changed_at: Option<Ticks>,
}

impl SizesReport {
    /// Returns true if classes of an earlier table still drained at the evaluation or started to drain.
    fn is_draining(&self) -> bool {
        matches!(self.waiting, Some(Waiting::Drain { .. }) | None)
    }
}

/// Learns the class table of an engine.
#[derive(Debug)]
pub struct Learning {
    learner: SizeLearner,
    /// The result of the last evaluation; `None` before the first evaluation.
    report: Option<Arc<SizesReport>>,
    /// The number of stores since the start, at the last evaluation.
    stores: u64,
    /// The turnovers since the start, at the last evaluation.
    turnovers: f64,
    /// The time of the last evaluation, or of the last step that skipped an evaluation because no item had been stored
    /// since.
    evaluated_at: Ticks,
}

impl Learning {
    /// Creates a learner without any evaluation.
    pub fn new(options: LearnerOptions) -> Learning {
        let learner = SizeLearner::new(options);
        Learning { learner, report: None, stores: 0, turnovers: 0.0, evaluated_at: Ticks(0) }
    }

    /// Returns the result of the last evaluation; `None` before the first evaluation.
    pub fn report(&self) -> Option<&Arc<SizesReport>> {
        self.report.as_ref()
    }

    /// Evaluates the sizes of items if an evaluation is due. Skips it if no item was stored since the last evaluation
    /// and no class drains. Returns true if there is a new report. `profiles` returns the profiles of a snapshot's
    /// classes.
    pub(crate) fn step(
        &mut self,
        engine: &Engine,
        profiles: impl FnOnce(&slabwise_policy::Snapshot) -> Vec<ClassProfile>,
        now: Now,
    ) -> bool {
        if self.report.is_some() && !self.is_due(engine, now) {
            return false;
        }
        let stores = engine.stores_ever();
        if self.report.as_ref().is_some_and(|last| !last.is_draining()) && stores == self.stores {
            self.evaluated_at = now.ticks;
            return false;
        }
        (self.stores, self.evaluated_at) = (stores, now.ticks);
        self.turnovers = turnovers(engine);
        let mut snapshot = snapshot(engine, now);
        snapshot.profiles = profiles(&snapshot);
        let sizes = engine.item_sizes();
        let table = engine.class_table();
        let current_table: Vec<usize> = table.sizes().iter().map(|&size| size as usize).collect();
        let demands = valued(with_corrected_sizes(sizes.bins(), &current_table), &snapshot);
        let pages = engine.page_stats();
        let classes = engine.class_stats(now);
        let size_snapshot = SizeSnapshot {
            demands: &demands,
            current_table: &current_table,
            layout: layout(engine),
            filled: (pages.held - pages.free) as f64 / pages.limit_for_items.max(1) as f64,
            retired_classes: classes.iter().filter(|class| class.retired).count(),
            stores,
        };
        // The engine has stored every item in its chunks, so no item exceeds the limits of the layout.
        let evaluation =
            self.learner.evaluate(&size_snapshot).expect("items in the cache fit into its chunks");
        let (mut changes, mut changed_at) =
            self.report.as_ref().map_or((0, None), |report| (report.changes, report.changed_at));
        let mut waiting = evaluation.waiting;
        if let (None, Some(best)) = (waiting, &evaluation.best) {
            match engine.change_classes_from(&table, &best.table) {
                Ok(()) => {
                    self.learner.note_change(stores);
                    (changes, changed_at) = (changes + 1, Some(now.ticks));
                }
                // Retired classes still use too many class numbers, or another caller has changed the table.
                Err(_) => {
                    let retired_classes = size_snapshot.retired_classes;
                    waiting = Some(Waiting::Drain { retired_classes });
                }
            }
        }
        self.report = Some(Arc::new(SizesReport {
            at: now.ticks,
            items: sizes.item_count(),
            item_bytes: classes.iter().map(|class| class.item_bytes).sum(),
            best: evaluation.best,
            current_table,
            waiting,
            changes,
            changed_at,
        }));
        true
    }

    /// True if an evaluation is due after an earlier one.
    fn is_due(&self, engine: &Engine, now: Now) -> bool {
        let waited = self.evaluated_at.age_at(now.ticks);
        waited >= EVALUATION_TICKS
            || waited >= EVALUATION_TICKS_MIN
                && turnovers(engine) - self.turnovers >= EVALUATION_TURNOVERS
    }
}

/// Corrects the sizes of bins. The size of a bin is the largest size of its bucket. If a chunk size of the current
/// table is in the same bucket, the items of the bin are in chunks of that size, so the size of the bin becomes the
/// chunk size.
fn with_corrected_sizes(
    bins: impl Iterator<Item = SizeBin>,
    current_table: &[usize],
) -> impl Iterator<Item = SizeBin> {
    bins.map(|bin| {
        let below = current_table.partition_point(|&size| size < bin.size_bytes).checked_sub(1);
        let size = below.map(|index| current_table[index]);
        match size.filter(|&size| bucket_of(size) == bucket_of(bin.size_bytes)) {
            Some(size_bytes) => SizeBin { size_bytes, ..bin },
            None => bin,
        }
    })
}

/// Returns the limits of the engine's chunk sizes.
fn layout(engine: &Engine) -> ChunkLayout {
    let config = engine.config();
    let chunk_size_bytes_max = config.classes.chunk_size_bytes_max();
    ChunkLayout {
        page_size_bytes: Some(config.page_size_bytes),
        chunk_size_bytes_min: CHUNK_SIZE_BYTES_MIN,
        chunk_size_bytes_max,
        chunk_align_bytes: CHUNK_ALIGN_BYTES,
        chaining: Some(Chaining {
            head_size_bytes: chain_head_size_bytes(KEY_LEN_USUAL).min(chunk_size_bytes_max),
            link_size_bytes: CHAIN_LINK_SIZE_BYTES,
            body_header_size_bytes: BODY_HEADER_SIZE_BYTES,
        }),
    }
}
