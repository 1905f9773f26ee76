//! When a cache that serves should change its class table, and to which.
//!
//! ```text
//!   SizeSnapshot --enough seen? at rest?--> exact_change --enough gained?--> Lesson: change, or why not
//! ```
//!
//! The best table for the items in the cache is that of [`exact_change`](super::exact_change), at a price for each byte
//! that would move and for each class. This module decides when to change to it:
//!
//! - *Evidence.* There must be [`LearnerOptions::items_min`] items in [`LearnerOptions::filled_min`] of the memory:
//!   until then memory is not scarce.
//! - *Gain.* A change must save [`LearnerOptions::gain_min`] of the bytes of all items, and the price of each byte that
//!   moves. That price rises with the memory in use: in a cache that is half empty moving costs processor time only, in
//!   a full one other items are evicted. So tables are learned early, and changed late only for a large gain.
//! - *Proof.* A table that fits the items of the moment may fit the next ones worse. So the best table is first a
//!   proposal. When as many items have been stored as there are (a *turn*), it must save enough on the items in the
//!   cache by then. The change is then made to the best table of that time. A gain of [`LearnerOptions::gain_sure`]
//!   needs no proof.
//! - *Patience.* After each change a proof takes twice as many turns, up to [`LearnerOptions::turns_max`], so a cache
//!   whose sizes never rest changes its table ever less often; a sure gain resets this. While classes of an earlier
//!   table drain, or before a turn of items was stored under the new one, the items in the cache are no evidence.
//! - *Spare classes.* Numbers that the best table does not need fill its widest gaps: an empty class costs nothing.
//!
//! Invariants: a steady cache comes to rest, because gains by chance are below the price of moving; results follow from
//! the snapshots alone.

use super::change::{Change, ChangePrices, exact_change};
use super::error::SizesError;
use super::gaps::fill_gaps;
use super::layout::ChunkLayout;
use super::parts::{Demand, loss};
use slabwise_base::ClassId;
use thiserror::Error;

/// Neighbours of a table lie at most so far apart, as long as there are numbers for classes between them.
const GAP_FACTOR: f64 = 1.25;

/// When a change pays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearnerOptions {
    /// The least items to learn from.
    pub items_min: u64,
    /// The least part of the memory that is in use, from 0 to 1.
    pub filled_min: f64,
    /// The least gain, as a part of the bytes of all items.
    pub gain_min: f64,
    /// A gain that needs no proof.
    pub gain_sure: f64,
    /// The most turns that a proof takes, at least 1.
    pub turns_max: u64,
    /// What a byte costs whose chunk gets another size in a cache that is full, in bytes lost for good.
    pub moved_byte_price: f64,
    /// What a class costs, in pages.
    pub class_price_pages: f64,
}

impl Default for LearnerOptions {
    /// From a thousand items in an eighth of the memory on, for a hundredth of their bytes, or a twentieth at once; a
    /// moved byte must save 3 % of itself, and a class a quarter of a page: about what it costs where pages are many
    /// (`slabwise lab run classes-vs-misses`).
    fn default() -> LearnerOptions {
        LearnerOptions {
            items_min: 1_000,
            filled_min: 0.125,
            gain_min: 0.01,
            gain_sure: 0.05,
            turns_max: 64,
            moved_byte_price: 0.03,
            class_price_pages: 0.25,
        }
    }
}

/// The cache at a moment, as far as its table goes.
#[derive(Clone, Copy, Debug)]
pub struct SizeSnapshot<'s> {
    /// The items in it.
    pub demands: &'s [Demand],
    /// The chunk sizes in force, in bytes, ascending.
    pub present: &'s [usize],
    /// What chunks may be.
    pub layout: ChunkLayout,
    /// The part of the memory that is in use, from 0 to 1.
    pub filled: f64,
    /// Classes of earlier tables that still own pages.
    pub retired_classes: usize,
    /// Stores ever.
    pub stores: u64,
}

/// Why the table stays.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[expect(missing_docs, reason = "the texts say what the fields are")]
pub enum Waiting {
    /// For more items.
    #[error("{items} of {items_min} items")]
    Items { items: u64, items_min: u64 },
    /// For more memory to be in use.
    #[error("{:.1} of {:.1} % of the memory in use", .filled * 100.0, .filled_min * 100.0)]
    Memory { filled: f64, filled_min: f64 },
    /// For classes of an earlier table to drain.
    #[error("{retired_classes} classes of an earlier table drain")]
    Drain { retired_classes: usize },
    /// For more stores under the present table.
    #[error("{stores} of {stores_min} stores since the last change")]
    Stores { stores: u64, stores_min: u64 },
    /// For the proof of a better table.
    #[error("the proof of a gain of {:.2} %: {stores} of {stores_min} stores", .gain * 100.0)]
    Proof { stores: u64, stores_min: u64, gain: f64 },
    /// For a better table: the best one gains too little.
    #[error(
        "a gain of {:.2} % of the bytes of all items, {:.2} % is the least",
        .gain * 100.0, .gain_min * 100.0
    )]
    Gain { gain: f64, gain_min: f64 },
}

/// What came of a look.
#[derive(Clone, Debug, PartialEq)]
pub struct Lesson {
    /// The best table to change to, beside the present one; `None` where there was too little to go by.
    pub best: Option<Change>,
    /// Why not to change to it now; `None`: the table should be changed.
    pub waiting: Option<Waiting>,
}

/// The learner's memory.
#[derive(Clone, Debug)]
pub struct SizeLearner {
    options: LearnerOptions,
    changed_at_stores: Option<u64>,
    /// Turns that a proof takes, and the next one after a change.
    turns: u64,
    turns_next: u64,
    proposal: Option<Proposal>,
}

