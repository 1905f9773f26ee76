//! The class table as the cache's own work: looks at the sizes of its items, and changes its table where that pays.
//!
//! ```text
//!   engine's sizes --x values of bytes--> SizeLearner::look --> engine.change_classes --> (the mover drains)
//!                        (profiles)            |
//!                                              '--> SizesReport, on the board
//! ```
//!
//! Invariants: a table that was set elsewhere meanwhile is not overwritten; there is at most one look in
//! [`LOOK_TICKS`], and only while no planned move waits; a change that the engine refuses is tried again at the next
//! look.

use crate::view::snapshot;
use slabwise_base::size_histogram::bucket_of;
use slabwise_base::{Now, SizeBar, Ticks};
use slabwise_engine::{
    BODY_HEADER_SIZE_BYTES, CHAIN_LINK_SIZE_BYTES, CHUNK_ALIGN_BYTES, CHUNK_SIZE_BYTES_MIN, Engine,
    chain_head_size_bytes,
};
use slabwise_policy::ClassProfile;
use slabwise_policy::sizes::{
    Chaining, Change, ChunkLayout, LearnerOptions, SizeLearner, SizeSnapshot, Waiting, valued,
};
use std::sync::Arc;

/// Between two looks, at least: a second, as looks take up to milliseconds.
const LOOK_TICKS: u32 = Ticks::PER_SECOND;
/// What a key usually takes, for want of knowledge.
const KEY_LEN_USUAL: usize = 32;

/// What the learner sees and does.
#[derive(Clone, Debug, PartialEq)]
pub struct SizesReport {
    /// When it looked.
    pub at: Ticks,
    /// Items in the cache then.
    pub items: u64,
    /// Their bytes.
    pub item_bytes: u64,
    /// The chunk sizes in force then, in bytes.
    pub present: Vec<usize>,
    /// The best table to change to; `None` where there was too little to go by.
    pub best: Option<Change>,
    /// Why the table stayed; `None`: it was changed.
    pub waiting: Option<Waiting>,
    /// Changes so far.
    pub changes: u64,
    /// When the last was made.
    pub changed_at: Option<Ticks>,
}

impl SizesReport {
    fn is_draining(&self) -> bool {
        matches!(self.waiting, Some(Waiting::Drain { .. }) | None)
    }
}

/// The learner of an engine.
#[derive(Debug)]
pub struct Learning {
    learner: SizeLearner,
    report: Option<Arc<SizesReport>>,
    stores: u64,
    looked_at: Ticks,
}

impl Learning {
    /// One that has looked at nothing yet.
    pub fn new(options: LearnerOptions) -> Learning {
        let learner = SizeLearner::new(options);
        Learning { learner, report: None, stores: 0, looked_at: Ticks(0) }
    }

    /// What the last look came to.
    pub fn report(&self) -> Option<&Arc<SizesReport>> {
        self.report.as_ref()
    }

    /// Looks, if it is time to. Returns whether there is something new to show.
    pub(crate) fn step(
        &mut self,
        engine: &Engine,
        profiles: impl FnOnce(&slabwise_policy::Snapshot) -> Vec<ClassProfile>,
        now: Now,
    ) -> bool {
        if self.report.is_some() && self.looked_at.age_at(now.ticks) < LOOK_TICKS {
            return false;
        }
        let stores = engine.stores_ever();
        if self.report.as_ref().is_some_and(|last| !last.is_draining()) && stores == self.stores {
            self.looked_at = now.ticks;
            return false;
        }
        (self.stores, self.looked_at) = (stores, now.ticks);
        let mut snapshot = snapshot(engine, now);
        snapshot.profiles = profiles(&snapshot);
        let sizes = engine.item_sizes();
        let table = engine.class_table();
        let present: Vec<usize> = table.sizes().iter().map(|&size| size as usize).collect();
        let demands = valued(fitted(sizes.bars(), &present), &snapshot);
        let pages = engine.page_stats();
        let classes = engine.class_stats(now);
        let seen = SizeSnapshot {
            demands: &demands,
            present: &present,
            layout: layout(engine),
            filled: (pages.held - pages.free) as f64 / pages.limit_for_items.max(1) as f64,
            retired_classes: classes.iter().filter(|class| class.retired).count(),
            stores,
        };
        // What is in the cache went through its table, so it fits the layout.
        let lesson = self.learner.look(&seen).expect("items in the cache fit its chunks");
        let (mut changes, mut changed_at) =
            self.report.as_ref().map_or((0, None), |report| (report.changes, report.changed_at));
        let mut waiting = lesson.waiting;
        if let (None, Some(best)) = (waiting, &lesson.best) {
            match engine.change_classes_from(&table, &best.table) {
                Ok(()) => {
                    self.learner.note_change(stores);
                    (changes, changed_at) = (changes + 1, Some(now.ticks));
                }
                // Too many numbers are still those of retired classes, or somebody else has changed the table.
                Err(_) => waiting = Some(Waiting::Drain { retired_classes: seen.retired_classes }),
            }
        }
        self.report = Some(Arc::new(SizesReport {
            at: now.ticks,
            items: sizes.item_count(),
            item_bytes: classes.iter().map(|class| class.item_bytes).sum(),
            best: lesson.best,
            present,
            waiting,
            changes,
            changed_at,
        }));
        true
    }

    /// Ticks until the next look.
    pub(crate) fn due_ticks(&self, now: Now) -> u32 {
        let waited = self.report.as_ref().map_or(LOOK_TICKS, |_| self.looked_at.age_at(now.ticks));
        LOOK_TICKS.saturating_sub(waited).max(1)
    }
}

/// The bars, with what shares a bucket with a present size counted as of that size: it is what the class holds, and
/// would else seem to be too large for it.
fn fitted(bars: impl Iterator<Item = SizeBar>, present: &[usize]) -> impl Iterator<Item = SizeBar> {
    bars.map(|bar| {
        let below = present.partition_point(|&size| size < bar.size_bytes).checked_sub(1);
        let size = below.map(|place| present[place]);
        match size.filter(|&size| bucket_of(size) == bucket_of(bar.size_bytes)) {
            Some(size_bytes) => SizeBar { size_bytes, ..bar },
            None => bar,
        }
    })
}

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
