//! When a running cache should change its class table, and to which one.
//!
//! ```text
//!   SizeSnapshot --enough items? settled?--> exact_change --enough gain?--> SizeEvaluation: change, or why not
//! ```
//!
//! [`exact_change`](super::exact_change) finds the best table for the items in the cache, at a price for each byte that
//! would move and for each class. This module decides when to change to it:
//!
//! - *Evidence.* There must be [`LearnerOptions::items_min`] items in [`LearnerOptions::filled_min`] of the memory:
//!   until then memory is not scarce.
//! - *Gain.* A change must save [`LearnerOptions::gain_min`] of the bytes of all items, and the price of each byte that
//!   moves. That price rises with the memory in use: in a half-empty cache moving costs only processor time, in a full
//!   one other items are evicted. So tables are learned early, and changed late only for a large gain.
//! - *Validation.* A table that fits the current items may fit the next ones worse. So the best table is first a
//!   proposal. After one *turnover* (as many stores as there are items) it must still save enough on the items in the
//!   cache. Then the table changes to the best one of that time. A gain of [`LearnerOptions::gain_certain`] needs no
//!   validation.
//! - *Backoff.* After each change a validation takes twice as many turnovers, up to [`LearnerOptions::turns_max`], so a
//!   cache whose sizes keep changing changes its table less and less often; a certain gain resets this. While classes
//!   of an earlier table drain, or before one turnover under the new table, the items in the cache are no evidence.
//! - *Reserve classes.* Numbers that the best table does not need fill its widest gaps: an empty class costs nothing.
//!
//! Invariants: the table of a steady cache stops changing, because random gains are below the price of moving; results
//! depend only on the snapshots.

use super::change::{Change, ChangePrices, exact_change};
use super::error::SizesError;
use super::gaps::fill_gaps;
use super::layout::ChunkLayout;
use super::parts::{Demand, loss};
use slabwise_base::ClassId;
use thiserror::Error;

/// The maximum ratio of neighbouring sizes, as long as there are unused class numbers.
const GAP_FACTOR: f64 = 1.25;

/// The limits that decide when a change pays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearnerOptions {
    /// The minimum number of items to learn from.
    pub items_min: u64,
    /// The minimum share of the memory that is in use, from 0 to 1.
    pub filled_min: f64,
    /// The minimum gain, as a share of the bytes of all items.
    pub gain_min: f64,
    /// The gain that needs no validation.
    pub gain_certain: f64,
    /// The maximum number of turnovers that a validation takes, at least 1.
    pub turns_max: u64,
    /// The cost of a byte whose chunk size changes in a full cache, in lost bytes.
    pub moved_byte_price: f64,
    /// The cost of a class, in pages.
    pub class_price_pages: f64,
}

impl Default for LearnerOptions {
    /// Learns from a thousand items in an eighth of the memory on, for a gain of 1 %, or 5 % without validation. A
    /// moved byte must save 3 % of itself, and a class a quarter of a page: about the cost of a class in a cache with
    /// many pages (`slabwise lab run classes-vs-misses`).
    fn default() -> LearnerOptions {
        LearnerOptions {
            items_min: 1_000,
            filled_min: 0.125,
            gain_min: 0.01,
            gain_certain: 0.05,
            turns_max: 64,
            moved_byte_price: 0.03,
            class_price_pages: 0.25,
        }
    }
}

/// The state of a cache that decides about its class table.
#[derive(Clone, Copy, Debug)]
pub struct SizeSnapshot<'s> {
    /// The items in the cache.
    pub demands: &'s [Demand],
    /// The current chunk sizes in bytes, ascending.
    pub present: &'s [usize],
    /// The limits of chunk sizes.
    pub layout: ChunkLayout,
    /// The share of the memory that is in use, from 0 to 1.
    pub filled: f64,
    /// Classes of earlier tables that still own pages.
    pub retired_classes: usize,
    /// Stores since the start.
    pub stores: u64,
}