#[derive(Clone, Debug)]
struct Proposal {
    table: Vec<usize>,
    at_stores: u64,
}

impl SizeLearner {
    /// One that has seen nothing yet.
    pub fn new(options: LearnerOptions) -> SizeLearner {
        SizeLearner { options, changed_at_stores: None, turns: 1, turns_next: 1, proposal: None }
    }

    /// Notes that the table was changed, when so many stores had been made ever.
    pub fn note_change(&mut self, stores: u64) {
        self.changed_at_stores = Some(stores);
        self.turns = self.turns_next;
        self.proposal = None;
    }

    /// Looks at the cache. What it says cannot be, as sizes beyond the layout's, is an error.
    pub fn look(&mut self, snapshot: &SizeSnapshot<'_>) -> Result<Lesson, SizesError> {
        if let Some(waiting) = self.evidence_missing(snapshot) {
            return Ok(Lesson { best: None, waiting: Some(waiting) });
        }
        let mut best = exact_change(
            snapshot.demands,
            &snapshot.layout,
            ClassId::COUNT_MAX,
            snapshot.present,
            &self.prices(snapshot),
        )?;
        let waiting = match self.unsettled(snapshot) {
            Some(waiting) => Some(waiting),
            None => self.unproven(snapshot, &best)?,
        };
        if waiting.is_none() {
            best.table = filled(&best.table, &snapshot.layout)?;
        }
        Ok(Lesson { best: Some(best), waiting })
    }

    fn prices(&self, snapshot: &SizeSnapshot<'_>) -> ChangePrices {
        let page_size_bytes = snapshot.layout.page_size_bytes.unwrap_or(0) as f64;
        // What a table saves and what its classes leave unused are weighed as they will be when memory is full.
        let filled = snapshot.filled.clamp(0.0, 1.0);
        ChangePrices {
            moved_byte: self.options.moved_byte_price * filled,
            class_bytes: self.options.class_price_pages * page_size_bytes * filled,
        }
    }

    fn evidence_missing(&self, snapshot: &SizeSnapshot<'_>) -> Option<Waiting> {
        let LearnerOptions { items_min, filled_min, .. } = self.options;
        let (items, filled) = (items(snapshot), snapshot.filled);
        if items < items_min.max(1) {
            return Some(Waiting::Items { items, items_min });
        }
        (filled < filled_min).then_some(Waiting::Memory { filled, filled_min })
    }

    fn unsettled(&self, snapshot: &SizeSnapshot<'_>) -> Option<Waiting> {
        if snapshot.retired_classes > 0 {
            return Some(Waiting::Drain { retired_classes: snapshot.retired_classes });
        }
        let stores = snapshot.stores.saturating_sub(self.changed_at_stores?);
        let stores_min = items(snapshot);
        (stores < stores_min).then_some(Waiting::Stores { stores, stores_min })
    }

    /// Puts the best table to the proof, or the one before; `None`: the table should be changed.
    fn unproven(
        &mut self,
        snapshot: &SizeSnapshot<'_>,
        best: &Change,
    ) -> Result<Option<Waiting>, SizesError> {
        let LearnerOptions { gain_min, gain_sure, .. } = self.options;
        let gain = best.gain_bytes(&self.prices(snapshot)) / worth(snapshot);
        if best.table == snapshot.present || gain < gain_min {
            self.proposal = None;
            return Ok(Some(Waiting::Gain { gain, gain_min }));
        }
        if gain >= gain_sure {
            self.turns_next = 1;
            return Ok(None);
        }
        let Some(proposal) = &self.proposal else {
            return self.propose(snapshot, best, gain);
        };
        let stores = snapshot.stores.saturating_sub(proposal.at_stores);
        let stores_min = self.turns * items(snapshot);
        let lost = |table: &[usize]| -> Result<f64, SizesError> {
            Ok(loss(snapshot.demands, table, &snapshot.layout)?.total_bytes())
        };
        let saved = lost(snapshot.present)? - lost(&proposal.table)?;
        let proven = saved / worth(snapshot);
        if stores < stores_min {
            return Ok(Some(Waiting::Proof { stores, stores_min, gain: proven }));
        }
        if proven < gain_min {
            return self.propose(snapshot, best, gain);
        }
        self.turns_next = (2 * self.turns).min(self.options.turns_max);
        Ok(None)
    }

    fn propose(
        &mut self,
        snapshot: &SizeSnapshot<'_>,
        best: &Change,
        gain: f64,
    ) -> Result<Option<Waiting>, SizesError> {
        let table = filled(&best.table, &snapshot.layout)?;
        self.proposal = Some(Proposal { table, at_stores: snapshot.stores });
        let stores_min = self.turns * items(snapshot);
        Ok(Some(Waiting::Proof { stores: 0, stores_min, gain }))
    }
}

fn filled(table: &[usize], layout: &ChunkLayout) -> Result<Vec<usize>, SizesError> {
    fill_gaps(table, layout, GAP_FACTOR, ClassId::COUNT_MAX)
}

fn items(snapshot: &SizeSnapshot<'_>) -> u64 {
    snapshot.demands.iter().map(|demand| demand.items).sum()
}

fn worth(snapshot: &SizeSnapshot<'_>) -> f64 {
    let worth =
        |demand: &Demand| (demand.size_bytes as u64 * demand.items) as f64 * demand.byte_value;
    snapshot.demands.iter().map(worth).sum()
}

#[cfg(test)]
#[path = "learner_tests.rs"]
mod tests;