/// What the learner waits for before it changes the table.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[expect(missing_docs, reason = "the texts say what the fields are")]
pub enum Waiting {
    /// More items.
    #[error("more items: {items} of {items_min}")]
    Items { items: u64, items_min: u64 },
    /// More memory in use.
    #[error("more memory in use: {:.1} of {:.1} %", .filled * 100.0, .filled_min * 100.0)]
    Memory { filled: f64, filled_min: f64 },
    /// Classes of an earlier table that drain.
    #[error("{retired_classes} classes of an earlier table to drain")]
    Drain { retired_classes: usize },
    /// More stores under the current table.
    #[error("more stores since the last change: {stores} of {stores_min}")]
    Stores { stores: u64, stores_min: u64 },
    /// The validation of a better table.
    #[error("validation of a gain of {:.2} %: {stores} of {stores_min} stores", .gain * 100.0)]
    Validation { stores: u64, stores_min: u64, gain: f64 },
    /// A larger gain: that of the best table is too small.
    #[error(
        "a larger gain: {:.2} % of the bytes of all items, {:.2} % is the minimum",
        .gain * 100.0, .gain_min * 100.0
    )]
    Gain { gain: f64, gain_min: f64 },
}

/// The result of an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeEvaluation {
    /// The best table to change to, compared with the current one; `None` if there was too little evidence.
    pub best: Option<Change>,
    /// Why the table should not change now; `None` if it should.
    pub waiting: Option<Waiting>,
}

/// Decides when the class table changes; keeps its state between evaluations.
#[derive(Clone, Debug)]
pub struct SizeLearner {
    options: LearnerOptions,
    changed_at_stores: Option<u64>,
    /// The number of turnovers that a validation takes.
    turnovers: u64,
    /// That number after the next change.
    turnovers_next: u64,
    proposal: Option<Proposal>,
}

#[derive(Clone, Debug)]
struct Proposal {
    table: Vec<usize>,
    at_stores: u64,
}

impl SizeLearner {
    /// A learner that has seen nothing yet.
    pub fn new(options: LearnerOptions) -> SizeLearner {
        let (turnovers, turnovers_next) = (1, 1);
        SizeLearner { options, changed_at_stores: None, turnovers, turnovers_next, proposal: None }
    }

    /// Records that the table was changed after this many stores since the start.
    pub fn note_change(&mut self, stores: u64) {
        self.changed_at_stores = Some(stores);
        self.turnovers = self.turnovers_next;
        self.proposal = None;
    }

    /// Evaluates the cache. Returns an error if the snapshot is invalid, such as sizes beyond the layout's.
    pub fn evaluate(&mut self, snapshot: &SizeSnapshot<'_>) -> Result<SizeEvaluation, SizesError> {
        if let Some(waiting) = self.evidence_missing(snapshot) {
            return Ok(SizeEvaluation { best: None, waiting: Some(waiting) });
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
            None => self.unvalidated(snapshot, &best)?,
        };
        if waiting.is_none() {
            best.table = filled(&best.table, &snapshot.layout)?;
        }
        Ok(SizeEvaluation { best: Some(best), waiting })
    }

    fn prices(&self, snapshot: &SizeSnapshot<'_>) -> ChangePrices {
        let page_size_bytes = snapshot.layout.page_size_bytes.unwrap_or(0) as f64;
        // The gain of a table and the unused pages of its classes matter only when memory is full.
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

    /// Validates the best table or an earlier proposal; `None` if the table should be changed.
    fn unvalidated(
        &mut self,
        snapshot: &SizeSnapshot<'_>,
        best: &Change,
    ) -> Result<Option<Waiting>, SizesError> {
        let LearnerOptions { gain_min, gain_certain, .. } = self.options;
        let gain = best.gain_bytes(&self.prices(snapshot)) / worth(snapshot);
        if best.table == snapshot.present || gain < gain_min {
            self.proposal = None;
            return Ok(Some(Waiting::Gain { gain, gain_min }));
        }
        if gain >= gain_certain {
            self.turnovers_next = 1;
            return Ok(None);
        }
        let Some(proposal) = &self.proposal else {
            return self.propose(snapshot, best, gain);
        };
        let stores = snapshot.stores.saturating_sub(proposal.at_stores);
        let stores_min = self.turnovers * items(snapshot);
        let lost = |table: &[usize]| -> Result<f64, SizesError> {
            Ok(loss(snapshot.demands, table, &snapshot.layout)?.total_bytes())
        };
        let saved = lost(snapshot.present)? - lost(&proposal.table)?;
        let gain_validated = saved / worth(snapshot);
        if stores < stores_min {
            return Ok(Some(Waiting::Validation { stores, stores_min, gain: gain_validated }));
        }
        if gain_validated < gain_min {
            return self.propose(snapshot, best, gain);
        }
        self.turnovers_next = (2 * self.turnovers).min(self.options.turns_max);
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
        let stores_min = self.turnovers * items(snapshot);
        Ok(Some(Waiting::Validation { stores: 0, stores_min, gain }))
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
